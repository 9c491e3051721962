/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of operations. A caller that waits for its operation does it itself, if no other one is
 * under way, so that a small operation needs no change of threads. Started operations are done by a
 * thread, which is made when it is first needed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

static const char *const op_names[] = {"sum", "mean", "min", "max"};
static const char *const collective_names[] = {"barrier", "all-reduce", "broadcast",
                                               "reduce-scatter", "all-gather"};

const char *md_collective_name(enum muster_collective kind)
{
    return (unsigned)kind <= MUSTER_ALL_GATHER ? collective_names[kind] : "unknown operation";
}

void md_call_format(const struct md_call *call, char *out, size_t cap)
{
    const struct muster_dist_call *what = &call->what;
    bool reduces = what->kind == MUSTER_ALL_REDUCE || what->kind == MUSTER_REDUCE_SCATTER;
    const char *where = call->memory == MD_HOST ? "" : ", in device memory";
    int len = snprintf(out, cap, "%s%s #%llu", call->memory == MD_DEVICE_END ? "the end of " : "",
                       md_collective_name(what->kind), (unsigned long long)call->seq);
    if (what->kind == MUSTER_BARRIER || len < 0 || (size_t)len >= cap)
        return;
    out += len;
    cap -= (size_t)len;
    if (reduces)
        snprintf(out, cap, " (%s %s, %zu values%s)", muster_type_name(what->type),
                 (unsigned)what->op <= MUSTER_MAX ? op_names[what->op] : "?", what->count, where);
    else if (what->kind == MUSTER_BROADCAST)
        snprintf(out, cap, " (%s, %zu values%s, from rank %u)", muster_type_name(what->type),
                 what->count, where, what->root);
    else
        snprintf(out, cap, " (%s, %zu values%s)", muster_type_name(what->type), what->count, where);
}

size_t md_in_bytes(const struct muster_dist *dist, const struct muster_dist_call *call)
{
    size_t bytes = call->count * muster_type_bytes(call->type);
    return call->kind == MUSTER_REDUCE_SCATTER ? bytes * dist->place.size : bytes;
}

size_t md_out_bytes(const struct muster_dist *dist, const struct muster_dist_call *call)
{
    size_t bytes = call->count * muster_type_bytes(call->type);
    return call->kind == MUSTER_ALL_GATHER ? bytes * dist->place.size : bytes;
}

/*
 * Returns this rank's part of `whole`: an all-gather puts the rank's values there in `out`, and a
 * reduce-scatter takes them from there in `in`.
 */
static uintptr_t own_part(const struct muster_dist *dist, const struct muster_dist_call *what,
                          const void *whole)
{
    size_t bytes = what->count * muster_type_bytes(what->type);
    return (uintptr_t)whole + dist->place.rank * bytes;
}

bool md_scatters_to_beginning(const struct muster_dist *dist, const struct muster_dist_call *what)
{
    return what->kind == MUSTER_REDUCE_SCATTER && what->in == what->out &&
           own_part(dist, what, what->in) != (uintptr_t)what->out;
}

/*
 * Returns why in and out may not overlap as they do: values would be overwritten before they are
 * read. NULL: they may.
 */
static const char *overlap_tell(const struct muster_dist *dist, const struct muster_dist_call *what)
{
    uintptr_t in = (uintptr_t)what->in, out = (uintptr_t)what->out;
    if (in >= out + md_out_bytes(dist, what) || out >= in + md_in_bytes(dist, what))
        return NULL;
    if (what->kind == MUSTER_ALL_GATHER)
        return in == own_part(dist, what, what->out)
                   ? NULL
                   : "in overlaps out, and is not this rank's part of it";
    if (what->kind == MUSTER_REDUCE_SCATTER)
        return out == in || out == own_part(dist, what, what->in)
                   ? NULL
                   : "out overlaps in, and is neither the beginning nor this rank's part of it";
    return in == out ? NULL : "in and out overlap, and are not the same";
}

/*
 * Checks a call for all backends. A rank that fails here ends the others, which would wait for it.
 */
static int call_check(struct muster_dist *dist, const struct muster_dist_call *what)
{
    const char *why = NULL;
    size_t width = muster_type_bytes(what->type);
    if ((unsigned)what->kind > MUSTER_ALL_GATHER)
        why = "there is no such operation";
    else if (width == 0 || (unsigned)what->op > MUSTER_MAX)
        why = "there is no such type, or no such reduction";
    else if (what->count > (SIZE_MAX >> 1) / width / dist->place.size)
        why = "more values than memory can have";
    else if (what->kind == MUSTER_BROADCAST && what->root >= dist->place.size)
        why = "there is no such root";
    else if (what->kind != MUSTER_BARRIER && what->count > 0 && !what->out)
        why = "NULL for values";
    else if (what->count > 0 && what->in)
        why = overlap_tell(dist, what);
    if (!why)
        return 0;
    return md_fail(dist, MUSTER_DIST_EUSE, "rank %u: %s: %s", dist->place.rank,
                   md_collective_name(what->kind), why);
}

