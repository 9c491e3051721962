/* SPDX-License-Identifier: Apache-2.0
 *
 * What the items of a run are, as a value: records, which warm workers take one after the other (records.c), or
 * shards, for each of which a program is started (shard/shard.h). The rest of map/ sees this table alone.
 *
 * Functions that may be NULL are not called then.
 */
#pragma once

#include "core/feed.h"
#include "core/verdict.h"
#include "data/result_merge.h"
#include "device/seat.h"

struct map_request;
struct session;
struct snapshot;
struct worker;

enum {
    END_TEXT_BYTES = 512 /* how a worker ended, for messages */
};

/* What is different about its workers. */
struct worker_ops {
    /* A seat is filled; ACT_SPAWN. */
    void (*spawn)(struct session *s, uint32_t seat, uint64_t batch);
    void (*send)(struct worker *worker, const struct feed_action *action);
    /* From now on at most so many at once. */
    void (*batch)(struct worker *worker, uint64_t batch);
    /* It gets nothing more. */
    void (*retire)(struct worker *worker);
    /* NULL-terminated, borrowed. */
    const char *const *(*command)(const struct worker *worker);
    void (*environment)(const struct worker *worker, struct env_list *env);
    /* May be NULL: what is worth showing of what it printed; without bytes: the end of what was held back. */
    void (*printed)(struct worker *worker, bool to_stderr, struct str bytes, struct buf *shown);
    /* What it is or was at work on: " at shard 3 (items 30 to 39)". */
    void (*describe)(const struct worker *worker, struct buf *out);
    /* May be NULL. Its process is gone. False: what it left is looked at first, and then worker_over called again. */
    bool (*settle)(struct worker *worker, enum death *death);
    /* May be NULL: it ended well; did it leave what it was to leave? Tells the feeder and the log. */
    void (*judge)(struct worker *worker, char how[END_TEXT_BYTES]);
    /* May be NULL. Before the feeder is told of its end. */
    void (*ended)(struct worker *worker, bool was_out_of_memory);
    /* May be NULL. Its handles are closed (worker_handle_closed); then its own memory is freed. */
    void (*close)(struct worker *worker);
    void (*release)(struct worker *worker);
};

struct work {
    const char *noun;   /* "item", "shard" */
    const char *a_noun; /* "an item" */
    /* A worker takes one item after the other; false: its process is started for one, and reads and says nothing. */
    bool keeps_workers;
    const struct worker_ops *worker;

    /* ---- the run ---- */

    /* May be NULL: members of a JSON object, each behind a comma, that decide about the results. */
    void (*identity_add)(const struct map_request *request, struct buf *json_out);
    /* May be NULL. s->source is open; of a run that goes on, its store is. */
    int (*begin)(struct session *s, struct err *err);
    /* May be NULL: what earlier sessions have done is looked at. */
    int (*restore)(struct session *s, struct err *err);
    /* --dry-run of a run that goes on, s->shell.store open: how many items it has; 0: not known. */
    int (*recall)(struct session *s, uint64_t *n_items, struct err *err);
    /* --dry-run: what would run where. */
    void (*print)(const struct session *s);
    /* The loop runs: tell the feeder of the items. */
    void (*input_begin)(struct session *s);
    /* May be NULL. */
    void (*release)(struct session *s);

    /* ---- an item ---- */

    /* "train.jsonl line 812" */
    void (*position_add)(const struct session *s, uint64_t item, struct buf *out);
    /* May be NULL, and return NULL: why it is given up, where a warm worker's words do not fit. */
    const char *(*cause_text)(enum feed_cause cause);
    /* May be NULL: it is given up. */
    void (*given_up)(struct session *s, uint64_t item);
    /* All that is needed to try it again: members of a JSON object, behind a comma. */
    void (*retry_add)(struct session *s, uint64_t item, struct buf *json_out);

    /* ---- the end ---- */

    int (*merge)(struct session *s, struct result_merge_stats *stats, struct err *err);
    /* May be NULL: what muster itself made for the items. */
    void (*files_drop)(struct session *s);
    /* The results are safe though they could not be merged: where, and what to type. */
    void (*safe_say)(struct session *s, int rc);
    /* May be NULL: what the display is to show beside, or instead of, what the feeder counts. */
    void (*progress_take)(struct session *s, struct snapshot *snapshot);
    /* Of records, by this session. */
    uint64_t (*n_done_here)(const struct session *s);
    /* First lines of the summary; stats NULL: the run did not complete. */
    void (*result_line)(struct session *s, const struct result_merge_stats *stats, struct buf *out);
    /* May be NULL: further lines of it; `are_left`: not all items are done. */
    void (*advice_add)(struct session *s, bool are_left, struct buf *out);
};

extern const struct work record_work;
