/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker: credits out, items in, results out. Messages wait in the channel's buffer until the
 * worker is about to wait, until the buffer is large, or until they have waited for a millisecond
 * or two, so that trivial items do not cost a system call each, and slow items are reported at
 * once.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "message.h"

enum {
    WINDOW_MAX = 1024,        /* the most items fetched ahead, when they take almost no time */
    CONCURRENCY_MAX = 100000, /* the most credits that muster accepts */
    LINGER_MS = 10,           /* how long a batch waits for its next item */
    ROUND_TRIP_MAX_MS = 10000
};
static const uint64_t window_base_ns =
    10000000; /* how much work is fetched ahead if items are fast */
static const uint64_t ahead_base_ns = 50000000; /* an item is fetched ahead if items take less */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

int mw_keep_error(struct muster_worker *worker, int code)
{
    if (code < 0 && worker->code == 0)
        worker->code = code;
    return code;
}

int mw_fail(struct muster_worker *worker, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(worker->error, sizeof(worker->error), fmt, args);
    va_end(args);
    return mw_keep_error(worker, code);
}

int mw_out_of_memory(struct muster_worker *worker)
{
    return mw_fail(worker, MUSTER_WORKER_ENOMEM, "no memory for a message of the channel");
}

int mw_flush(struct muster_worker *worker)
{
    return mw_keep_error(worker,
                         mw_channel_flush(&worker->channel, worker->error, sizeof(worker->error)));
}

static int grant(struct muster_worker *worker, size_t credits)
{
    if (worker->channel.by_hand || worker->has_stopped)
        return 0;
    worker->pending += credits;
    struct mw_buf *out = &worker->channel.out;
    bool ok = mw_buf_add_text(out, "{\"ready\":") && mw_buf_add_u64(out, credits) &&
              mw_buf_add_text(out, "}\n");
    return ok ? 0 : mw_out_of_memory(worker);
}

/*
 * Four times the round trip to muster on another host: new credits are asked for when half of the
 * window is used, and while items wait for the network, the recent speed is measured too low.
 */
static uint64_t way_ns(void)
{
    const char *text = getenv("MUSTER_ROUND_TRIP_MS");
    unsigned long round_trip_ms = text ? strtoul(text, NULL, 10) : 0;
    return 4000000u * (uint64_t)smaller(round_trip_ms, ROUND_TRIP_MAX_MS);
}

/*
 * Sets the window to the items that fit into 10 ms and way_ns() at the recent speed, and at most
 * doubles it. A fast worker does not wait for muster at every item; a medium worker has the next
 * item ready when it asks; a slow worker has no waiting item that another device could do.
 */
static void adapt_window(struct muster_worker *worker)
{
    uint64_t now_ns = mw_now_ns(), spent_ns = now_ns - worker->granted_ns;
    uint64_t window_ns = window_base_ns + way_ns(), ahead_ns = ahead_base_ns + way_ns();
    size_t target =
        spent_ns == 0 ? WINDOW_MAX : (size_t)(worker->n_since_grant * window_ns / spent_ns);
    size_t least = spent_ns < worker->n_since_grant * ahead_ns ? 2 : 1;
    target = target < least ? least : target;
    worker->window = smaller(smaller(target, worker->window * 2), WINDOW_MAX);
    worker->granted_ns = now_ns;
    worker->n_since_grant = 0;
}

int mw_top_up(struct muster_worker *worker, size_t items_max)
{
    bool is_batch = items_max > 1;
    size_t window = is_batch ? items_max : worker->concurrency;
    size_t owed = worker->pending + worker->held;
    if (window == 0) {
        if (owed > worker->window / 2)
            return 0;
        adapt_window(worker);
        window = worker->window;
    }
    window = worker->limit > 0 ? smaller(window, worker->limit) : window;
    /* While credits are outstanding, a few more can wait until they make a block. */
    bool can_wait = !is_batch && worker->pending > 0 && owed > window / 2;
    if (owed >= window || can_wait)
        return 0;
    int rc = grant(worker, window - owed);
    /*
     * From another host a credit travels as long as items take, so it is sent now, not with the
     * next result.
     */
    return rc == 0 && way_ns() > 0 ? mw_flush(worker) : rc;
}

struct muster_worker *muster_worker_open(const struct muster_worker_opts *opts)
{
    struct muster_worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return NULL;
    pthread_mutex_init(&worker->lock, NULL);
    mw_late_init(worker);
    worker->window = 1;
    worker->concurrency = opts ? smaller(opts->concurrency, CONCURRENCY_MAX) : 0;
    worker->granted_ns = mw_now_ns();
    int rc = mw_channel_open(&worker->channel, worker->error, sizeof(worker->error));
    if (mw_keep_error(worker, rc) == 0 && grant(worker, 0) == 0)
        mw_flush(worker);
    return worker;
}

int muster_worker_close(struct muster_worker *worker)
{
    if (!worker)
        return MUSTER_WORKER_ENOMEM;
    mw_late_end(worker);
    if (worker->code == 0)
        mw_flush(worker);
    int code = worker->code;
    mw_channel_close(&worker->channel);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
    return code;
}

