/* SPDX-License-Identifier: Apache-2.0
 *
 * The views of a dag.
 */
#include "core/dag_impl.h"

uint64_t dag_wake_ms(const struct dag *dag)
{
    return dag->wake_ms;
}

struct dag_placement dag_placement(const struct dag *dag, uint32_t job)
{
    ASSERT(job < dag->jobs.len);
    const struct job *j = &dag->jobs.at[job];
    ASSERT(j->state == DAG_RUNS || j->state == DAG_ENDS);
    return (struct dag_placement){
        .n_devices = j->n_devices,
        .devices = dag_devices_of(dag, j),
        .host = j->host,
        .attempt = j->n_attempts,
        .oom_step = j->oom_step,
        .n_halvings = j->n_halvings,
    };
}

static uint32_t first_culprit(const struct dag *dag, uint32_t job)
{
    const struct job *j = &dag->jobs.at[job];
    if (j->n_bad == 0)
        return DAG_NO_JOB;
    const struct edge *edge = &dag->edges.at[j->first_edge];
    while (!dag_is_bad(dag->jobs.at[edge->need].state))
        edge++;
    return edge->need;
}

/* When the job could start if no other job were before it; 0: not known. */
static uint64_t start_by(const struct dag *dag, uint32_t job)
{
    struct demand demand = dag_demand(dag, job);
    struct spot spot;
    uint64_t start_ms;
    bool is_known = dag_forecast(dag, &demand, &start_ms, &spot) && start_ms != NEVER;
    return is_known ? start_ms : 0;
}

struct dag_job_view dag_job_view(const struct dag *dag, uint32_t job)
{
    ASSERT(job < dag->jobs.len);
    const struct job *j = &dag->jobs.at[job];
    return (struct dag_job_view){
        .state = j->state,
        .is_held = j->is_held,
        .n_needs_left = j->n_left,
        .first_culprit = first_culprit(dag, job),
        .n_attempts = j->n_attempts,
        .n_failures = j->n_failures,
        .ready_ms = j->ready_ms,
        .path_ms = j->path_ms,
        .oom_step = j->oom_step,
        .n_halvings = j->n_halvings,
        .is_head = dag->head.job == job,
        .start_by_ms = j->state == DAG_READY && !j->is_held ? start_by(dag, job) : 0,
    };
}

struct dag_device_view dag_device_view(const struct dag *dag, uint32_t device)
{
    ASSERT(device < dag->devices.len);
    const struct place_device *d = &dag->devices.at[device];
    const struct load *load = &dag->now.loads[device];
    return (struct dag_device_view){
        .is_up = d->is_up,
        .is_benched = d->is_benched,
        .n_jobs = load->n_jobs,
        .share_used = load->n_alone > 0 ? (uint32_t)DAG_SHARE_WHOLE : load->share,
        .mem_bytes = d->mem_bytes,
        .mem_reserved_bytes = load->mem_bytes,
    };
}

struct dag_host_view dag_host_view(const struct dag *dag, uint32_t host)
{
    ASSERT(host < dag->hosts.len);
    const struct place_host *h = &dag->hosts.at[host];
    return (struct dag_host_view){
        .is_up = h->is_up, .n_cpus = h->n_cpus, .n_cpus_used = dag->now.cpus_used[host]};
}

struct dag_view dag_view(const struct dag *dag)
{
    struct dag_view view = {
        .n_jobs = dag->jobs.len,
        .n_held = dag->n_held,
        .is_over = dag->is_over,
        .is_stopped = dag->is_stopped,
    };
    for (uint32_t i = 0; i < DAG_STATES; i++)
        view.n_of[i] = dag->n_of[i];
    return view;
}
