/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the pickle of a file whose values are looked at and normalised: numpy's made
 * plain, ids proven or numbered anew, storages cut. What comes out is a pickle that reads again,
 * with every tensor within its storage; ids that were accepted or numbered anew are unique;
 * nothing of numpy's is left.
 *
 *   byte 0  1 plain, 2 ids, 4 renumber, 8 compact    then  the path of the ids, a newline, the pickle
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/pickle/pickle_write.h"
#include "tensor/torch/torch_normalise.h"

static void note(void *context, const char *text)
{
    (void)context;
    ASSERT(text[0] != '\0');
}

static int sink_write(void *context, struct str bytes, struct err *err)
{
    (void)err;
    buf_add_str(context, bytes);
    return 0;
}

static void numpy_look(const struct pickle *pickle)
{
    for (size_t i = 1; i < pickle->n_nodes; i++) {
        const struct pickle_callable *known = call_known(pickle, &pickle->nodes[i]);
        ASSERT(!known || known->result != RESULT_NUMPY_SCALAR);
        ASSERT(!known || known->result != RESULT_NUMPY_ARRAY);
    }
}

static void write_again(const struct merge_state *merge, pickle_id root, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct written_storages storages = {0};
    struct pickle again = {0};
    const struct pickle *graphs[] = {torch_merge_graph(merge, 0), torch_merge_graph(merge, 1)};
    const struct pickle_sink sink = {sink_write, &text};
    int rc = pickle_write(graphs, countof(graphs), 1, root, &sink, &storages, err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err->text[0]));
    if (rc == 0) {
        if (pickle_read(&again, buf_str(&text), &(struct pickle_opts){.name = "again"}, err))
            BUG("what was written is refused: %s", err->text);
        ASSERT(again.n_storages == storages.len);
        if (merge->opts->is_plain)
            numpy_look(&again);
    }
    free(storages.at);
    pickle_release(&again);
}

static void normalise(struct merge_state *merge, struct err *err)
{
    struct torch_merge_opts opts = *merge->opts;
    struct plain_stats stats = {0};
    if (opts.is_plain)
        plain_part(merge, 0, &stats);
    pickle_id root = torch_merge_node_of(merge, 0, torch_merge_graph(merge, 0)->root);
    int rc = torch_normalise_output(merge, root);
    ASSERT(rc == 0 || (err->text[0] && (rc == ERR_DATA || rc == ERR_USAGE)));
    if (rc != 0)
        return;
    opts.is_renumbered = opts.is_compact = false;
    merge->opts = &opts;
    if (torch_normalise_output(merge, root) != 0)
        BUG("normalised, and yet: %s", err->text);
    write_again(merge, root, err);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, line = {"", 0};
    unsigned choice = fuzz_choice(&text);
    if (!str_next(&text, '\n', &line) || !text.at)
        return 0;
    cleanup_free char *path = xstrndup(line.at, line.len);
    struct err err = {0};
    const struct torch_merge_opts opts = {.is_plain = choice & 1,
                                          .id_path = choice & 2 ? path : NULL,
                                          .is_renumbered = choice & 4,
                                          .is_compact = choice & 8,
                                          .note = note};
    struct torch_part part = {.file.path = "fuzz", .fd = -1};
    struct merge_state merge = {.opts = &opts, .parts = &part, .n_parts = 1, .err = &err};
    struct torch_file *file = &part.file;
    pickle_init(&merge.made);
    if (pickle_read(&file->pickle, text, &(struct pickle_opts){.name = "fuzz"}, &err) == 0) {
        file->storage_at = xcalloc(file->pickle.n_storages, sizeof(*file->storage_at));
        file->storage_crc = xcalloc(file->pickle.n_storages, sizeof(*file->storage_crc));
        normalise(&merge, &err);
    }
    torch_release(file);
    pickle_release(&merge.made);
    free(merge.segments);
    free(merge.segment_ends);
    return 0;
}
