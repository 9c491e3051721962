/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a pickle. What is accepted is a graph that can be walked: every node's parts are nodes,
 * every text is UTF-8 as Python takes it, and a tree of it is bounded. Written as protocol 2 and read
 * again it shows the same tree.
 */
#include "fuzz.h"

#include "tensor/inspect.h"
#include "tensor/pickle/pickle_impl.h"
#include "tensor/pickle/pickle_write.h"
#include "tensor/torch/torch.h"

static void items_check(const struct pickle *pickle, const struct pickle_node *node)
{
    struct pickle_walk walk = pickle_items(node);
    uint64_t n_items = 0, per_item = node->kind == PICKLE_DICT ? 2 : 1;
    for (pickle_id id; (id = pickle_next(pickle, &walk)) != 0; n_items++)
        ASSERT(id < pickle->n_nodes);
    ASSERT(n_items == node->count * per_item);
}

static void node_check(const struct pickle *pickle, const struct pickle_node *node)
{
    if (node->kind >= PICKLE_TUPLE && node->kind <= PICKLE_FROZENSET) {
        items_check(pickle, node);
    } else if (node->kind == PICKLE_TEXT) {
        ASSERT(text_is_python(pickle_bytes(pickle, node)));
    } else if (node->kind == PICKLE_CALL || node->kind == PICKLE_NEW) {
        ASSERT(pickle_node(pickle, node->call.callee)->kind == PICKLE_GLOBAL);
        ASSERT(pickle_node(pickle, node->call.args)->kind == PICKLE_TUPLE);
        const struct pickle_later *later = pickle_later(pickle, node);
        items_check(pickle, &later->items);
        items_check(pickle, &later->pairs);
        items_check(pickle, &later->states);
    }
}

static int sink_write(void *context, struct str bytes, struct err *err)
{
    (void)err;
    buf_add_str(context, bytes);
    return 0;
}

static void tree_of(const struct torch_file *file, bool is_json, struct buf *out)
{
    struct tree tree = {.out = out, .is_json = is_json};
    torch_tree(file, &tree);
    ASSERT(tree.n_lines <= 2 * TREE_LINES_MAX && tree.depth == 0);
    if (tree.n_lines >= TREE_LINES_MAX)
        fuzz_cost_forgive();
}

/* Protocol 2 has calls for these, and shows them as such. */
static bool has_second_forms(const struct pickle *pickle)
{
    for (size_t i = 1; i < pickle->n_nodes; i++) {
        enum pickle_kind kind = pickle->nodes[i].kind;
        if (kind == PICKLE_BYTES || kind == PICKLE_BYTEARRAY || kind == PICKLE_SET ||
            kind == PICKLE_FROZENSET)
            return true;
    }
    return false;
}

static void write_again(const struct torch_file *file, bool is_json, const struct buf *tree)
{
    struct buf text = BUF_INIT, second = BUF_INIT;
    struct written_storages storages = {0};
    struct torch_file again = {.path = "again"};
    struct err err = {0};
    const struct pickle *graph = &file->pickle;
    const struct pickle_sink sink = {sink_write, &text};
    int rc = pickle_write(&graph, 1, 0, graph->root, &sink, &storages, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    if (rc == 0) {
        if (pickle_read(&again.pickle, buf_str(&text), &(struct pickle_opts){.name = "again"},
                        &err))
            BUG("what was written is refused: %s", err.text);
        ASSERT(again.pickle.n_storages == storages.len && again.pickle.protocol == 2);
        tree_of(&again, is_json, &second);
        ASSERT(has_second_forms(graph) || str_equal(buf_str(tree), buf_str(&second)));
    }
    free(storages.at);
    buf_release(&text);
    buf_release(&second);
    torch_release(&again);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    struct torch_file file = {.path = "fuzz"};
    struct err err = {0};
    struct pickle_opts opts = {.name = "fuzz", .has_more = choice & 1, .is_legacy = choice & 2};
    int rc = pickle_read(&file.pickle, text, &opts, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    if (rc == 0) {
        struct buf out = BUF_INIT;
        ASSERT(file.pickle.root > 0 && file.pickle.root < file.pickle.n_nodes);
        ASSERT(file.pickle.n_bytes <= text.len && text.at[file.pickle.n_bytes - 1] == '.');
        for (size_t i = 1; i < file.pickle.n_nodes; i++)
            node_check(&file.pickle, &file.pickle.nodes[i]);
        tree_of(&file, choice & 4, &out);
        write_again(&file, choice & 4, &out);
        buf_release(&out);
    }
    torch_release(&file);
    return 0;
}
