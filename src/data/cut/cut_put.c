/* SPDX-License-Identifier: Apache-2.0 */
#include "data/cut/cut_put.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    OTHER_FILES = 128 /* open beside the parts and the inputs' spools */
};

/* A part in the place of the input would be the end of it. */
static int name_check(const struct cut_source *source, const struct cut_target *target, size_t part,
                      struct err *err)
{
    const char *name = target->names[part];
    struct stat st;
    if (stat(name, &st) != 0)
        return 0;
    if (!target->force)
        return fail(err, ERR_USAGE, "%s exists; --force replaces it", name);
    if (source->is_input(source->context, &st))
        return fail(err, ERR_USAGE, "part %zu would replace the input %s", part, name);
    return S_ISREG(st.st_mode) ? 0 : fail(err, ERR_USAGE, "%s is no regular file", name);
}

/* Parts of an earlier cut would be taken for parts of this one. */
static int stranger_check(const struct cut_source *source, const struct cut_target *target,
                          const char *name, struct err *err)
{
    struct stat st;
    bool is_there = stat(name, &st) == 0;
    if (is_there && source->is_input(source->context, &st))
        return fail(err, ERR_USAGE,
                    "the input %s looks like one of its %zu parts; give them another name (-o)",
                    name, source->n_parts);
    if (!target->force)
        return fail(err, ERR_USAGE,
                    "%s is there from another cut and looks like one of these %zu parts; "
                    "--force removes it",
                    name, source->n_parts);
    if (is_there && S_ISDIR(st.st_mode))
        return fail(err, ERR_USAGE, "%s is a folder and looks like one of these %zu parts", name,
                    source->n_parts);
    return 0;
}

int cut_put_check(const struct cut_source *source, const struct cut_target *target, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < source->n_parts && rc == 0; i++)
        rc = name_check(source, target, i, err);
    for (size_t i = 0; i < target->strangers.n_paths && rc == 0; i++)
        rc = stranger_check(source, target, target->strangers.paths[i], err);
    return rc;
}

static int parts_write(const struct cut_source *source, const struct cut_target *target,
                       struct outfile *files, struct err *err)
{
    /* Open until all are there they need no names meanwhile, which kill -9 would leave behind. */
    uint64_t n_open = source->n_parts + source->n_open + OTHER_FILES;
    bool is_parked = open_files_allow(n_open) < n_open;
    int rc = 0;
    for (size_t i = 0; i < source->n_parts && rc == 0; i++) {
        rc = outfile_open(&files[i], target->names[i], target->force, err);
        if (rc == 0)
            rc = source->fill(source->context, i, &files[i], err);
        if (rc == 0)
            rc = outfile_finish(&files[i], is_parked, err);
    }
    /* After all are written: then the first sync does most of the others' work. */
    for (size_t i = 0; i < source->n_parts && rc == 0; i++)
        rc = outfile_sync(&files[i], err);
    return rc;
}

/* All of them, or none where nothing was replaced. */
static int parts_place(const struct cut_source *source, const struct cut_target *target,
                       struct outfile *files, struct err *err)
{
    cleanup_fd int folder = -1;
    size_t n_placed = 0;
    int rc = parent_open(target->names[0], &folder, err);
    while (n_placed < source->n_parts && rc == 0) {
        rc = outfile_place(&files[n_placed], err);
        n_placed += rc == 0;
    }
    if (rc == 0)
        rc = parent_sync(folder, target->names[0], err);
    for (size_t i = 0; i < n_placed && rc && !target->force; i++)
        unlink(target->names[i]);
    return rc;
}

static int files_make(const struct cut_source *source, const struct cut_target *target,
                      struct err *err)
{
    struct outfile *files = xcalloc(source->n_parts, sizeof(*files));
    for (size_t i = 0; i < source->n_parts; i++)
        files[i] = (struct outfile)OUTFILE_INIT;
    int rc = parts_write(source, target, files, err);
    if (rc == 0)
        rc = parts_place(source, target, files, err);
    for (size_t i = 0; i < source->n_parts; i++)
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

int cut_put(const struct cut_source *source, const struct cut_target *target, struct err *err)
{
    cleanup_buf struct buf folders = BUF_INIT;
    int rc = cut_put_check(source, target, err);
    if (rc)
        return rc;
    rc = folders_make(target->folder, 0777, &folders, err);
    if (rc == ERR_SYS) /* a place that the user named, and cannot have */
        rc = ERR_USAGE;
    if (rc == 0)
        rc = files_make(source, target, err);
    if (rc)
        folders_unmake(&folders);
    return rc ? rc : strangers_remove(target, err);
}
