/* SPDX-License-Identifier: Apache-2.0
 *
 * What jobs leave, in a hash table: each path is looked up, and each folder above it. As long as no folder was found to be a
 * link, the paths of all outs that were looked at are as they are written, so these need no second look.
 */
#include "graph/plan_outs.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

struct slot {
    uint32_t job; /* position + 1; 0: empty */
    uint32_t out;
    uint32_t hash;
};

struct outs {
    const struct plan *plan;
    struct slot *slots;
    size_t n_slots; /* a power of 2 */
    struct real_paths *real;
    struct buf path, other;
};

/* "/a/b" for what a job leaves at "b/"; "" is the root folder. */
static void out_path(struct real_paths *real, const struct plan_job *job, uint32_t out,
                     struct buf *path)
{
    const char *written = job->outs[out].path;
    if (real->has_links)
        real_path(real, job->cwd, written, path);
    else
        written_path(real, job->cwd, written, path);
}

/* The slot of the path, or the free one where it belongs, which then has its hash. */
static struct slot *slot_of(struct outs *outs, struct str path)
{
    uint64_t hash = XXH3_64bits(path.at, path.len);
    size_t i = hash & (outs->n_slots - 1);
    for (; outs->slots[i].job; i = (i + 1) & (outs->n_slots - 1)) {
        const struct slot *slot = &outs->slots[i];
        if (slot->hash != (uint32_t)(hash >> 32))
            continue;
        out_path(outs->real, &outs->plan->jobs[slot->job - 1], slot->out, &outs->other);
        if (str_equal(buf_str(&outs->other), path))
            return &outs->slots[i];
    }
    outs->slots[i].hash = (uint32_t)(hash >> 32);
    return &outs->slots[i];
}

/* " (lines 3 and 7)" of two stages in a file. */
static void lines_describe(const struct plan_job *a, const struct plan_job *b, char out[40])
{
    uint32_t first = MIN(a->line, b->line), last = MAX(a->line, b->line);
    out[0] = '\0';
    if (first > 0 && first != last)
        snprintf(out, 40, " (lines %u and %u)", first, last);
    else if (last > 0) /* 0: the job was added */
        snprintf(out, 40, " (line %u)", last);
}

struct job_out {
    const struct plan_job *job;
    uint32_t out;
};

static bool is_written_the_same(struct job_out a, struct job_out b)
{
    const char *cwd_a = a.job->cwd ? a.job->cwd : "", *cwd_b = b.job->cwd ? b.job->cwd : "";
    return strcmp(a.job->outs[a.out].path, b.job->outs[b.out].path) == 0 &&
           strcmp(cwd_a, cwd_b) == 0;
}

static int same_fail(struct job_out a, struct job_out b, struct err *err)
{
    char lines[40];
    lines_describe(a.job, b.job, lines);
    if (!is_written_the_same(a, b))
        return fail(err, ERR_USAGE,
                    "'%s' leaves '%s' and '%s' leaves '%s'%s, which is the same file; give each "
                    "a path of its own, with the values in which they differ",
                    a.job->name, a.job->outs[a.out].path, b.job->name, b.job->outs[b.out].path,
                    lines);
    return fail(err, ERR_USAGE,
                "'%s' and '%s'%s both leave '%s'; give each a path of its own, with the values "
                "in which they differ",
                a.job->name, b.job->name, lines, b.job->outs[b.out].path);
}

static int above_fail(struct job_out above, struct job_out inside, struct err *err)
{
    char lines[40];
    lines_describe(above.job, inside.job, lines);
    return fail(err, ERR_USAGE,
                "'%s' leaves '%s', which is in '%s', and that is left by '%s'%s; "
                "give them folders that are apart",
                inside.job->name, inside.job->outs[inside.out].path,
                above.job->outs[above.out].path, above.job->name, lines);
}

static struct job_out of_slot(const struct outs *outs, const struct slot *slot)
{
    return (struct job_out){&outs->plan->jobs[slot->job - 1], slot->out};
}

static int outs_add(struct outs *outs, uint32_t number, struct err *err)
{
    const struct plan_job *job = &outs->plan->jobs[number];
    for (uint32_t i = 0; i < job->n_outs; i++) {
        real_path(outs->real, job->cwd, job->outs[i].path, &outs->path);
        struct slot *slot = slot_of(outs, buf_str(&outs->path));
        if (slot->job && slot->job != number + 1)
            return same_fail(of_slot(outs, slot), (struct job_out){job, i}, err);
        *slot = (struct slot){number + 1, i, slot->hash};
    }
    return 0;
}