/* Does the operation; after an error it does nothing. */
static int call_work(struct muster_dist *dist, struct md_call *call)
{
    const struct md_around *around = call->around;
    int rc = atomic_load(&dist->code);
    if (rc == 0 && around && around->before)
        rc = around->before(around->arg, &call->weights);
    if (rc == 0)
        rc = call->memory == MD_HOST ? dist->backend->run(dist, call) : md_device_run(dist, call);
    if (rc == 0 && around)
        around->after(around->arg);
    return rc;
}

/* Called with the lock, which is released while the backend works. */
static int call_run(struct muster_dist *dist, struct md_call *call)
{
    dist->is_busy = true;
    pthread_mutex_unlock(&dist->lock);
    int rc = call_work(dist, call);
    if (call->ready)
        md_device_forget(dist, call->ready);
    pthread_mutex_lock(&dist->lock);
    dist->is_busy = false;
    dist->n_done = call->seq;
    return rc;
}

/*
 * The thread's function. After an error, operations end at once, without effect. Each end wakes all
 * waiting callers, because they wait for different operations.
 */
static void *calls_work(void *arg)
{
    struct muster_dist *dist = arg;
    pthread_mutex_lock(&dist->lock);
    for (;;) {
        if (dist->n_done < dist->n_issued && !dist->is_busy) {
            struct md_call call = dist->calls[(dist->n_done + 1) % MD_CALLS_MAX];
            uint64_t begin_ns = md_now_ns();
            call_run(dist, &call);
            dist->times[call.seq % MD_CALLS_MAX] = (struct md_times){begin_ns, md_now_ns()};
            pthread_cond_broadcast(&dist->changed);
        } else if (dist->is_closing) {
            break;
        } else {
            pthread_cond_wait(&dist->changed, &dist->lock);
        }
    }
    pthread_mutex_unlock(&dist->lock);
    return NULL;
}

/* The thread blocks all signals, which are meant for the program's own. */
static int thread_begin(struct muster_dist *dist)
{
    sigset_t all, before;
    if (dist->has_thread)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    dist->has_thread = pthread_create(&dist->thread, NULL, calls_work, dist) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (dist->has_thread)
        return 0;
    return md_fail(dist, MUSTER_DIST_EIO, "rank %u: no thread can be made", dist->place.rank);
}

/* Called with the lock. */
static void wait_until_done(struct muster_dist *dist, uint64_t seq)
{
    while (dist->n_done < seq)
        pthread_cond_wait(&dist->changed, &dist->lock);
}

/* Queues the call, and gives it its number. Called with the lock. */
static int call_queue(struct muster_dist *dist, struct md_call *call)
{
    int rc = thread_begin(dist);
    if (rc != 0)
        return rc;
    while (dist->n_issued - dist->n_done >= MD_CALLS_MAX)
        pthread_cond_wait(&dist->changed, &dist->lock);
    call->seq = ++dist->n_issued;
    dist->calls[call->seq % MD_CALLS_MAX] = *call;
    pthread_cond_broadcast(&dist->changed);
    return 0;
}

/*
 * Copies the call without the members that its kind does not have: those may hold anything, and
 * differ between ranks.
 */
static struct md_call call_of(const struct muster_dist_call *what)
{
    struct md_call call = {.what = *what};
    bool reduces = what->kind == MUSTER_ALL_REDUCE || what->kind == MUSTER_REDUCE_SCATTER;
    if (what->kind == MUSTER_BARRIER)
        call.what = (struct muster_dist_call){.kind = MUSTER_BARRIER};
    if (!reduces)
        call.what.op = MUSTER_SUM;
    if (what->kind != MUSTER_BROADCAST)
        call.what.root = 0;
    return call;
}

static int call_prepare(struct muster_dist *dist, struct md_call *call)
{
    struct muster_dist_call *what = &call->what;
    int rc = md_check(dist);
    rc = rc ? rc : call_check(dist, what);
    if (rc != 0)
        return rc;
    if (!what->in)
        what->in = what->kind == MUSTER_ALL_GATHER && what->count > 0
                       ? (const void *)own_part(dist, what, what->out)
                       : what->out;
    return dist->device ? md_device_place(dist, call) : 0;
}

static int call_do(struct muster_dist *dist, const struct muster_dist_call *what)
{
    struct md_call call = call_of(what);
    int rc = call_prepare(dist, &call);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&dist->lock);
    if (dist->n_done == dist->n_issued) {
        call.seq = ++dist->n_issued;
        rc = call_run(dist, &call);
        if (dist->has_thread)
            pthread_cond_broadcast(&dist->changed);
    } else {
        rc = call_queue(dist, &call);
        if (rc == 0)
            wait_until_done(dist, call.seq);
    }
    pthread_mutex_unlock(&dist->lock);
    return rc ? rc : atomic_load(&dist->code);
}

