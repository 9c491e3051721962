/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the pickle of two files, whose ids are numbered with what refers to them, by any paths. Afterwards
 * no id is in both, so that a second time nothing is changed; each file keeps its number of ids; and its graph is
 * one that can be written and read.
 *
 *   PATH=REFERENCE,…, a newline, the pickle
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/pickle/pickle_write.h"
#include "tensor/torch/torch_normalise.h"

enum {
    N_FILES = 2
};

/* Was it said that there was nothing to do? */
static void note(void *context, const char *text)
{
    bool *is_idle = context;
    *is_idle = strstr(text, "none is changed") != NULL;
}

static int sink_write(void *context, struct str bytes, struct err *err)
{
    (void)err;
    buf_add_str(context, bytes);
    return 0;
}

static void write_again(const struct merge_state *merge, struct err *err)
{
    const struct pickle *graphs[] = {torch_merge_graph(merge, 0), torch_merge_graph(merge, 1)};
    cleanup_buf struct buf text = BUF_INIT;
    struct written_storages storages = {0};
    struct pickle again = {0};
    const struct pickle_sink sink = {sink_write, &text};
    int rc = pickle_write(graphs, countof(graphs), 1, graphs[1]->root, &sink, &storages, err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err->text[0]));
    if (rc == 0 && pickle_read(&again, buf_str(&text), &(struct pickle_opts){.name = "again"}, err))
        BUG("what was written is refused: %s", err->text);
    free(storages.at);
    pickle_release(&again);
}

static void refer(struct merge_state *merge, bool *is_idle, struct err *err)
{
    int rc = refer_parts(merge);
    ASSERT(rc == 0 || (err->text[0] && (rc == ERR_DATA || rc == ERR_USAGE)));
    if (rc != 0)
        return;
    if (refer_parts(merge) != 0)
        BUG("numbered, and yet: %s", err->text);
    ASSERT(*is_idle);
    write_again(merge, err);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, line = {"", 0};
    if (!str_next(&text, '\n', &line) || !text.at)
        return 0;
    cleanup_free char *path = xstrndup(line.at, line.len);
    struct err err = {0};
    bool is_idle = false, is_read = true;
    const char *paths[] = {path};
    const struct texts referred = {paths, 1};
    const struct torch_merge_opts opts = {.referred = &referred, .note = note, .context = &is_idle};
    struct torch_part parts[N_FILES] = {{.file.path = "a", .fd = -1}, {.file.path = "b", .fd = -1}};
    struct merge_state merge = {.opts = &opts, .parts = parts, .n_parts = N_FILES, .err = &err};
    pickle_init(&merge.made);
    for (size_t i = 0; i < N_FILES; i++)
        is_read = pickle_read(&parts[i].file.pickle, text, &(struct pickle_opts){.name = "fuzz"},
                              &err) == 0 &&
                  is_read;
    if (is_read)
        refer(&merge, &is_idle, &err);
    for (size_t i = 0; i < N_FILES; i++)
        torch_release(&parts[i].file);
    pickle_release(&merge.made);
    return 0;
}
