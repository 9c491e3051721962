/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of results, laid out as those of GNU parallel.
 */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/name_index.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/list/list.h"

enum {
    HASH_BYTES = 2 + 16 /* `\~` and hexadecimal digits */
};

/* The name of a folder, which leads nowhere else and has no more bytes than a name may have. */
static void folder_add(struct buf *out, struct str argument)
{
    size_t begin = out->len;
    if (argument.len == 0)
        buf_add_text(out, "\\e");
    else if (str_equal(argument, STR(".")) || str_equal(argument, STR("..")))
        buf_add_char(out, '\\');
    for (size_t i = 0; i < argument.len; i++)
        switch (argument.at[i]) {
        case '\\':
            buf_add_text(out, "\\\\");
            break;
        case '/':
            buf_add_text(out, "\\_");
            break;
        case '\t':
            buf_add_text(out, "\\t");
            break;
        default:
            buf_add_char(out, argument.at[i]);
        }
    if (out->len - begin <= NAME_MAX)
        return;
    out->len = begin + NAME_MAX - HASH_BYTES;
    buf_addf(out, "\\~%016" PRIx64, (uint64_t)XXH3_64bits(argument.at, argument.len));
}

/* The digits that a name begins with: GNU parallel sorts by them first. */
static uint64_t leading_number(struct str name)
{
    uint64_t number = 0;
    for (size_t i = 0; i < MIN(name.len, (size_t)18) && isdigit((unsigned char)name.at[i]); i++)
        number = number * 10 + (name.at[i] - '0');
    return number;
}

static bool is_before(const struct list_source *sources, size_t a, size_t b)
{
    struct str left = sources[a].name, right = sources[b].name;
    uint64_t left_number = left.len > 0 ? leading_number(left) : a + 1;
    uint64_t right_number = right.len > 0 ? leading_number(right) : b + 1;
    if (left_number != right_number)
        return left_number < right_number;
    int order = str_compare(left, right);
    return order != 0 ? order < 0 : a < b;
}

/* The order of the sources in paths. There are few: what takes long is to make the folders. */
static size_t *order_new(const struct graph_list *list)
{
    size_t *order = xcalloc(list->n_sources + 1, sizeof(*order));
    for (size_t i = 0; i < list->n_sources; i++) {
        size_t at = i;
        for (; at > 0 && is_before(list->sources, i, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

static void dir_add(const struct graph_list *list, const size_t *order, size_t job, struct buf *out)
{
    cleanup_free struct str *arguments = xcalloc(list->n_sources + 1, sizeof(*arguments));
    graph_list_arguments(list, job, arguments);
    for (size_t i = 0; i < list->n_sources; i++) {
        struct str name = list->sources[order[i]].name;
        buf_add_char(out, '/');
        if (name.len > 0)
            folder_add(out, name);
        else
            buf_addf(out, "%zu", order[i] + 1);
        buf_add_char(out, '/');
        folder_add(out, arguments[order[i]]);
    }
}

char *results_dir_new(const struct graph_list *list, const char *root, size_t job)
{
    struct buf out = BUF_INIT;
    cleanup_free size_t *order = order_new(list);
    buf_add_text(&out, root);
    dir_add(list, order, job, &out);
    return buf_steal(&out);
}

int results_check(const struct graph_list *list, struct err *err)
{
    struct name_index seen = NAME_INDEX_INIT;
    cleanup_buf struct buf path = BUF_INIT;
    cleanup_free size_t *order = order_new(list);
    int rc = 0;
    for (size_t i = 0; i < list->n_jobs && rc == 0; i++) {
        buf_reset(&path);
        dir_add(list, order, i, &path);
        size_t before = name_index_number(&seen, buf_str(&path));
        if (before != i)
            rc = fail(err, ERR_USAGE,
                      "jobs %zu and %zu have the same arguments, so their results would be in one "
                      "folder; leave one of them out",
                      before + 1, i + 1);
    }
    name_index_release(&seen);
    return rc;
}

int results_dir_make(const char *dir, size_t job, struct err *err)
{
    char number[24];
    cleanup_free char *path = path_join(dir, "seq");
    int rc = mkdir_parents(dir, 0777, err);
    if (rc != 0)
        return rc;
    snprintf(number, sizeof(number), "%zu", job + 1);
    return file_replace_fast(path, str_of(number), err);
}
