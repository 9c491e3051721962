/* SPDX-License-Identifier: Apache-2.0 */
#include "data/split/split.h"

#include "base/xalloc.h"
#include "data/split/split_impl.h"
#include "data/split/split_put.h"

int split_open(struct split **out, const struct split_opts *opts, struct err *err)
{
    return split_open_tuned(out, opts, WINDOW_BYTES, err);
}

int split_open_tuned(struct split **out, const struct split_opts *opts, size_t window_bytes,
                     struct err *err)
{
    ASSERT((opts->n_parts > 0) + (opts->records_max > 0) + (opts->bytes_max > 0) == 1);
    *out = NULL;
    struct split *split = xcalloc(1, sizeof(*split));
    split->opts = *opts;
    split->window = xmalloc(SCAN_BLOCK_BYTES + WINDOW_BYTES);
    /* Raw input keeps rows of CSV as rows, so two columns may have the same name. */
    const struct source_opts source_opts = {
        .paths = opts->paths, .n_paths = opts->n_paths, .format = opts->format, .is_raw = true};
    int rc = source_open(&split->source, &source_opts, err);
    if (rc == 0 && window_bytes < WINDOW_BYTES)
        source_tune(split->source, window_bytes, window_bytes);
    if (rc == 0)
        rc = source_scan_all(split->source, err);
    if (rc == 0)
        rc = split_frame(split, err);
    if (rc == 0)
        rc = split_plan(split, err);
    if (rc) {
        split_close(split);
        return rc;
    }
    *out = split;
    return 0;
}

void split_close(struct split *split)
{
    if (!split)
        return;
    source_close(split->source);
    free(split->parts);
    free(split->window);
    free(split->look.at);
    csv_row_release(&split->row);
    buf_release(&split->head);
    buf_release(&split->lead);
    buf_release(&split->trail);
    free(split);
}

const struct split_part *split_parts(const struct split *split, size_t *n_parts)
{
    *n_parts = split->n_parts;
    return split->parts;
}

enum record_format split_format(const struct split *split)
{
    return split->source->format;
}

uint64_t split_n_records(const struct split *split)
{
    return split->source->n_known;
}

uint64_t split_n_terminated(const struct split *split)
{
    return split->n_terminated;
}

int split_check(struct split *split, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < split->n_parts && rc == 0; i++)
        rc = split_copy(split, &split->parts[i], NULL, err);
    return rc;
}

/* ---- the parts as files ---- */

static bool is_input(const void *context, const struct stat *st)
{
    const struct split *split = context;
    for (size_t i = 0; i < split->source->n_files; i++) {
        const struct input *input = &split->source->files[i].input;
        if (input->st.st_ino == st->st_ino && input->st.st_dev == st->st_dev)
            return true;
    }
    return false;
}

static int part_fill(void *context, size_t part, struct outfile *file, struct err *err)
{
    struct split *split = context;
    return split_copy(split, &split->parts[part], file, err);
}

static struct split_source source_of(struct split *split)
{
    return (struct split_source){.n_parts = split->n_parts,
                                 .n_open = split->source->n_files,
                                 .is_input = is_input,
                                 .fill = part_fill,
                                 .context = split};
}

int split_target_check(struct split *split, const struct split_target *target, struct err *err)
{
    const struct split_source source = source_of(split);
    return split_put_check(&source, target, err);
}

int split_write(struct split *split, const struct split_target *target, struct err *err)
{
    const struct split_source source = source_of(split);
    split->stop = target->stop;
    return split_put(&source, target, err);
}
