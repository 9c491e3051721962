/* SPDX-License-Identifier: Apache-2.0 */
#include "store/status.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"

/* Adds the key of a member, after a comma unless `out` ends in '{', before the first member. */
static void key_add(struct buf *out, const char *key)
{
    if (out->at[out->len - 1] != '{')
        buf_add_char(out, ',');
    buf_addf(out, "\"%s\":", key);
}

static void text_add(struct buf *out, const char *key, const char *text)
{
    key_add(out, key);
    if (text)
        buf_add_json(out, str_of(text));
    else
        buf_add_text(out, "null");
}

static void count_add(struct buf *out, const char *key, uint64_t count)
{
    key_add(out, key);
    buf_addf(out, "%llu", (unsigned long long)count);
}

static void rate_add(struct buf *out, const char *key, double rate)
{
    key_add(out, key);
    buf_addf(out, "%.3f", isfinite(rate) ? rate : 0.0);
}

static void time_add(struct buf *out, const char *key, const char *key_ms, int64_t wall_ms)
{
    char text[40];
    clock_rfc3339(text, wall_ms);
    text_add(out, key, text);
    key_add(out, key_ms);
    buf_addf(out, "%lld", (long long)wall_ms);
}

static void worker_add(struct buf *out, const struct worker_status *worker)
{
    buf_add_char(out, '{');
    text_add(out, "label", worker->label);
    text_add(out, "state", worker->state);
    count_add(out, "done", worker->done);
    rate_add(out, "rate", worker->rate);
    count_add(out, "mem_bytes", worker->mem_bytes);
    text_add(out, "last_word", worker->last_word);
    buf_add_char(out, '}');
}

void host_status_format(const struct host_status *host, struct buf *out)
{
    buf_add_char(out, '{');
    text_add(out, "name", host->name);
    text_add(out, "state", host->state);
    count_add(out, "done", host->done);
    rate_add(out, "rate", host->rate);
    count_add(out, "away_ms", host->away_ms);
    count_add(out, "lost_ms", host->lost_ms);
    count_add(out, "round_trip_ms", host->round_trip_ms);
    count_add(out, "sent_bytes", host->sent_bytes);
    count_add(out, "received_bytes", host->received_bytes);
    count_add(out, "devices", host->n_devices);
    count_add(out, "workers", host->n_workers);
    text_add(out, "why", host->why);
    buf_add_char(out, '}');
}

void status_format(const struct run_status *status, struct buf *out)
{
    buf_add_char(out, '{');
    text_add(out, "verb", status->verb);
    text_add(out, "state", status->state);
    count_add(out, "pid", (uint64_t)MAX(status->pid, 0));
    text_add(out, "host", status->host);
    if (status->is_total_known)
        count_add(out, "items", status->items_total);
    else
        text_add(out, "items", NULL);
    count_add(out, "done", status->done);
    count_add(out, "answered", status->answered);
    count_add(out, "aside", status->aside);
    count_add(out, "running", status->running);
    rate_add(out, "rate", status->rate);
    if (status->eta_ms >= 0)
        count_add(out, "eta_ms", (uint64_t)status->eta_ms);
    else
        text_add(out, "eta_ms", NULL);
    time_add(out, "started", "started_ms", status->started_wall_ms);
    time_add(out, "updated", "updated_ms", status->updated_wall_ms);
    text_add(out, "message", status->message);
    key_add(out, "workers");
    buf_add_char(out, '[');
    for (size_t i = 0; i < status->n_workers; i++) {
        if (i)
            buf_add_char(out, ',');
        worker_add(out, &status->workers[i]);
    }
    buf_add_text(out, "],\"hosts\":[");
    for (size_t i = 0; i < status->n_hosts; i++) {
        if (i)
            buf_add_char(out, ',');
        host_status_format(&status->hosts[i], out);
    }
    buf_add_text(out, "]}");
}

int status_write(const char *dir, const struct run_status *status, struct err *err)
{
    cleanup_free char *path = path_join(dir, "status.json");
    cleanup_buf struct buf text = BUF_INIT;
    status_format(status, &text);
    buf_add_char(&text, '\n');
    return file_replace_fast(path, buf_str(&text), err);
}
