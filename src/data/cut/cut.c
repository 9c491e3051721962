/* SPDX-License-Identifier: Apache-2.0 */
#include "data/cut/cut.h"

#include "base/xalloc.h"
#include "data/cut/cut_impl.h"
#include "data/cut/cut_put.h"

int cut_open(struct cut **out, const struct cut_opts *opts, struct err *err)
{
    return cut_open_tuned(out, opts, WINDOW_BYTES, err);
}

int cut_open_tuned(struct cut **out, const struct cut_opts *opts, size_t window_bytes,
                   struct err *err)
{
    ASSERT((opts->n_parts > 0) + (opts->records_max > 0) + (opts->bytes_max > 0) == 1);
    *out = NULL;
    struct cut *cut = xcalloc(1, sizeof(*cut));
    cut->opts = *opts;
    cut->window = xmalloc(SPLIT_BLOCK_BYTES + WINDOW_BYTES);
    /* Raw: rows stay rows, so it does not matter whether columns have names that differ. */
    const struct source_opts source_opts = {
        .paths = opts->paths, .n_paths = opts->n_paths, .format = opts->format, .is_raw = true};
    int rc = source_open(&cut->source, &source_opts, err);
    if (rc == 0 && window_bytes < WINDOW_BYTES)
        source_tune(cut->source, window_bytes, window_bytes);
    if (rc == 0)
        rc = source_scan_all(cut->source, err);
    if (rc == 0)
        rc = cut_frame(cut, err);
    if (rc == 0)
        rc = cut_plan(cut, err);
    if (rc) {
        cut_close(cut);
        return rc;
    }
    *out = cut;
    return 0;
}

void cut_close(struct cut *cut)
{
    if (!cut)
        return;
    source_close(cut->source);
    free(cut->parts);
    free(cut->window);
    free(cut->look.at);
    csv_row_release(&cut->row);
    buf_release(&cut->head);
    buf_release(&cut->lead);
    buf_release(&cut->trail);
    free(cut);
}

const struct cut_part *cut_parts(const struct cut *cut, size_t *n_parts)
{
    *n_parts = cut->n_parts;
    return cut->parts;
}

enum record_format cut_format(const struct cut *cut)
{
    return cut->source->format;
}

uint64_t cut_n_records(const struct cut *cut)
{
    return cut->source->n_known;
}

uint64_t cut_n_mended(const struct cut *cut)
{
    return cut->n_mended;
}

int cut_check(struct cut *cut, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < cut->n_parts && rc == 0; i++)
        rc = cut_copy(cut, &cut->parts[i], NULL, err);
    return rc;
}

/* ---- the parts as files ---- */

static bool is_input(const void *context, const struct stat *st)
{
    const struct cut *cut = context;
    for (size_t i = 0; i < cut->source->n_files; i++) {
        const struct input *input = &cut->source->files[i].input;
        if (input->st.st_ino == st->st_ino && input->st.st_dev == st->st_dev)
            return true;
    }
    return false;
}

static int part_fill(void *context, size_t part, struct outfile *file, struct err *err)
{
    struct cut *cut = context;
    return cut_copy(cut, &cut->parts[part], file, err);
}

static struct cut_source source_of(struct cut *cut)
{
    return (struct cut_source){.n_parts = cut->n_parts,
                               .n_open = cut->source->n_files,
                               .is_input = is_input,
                               .fill = part_fill,
                               .context = cut};
}

int cut_target_check(struct cut *cut, const struct cut_target *target, struct err *err)
{
    const struct cut_source source = source_of(cut);
    return cut_put_check(&source, target, err);
}

int cut_write(struct cut *cut, const struct cut_target *target, struct err *err)
{
    const struct cut_source source = source_of(cut);
    cut->is_stopped = target->is_stopped;
    return cut_put(&source, target, err);
}
