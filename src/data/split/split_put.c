/* SPDX-License-Identifier: Apache-2.0 */
#include "data/split/split_put.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "data/split/split_folder.h"
#include "data/split/split_journal.h"

enum {
    OTHER_FILES = 128 /* other files that may be open besides the parts and the source's */
};

/* Refuses a part that would replace the input. */
static int name_check(const struct split_source *source, const struct split_target *target,
                      const struct split_journal *journal, size_t part, struct err *err)
{
    const char *name = target->names[part];
    struct stat st;
    if (stat(name, &st) != 0)
        return 0;
    if (!target->force && !split_journal_has(journal, name, &st))
        return fail(err, ERR_USAGE, "%s exists; --force replaces it", name);
    if (source->is_input(source->context, &st))
        return fail(err, ERR_USAGE, "part %zu would replace the input %s", part, name);
    return S_ISREG(st.st_mode) ? 0 : fail(err, ERR_USAGE, "%s is no regular file", name);
}

/* Refuses a file that would be taken for a part of this split, unless it may be removed. */
static int stale_check(const struct split_source *source, const struct split_target *target,
                       const struct split_journal *journal, const char *name, struct err *err)
{
    struct stat st;
    bool is_there = stat(name, &st) == 0;
    if (is_there && source->is_input(source->context, &st))
        return fail(err, ERR_USAGE,
                    "the input %s looks like one of its %zu parts; give them another name (-o)",
                    name, source->n_parts);
    if (!target->force && !(is_there && split_journal_has(journal, name, &st)))
        return fail(err, ERR_USAGE,
                    "%s is there from another cut and looks like one of these %zu parts; "
                    "--force removes it",
                    name, source->n_parts);
    if (is_there && S_ISDIR(st.st_mode))
        return fail(err, ERR_USAGE, "%s is a folder and looks like one of these %zu parts", name,
                    source->n_parts);
    return 0;
}

static int names_check(const struct split_source *source, const struct split_target *target,
                       const struct split_journal *journal, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < source->n_parts && rc == 0; i++)
        rc = name_check(source, target, journal, i, err);
    for (size_t i = 0; i < target->stale.n_paths && rc == 0; i++)
        rc = stale_check(source, target, journal, target->stale.paths[i], err);
    return rc;
}

int split_put_check(const struct split_source *source, const struct split_target *target,
                    struct err *err)
{
    struct split_journal journal;
    int rc = split_journal_read(&journal, target->journal, target->folder, err);
    if (rc == 0)
        rc = names_check(source, target, &journal, err);
    split_journal_release(&journal);
    return rc;
}

/* The state of one split_put(). */
struct put {
    const struct split_source *source;
    const struct split_target *target;
    struct split_folder folder;
    struct split_journal journal; /* used where the folder exists already */
    struct outfile *files;
    char **names; /* the paths of the files until the folder is in its place */
};

static int parts_write(struct put *put, struct err *err)
{
    const struct split_source *source = put->source;
    /*
     * Files that stay open until all parts are written need no names until then, so that kill -9
     * leaves no files behind.
     */
    uint64_t n_open = source->n_parts + source->n_open + OTHER_FILES;
    bool is_parked = open_files_allow(n_open) < n_open;
    int rc = 0;
    for (size_t i = 0; i < source->n_parts && rc == 0; i++) {
        struct outfile *file = &put->files[i];
        rc = outfile_open(file, put->names[i], put->target->force, err);
        file->name = put->target->names[i];
        if (rc == 0)
            rc = source->fill(source->context, i, file, err);
        if (rc == 0)
            rc = outfile_finish(file, is_parked, err);
    }
    /* The syncs come after all files are written: then the first one does most of the work of the
     * others. */
    for (size_t i = 0; i < source->n_parts && rc == 0; i++)
        rc = outfile_sync(&put->files[i], err);
    return rc;
}