const char *muster_worker_error(const struct muster_worker *worker)
{
    if (!worker)
        return "no memory for a worker";
    return worker->code == 0 ? "" : worker->error;
}

/* Takes received lines, up to the first item. Returns 1 with an item, 0 if more must be read. */
static int take_item(struct muster_worker *worker, struct muster_item *item)
{
    struct muster_text line;
    struct mw_message message;
    while (mw_channel_line(&worker->channel, &line)) {
        if (!mw_message_read(line, &message))
            return mw_fail(worker, MUSTER_WORKER_EPROTO, "not a message of the channel: %.*s",
                           (int)smaller(line.len, 120), line.at);
        if (message.is_item) {
            *item = message.item;
            return 1;
        }
        if (message.batch > 0)
            worker->limit = message.batch;
        if (message.is_stop)
            worker->has_stopped = true;
    }
    return 0;
}

/* Moves the items' views along with the buffer that they point into. */
static void rebase(struct muster_item *items, size_t n_items, uintptr_t from, const char *to)
{
    for (size_t i = 0; i < n_items; i++)
        items[i].data.at = to + ((uintptr_t)items[i].data.at - from);
}

/*
 * Reads more messages; the lock is released while waiting. The output buffer is written first,
 * because muster may be waiting for a message that is in it.
 */
static int read_more(struct muster_worker *worker, struct muster_item *items, size_t n_items)
{
    struct mw_channel *channel = &worker->channel;
    char error[sizeof(worker->error)];
    uintptr_t base = (uintptr_t)channel->in.at;
    int rc = mw_flush(worker);
    if (rc < 0)
        return rc;
    worker->is_waiting = true;
    pthread_mutex_unlock(&worker->lock);
    bool in_vain = n_items > 0 && !mw_channel_is_midline(channel);
    rc = mw_channel_fill(channel, in_vain ? LINGER_MS : -1, error, sizeof(error));
    pthread_mutex_lock(&worker->lock);
    worker->is_waiting = false;
    rebase(items, n_items, base, channel->in.at);
    return rc < 0 ? mw_fail(worker, rc, "%s", error) : rc;
}

/* True if no further item can come: as many are here as were asked for, or as muster allows. */
static bool is_full(const struct muster_worker *worker, size_t n_items, size_t items_max)
{
    if (n_items >= items_max || (n_items > 0 && worker->limit > 0 && n_items >= worker->limit))
        return true;
    return n_items > 0 && !worker->channel.by_hand && n_items >= worker->pending;
}

static int collect(struct muster_worker *worker, struct muster_item *items, size_t items_max)
{
    size_t n_items = 0;
    mw_channel_reclaim(&worker->channel);
    while (!worker->has_stopped && !is_full(worker, n_items, items_max)) {
        int rc = take_item(worker, &items[n_items]);
        if (rc == 0 && !worker->has_stopped) {
            if (worker->channel.has_ended && mw_channel_is_midline(&worker->channel))
                return mw_fail(worker, MUSTER_WORKER_EPROTO, "the channel ended within a message");
            worker->has_stopped = worker->channel.has_ended;
            rc = worker->has_stopped ? 0 : read_more(worker, items, n_items);
            if (rc == 0)
                break;
            rc = rc < 0 ? rc : 0;
        }
        if (rc < 0)
            return rc;
        n_items += (size_t)rc;
    }
    worker->pending -= smaller(worker->pending, n_items);
    worker->held += n_items;
    worker->n_since_grant += n_items;
    if (n_items > 0)
        worker->last_index = items[n_items - 1].index;
    return n_items > 0 ? (int)n_items : mw_flush(worker);
}

int muster_worker_batch(struct muster_worker *worker, struct muster_item *items, size_t items_max)
{
    if (!worker)
        return MUSTER_WORKER_ENOMEM;
    if (items_max == 0)
        return 0;
    items_max = smaller(items_max, CONCURRENCY_MAX);
    pthread_mutex_lock(&worker->lock);
    int rc = worker->code;
    if (rc == 0 && worker->held > 0 && (items_max > 1 || worker->concurrency == 0))
        rc = mw_fail(worker, MUSTER_WORKER_EUSE,
                     "%zu of the items up to %" PRIu64
                     " were neither done nor failed before the next was asked for",
                     worker->held, worker->last_index);
    if (rc == 0)
        rc = mw_top_up(worker, items_max);
    if (rc == 0)
        rc = collect(worker, items, items_max);
    pthread_mutex_unlock(&worker->lock);
    return rc;
}

int muster_worker_next(struct muster_worker *worker, struct muster_item *item)
{
    return muster_worker_batch(worker, item, 1);
}

size_t muster_worker_limit(struct muster_worker *worker)
{
    if (!worker)
        return 0;
    pthread_mutex_lock(&worker->lock);
    size_t limit = worker->limit;
    pthread_mutex_unlock(&worker->lock);
    return limit;
}
