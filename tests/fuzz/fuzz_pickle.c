/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a pickle. What is accepted is a graph that can be walked: every node's parts are nodes,
 * every text is UTF-8 as Python takes it, and a tree of it is bounded.
 */
#include "fuzz.h"

#include "tensor/inspect.h"
#include "tensor/pickle_impl.h"
#include "tensor/torch.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
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
        struct tree tree = {.out = &out, .is_json = choice & 4};
        ASSERT(file.pickle.root > 0 && file.pickle.root < file.pickle.n_nodes);
        ASSERT(file.pickle.n_bytes <= text.len && text.at[file.pickle.n_bytes - 1] == '.');
        for (size_t i = 1; i < file.pickle.n_nodes; i++)
            node_check(&file.pickle, &file.pickle.nodes[i]);
        torch_tree(&file, &tree);
        ASSERT(tree.n_lines <= 2 * TREE_LINES_MAX && tree.depth == 0);
        buf_release(&out);
    }
    torch_release(&file);
    return 0;
}