static int stale_remove(const struct split_target *target, struct err *err)
{
    for (size_t i = 0; i < target->stale.n_paths; i++)
        if (unlink(target->stale.paths[i]) != 0 && errno != ENOENT)
            return fail_errno(err, "remove %s", target->stale.paths[i]);
    return 0;
}

/* Puts the parts in place with one rename of a new folder that contains nothing else. */
static int parts_place_at_once(struct put *put, struct err *err)
{
    size_t n_placed = 0;
    int rc = 0;
    for (; n_placed < put->source->n_parts && rc == 0; n_placed += rc == 0) {
        rc = outfile_place(&put->files[n_placed], err);
        outfile_close(&put->files[n_placed]);
    }
    if (rc == 0)
        rc = split_folder_place(&put->folder, err);
    for (size_t i = 0; i < n_placed && rc; i++)
        unlink(put->folder.beside ? put->names[i] : put->target->names[i]);
    return rc;
}

/*
 * Puts the parts in place one by one. A failure removes those that are in place, unless they
 * replaced files.
 */
static int parts_place_in_turn(struct put *put, struct err *err)
{
    const struct split_target *target = put->target;
    cleanup_fd int folder = -1;
    size_t n_placed = 0;
    int rc = parent_open(target->names[0], &folder, err);
    if (rc == 0)
        rc = split_journal_begin(&put->journal, put->files, target->names, put->source->n_parts,
                                 err);
    while (n_placed < put->source->n_parts && rc == 0) {
        rc = outfile_place(&put->files[n_placed], err);
        n_placed += rc == 0;
    }
    if (rc == 0)
        rc = parent_sync(folder, target->names[0], err);
    for (size_t i = 0; i < n_placed && rc && !target->force; i++)
        unlink(target->names[i]);
    if (rc == 0)
        rc = stale_remove(target, err);
    return rc ? rc : split_journal_end(&put->journal, err);
}

static int files_make(struct put *put, struct err *err)
{
    size_t n_parts = put->source->n_parts;
    put->files = xcalloc(n_parts, sizeof(*put->files));
    put->names = xcalloc(n_parts, sizeof(*put->names));
    for (size_t i = 0; i < n_parts; i++) {
        put->files[i] = (struct outfile)OUTFILE_INIT;
        put->names[i] = split_folder_name_new(&put->folder, put->target->names[i]);
    }
    int rc = parts_write(put, err);
    if (rc == 0 && put->target->placing)
        rc = put->target->placing(put->target->context, err);
    if (rc == 0)
        rc = put->folder.beside ? parts_place_at_once(put, err) : parts_place_in_turn(put, err);
    for (size_t i = 0; i < n_parts; i++) {
        outfile_close(&put->files[i]);
        free(put->names[i]);
    }
    free(put->files);
    free(put->names);
    return rc;
}

static int leftovers_clear(struct put *put, struct err *err)
{
    const struct split_target *target = put->target;
    size_t n_left = put->journal.n_left;
    int rc = split_journal_clear(&put->journal, target->folder, err);
    if (rc == 0 && n_left > 0 && target->note) {
        cleanup_free char *text = xasprintf(
            "%zu part%s of a cut that was killed %s removed first: the others were missing", n_left,
            plural(n_left), n_left == 1 ? "was" : "were");
        target->note(target->context, text);
    }
    return rc;
}

int split_put(const struct split_source *source, const struct split_target *target, struct err *err)
{
    struct put put = {.source = source, .target = target};
    int rc = split_journal_read(&put.journal, target->journal, target->folder, err);
    if (rc == 0)
        rc = names_check(source, target, &put.journal, err);
    if (rc == 0)
        rc = leftovers_clear(&put, err);
    if (rc) {
        split_journal_release(&put.journal);
        return rc;
    }
    rc = split_folder_begin(&put.folder, target->folder, err);
    if (rc == ERR_SYS) /* the user named a place that cannot be used */
        rc = ERR_USAGE;
    if (rc == 0)
        rc = files_make(&put, err);
    split_folder_end(&put.folder, rc);
    split_journal_release(&put.journal);
    return rc;
}
