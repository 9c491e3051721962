/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/graph/plan_text.h"

#include <inttypes.h>

static void add_texts(struct buf *out, const char *before, const char *const *texts)
{
    for (; texts && *texts; texts++)
        buf_addf(out, "%s%s", before, *texts);
}

static void add_devices(struct buf *out, const struct plan_devices *devices)
{
    if (devices->n_min != 1 || devices->n_max != 1)
        buf_addf(out, " gpus=%u", devices->n_min);
    if (devices->n_max != devices->n_min)
        buf_addf(out, "..%u", devices->n_max);
    if (devices->share > 0)
        buf_addf(out, " share=%u", devices->share);
    if (devices->mem_bytes == PLAN_MEMORY_AUTO)
        buf_addf(out, " memory=auto");
    else if (devices->mem_bytes > 0)
        buf_addf(out, " memory=%" PRIu64 "M", devices->mem_bytes >> 20);
}

static void add_outs(struct buf *out, const struct plan_job *job)
{
    for (uint32_t i = 0; i < job->n_outs; i++) {
        buf_addf(out, " > %s", job->outs[i].path);
        if (job->outs[i].json_has)
            buf_addf(out, "(json-has %s)", job->outs[i].json_has);
        if (job->outs[i].count_min > 0)
            buf_addf(out, "(count %" PRIu64 ")", job->outs[i].count_min);
        if (job->outs[i].pattern)
            buf_addf(out, "(pattern %s)", job->outs[i].pattern);
    }
}

static void add_numbers(struct buf *out, const struct plan_job *job)
{
    if (job->n_cpus > 0)
        buf_addf(out, " cpus=%u", job->n_cpus);
    if (job->priority != 0)
        buf_addf(out, " priority=%d", job->priority);
    if (job->n_retries > 0)
        buf_addf(out, " retries=%u", job->n_retries);
    if (job->timeout_ms > 0)
        buf_addf(out, " timeout=%" PRIu64 "s", job->timeout_ms / 1000);
    if (job->batch > 0)
        buf_addf(out, " batch=%" PRIu64, job->batch);
}

void plan_describe(const struct plan *plan, struct buf *out)
{
    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        const struct plan_job *job = &plan->jobs[i];
        buf_addf(out, "%s%s:", i > 0 ? "\n" : "", job->name);
        add_texts(out, " ", job->argv);
        for (uint32_t k = 0; k < job->n_needs; k++)
            buf_addf(out, "%s%s", k == 0 ? " <- " : " ", plan->jobs[job->needs[k]].name);
        add_outs(out, job);
        add_devices(out, &job->devices);
        add_numbers(out, job);
        add_texts(out, " env:", job->env);
        add_texts(out, " in:", job->inputs);
        if (job->cwd)
            buf_addf(out, " cwd=%s", job->cwd);
        if (job->hosts)
            buf_addf(out, " hosts=%s", job->hosts);
    }
}
