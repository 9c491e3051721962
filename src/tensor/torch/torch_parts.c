/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and reads the files of a merge, and checks them for callables that muster does not know.
 * Two threads read them, because parsing a pickle takes longer than reading its bytes. There are no
 * more threads, because each holds a pickle, and memory must be bounded by the largest pickle on
 * every machine.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "base/xalloc.h"
#include "tensor/torch/torch_normalise.h"

enum {
    CALLABLES_SHOWN = 3
};

/* ---- open ---- */

static int part_open(const char *path, int *fd, struct stat *st, struct err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    return 0;
}

/*
 * Refuses a file that is given twice, because its records would be merged twice, and a file that is
 * the output.
 */
static int twice_refuse(const struct merge_state *merge, const char *const *paths, size_t part,
                        const struct stat *st, struct err *err)
{
    struct stat other = {0};
    for (size_t i = 0; i < part; i++)
        if (fstat(merge->parts[i].fd, &other) == 0 && other.st_ino == st->st_ino &&
            other.st_dev == st->st_dev)
            return fail(err, ERR_USAGE, "%s and %s are the same file", paths[i], paths[part]);
    if (stat(merge->out_path, &other) == 0 && other.st_ino == st->st_ino &&
        other.st_dev == st->st_dev)
        return fail(err, ERR_USAGE, "the output %s is one of the files", merge->out_path);
    return 0;
}

static int parts_open(struct merge_state *merge, const char *const *paths, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < merge->n_parts; i++)
        merge->parts[i].fd = -1;
    for (size_t i = 0; i < merge->n_parts && rc == 0; i++) {
        struct torch_part *part = &merge->parts[i];
        struct stat st = {0};
        rc = part_open(paths[i], &part->fd, &st, err);
        if (rc == 0)
            rc = twice_refuse(merge, paths, i, &st, err);
        part->file = (struct torch_file){.path = paths[i], .file_bytes = (uint64_t)st.st_size};
    }
    return rc;
}

/* ---- read ---- */

/*
 * Parts are taken in order, and no part is begun after one failed. So the first faulty part is
 * always read, and the error is the same with one thread or two.
 */
struct reading {
    struct merge_state *merge;
    atomic_size_t next;
    atomic_bool has_failed;
};

struct reader {
    struct reading *reading;
    struct torch_splicing splicing;
    struct stop stop;
    size_t failed; /* the part that failed, or the last one */
    int rc;
    struct err err;
};

static void *parts_read_some(void *context)
{
    struct reader *reader = context;
    struct reading *reading = reader->reading;
    const struct merge_state *merge = reading->merge;
    size_t i;
    while (reader->rc == 0 && !atomic_load(&reading->has_failed) &&
           (i = atomic_fetch_add(&reading->next, 1)) < merge->n_parts) {
        struct torch_part *part = &merge->parts[i];
        reader->failed = i;
        reader->rc = stop_check(reader->stop, &reader->err);
        if (reader->rc == 0)
            reader->rc = torch_read_spliced(&part->file, part->file.path, part->fd,
                                            part->file.file_bytes, &reader->splicing, &reader->err);
    }
    if (reader->rc)
        atomic_store(&reading->has_failed, true);
    buf_release(&reader->splicing.room);
    return NULL;
}

static int parts_read(struct merge_state *merge, struct err *err)
{
    struct reading reading = {.merge = merge};
    const struct torch_splicing splicing = {merge->splice_least_bytes, BUF_INIT};
    struct reader here = {.reading = &reading, .splicing = splicing}, beside = here;
    pthread_t thread;
    here.stop = merge->opts->stop; /* asked on this thread only */
    bool are_two = merge->n_parts > 1 && thread_start(&thread, parts_read_some, &beside);
    parts_read_some(&here);
    if (are_two)
        pthread_join(thread, NULL);
    const struct reader *first =
        beside.rc && (here.rc == 0 || beside.failed < here.failed) ? &beside : &here;
    if (first->rc && err)
        *err = first->err;
    return first->rc;
}

/* ---- what no file may have ---- */

/* The unknown callables of all files, each name once. */
struct unknown_callables {
    struct buf names;
    size_t n_names;
    size_t part; /* the part that names the first of them */
    uint64_t at;
};

static void unknown_add(struct unknown_callables *unknown, size_t part,
                        const struct pickle_global *global)
{
    cleanup_buf struct buf name = BUF_INIT;
    buf_addf(&name, "%.*s.%.*s", (int)global->module.len, global->module.at, (int)global->name.len,
             global->name.at);
    if (unknown->n_names > 0 && strstr(buf_text(&unknown->names), buf_text(&name)))
        return;
    if (unknown->n_names == 0) {
        unknown->part = part;
        unknown->at = global->at;
    }
    if (unknown->n_names++ < CALLABLES_SHOWN)
        buf_addf(&unknown->names, "%s%s", unknown->n_names > 1 ? ", " : "", buf_text(&name));
}

static void unknown_list(const struct merge_state *merge, struct unknown_callables *out)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        const struct pickle *graph = torch_merge_graph(merge, i);
        for (size_t k = 0; k < graph->n_globals; k++)
            if (!graph->globals[k].known)
                unknown_add(out, i, &graph->globals[k]);
    }
}

int torch_merge_callables_check(const struct merge_state *merge, struct err *err)
{
    struct unknown_callables unknown = {.names = BUF_INIT};
    unknown_list(merge, &unknown);
    cleanup_free char *names = buf_steal(&unknown.names);
    const char *more = unknown.n_names > CALLABLES_SHOWN ? " and more" : "";
    if (unknown.n_names == 0)
        return 0;
    if (!merge->opts->pass_through)
        return fail(err, ERR_DATA,
                    "%s: byte %lu of its pickle names %s%s, which is no data: whoever loads it "
                    "runs it; --pass-through carries it over as it is",
                    torch_merge_file_name(merge, unknown.part), unknown.at, names, more);
    cleanup_free char *text =
        xasprintf("carried over as it is, and run by whoever loads it: %s%s", names, more);
    merge->opts->note(merge->opts->context, text);
    return 0;
}

static int orders_check(const struct merge_state *merge, struct err *err)
{
    for (size_t i = 1; i < merge->n_parts; i++)
        if (merge->parts[i].file.is_big_endian != merge->parts[0].file.is_big_endian)
            return fail(err, ERR_DATA, "%s and %s have their numbers in different byte orders",
                        torch_merge_file_name(merge, 0), torch_merge_file_name(merge, i));
    return 0;
}

int torch_merge_open(struct merge_state *merge, const char *const *paths, struct err *err)
{
    int rc = parts_open(merge, paths, err);
    if (rc == 0)
        rc = parts_read(merge, err);
    if (rc == 0)
        rc = orders_check(merge, err);
    if (rc == 0)
        rc = torch_merge_callables_check(merge, err);
    return rc ? rc : torch_normalise_parts(merge);
}
