/* SPDX-License-Identifier: Apache-2.0 */
#include "data/cut/cut.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "data/cut/cut_impl.h"

enum {
    OTHER_FILES = 128 /* open beside the parts and the inputs' spools */
};

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

static const struct input *input_at(const struct cut *cut, const struct stat *st)
{
    for (size_t i = 0; i < cut->source->n_files; i++) {
        const struct input *input = &cut->source->files[i].input;
        if (input->st.st_ino == st->st_ino && input->st.st_dev == st->st_dev)
            return input;
    }
    return NULL;
}

/* A part in the place of the input would be the end of it. */
static int name_check(const struct cut *cut, const struct cut_target *target, size_t part,
                      struct err *err)
{
    const char *name = target->names[part];
    struct stat st;
    if (stat(name, &st) != 0)
        return 0;
    if (!target->force)
        return fail(err, ERR_USAGE, "%s exists; --force replaces it", name);
    if (input_at(cut, &st))
        return fail(err, ERR_USAGE, "part %zu would replace the input %s", part, name);
    return S_ISREG(st.st_mode) ? 0 : fail(err, ERR_USAGE, "%s is no regular file", name);
}

/* Parts of an earlier cut would be taken for parts of this one. */
static int stranger_check(const struct cut *cut, const struct cut_target *target, const char *name,
                          struct err *err)
{
    struct stat st;
    bool is_there = stat(name, &st) == 0;
    if (is_there && input_at(cut, &st))
        return fail(err, ERR_USAGE,
                    "the input %s looks like one of its %zu parts; give them another name (-o)",
                    name, cut->n_parts);
    if (!target->force)
        return fail(err, ERR_USAGE,
                    "%s is there from another cut and looks like one of these %zu parts; "
                    "--force removes it",
                    name, cut->n_parts);
    if (is_there && S_ISDIR(st.st_mode))
        return fail(err, ERR_USAGE, "%s is a folder and looks like one of these %zu parts", name,
                    cut->n_parts);
    return 0;
}

int cut_target_check(const struct cut *cut, const struct cut_target *target, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < cut->n_parts && rc == 0; i++)
        rc = name_check(cut, target, i, err);
    for (size_t i = 0; i < target->strangers.n_paths && rc == 0; i++)
        rc = stranger_check(cut, target, target->strangers.paths[i], err);
    return rc;
}

static int parts_write(struct cut *cut, const struct cut_target *target, struct outfile *files,
                       struct err *err)
{
    /* Open until all are there they need no names meanwhile, which kill -9 would leave behind. */
    uint64_t n_open = cut->n_parts + cut->source->n_files + OTHER_FILES;
    bool is_parked = open_files_allow(n_open) < n_open;
    int rc = 0;
    for (size_t i = 0; i < cut->n_parts && rc == 0; i++) {
        rc = outfile_open(&files[i], target->names[i], target->force, err);
        if (rc == 0)
            rc = cut_copy(cut, &cut->parts[i], &files[i], err);
        if (rc == 0)
            rc = outfile_finish(&files[i], is_parked, err);
    }
    /* After all are written: then the first sync does most of the others' work. */
    for (size_t i = 0; i < cut->n_parts && rc == 0; i++)
        rc = outfile_sync(&files[i], err);
    return rc;
}

/* All of them, or none where nothing was replaced. */
static int parts_place(struct cut *cut, const struct cut_target *target, struct outfile *files,
                       struct err *err)
{
    cleanup_fd int folder = -1;
    size_t n_placed = 0;
    int rc = parent_open(target->names[0], &folder, err);
    while (n_placed < cut->n_parts && rc == 0) {
        rc = outfile_place(&files[n_placed], err);
        n_placed += rc == 0;
    }
    if (rc == 0)
        rc = parent_sync(folder, target->names[0], err);
    for (size_t i = 0; i < n_placed && rc && !target->force; i++)
        unlink(target->names[i]);
    return rc;
}

static int files_make(struct cut *cut, const struct cut_target *target, struct err *err)
{
    struct outfile *files = xcalloc(cut->n_parts, sizeof(*files));
    for (size_t i = 0; i < cut->n_parts; i++)
        files[i] = (struct outfile)OUTFILE_INIT;
    cut->is_stopped = target->is_stopped;
    int rc = parts_write(cut, target, files, err);
    if (rc == 0)
        rc = parts_place(cut, target, files, err);
    for (size_t i = 0; i < cut->n_parts; i++)
        outfile_close(&files[i]);
    free(files);
    return rc;
}

static int strangers_remove(const struct cut_target *target, struct err *err)
{
    for (size_t i = 0; i < target->strangers.n_paths; i++)
        if (unlink(target->strangers.paths[i]) != 0 && errno != ENOENT)
            return fail_errno(err, "remove %s", target->strangers.paths[i]);
    return 0;
}

int cut_write(struct cut *cut, const struct cut_target *target, struct err *err)
{
    cleanup_buf struct buf folders = BUF_INIT;
    int rc = cut_target_check(cut, target, err);
    if (rc)
        return rc;
    rc = folders_make(target->folder, 0777, &folders, err);
    if (rc == ERR_SYS) /* a place that the user named, and cannot have */
        rc = ERR_USAGE;
    if (rc == 0)
        rc = files_make(cut, target, err);
    if (rc)
        folders_unmake(&folders);
    return rc ? rc : strangers_remove(target, err);
}
