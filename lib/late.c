/* SPDX-License-Identifier: Apache-2.0
 *
 * Results wait in the buffer, so that several are written at once, but they must not wait while the
 * worker is busy with a long item: muster would take their items for unfinished, blame them if the
 * worker hangs, and have them done again if it dies. A thread writes results that have waited for
 * two milliseconds. The thread is made when a result waits for the first time; a worker whose items
 * take longer than flush_ns (report.c) never needs it.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "inside.h"

static const uint64_t held_ns = 2000000;

static struct timespec in_held_ns(void)
{
    uint64_t at_ns = mw_now_ns() + held_ns;
    return (struct timespec){(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)};
}

static void *write_late(void *arg)
{
    struct muster_worker *worker = arg;
    pthread_mutex_lock(&worker->lock);
    while (!worker->is_closing) {
        worker->late_is_idle = worker->channel.out.len == 0 || worker->code != 0;
        if (worker->late_is_idle) {
            pthread_cond_wait(&worker->late_wake, &worker->lock);
            continue;
        }
        struct timespec due = in_held_ns();
        pthread_cond_timedwait(&worker->late_wake, &worker->lock, &due);
        bool is_held = worker->code == 0 && worker->channel.out.len > 0;
        if (is_held && mw_now_ns() - worker->channel.flushed_ns >= held_ns)
            mw_flush(worker);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

void mw_late_init(struct muster_worker *worker)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->late_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* The new thread blocks all signals, which are meant for the worker's own threads. */
static bool thread_begin(struct muster_worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&worker->late, NULL, write_late, worker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

bool mw_late_expect(struct muster_worker *worker)
{
    if (worker->late_of == 0 && thread_begin(worker))
        worker->late_of = getpid();
    if (worker->late_is_idle)
        pthread_cond_signal(&worker->late_wake);
    return worker->late_of != 0;
}

void mw_late_end(struct muster_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->is_closing = true;
    pthread_cond_signal(&worker->late_wake);
    pthread_mutex_unlock(&worker->lock);
    if (worker->late_of == getpid())
        pthread_join(worker->late, NULL);
    pthread_cond_destroy(&worker->late_wake);
}
