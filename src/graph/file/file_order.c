/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs in an order in which each comes after those that it needs; where several may be next, the order of the file.
 */
#include "graph/file/file_impl.h"

static int number_compare(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return first < second ? -1 : first > second;
}

void numbers_sort(uint32_t *at, size_t n)
{
    enum {
        FEW = 16
    };
    if (n > FEW) {
        qsort(at, n, sizeof(*at), number_compare);
        return;
    }
    for (size_t i = 1; i < n; i++) { /* by insertion: most jobs need a few */
        uint32_t number = at[i];
        size_t to = i;
        for (; to > 0 && at[to - 1] > number; to--)
            at[to] = at[to - 1];
        at[to] = number;
    }
}

struct file_stage *stage_of_job(const struct graph_file *file, uint32_t job)
{
    size_t low = 0, high = file->stage_names.len;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (file->stages[middle].first <= job)
            low = middle;
        else
            high = middle;
    }
    return &file->stages[low];
}

static const char *name_of(struct graph_file *file, uint32_t job)
{
    const struct file_stage *stage = stage_of_job(file, job);
    return job_name_make(file, stage, stage_row(stage, job - stage->first));
}

/* ---- cycles ---- */

/* A job that it needs and that has no place either: jobs that can never begin need one another in a circle. */
static uint32_t unplaced_need(const struct graph_file *file, uint32_t job)
{
    for (uint64_t i = file->edges_begin[job]; i < file->edges_begin[job + 1]; i++)
        if (file->place[file->edges[i]] == NONE)
            return file->edges[i];
    BUG("job %u has no place, and needs nothing that has none", job);
}

static int cycle_fail(struct graph_file *file, uint32_t job)
{
    enum {
        SHOWN_MAX = 6
    };
    struct buf text = BUF_INIT;
    /* After as many steps as there are jobs it is in the circle, and not on the way to it. */
    for (uint32_t i = 0; i < file->n_jobs; i++)
        job = unplaced_need(file, job);
    uint32_t at = job, n = 0;
    do {
        if (n < SHOWN_MAX)
            buf_addf(&text, "'%s' needs ", name_of(file, at));
        at = unplaced_need(file, at);
        n++;
    } while (at != job);
    if (n > SHOWN_MAX)
        buf_addf(&text, "… (%u more) needs ", n - SHOWN_MAX);
    buf_addf(&text, "'%s'", name_of(file, job));
    const struct file_stage *stage = stage_of_job(file, job);
    const struct yaml_node *node = stage_key(file, stage, KEY_NEEDS);
    int rc = file_fail(file, node ? node : stage->key,
                       "jobs need each other in a circle: %s; remove one of these needs",
                       buf_text(&text));
    buf_release(&text);
    return rc;
}

/* ---- the order ---- */

/* For each job those that need it: followers[begin[job]] … */
static void followers_make(const struct graph_file *file, uint32_t *begin, uint32_t *followers)
{
    for (size_t i = 0; i < file->n_edges; i++)
        begin[file->edges[i] + 1]++;
    for (uint32_t job = 0; job < file->n_jobs; job++)
        begin[job + 1] += begin[job];
    for (uint32_t job = file->n_jobs; job-- > 0;)
        for (uint64_t i = file->edges_begin[job]; i < file->edges_begin[job + 1]; i++)
            followers[--begin[file->edges[i] + 1]] = job;
    /* Each begin[job + 1] has gone down to where the job's begin; that is the place of begin[job]. */
    memmove(begin, begin + 1, file->n_jobs * sizeof(*begin));
    begin[file->n_jobs] = (uint32_t)file->n_edges;
}

static void place_next(struct graph_file *file, uint32_t job, uint32_t *n_placed)
{
    file->place[job] = *n_placed;
    file->order[(*n_placed)++] = job;
}

int order_make(struct graph_file *file)
{
    uint32_t n = file->n_jobs, n_placed = 0;
    uint32_t *begin = xcalloc((size_t)n + 2, sizeof(*begin));
    uint32_t *followers = xmalloc((file->n_edges + 1) * sizeof(*followers));
    uint32_t *n_waits = xcalloc((size_t)n + 1, sizeof(*n_waits));
    file->order = xmalloc(((size_t)n + 1) * sizeof(*file->order));
    file->place = xmalloc(((size_t)n + 1) * sizeof(*file->place));
    followers_make(file, begin, followers);
    memset(file->place, 0xff, n * sizeof(*file->place));
    for (uint32_t job = 0; job < n; job++) {
        n_waits[job] = (uint32_t)(file->edges_begin[job + 1] - file->edges_begin[job]);
        if (n_waits[job] == 0)
            place_next(file, job, &n_placed);
    }
    for (uint32_t i = 0; i < n_placed; i++)
        for (uint32_t k = begin[file->order[i]]; k < begin[file->order[i] + 1]; k++)
            if (--n_waits[followers[k]] == 0)
                place_next(file, followers[k], &n_placed);
    free(begin);
    free(followers);
    free(n_waits);
    if (n_placed == n)
        return 0;
    uint32_t job = 0;
    while (file->place[job] != NONE)
        job++;
    return cycle_fail(file, job);
}
