/* SPDX-License-Identifier: Apache-2.0
 *
 * The preparation of a job before its start: checks that the files of the jobs that it needs are as
 * these jobs left them, and makes the digest of what a map reads. A file whose inode still has the
 * same size and times counts as unchanged. All other files, and folders, are read again, by a
 * thread.
 */
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/plan_outs.h"
#include "graph/proof_impl.h"

enum {
    LOOKED_AT_ONCE = 64,       /* files that are checked on the loop's thread */
    LOOK_LONG_NS = 50000000,   /* a check that took longer is repeated only after a pause */
    LOOK_PAUSES = 10,          /* the length of the pause, in times that the check took */
    INPUT_READ_BYTES = 1 << 20 /* of a file that a map reads, at most */
};

/* An output of a needed job that may have changed since. */
struct need_out {
    uint32_t job, out;
    char *path;
    struct file_mark before, now;
    enum mark_change change;
    uint64_t took_ns;
};

/* The thread uses this and plans, and not the graph's jobs: their array may grow meanwhile. */
struct preparation {
    const struct plan_job *plan;
    const char *cwd; /* where muster was started */
    const atomic_bool *is_given_up;
    struct background background;
    struct need_out *outs;
    size_t n_outs, cap;
    /* Of a job that is a muster: its definition, the jobs that it needs, and its inputs. */
    uint64_t work_digest;
};

uint64_t preparation_work_digest(const struct preparation *preparation)
{
    return preparation->work_digest;
}

void preparation_free(struct preparation *preparation)
{
    if (!preparation)
        return;
    for (size_t i = 0; i < preparation->n_outs; i++)
        free(preparation->outs[i].path);
    free(preparation->outs);
    free(preparation);
}

/* ---- what it reads ---- */

static bool reads_inputs(const struct plan_job *plan)
{
    return plan->kind == PLAN_MAP && plan->inputs && plan->inputs[0];
}

/* The digest of the job's definition and of the jobs that it needs. */
static uint64_t digest_begin(const struct graph *graph, const struct graph_job *job)
{
    cleanup_free char *definition = definition_new(graph, job->plan);
    return XXH3_64bits_withSeed(definition, strlen(definition), job->needs_digest);
}

/*
 * Of the content of a small file, so that a copy has the same digest; of a large one's size and
 * time.
 */
static uint64_t input_digest(const char *path, const atomic_bool *is_given_up, uint64_t seed)
{
    struct file_mark mark = {0}, whole = {0};
    int rc = mark_take(path, false, is_given_up, &mark, NULL);
    bool is_small = rc == 0 && mark.n_bytes <= INPUT_READ_BYTES;
    bool is_read = is_small && mark_take(path, true, is_given_up, &whole, NULL) == 0;
    const uint64_t facts[] = {mark.n_bytes, is_read ? whole.hash : (uint64_t)mark.mtime_ns};
    return XXH3_64bits_withSeed(facts, sizeof(facts), seed);
}

/* Leaves out the inputs that the job itself writes, such as a checkpoint with which it continues. */
static void inputs_take(struct preparation *preparation)
{
    const struct plan_job *plan = preparation->plan;
    for (size_t i = 0; reads_inputs(plan) && plan->inputs[i]; i++) {
        cleanup_free char *path =
            path_join(plan->cwd ? plan->cwd : preparation->cwd, plan->inputs[i]);
        if (!plan_job_goes_on(plan, plan->inputs[i], preparation->cwd))
            preparation->work_digest =
                input_digest(path, preparation->is_given_up, preparation->work_digest);
    }
}

/* ---- what it needs ---- */

static void out_keep(struct preparation *preparation, const struct need_out *out)
{
    if (preparation->n_outs == preparation->cap) {
        preparation->cap = MAX(2 * preparation->cap, (size_t)16);
        preparation->outs =
            xrealloc(preparation->outs, preparation->cap * sizeof(*preparation->outs));
    }
    preparation->outs[preparation->n_outs++] = *out;
}

/* Keeps the outputs whose inodes do not show that they are unchanged. */
static void needs_look(const struct process *process, struct preparation *preparation)
{
    const struct graph *graph = process->graph;
    const struct plan_job *plan = preparation->plan;
    size_t n_looks = 0;
    for (uint32_t i = 0; i < plan->n_needs; i++) {
        const struct graph_job *need = &graph->jobs[plan->needs[i]];
        bool is_due = need->spoilt || shell_last_now(graph->shell) >= need->looked_until_ms;
        for (uint32_t out = 0; is_due && need->left && out < need->plan->n_outs; out++) {
            struct need_out found = {plan->needs[i], out, job_out_path_new(graph, need->plan, out),
                                     .before = need->left[out]};
            bool is_quick = n_looks++ < LOOKED_AT_ONCE && !need->spoilt;
            if (is_quick && mark_is_untouched(&found.before, found.path))
                free(found.path);
            else
                out_keep(preparation, &found);
        }
    }
}

