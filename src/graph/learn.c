/* SPDX-License-Identifier: Apache-2.0
 *
 * The time and the device memory that jobs of a stage are expected to take, learned from those that
 * are done. Times decide which job starts first; memory, where the file says `auto`, which jobs
 * share a device.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    MARGIN =
        8 /* a peak that is higher by less than an eighth is within the margin of what is reserved */
};

void learned_close(struct graph *graph)
{
    free(steal_ptr(&graph->learned.stages));
    free(steal_ptr(&graph->learned.next));
}

void learned_open(struct graph *graph)
{
    learned_close(graph);
    graph->learned.stages = xcalloc(graph->plan->n_stages + 1, sizeof(*graph->learned.stages));
}

static struct stage_past *learned_of(const struct graph *graph, const struct graph_job *job)
{
    return &graph->learned.stages[job->plan->stage];
}

/*
 * The expected time of a job of the stage; 0: unknown. This run's times are better evidence than those of earlier
 * runs.
 */
static uint32_t time_of_stage(const struct stage_past *learned)
{
    uint64_t ms = learned->n > 0 ? learned->ms / learned->n : learned->remembered.ms;
    return (uint32_t)MIN(ms, (uint64_t)UINT32_MAX);
}

static void sample_add(struct stage_past *learned, uint64_t ran_ms, uint64_t mem_peak_bytes)
{
    learned->ms += MAX(ran_ms, (uint64_t)1); /* 0 would be unknown */
    learned->n++;
    learned->mem_peak_bytes = MAX(learned->mem_peak_bytes, mem_peak_bytes);
}

void learned_add_past(struct graph *graph, const struct graph_job *job, uint64_t ran_ms)
{
    sample_add(learned_of(graph, job), ran_ms, job->mem_peak_bytes);
}

/* A job that was done itself has its own time, and its own peak. */
static void expect(struct graph_job *job, const struct stage_past *learned)
{
    uint32_t ms = time_of_stage(learned);
    if (ms > 0 && (!job->was_done || job->expected_ms == 0))
        job->expected_ms = ms;
    job->expected_mem_bytes = job->mem_peak_bytes;
    if (!job->was_done || job->mem_peak_bytes == 0)
        job->expected_mem_bytes = MAX(
            job->mem_peak_bytes, MAX(learned->mem_peak_bytes, learned->remembered.mem_peak_bytes));
}

static void mark_reported(struct stage_past *learned)
{
    learned->n_reported = learned->n;
    learned->mem_reported_bytes = learned->mem_peak_bytes;
}

void learned_spread(struct graph *graph)
{
    remembered_take(graph);
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        expect(&graph->jobs[i], learned_of(graph, &graph->jobs[i]));
    for (uint32_t i = 0; i <= graph->plan->n_stages; i++) {
        mark_reported(&graph->learned.stages[i]);
        graph->learned.stages[i].n_before = graph->learned.stages[i].n;
    }
}

/* Makes a list of the jobs of each stage: going through all jobs for each of many stages would take too long. */
static void lists_make(struct graph *graph)
{
    const struct plan *plan = graph->plan;
    if (graph->learned.next)
        return;
    graph->learned.next = xcalloc(plan->n_jobs + 1, sizeof(*graph->learned.next));
    for (uint32_t i = 0; i < plan->n_stages; i++)
        graph->learned.stages[i].first_job = DAG_NO_JOB;
    for (uint32_t i = plan->n_jobs; i-- > 0;) {
        struct stage_past *learned = &graph->learned.stages[plan->jobs[i].stage];
        graph->learned.next[i] = learned->first_job;
        learned->first_job = i;
    }
}

static void stage_report(struct graph *graph, struct stage_past *learned)
{
    lists_make(graph);
    mark_reported(learned);
    for (uint32_t i = learned->first_job; i != DAG_NO_JOB; i = graph->learned.next[i]) {
        struct graph_job *job = &graph->jobs[i];
        expect(job, learned);
        dag_expect(graph->dag, i, job->expected_ms, job_memory_wanted(graph, job));
    }
}

/*
 * Reports to the dag only when the number of jobs has doubled or the peak has grown, since a stage
 * may have a million jobs. A job with a halved batch is left out: it takes less memory than the
 * others will.
 */
void learned_add(const struct process *process)
{
    struct graph *graph = process->graph;
    const struct graph_job *job = &graph->jobs[process->job];
    struct stage_past *learned = learned_of(graph, job);
    if (job->plan->stage >= graph->plan->n_stages || process->n_halvings > 0)
        return; /* added jobs are of any kind */
    sample_add(learned, shell_last_now(graph->shell) - process->started_ms,
               process->mem_peak_bytes);
    bool is_news = learned->n >= 2 * learned->n_reported ||
                   learned->mem_peak_bytes >
                       learned->mem_reported_bytes + learned->mem_reported_bytes / MARGIN;
    if (is_news && graph->plan->stages[job->plan->stage].n_jobs > 1)
        stage_report(graph, learned);
}
