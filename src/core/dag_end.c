/* SPDX-License-Identifier: Apache-2.0
 *
 * What the end of a job means for the job and for its devices.
 */
#include "core/dag_impl.h"

static void device_strike(struct dag *dag, uint32_t device, uint32_t job)
{
    struct place_device *d = &dag->devices.at[device];
    if (d->is_benched || dag_is_ill(dag, device, job))
        return;
    dag->devices.ill_jobs[(size_t)device * dag->config.strikes + d->n_strikes++] = job;
    if (d->n_strikes < dag->config.strikes)
        return;
    d->is_benched = true;
    dag->shapes.is_all_due = true;
    dag_emit(dag, DACT_BENCH, 0, device);
}

/* Notes the device that is ill; if `device` is none of the job's, any of the job's may be. */
static void ill_note(struct dag *dag, uint32_t job, uint32_t device)
{
    struct job *j = &dag->jobs.at[job];
    const uint32_t *devices = dag_devices_of(dag, j);
    bool is_named = false;
    for (uint32_t i = 0; i < j->n_devices; i++)
        is_named |= devices[i] == device;
    for (uint32_t i = 0; i < j->n_devices; i++)
        if (!is_named || devices[i] == device)
            device_strike(dag, devices[i], job);
    j->has_ill |= j->n_devices > 0;
}

/* The job ran out of memory: notes the device with the least memory of its devices. */
static void floor_note(struct dag *dag, struct job *j)
{
    const uint32_t *devices = dag_devices_of(dag, j);
    j->floor_device = (uint16_t)devices[0];
    for (uint32_t i = 1; i < j->n_devices; i++)
        if (dag->devices.at[devices[i]].mem_bytes < dag->devices.at[j->floor_device].mem_bytes)
            j->floor_device = (uint16_t)devices[i];
}

static void job_vacate(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job];
    dag_give(dag, &dag->now, job);
    if (j->n_devices > 1)
        dag->places.free[dag->places.n_free++] = j->at;
    if (j->prev != NONE)
        dag->jobs.at[j->prev].next = j->next;
    else
        dag->running = j->next;
    if (j->next != NONE)
        dag->jobs.at[j->next].prev = j->prev;
    dag->n_timeless -= j->expected_ms == 0;
}

static void end_counted(struct dag *dag, uint32_t job, bool is_fatal)
{
    struct job *j = &dag->jobs.at[job];
    j->n_failures++;
    if (is_fatal || j->n_failures > j->n_retries)
        dag_settle(dag, job, DAG_FAILED);
    else
        dag_open(dag, job);
}

static void end_uncounted(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job];
    if (j->n_lost == LOST_MAX) {
        end_counted(dag, job, false);
        return;
    }
    j->n_lost++;
    dag_open(dag, job);
}

static bool has_larger(const struct dag *dag, uint32_t job)
{
    const struct job *j = &dag->jobs.at[job];
    uint64_t mem_bytes = dag->devices.at[j->floor_device].mem_bytes;
    struct demand demand = dag_demand(dag, job);
    demand.mem_min = mem_bytes + 1;
    return mem_bytes > 0 && dag_place(dag, &demand, &dag->empty, NULL, REACH_UP, NULL);
}

static void end_out_of_memory(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job];
    bool was_alone = j->oom_step != OOM_STEP_NONE || dag_is_whole(&dag->shapes.at[j->shape].want);
    if (j->n_devices == 0) {
        end_counted(dag, job, false);
        return;
    }
    if (!was_alone) {
        j->oom_step = OOM_STEP_ALONE;
    } else if (j->oom_step != OOM_STEP_BATCH && has_larger(dag, job)) {
        j->oom_step = OOM_STEP_LARGER;
    } else if (j->n_halvings < j->n_batch_steps) {
        j->oom_step = OOM_STEP_BATCH;
        j->n_halvings++;
    } else {
        end_counted(dag, job, true);
        return;
    }
    dag_open(dag, job);
}

static void end_judge(struct dag *dag, uint32_t job, enum dag_end end)
{
    if (end == DEND_WELL)
        dag_settle(dag, job, DAG_DONE);
    else if (dag->jobs.at[job].wish == WISH_CANCELLED)
        dag_settle(dag, job, DAG_CANCELLED);
    else if (dag->jobs.at[job].wish == WISH_AGAIN)
        dag_begin_anew(dag, job);
    else if (end == DEND_FAILED || end == DEND_FATAL)
        end_counted(dag, job, end == DEND_FATAL);
    else if (end == DEND_OOM)
        end_out_of_memory(dag, job);
    else if (end == DEND_ABSENT || (end == DEND_ENDED && dag->is_stopped))
        dag_open(dag, job);
    else
        end_uncounted(dag, job);
}

void dag_ended(struct dag *dag, const struct dag_event *ev)
{
    const struct job *j = &dag->jobs.at[ev->job];
    job_vacate(dag, ev->job);
    if (ev->end == DEND_ILL)
        ill_note(dag, ev->job, ev->device);
    if (ev->end == DEND_OOM && j->n_devices > 0)
        floor_note(dag, &dag->jobs.at[ev->job]);
    end_judge(dag, ev->job, ev->end);
}
