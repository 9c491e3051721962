/* SPDX-License-Identifier: Apache-2.0
 *
 * A kind of items, as a value: records, which warm workers take one after the other (records.c), or shards, for
 * each of which a program is started (shard/shard.h). The rest of map/ knows the kind only by this table.
 *
 * A function that "may be NULL" is not called if it is.
 */
#pragma once

#include "core/feed.h"
#include "core/verdict.h"
#include "data/result_merge.h"
#include "device/seat.h"

struct item_span;
struct map_request;
struct session;
struct snapshot;
struct worker;

enum {
    END_TEXT_BYTES = 512 /* of the text that says how a worker ended */
};

/* What workers of this kind do differently. */
struct worker_ops {
    /* ACT_SPAWN: starts a worker on the seat. */
    void (*spawn)(struct session *s, uint32_t seat, uint64_t batch);
    void (*send)(struct worker *worker, const struct feed_action *action);
    /* From now on the worker gets at most `batch` items at once. */
    void (*batch)(struct worker *worker, uint64_t batch);
    /* The worker gets no more items. */
    void (*retire)(struct worker *worker);
    /* Its argv: NULL-terminated, borrowed. */
    const char *const *(*command)(const struct worker *worker);
    /* May be NULL. The worker's files on another host (node_stage); NULL: none. */
    const struct node_files *(*files)(const struct worker *worker);
    void (*environment)(const struct worker *worker, struct env_list *env);
    /*
     * May be NULL. Adds to `shown` what the user is to see of the worker's output; if `bytes` is empty, the output
     * that was held back.
     */
    void (*printed)(struct worker *worker, bool to_stderr, struct str bytes, struct buf *shown);
    /* Adds the worker's present or last work: " at shard 3 (items 30 to 39)". */
    void (*describe)(const struct worker *worker, struct buf *out);
    /*
     * May be NULL. The worker's process has ended. False: its files are examined first, and then worker_over is
     * called again.
     */
    bool (*settle)(struct worker *worker, enum death *death);
    /* May be NULL. The worker ended well: checks that it left its files, and tells the feeder and the log. */
    void (*judge)(struct worker *worker, char how[END_TEXT_BYTES]);
    /* May be NULL. Called before the feeder is told of the worker's end. */
    void (*ended)(struct worker *worker, bool was_out_of_memory);
    /* May be NULL. Closes the handles of its work_data; each then calls worker_handle_closed. */
    void (*close)(struct worker *worker);
    /* May be NULL. All handles are closed: frees its work_data. */
    void (*release)(struct worker *worker);
};

struct work {
    const char *noun;   /* "item", "shard" */
    const char *a_noun; /* "an item" */
    /* True: a worker takes one item after the other. False: a process is started for one item, and reads no items. */
    bool keeps_workers;
    const struct worker_ops *worker;

    /* ---- the run ---- */

    /* May be NULL. Adds what the results depend on: members of a JSON object, each after a comma. */
    void (*identity_add)(const struct map_request *request, struct buf *json_out);
    /* May be NULL. Called when s->source is open and, in a resumed run, the store is open too. */
    int (*begin)(struct session *s, struct err *err);
    /* May be NULL. Takes over what other runs have done of this work. *has_taken: the request asked for that. */
    int (*take)(struct session *s, bool *has_taken, struct err *err);
    /* May be NULL. True: the run is about the items *out only, and not about all `n_items`. */
    bool (*own)(const struct session *s, struct item_span *out, uint64_t *n_items);
    /* May be NULL. Takes over what earlier sessions have done. */
    int (*restore)(struct session *s, struct err *err);
    /* For --dry-run of a resumed run, with shell_store(s->shell) open: its number of items; 0: not known. */
    int (*recall)(struct session *s, uint64_t *n_items, struct err *err);
    /* For --dry-run: prints what would run where. */
    void (*print)(struct session *s);
    /* Begins to tell the feeder of the items. The loop runs already. */
    void (*input_begin)(struct session *s);
    /* May be NULL. */
    void (*release)(struct session *s);

    /* ---- an item ---- */

    /* Adds where the item is: "train.jsonl line 812". */
    void (*position_add)(const struct session *s, uint64_t item, struct buf *out);
    /* May be NULL, and may return NULL. The text for why an item is given up, if that for warm workers does not fit. */
    const char *(*cause_text)(enum feed_cause cause);
    /* May be NULL. The item is given up. */
    void (*given_up)(struct session *s, uint64_t item);
    /* Adds all that is needed to try the item again: members of a JSON object, after a comma. */
    void (*retry_add)(struct session *s, uint64_t item, struct buf *json_out);

    /* ---- the end ---- */

    int (*merge)(struct session *s, struct result_merge_stats *stats, struct err *err);
    /* May be NULL. Removes the files that muster itself made for the items. */
    void (*files_drop)(struct session *s);
    /* The results could not be merged: says where they are, and what to type. */
    void (*safe_say)(struct session *s, int rc);
    /* May be NULL. Sets what the display shows beside, or instead of, the feeder's counts. */
    void (*progress_take)(struct session *s, struct snapshot *snapshot);
    /* How many records this session has done. */
    uint64_t (*n_done_here)(const struct session *s);
    /* Adds the first lines of the summary; stats NULL: the run did not complete. */
    void (*result_line)(struct session *s, const struct result_merge_stats *stats, struct buf *out);
    /* May be NULL. Adds further lines to the summary; `are_left`: not all items are done. */
    void (*advice_add)(struct session *s, bool are_left, struct buf *out);
};

extern const struct work record_work;