/* A job may leave a folder and name files in it. */
static int above_check(struct outs *outs, uint32_t number, struct err *err)
{
    const struct plan_job *job = &outs->plan->jobs[number];
    for (uint32_t i = 0; i < job->n_outs; i++) {
        out_path(outs->real, job, i, &outs->path);
        for (size_t len = outs->path.len; len-- > 0;) {
            if (outs->path.at[len] != '/')
                continue;
            const struct slot *slot = slot_of(outs, (struct str){outs->path.at, len});
            if (slot->job && slot->job != number + 1)
                return above_fail(of_slot(outs, slot), (struct job_out){job, i}, err);
        }
    }
    return 0;
}

static int all_check(struct outs *outs, uint64_t n_outs, struct err *err)
{
    int rc = 0;
    outs->n_slots = 8;
    while (outs->n_slots < n_outs * 2)
        outs->n_slots *= 2;
    outs->slots = xcalloc(outs->n_slots, sizeof(*outs->slots));
    for (uint32_t i = 0; i < outs->plan->n_jobs && rc == 0; i++)
        rc = outs_add(outs, i, err);
    for (uint32_t i = 0; i < outs->plan->n_jobs && rc == 0; i++)
        rc = above_check(outs, i, err);
    free(outs->slots);
    buf_release(&outs->path);
    buf_release(&outs->other);
    return rc;
}

int plan_outs_check(struct plan *plan, struct err *err)
{
    cleanup_free char *cwd = path_cwd();
    cleanup_real_paths struct real_paths real = {.cwd = cwd};
    struct outs outs = {.plan = plan, .real = &real};
    uint64_t n_outs = 0;
    for (uint32_t i = 0; i < plan->n_jobs; i++)
        n_outs += plan->jobs[i].n_outs;
    int rc = n_outs > 0 ? all_check(&outs, n_outs, err) : 0;
    plan->has_links = real.has_links;
    return rc;
}

static bool is_within(struct str path, struct str folder)
{
    return path.len > folder.len && path.at[folder.len] == '/' && str_starts_with(path, folder);
}

int plan_outs_apart(const struct plan_job *a, const struct plan_job *b, struct real_paths *real,
                    struct err *err)
{
    cleanup_buf struct buf path_a = BUF_INIT, path_b = BUF_INIT;
    for (uint32_t k = 0; k < b->n_outs; k++) {
        real_path(real, b->cwd, b->outs[k].path, &path_b);
        for (uint32_t i = 0; i < a->n_outs; i++) {
            const struct job_out of_a = {a, i}, of_b = {b, k};
            out_path(real, a, i, &path_a);
            if (str_equal(buf_str(&path_a), buf_str(&path_b)))
                return same_fail(of_a, of_b, err);
            if (is_within(buf_str(&path_b), buf_str(&path_a)))
                return above_fail(of_a, of_b, err);
            if (is_within(buf_str(&path_a), buf_str(&path_b)))
                return above_fail(of_b, of_a, err);
        }
    }
    return 0;
}

bool plan_job_leaves(const struct plan_job *job, const struct plan_job *reader, const char *path,
                     struct real_paths *real)
{
    const struct plan_out out = {.path = path};
    const struct plan_job read = {
        .name = reader->name, .cwd = reader->cwd, .outs = &out, .n_outs = 1};
    return plan_outs_apart(job, &read, real, NULL) != 0;
}

bool plan_job_goes_on(const struct plan_job *job, const char *path, const char *cwd)
{
    cleanup_real_paths struct real_paths real = {.cwd = cwd, .has_links = true};
    return plan_job_leaves(job, job, path, &real);
}

/* The folder that a path is in; the root folder is "", and is in none. */
static bool folder_of(struct str *path)
{
    while (path->len > 0 && path->at[--path->len] != '/')
        ;
    return path->len > 0;
}

void left_paths_add(struct left_paths *left, const struct plan_job *job)
{
    cleanup_buf struct buf path = BUF_INIT;
    for (uint32_t i = 0; i < job->n_outs; i++) {
        real_path(&left->real, job->cwd, job->outs[i].path, &path);
        struct str at = buf_str(&path);
        name_index_number(&left->outs, at);
        while (folder_of(&at) && name_index_find(&left->above, at) == NAME_NONE)
            name_index_number(&left->above, at);
    }
}

bool left_paths_have(struct left_paths *left, const struct plan_job *reader, const char *path)
{
    cleanup_buf struct buf whole = BUF_INIT;
    real_path(&left->real, reader->cwd, path, &whole);
    struct str at = buf_str(&whole);
    bool have = name_index_find(&left->above, at) != NAME_NONE;
    do
        have = have || name_index_find(&left->outs, at) != NAME_NONE;
    while (!have && folder_of(&at));
    return have;
}

void left_paths_release(struct left_paths *left)
{
    name_index_release(&left->outs);
    name_index_release(&left->above);
    real_paths_release(&left->real);
}
