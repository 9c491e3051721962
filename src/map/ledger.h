/* SPDX-License-Identifier: Apache-2.0
 *
 * Where results become durable. Bytes go into part files (one for each worker process); rows wait in
 * memory and are committed in groups, off the loop's thread: first the parts' bytes are synced, then
 * the rows that name them are committed.
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

struct ledger;

/* A part file being written. */
struct part {
    uint32_t number;
    int fd;
    struct buf pending; /* not yet written */
    uint64_t offset;    /* of the next byte, pending ones included */
    bool is_dirty;      /* some bytes that a row may name are not synced */
    uint32_t users;     /* the worker and the commits that use the part */
    struct ledger *ledger;
};

/* Sums of the metrics that workers report: name → value, few names. */
enum {
    METRICS_MAX = 16,
    METRIC_NAME_MAX = 40
};
struct metrics {
    size_t len;
    char names[METRICS_MAX][METRIC_NAME_MAX];
    double values[METRICS_MAX];
};
/*
 * Both return false if a metric is left out: it, or its sum, is not a finite number; its name is too long; or there
 * are too many metrics.
 */
bool metrics_add(struct metrics *sums, struct str json_object);
bool metrics_sum(struct metrics *sums, const struct metrics *more);
/* True if `correct` and `seen` are summed and have a quotient, the accuracy. */
bool metrics_judged(const struct metrics *sums, double *correct, double *seen);
/* A sum for people: whole numbers in full up to 2^53, others with ten digits. */
enum {
    METRIC_TEXT_BYTES = 32
};
void metric_format(char out[METRIC_TEXT_BYTES], double sum);
void metrics_format(const struct metrics *sums, struct buf *json_out);

struct ledger_opts {
    struct store *store;
    uv_loop_t *loop;
    uint64_t interval_ms; /* between group commits; 0: one second */
    bool is_prompt;       /* commits each result at once, since it took minutes */
    /* A commit failed: the disk is full, the database is gone. Called once, on the loop's thread. */
    void (*failed)(void *context, const struct err *err);
    /*
     * True: waiting_max_bytes are reached because a commit is slow (a disk that stalls); the owner should
     * add no more rows until this is called again with false. On the loop's thread. NULL: not called.
     */
    void (*crowded)(void *context, bool is_crowded);
    /* Bytes of rows that may wait; 0: 32 MiB. As many again may be in a commit. */
    uint64_t waiting_max_bytes;
    void *context;
};
struct ledger *ledger_new(const struct ledger_opts *opts);
/* To be called after ledger_finish. */
void ledger_free(struct ledger *ledger);

MUST_CHECK int part_open(struct ledger *ledger, uint32_t number, struct part **out,
                         struct err *err);
/* Append bytes; returns the offset where they begin. Write errors surface through `failed`. */
uint64_t part_append(struct part *part, struct str bytes);
/* Writes pending bytes, so that they can be read back. */
MUST_CHECK int part_flush(struct part *part, struct err *err);
void part_close(struct part *part);

/* False if a metric could not be added to the sums of the run, or to those that a resume reads. */
bool ledger_range(struct ledger *ledger, const struct part *part, const struct range_row *row,
                  const struct metrics *metrics);
void ledger_failed_item(struct ledger *ledger, const struct failed_item_row *row);
void ledger_attempt(struct ledger *ledger, const struct attempt_row *row);
void ledger_event(struct ledger *ledger, const char *kind, const char *json);
void ledger_sample(struct ledger *ledger, const struct sample_row *row);
/* Sets a fact about the run (store_set) with the next commit. Both strings are copied. */
void ledger_fact(struct ledger *ledger, const char *key, const char *value);
/* Reads the sums of the run's earlier sessions. */
MUST_CHECK int ledger_metrics_restore(struct ledger *ledger, struct err *err);
const struct metrics *ledger_metrics(const struct ledger *ledger);

/*
 * Commits everything that waits. Without `held` it is durable when this returns. With `held` the rows can be
 * read, but become durable only by ledger_settle, which the caller calls when the merged output is synced and
 * in place; the last parts then need not be synced, because the output holds their bytes.
 */
MUST_CHECK int ledger_finish(struct ledger *ledger, bool held, struct err *err);
/* While held, no commit is begun: a merge reads the rows through the same connection. */
void ledger_hold(struct ledger *ledger, bool is_held);
/* Commits what is held. `parts_matter`: the output does not hold the parts' bytes, so they are synced first. */
MUST_CHECK int ledger_settle(struct ledger *ledger, bool parts_matter, struct err *err);
