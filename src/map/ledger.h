/* SPDX-License-Identifier: Apache-2.0
 *
 * Where results become durable. Bytes go into part files (one for each worker process), rows wait in
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
    bool is_dirty;      /* bytes that a row may soon name are not synced */
    uint32_t users;     /* the worker, and jobs that hold it */
    struct ledger *ledger;
};

/* Sums of what workers count: name → value, few names. */
enum {
    METRICS_MAX = 16,
    METRIC_NAME_MAX = 40
};
struct metrics {
    size_t len;
    char names[METRICS_MAX][METRIC_NAME_MAX];
    double values[METRICS_MAX];
};
/* False if something of it is left out: no finite number, a name too long, one of too many. */
bool metrics_add(struct metrics *sums, struct str json_object);
void metrics_sum(struct metrics *sums, const struct metrics *more);
void metrics_format(const struct metrics *sums, struct buf *json_out);

struct ledger_opts {
    struct store *store;
    uv_loop_t *loop;
    uint64_t interval_ms; /* between group commits; 0: a second */
    bool is_prompt;       /* results do not wait for it: each is minutes of work */
    /* A commit failed: the disk is full, the database is gone. Called once, on the loop's thread. */
    void (*failed)(void *context, const struct err *err);
    /*
     * More waits than memory is for, while a commit takes its time (a disk that stalls): no more rows,
     * please, until this is called again with false. On the loop's thread. NULL: nobody listens.
     */
    void (*crowded)(void *context, bool is_crowded);
    uint64_t waiting_max_bytes; /* of rows; 0 = 32 MiB. As much again is being committed. */
    void *context;
};
struct ledger *ledger_new(const struct ledger_opts *opts);
/* After ledger_finish. */
void ledger_free(struct ledger *ledger);

MUST_CHECK int part_open(struct ledger *ledger, uint32_t number, struct part **out,
                         struct err *err);
/* Append bytes; returns the offset where they begin. Write errors surface through `failed`. */
uint64_t part_append(struct part *part, struct str bytes);
/* Write what is pending, so that the bytes can be read back. */
MUST_CHECK int part_flush(struct part *part, struct err *err);
void part_close(struct part *part);

void ledger_range(struct ledger *ledger, const struct part *part, const struct range_row *row,
                  const struct metrics *metrics);
void ledger_failed_item(struct ledger *ledger, const struct failed_item_row *row);
void ledger_attempt(struct ledger *ledger, const struct attempt_row *row);
void ledger_event(struct ledger *ledger, const char *kind, const char *json);
void ledger_sample(struct ledger *ledger, const struct sample_row *row);
/* A fact about the run (store_set), with the next commit. Both strings are literals or copied. */
void ledger_fact(struct ledger *ledger, const char *key, const char *value);
/* What earlier sessions of the run counted. */
MUST_CHECK int ledger_metrics_restore(struct ledger *ledger, struct err *err);
const struct metrics *ledger_metrics(const struct ledger *ledger);

/*
 * Everything that waits becomes durable before this returns; with `held` it can only be read as yet,
 * and becomes durable by ledger_settle, after the caller has put the merged result, synced, in place:
 * so the last parts need not be synced at all.
 */
MUST_CHECK int ledger_finish(struct ledger *ledger, bool held, struct err *err);
/* No commit is begun before ledger_settle: whoever merges reads the rows through the same connection. */
void ledger_hold(struct ledger *ledger, bool is_held);
/* Commit what is held. `parts_matter`: their bytes are not elsewhere, so they are synced first. */
MUST_CHECK int ledger_settle(struct ledger *ledger, bool parts_matter, struct err *err);