static void needs_compare(struct preparation *preparation)
{
    for (size_t i = 0; i < preparation->n_outs; i++) {
        struct need_out *out = &preparation->outs[i];
        uint64_t begin_ns = clock_now_ns();
        out->change = mark_compare(&out->before, out->path, preparation->is_given_up, &out->now);
        out->took_ns = clock_now_ns() - begin_ns;
    }
}

/* Sets the pauses. Without them each of many jobs would read the same large folder again. */
static void looks_note(struct graph *graph, const struct preparation *preparation)
{
    uint64_t took_ns = 0; /* for all outputs of one job, which are neighbours in the array */
    for (size_t i = 0; i < preparation->n_outs; i++) {
        const struct need_out *out = &preparation->outs[i];
        took_ns = out->took_ns + (i > 0 && out[-1].job == out->job ? took_ns : 0);
        if (took_ns >= LOOK_LONG_NS)
            graph->jobs[out->job].looked_until_ms =
                shell_last_now(graph->shell) + LOOK_PAUSES * took_ns / 1000000;
    }
}

/* If the file cannot be read now, its job stays as it was: spoilt or not. */
static bool is_spoilt(const struct graph *graph, const struct need_out *out)
{
    return out->change == MARK_CHANGED ||
           (out->change == MARK_UNKNOWN && graph->jobs[out->job].spoilt);
}

/*
 * The first changed file; NULL: none. A file that is gone is not a changed one: jobs may remove
 * what is not needed any more.
 */
static const struct need_out *needs_judge(struct graph *graph,
                                          const struct preparation *preparation)
{
    const struct need_out *first = NULL;
    for (size_t i = 0; i < preparation->n_outs; i++) {
        const struct need_out *out = &preparation->outs[i];
        if (out->change == MARK_SAME) /* with its present times it need not be read again */
            graph->jobs[out->job].left[out->out] = out->now;
        if (!is_spoilt(graph, out))
            continue;
        spoilt_note(graph, out->job, out->path);
        first = first ? first : out;
    }
    for (size_t i = 0; i < preparation->n_outs && !first; i++)
        if (graph->jobs[preparation->outs[i].job].spoilt)
            spoilt_forget(graph, preparation->outs[i].job);
    return first;
}

/* ---- */

static void refused(struct process *process, const struct need_out *spoilt)
{
    char text[END_TEXT_BYTES];
    const char *name = process->graph->jobs[spoilt->job].plan->name;
    snprintf(text, sizeof(text),
             "it was not started: %.200s, which %.100s left, was changed after that had ended",
             spoilt->path, name);
    preparation_free(steal_ptr(&process->preparation));
    process_judge(process, DEND_FATAL, text);
}

static void on_prepared(struct process *process)
{
    shell_now(process->graph->shell);
    if (process->was_ended || dag_view(process->graph->dag).is_stopped) {
        preparation_free(steal_ptr(&process->preparation));
        process_judge(process, DEND_ENDED, "it was ended before it began");
        return;
    }
    looks_note(process->graph, process->preparation);
    const struct need_out *spoilt = needs_judge(process->graph, process->preparation);
    if (spoilt)
        refused(process, spoilt);
    else
        process_launch(process);
}

static void on_closed(uv_handle_t *handle)
{
    on_prepared(handle->data);
}

static void on_work_done(void *context)
{
    struct process *process = context;
    background_close(&process->preparation->background, on_closed);
}

static void work(void *context)
{
    struct preparation *preparation = ((struct process *)context)->preparation;
    needs_compare(preparation);
    inputs_take(preparation);
}

void process_prepare(struct process *process)
{
    struct graph *graph = process->graph;
    struct preparation *preparation = xcalloc(1, sizeof(*preparation));
    const struct graph_job *job = process_job(process);
    *preparation = (struct preparation){
        .plan = job->plan, .cwd = graph->cwd, .is_given_up = &process->proving.is_given_up};
    process->preparation = preparation;
    if (job->plan->kind != PLAN_RUN)
        preparation->work_digest = digest_begin(graph, job);
    needs_look(process, preparation);
    if (preparation->n_outs == 0 && !reads_inputs(job->plan)) {
        process_launch(process);
        return;
    }
    background_open(&preparation->background, shell_uv_loop(graph->shell), process);
    background_start(&preparation->background, work, on_work_done);
}
