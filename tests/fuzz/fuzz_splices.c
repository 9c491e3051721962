/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a pickle, read as nodes and with splices: the verdict is the same, and so is its sentence. Both are
 * written as protocol 2, the splices from bytes that may have changed since, and read again: then they are the
 * same tree, or it is said that they changed.
 */
#include "fuzz.h"

#include "tensor/inspect.h"
#include "tensor/pickle/pickle_write.h"
#include "tensor/torch/torch.h"

struct output {
    struct buf text;
    struct str source;
    size_t changed_at; /* a byte of it that is another one when it is read again; SIZE_MAX: none */
};

static int output_write(void *context, struct str bytes, struct err *err)
{
    struct output *output = context;
    (void)err;
    buf_add_str(&output->text, bytes);
    return 0;
}

static int source_read(void *context, uint32_t graph, uint64_t at, char *out, size_t len,
                       struct err *err)
{
    const struct output *output = context;
    (void)err;
    ASSERT(graph == 0 && at <= output->source.len && len <= output->source.len - at);
    memcpy(out, output->source.at + at, len);
    if (output->changed_at >= at && output->changed_at - at < len)
        out[output->changed_at - at] ^= (char)(1 + output->changed_at % 255);
    return 0;
}

static const char *source_name(void *context, uint32_t graph)
{
    (void)context;
    (void)graph;
    return "source";
}

/* The tree of what is written and read again as nodes; the status of the writing. */
static int written_tree(const struct pickle *graph, struct output *output, struct buf *tree_out)
{
    const struct pickle_sink sink = {output_write, output, source_read, source_name};
    struct written_storages storages = {0};
    struct torch_file again = {.path = "again"};
    struct tree tree = {.out = tree_out};
    struct err err = {0};
    int rc = pickle_write(&graph, 1, 0, graph->root, &sink, &storages, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    if (rc == 0) {
        if (pickle_read(&again.pickle, buf_str(&output->text),
                        &(struct pickle_opts){.name = "again"}, &err))
            BUG("what was written is refused: %s", err.text);
        ASSERT(again.pickle.n_storages == storages.len);
        torch_tree(&again, &tree);
    }
    free(storages.at);
    torch_release(&again);
    return rc;
}

static void trees_compare(const struct pickle *nodes, const struct pickle *spliced, struct str text,
                          size_t changed_at)
{
    struct output a = {.source = text, .changed_at = SIZE_MAX};
    struct output b = {.source = text, .changed_at = changed_at};
    struct buf tree_a = BUF_INIT, tree_b = BUF_INIT;
    int rc_a = written_tree(nodes, &a, &tree_a);
    int rc_b = written_tree(spliced, &b, &tree_b);
    bool is_same = rc_a == rc_b && str_equal(buf_str(&tree_a), buf_str(&tree_b));
    ASSERT(is_same || (changed_at != SIZE_MAX && rc_b == ERR_DATA));
    buf_release(&a.text);
    buf_release(&b.text);
    buf_release(&tree_a);
    buf_release(&tree_b);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    size_t changed_at = choice & 4 ? fuzz_choice(&text) * (size_t)(1 + (choice >> 3)) : SIZE_MAX;
    struct pickle nodes = {0}, spliced = {0};
    struct err err_a = {0}, err_b = {0};
    struct pickle_opts opts = {.name = "fuzz", .has_more = choice & 1};
    int rc_a = pickle_read(&nodes, text, &opts, &err_a);
    struct buf own = BUF_INIT;
    buf_add_str(&own, text);
    opts.own = choice & 2 ? &own : NULL;
    opts.splice_least_bytes = 1;
    int rc_b = pickle_read(&spliced, opts.own ? buf_str(&own) : text, &opts, &err_b);
    ASSERT(rc_a == rc_b && strcmp(err_a.text, err_b.text) == 0);
    if (rc_a == 0) {
        ASSERT(nodes.n_bytes == spliced.n_bytes && nodes.n_storages == spliced.n_storages);
        trees_compare(&nodes, &spliced, text, changed_at);
    }
    buf_release(&own);
    pickle_release(&nodes);
    pickle_release(&spliced);
    return 0;
}