int md_start(struct muster_dist *dist, const struct muster_dist_call *what, const double *weights,
             const struct md_around *around, uint64_t *ticket)
{
    struct md_call call = call_of(what);
    call.weights = weights;
    call.around = around;
    int rc = call_prepare(dist, &call);
    *ticket = 0;
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&dist->lock);
    rc = call_queue(dist, &call);
    *ticket = call.seq;
    pthread_mutex_unlock(&dist->lock);
    return rc;
}

int muster_dist_start(struct muster_dist *dist, const struct muster_dist_call *what,
                      uint64_t *ticket)
{
    uint64_t unasked;
    int rc = what ? 0 : md_check(dist);
    if (!what)
        return rc ? rc
                  : md_fail(dist, MUSTER_DIST_EUSE, "rank %u: muster_dist_start of no operation",
                            dist->place.rank);
    return md_start(dist, what, NULL, NULL, ticket ? ticket : &unasked);
}

/* Nothing would end a wait for an operation that was not issued. Called with the lock. */
static int ticket_check(struct muster_dist *dist, uint64_t ticket)
{
    if (ticket <= dist->n_issued)
        return 0;
    return md_fail(dist, MUSTER_DIST_EUSE, "rank %u: a ticket that was not given",
                   dist->place.rank);
}

int muster_dist_wait(struct muster_dist *dist, uint64_t ticket)
{
    int rc = md_check(dist);
    if (rc != 0 && (!dist || !md_is_ours(dist)))
        return rc;
    /* Waits after an error, too: the thread may still use the caller's memory. */
    pthread_mutex_lock(&dist->lock);
    if (ticket_check(dist, ticket) == 0)
        wait_until_done(dist, ticket);
    pthread_mutex_unlock(&dist->lock);
    return atomic_load(&dist->code);
}

int muster_dist_test(struct muster_dist *dist, uint64_t ticket)
{
    int rc = md_check(dist);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&dist->lock);
    bool is_done = dist->n_done >= ticket;
    (void)ticket_check(dist, ticket);
    pthread_mutex_unlock(&dist->lock);
    rc = atomic_load(&dist->code);
    return rc ? rc : is_done;
}

struct md_times md_call_times(struct muster_dist *dist, uint64_t ticket)
{
    struct md_times times = {0};
    pthread_mutex_lock(&dist->lock);
    if (ticket <= dist->n_done && dist->n_issued - ticket < MD_CALLS_MAX)
        times = dist->times[ticket % MD_CALLS_MAX];
    pthread_mutex_unlock(&dist->lock);
    return times;
}

/* ---- the operations that wait ---- */

int muster_dist_barrier(struct muster_dist *dist)
{
    return call_do(dist, &(struct muster_dist_call){.kind = MUSTER_BARRIER});
}

int muster_dist_all_reduce(struct muster_dist *dist, void *data, size_t count,
                           enum muster_type type, enum muster_op op)
{
    return call_do(dist,
                   &(struct muster_dist_call){MUSTER_ALL_REDUCE, type, op, 0, data, data, count});
}

int muster_dist_broadcast(struct muster_dist *dist, void *data, size_t count, enum muster_type type,
                          uint32_t root)
{
    return call_do(dist,
                   &(struct muster_dist_call){MUSTER_BROADCAST, type, 0, root, data, data, count});
}

int muster_dist_reduce_scatter(struct muster_dist *dist, const void *in, void *out, size_t count,
                               enum muster_type type, enum muster_op op)
{
    return call_do(dist,
                   &(struct muster_dist_call){MUSTER_REDUCE_SCATTER, type, op, 0, in, out, count});
}

int muster_dist_all_gather(struct muster_dist *dist, const void *in, void *out, size_t count,
                           enum muster_type type)
{
    return call_do(dist, &(struct muster_dist_call){MUSTER_ALL_GATHER, type, 0, 0, in, out, count});
}

/* ---- begin and end ---- */

bool md_calls_init(struct muster_dist *dist)
{
    dist->calls = calloc(MD_CALLS_MAX, sizeof(*dist->calls));
    dist->times = calloc(MD_CALLS_MAX, sizeof(*dist->times));
    if (!dist->calls || !dist->times) {
        free(dist->calls);
        free(dist->times);
        return false;
    }
    pthread_mutex_init(&dist->lock, NULL);
    pthread_cond_init(&dist->changed, NULL);
    return true;
}

void md_calls_end(struct muster_dist *dist)
{
    pthread_mutex_lock(&dist->lock);
    dist->is_closing = true;
    pthread_cond_broadcast(&dist->changed);
    pthread_mutex_unlock(&dist->lock);
    if (dist->has_thread)
        pthread_join(dist->thread, NULL);
}

void md_calls_release(struct muster_dist *dist)
{
    pthread_cond_destroy(&dist->changed);
    pthread_mutex_destroy(&dist->lock);
    pthread_mutex_destroy(&dist->fail_lock);
}
