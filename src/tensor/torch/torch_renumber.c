/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives new numbers to ids that collide. The record's reference to its id is changed, not the id's
 * node, because several records may share one text.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "tensor/torch/torch_id.h"

enum {
    NUMBER_DIGITS_MAX = 18
};

/* The digits at the end of a text. */
static struct str tail_of(struct str text)
{
    size_t len = 0;
    while (len < text.len && text.at[text.len - 1 - len] >= '0' &&
           text.at[text.len - 1 - len] <= '9')
        len++;
    return (struct str){text.at + text.len - len, len};
}

static bool number_of(const struct ids *ids, const struct id *id, uint64_t *number, size_t *width)
{
    const struct pickle_node *node = id_node(ids, id);
    *width = 0;
    *number = (uint64_t)node->integer;
    if (node->kind == PICKLE_INT)
        return node->integer >= 0;
    if (node->kind != PICKLE_TEXT)
        return false;
    struct str digits = tail_of(id_bytes(ids, id));
    if (digits.len > 1 && digits.at[0] == '0')
        *width = digits.len;
    return digits.len <= NUMBER_DIGITS_MAX && u64_parse(digits, 0, INT64_MAX, number, NULL) == 0;
}

static pickle_id number_node(struct ids *ids, const struct id *id, uint64_t number, size_t width)
{
    struct pickle *graph = torch_merge_graph_mutable(ids->merge, id->holder);
    if (id_node(ids, id)->kind == PICKLE_INT)
        return pickle_add(graph,
                          (struct pickle_node){.kind = PICKLE_INT, .integer = (int64_t)number});
    cleanup_buf struct buf text = BUF_INIT;
    struct str before = id_bytes(ids, id);
    before.len -= tail_of(before).len;
    buf_add_str(&text, before);
    buf_addf(&text, "%0*lu", (int)width, number);
    return pickle_add_bytes(graph, PICKLE_TEXT, buf_str(&text));
}

static int ordinal_order(const void *left, const void *right)
{
    const struct id *a = left, *b = right;
    return (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}

int ids_renumber(struct ids *ids, pickle_id root, uint64_t n_twice)
{
    cleanup_buf struct buf place = BUF_INIT;
    uint64_t first = 0, number, n_changed = 0;
    size_t widest = 0, width;
    struct err *err = ids->merge->err;
    qsort(ids->at, ids->len, sizeof(*ids->at), ordinal_order);
    for (size_t i = 0; i < ids->len; i++) {
        if (!number_of(ids, &ids->at[i], &number, &width)) {
            ids_place(ids, root, i, &place);
            return fail(err, ERR_DATA,
                        "%s: --renumber is for whole numbers from 0 on, and for texts with one at "
                        "their end",
                        buf_text(&place));
        }
        first = i == 0 ? number : first;
        widest = MAX(widest, width);
    }
    if (first + ids->len > INT64_MAX)
        return fail(err, ERR_DATA, "--renumber: the ids would be beyond 64 bits");
    for (size_t i = 0; i < ids->len; i++) {
        struct id *id = &ids->at[i];
        (void)number_of(ids, id, &number, &width);
        n_changed += number != first + i || (width == 0 && widest > 0);
        id->value = number_node(ids, id, first + i, widest);
        torch_merge_graph_mutable(ids->merge, id->holder)->chunks[id->slot] = id->value;
    }
    for (size_t i = 0; i < ids->len; i++) {
        const struct id *id = &ids->at[i];
        if (torch_merge_graph(ids->merge, id->holder)->chunks[id->slot] == id->value)
            continue;
        ids_place(ids, root, i, &place);
        return fail(err, ERR_DATA,
                    "%s is in the list more than once, as one and the same object; "
                    "it has one id",
                    buf_text(&place));
    }
    torch_merge_note(
        ids->merge,
        "--renumber: %lu of %zu ids had been there before; numbered from %lu to %lu, %lu "
        "changed; what refers to them is left as it is (--renumber-path takes it along)",
        n_twice, ids->len, first, first + ids->len - 1, n_changed);
    return 0;
}
