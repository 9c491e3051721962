/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inside.h"

enum {
    FLUSH_BYTES = 32 << 10
};
static const uint64_t flush_ns = 1000000;

/* Called after every message: writes the buffer now, or lets it wait for further messages. */
static int flush_if_due(struct muster_worker *worker)
{
    const struct mw_channel *channel = &worker->channel;
    bool can_wait = channel->out.len < FLUSH_BYTES && !worker->is_waiting &&
                    mw_now_ns() - channel->flushed_ns < flush_ns;
    return can_wait && mw_late_expect(worker) ? 0 : mw_flush(worker);
}

/*
 * Counts the item as reported: one fewer is in hand, and if a thread waits in next, new credits may
 * be sent.
 */
static int finish(struct muster_worker *worker, uint64_t index, bool ok)
{
    if (!ok)
        return mw_out_of_memory(worker);
    if (worker->held == 0)
        return mw_fail(worker, MUSTER_WORKER_EUSE,
                       "item %" PRIu64 " was finished, and none was in hand", index);
    worker->held--;
    int rc = worker->is_waiting && worker->concurrency > 0 ? mw_top_up(worker, 1) : 0;
    return rc == 0 ? flush_if_due(worker) : rc;
}

/* Puts a result on one line: in valid JSON, each newline can be replaced by a space. */
static bool add_result(struct mw_buf *out, struct muster_text json)
{
    size_t begin = out->len;
    if (!mw_buf_add(out, json.at, json.len))
        return false;
    for (char *at = out->at + begin;
         (at = memchr(at, '\n', out->len - (size_t)(at - out->at))) != NULL;)
        *at = ' ';
    return true;
}

static bool add_metrics(struct mw_buf *out, const struct muster_metric *metrics, size_t n_metrics)
{
    bool ok = mw_buf_add_text(out, ",\"metrics\":{");
    for (size_t i = 0; ok && i < n_metrics; i++) {
        char number[32];
        snprintf(number, sizeof(number), ":%.17g", metrics[i].value);
        struct muster_text name = {metrics[i].name, strlen(metrics[i].name)};
        ok = (i == 0 || mw_buf_add(out, ",", 1)) && mw_buf_add_json(out, name) &&
             mw_buf_add_text(out, number);
    }
    return ok && mw_buf_add(out, "}", 1);
}

static bool add_done(struct mw_channel *channel, uint64_t index, struct muster_text json,
                     bool is_text, const struct muster_metric *metrics, size_t n_metrics)
{
    struct mw_buf *out = &channel->out;
    bool envelope = !channel->by_hand;
    bool ok = !envelope || (mw_buf_add_text(out, "{\"done\":") && mw_buf_add_u64(out, index) &&
                            mw_buf_add_text(out, ",\"result\":"));
    ok = ok && (is_text ? mw_buf_add_json(out, json) : add_result(out, json));
    if (envelope)
        ok = ok && (n_metrics == 0 || add_metrics(out, metrics, n_metrics)) &&
             mw_buf_add(out, "}", 1);
    return ok && mw_buf_add(out, "\n", 1);
}

static int check_done(struct muster_worker *worker, uint64_t index, struct muster_text json,
                      const struct muster_metric *metrics, size_t n_metrics)
{
    if (!mw_json_is_value(json))
        return mw_fail(worker, MUSTER_WORKER_EUSE,
                       "the result of item %" PRIu64 " is not JSON: %.*s", index,
                       json.len < 120 ? (int)json.len : 120, json.at);
    for (size_t i = 0; i < n_metrics; i++)
        if (!__builtin_isfinite(metrics[i].value))
            return mw_fail(worker, MUSTER_WORKER_EUSE,
                           "item %" PRIu64 ": the metric '%s' is not finite", index,
                           metrics[i].name);
    return worker->code;
}

int muster_item_done_metrics(struct muster_worker *worker, const struct muster_item *item,
                             struct muster_text result_json, const struct muster_metric *metrics,
                             size_t n_metrics)
{
    if (!worker)
        return MUSTER_WORKER_ENOMEM;
    pthread_mutex_lock(&worker->lock);
    int rc = worker->code;
    if (rc == 0)
        rc = check_done(worker, item->index, result_json, metrics, n_metrics);
    if (rc == 0)
        rc =
            finish(worker, item->index,
                   add_done(&worker->channel, item->index, result_json, false, metrics, n_metrics));
    pthread_mutex_unlock(&worker->lock);
    return rc;
}

int muster_item_done(struct muster_worker *worker, const struct muster_item *item,
                     struct muster_text result_json)
{
    return muster_item_done_metrics(worker, item, result_json, NULL, 0);
}

int muster_item_done_text(struct muster_worker *worker, const struct muster_item *item,
                          struct muster_text text)
{
    if (!worker)
        return MUSTER_WORKER_ENOMEM;
    pthread_mutex_lock(&worker->lock);
    int rc = worker->code;
    if (rc == 0)
        rc = finish(worker, item->index,
                    add_done(&worker->channel, item->index, text, true, NULL, 0));
    pthread_mutex_unlock(&worker->lock);
    return rc;
}

int muster_item_fail(struct muster_worker *worker, const struct muster_item *item,
                     const char *error, bool retry)
{
    if (!worker)
        return MUSTER_WORKER_ENOMEM;
    pthread_mutex_lock(&worker->lock);
    struct mw_buf *out = &worker->channel.out;
    int rc = worker->code;
    if (rc == 0 && worker->channel.by_hand) {
        fprintf(stderr, "item %" PRIu64 " failed: %s\n", item->index, error);
        rc = finish(worker, item->index, true);
    } else if (rc == 0) {
        bool ok = mw_buf_add_text(out, "{\"fail\":") && mw_buf_add_u64(out, item->index) &&
                  mw_buf_add_text(out, ",\"error\":") &&
                  mw_buf_add_json(out, (struct muster_text){error, strlen(error)}) &&
                  mw_buf_add_text(out, retry ? ",\"retry\":true}\n" : ",\"retry\":false}\n");
        rc = finish(worker, item->index, ok);
    }
    pthread_mutex_unlock(&worker->lock);
    return rc;
}

/* Sends a message about the worker itself. Such messages are rare, so they are written at once. */
static int tell(struct muster_worker *worker, const char *text, size_t batch)
{
    if (!worker)
        return MUSTER_WORKER_ENOMEM;
    pthread_mutex_lock(&worker->lock);
    struct mw_buf *out = &worker->channel.out;
    int rc = worker->code;
    if (rc == 0 && batch > 0)
        worker->limit = batch;
    if (rc == 0 && !worker->channel.by_hand) {
        bool ok = mw_buf_add_text(out, text) && (batch == 0 || mw_buf_add_u64(out, batch)) &&
                  mw_buf_add_text(out, batch == 0 ? "true}\n" : "}\n");
        rc = ok ? mw_flush(worker) : mw_out_of_memory(worker);
    }
    pthread_mutex_unlock(&worker->lock);
    return rc;
}

int muster_worker_loaded(struct muster_worker *worker)
{
    return tell(worker, "{\"loaded\":", 0);
}

int muster_worker_oom(struct muster_worker *worker, size_t batch)
{
    return tell(worker, "{\"oom\":true,\"batch\":", batch > 0 ? batch : 1);
}
