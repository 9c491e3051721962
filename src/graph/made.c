/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/made.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "store/lock.h"

/*
 * A definition without the part of the environment: the command with its folder, and the files. Empty if the
 * definition is malformed.
 */
static char *work_new(const char *definition)
{
    const char *first = definition ? strchr(definition, ':') : NULL;
    const char *last = definition ? strrchr(definition, ':') : NULL;
    return first ? xasprintf("%.*s%s", (int)(first - definition), definition, last) : xstrdup("");
}

/* Runs are read from the newest to the oldest: the first row about the same work decides. */
static void row_take(struct made *made, const struct job_row *row)
{
    cleanup_free char *work = work_new(row->definition);
    bool has_begun = row->attempts > 0 || row->started_wall_ms > 0;
    bool is_first = name_index_find(&made->begun, str_of(work)) == NAME_NONE;
    if (*work && (has_begun || job_was_done(row->state))) {
        name_index_number(&made->begun, str_of(work));
        if (is_first && !job_was_done(row->state))
            name_index_number(&made->undone, str_of(work));
    }
    marks_paths(row->proof, &made->paths);
}

/* A run that cannot be read counts as having made nothing. */
static void run_take(void *context, const char *dir)
{
    struct made *made = context;
    struct store *store = NULL;
    struct row_reader *reader = NULL;
    struct job_row row;
    enum store_mode mode = run_is_locked(dir, NULL) ? STORE_READ : STORE_PEEK;
    if (store_open(&store, dir, mode, NULL) == 0 && job_reader_open(&reader, store, NULL) == 0)
        while (job_reader_next(reader, &row, NULL) == 1)
            row_take(made, &row);
    row_reader_close(reader);
    store_close(store);
}

static void made_read(struct made *made, const struct graph *graph)
{
    if (made->is_read)
        return;
    made->is_read = true;
    if (graph->is_resumed) /* its folder may be elsewhere */
        run_take(made, shell_run_dir(graph->shell));
    graph_runs_each(graph->request, run_take, made);
}

bool made_by_half(struct made *made, const struct graph *graph, const struct plan_job *job)
{
    cleanup_free char *definition = definition_new(graph, job), *work = work_new(definition);
    made_read(made, graph);
    return name_index_find(&made->undone, str_of(work)) != NAME_NONE;
}

const char *made_foreign_out(struct made *made, const struct graph *graph,
                             const struct plan_job *job)
{
    if (!existing_out_find(graph, job))
        return NULL;
    cleanup_free char *definition = definition_new(graph, job), *work = work_new(definition);
    made_read(made, graph);
    if (name_index_find(&made->begun, str_of(work)) != NAME_NONE)
        return NULL;
    for (uint32_t n = 0; n < job->n_outs; n++) {
        cleanup_free char *path = job_out_path_new(graph, job, n);
        if (path_exists(path) && name_index_find(&made->paths, str_of(path)) == NAME_NONE)
            return job->outs[n].path;
    }
    return NULL;
}

void made_release(struct made *made)
{
    name_index_release(&made->paths);
    name_index_release(&made->begun);
    name_index_release(&made->undone);
}
