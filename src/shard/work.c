/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards as the items of a run: the functions of map/work.h, and messages about shards.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/talk.h"
#include "map/progress.h"
#include "map/summary.h"
#include "shard/shard.h"

/* ---- the run ---- */

static void texts_describe(const char *name, const struct texts *texts, struct buf *json_out)
{
    for (size_t i = 0; i < texts->len; i++) {
        if (i == 0)
            buf_addf(json_out, ",\"%s\":[", name);
        buf_add_json(json_out, str_of(texts->at[i]));
        buf_add_char(json_out, i + 1 == texts->len ? ']' : ',');
    }
}

static void identity_add(const struct map_request *r, struct buf *json_out)
{
    buf_addf(json_out,
             ",\"items\":%lu,\"shards\":%lu,\"any_count\":%s,\"collect\":", r->shards.n_items,
             r->shards.n_shards, r->shards.any_count ? "true" : "false");
    buf_add_json(json_out, str_of(r->shards.collect ? r->shards.collect : ""));
    texts_describe("also", &r->shards.also, json_out);
    texts_describe("also_counted", &r->shards.also_counted, json_out);
    if (r->shards.n_parts > 0)
        buf_addf(json_out, ",\"part\":\"%lu/%lu\"", r->shards.part, r->shards.n_parts);
}

static int restore(struct session *s, struct err *err)
{
    int rc = session_request(s)->retakes ? shards_retake(s, err) : 0;
    return rc ? rc : shards_restore(s, err);
}

static int recall(struct session *s, uint64_t *n_items, struct err *err)
{
    int rc = shards_recall(s, err);
    *n_items = shards_of(s)->n_shards;
    return rc;
}

static void print(struct session *s)
{
    seats_print(session_allocation(s), NULL);
    shards_print(s);
    shards_print_sharing(s);
}

/* All shards are known at once. */
static void input_begin(struct session *s)
{
    session_input_copied(s);
    session_event(
        s, (struct feed_event){.kind = EV_INPUT, .count = shards_of(s)->n_shards, .flag = true});
}

static void release(struct session *s)
{
    shards_free(shards_of(s));
}

/* ---- a shard ---- */

static void position_add(const struct session *s, uint64_t shard, struct buf *out)
{
    shard_name(shards_of(s), shard, out);
}

static const char *cause_text(enum feed_cause cause)
{
    return cause == CAUSE_TIMEOUT ? "took longer than the limit for a shard"
           : cause == CAUSE_OOM   ? "does not fit into memory"
                                  : NULL;
}

static void given_up(struct session *s, uint64_t shard)
{
    shard_give_up(shards_of(s), shard);
}

static void retry_add(struct session *s, uint64_t shard, struct buf *json_out)
{
    buf_add_char(json_out, ',');
    shard_members_add(shards_of(s), shard, json_out);
}

/* ---- what is said ---- */

enum {
    MISSING_NAMED = 5
};

static void missing_add(const struct shards *shards, struct buf *out)
{
    uint64_t n_missing = 0;
    for (uint64_t k = 0; k < shards->n_shards; k++) {
        if (shards->results[k].files || n_missing++ >= MISSING_NAMED)
            continue;
        buf_add_text(out, n_missing == 1 ? "  missing    " : ", ");
        shard_name(shards, k, out);
    }
    if (n_missing > MISSING_NAMED)
        buf_addf(out, " and %lu more", n_missing - MISSING_NAMED);
    if (n_missing > 0)
        buf_add_char(out, '\n');
}

static void result_line(struct session *s, const struct result_merge_stats *stats, struct buf *out)
{
    const struct shards *shards = shards_of(s);
    uint64_t n_items = shards->n_items_done, n_done = shards_committed(shards);
    uint64_t n_missing = shards->n_shards - n_done;
    struct item_span own;
    uint64_t n_shards;
    if (stats && shards_own(s, &own, &n_shards)) {
        buf_addf(out,
                 "part %lu of %lu: %lu item%s in %lu of %lu shard%s, for another run to take\n",
                 session_request(s)->shards.part, session_request(s)->shards.n_parts, n_items,
                 plural(n_items), n_done, own.count, plural(own.count));
        return;
    }
    if (stats && n_done == 0)
        buf_addf(out, "nothing was collected: none of the %lu shards left its file\n",
                 shards->n_shards);
    else if (stats && n_missing == 0)
        buf_addf(out, "%s: %lu item%s in %lu shard%s, complete\n", session_request(s)->out_path,
                 n_items, plural(n_items), n_done, plural(n_done));
    else
        buf_addf(out, "%s%s%lu of %lu item%s, %lu of %lu shard%s\n",
                 stats ? session_request(s)->out_path : "", stats ? ": " : "", n_items,
                 shards->n_items, plural(shards->n_items), n_done, shards->n_shards,
                 plural(shards->n_shards));
    for (size_t i = 1; stats && n_done > 0 && i < shards->n_kinds; i++)
        buf_addf(out, "  also       %s\n", shards->kinds[i].out_path);
    if (n_done > 0)
        missing_add(shards, out);
}

static void advice_add(struct session *s, bool are_left, struct buf *out)
{
    cleanup_free char *run = summary_run_new(s);
    if (shards_of(s)->n_unnamed > 0 && are_left)
        buf_addf(
            out,
            "  files      if the shards left files under other names, take them without running "
            "these shards again: muster resume %s %s\n",
            run, session_request(s)->shards.collect ? "--collect 'GLOB'" : "--also 'GLOB=FILE'");
}

static bool are_all_there(const struct shards *shards)
{
    bool are_there = true;
    for (uint64_t k = 0; k < shards->n_shards; k++)
        for (size_t i = 0; shards->results[k].files && i < shards->n_kinds; i++) {
            cleanup_buf struct buf why = BUF_INIT;
            are_there = are_there && shard_file_is_intact(&shards->results[k].files[i], &why);
        }
    return are_there;
}

static void safe_say(struct session *s, int rc)
{
    cleanup_free char *run = summary_run_new(s);
    (void)rc;
    if (!are_all_there(shards_of(s)))
        talk("the files of the other shards are safe; muster resume %s runs again what has lost "
             "its file, and joins them",
             run);
    else
        talk("every shard's file is safe; muster resume %s joins them again, also with "
             "another --rule, --union or --id; muster merge joins any files",
             run);
}

/* ---- the display ---- */

/* Takes the progress of a shard, if its program prints any. */
static void shard_take(struct session *s, uint32_t p, struct snapshot *out)
{
    const struct worker *worker = worker_at(s, p);
    struct progress_worker *w = &out->workers[p];
    w->done = shards_of(s)->seat_items[p];
    if (!worker || w->in_flight == 0)
        return;
    struct shard_progress now = shard_progress_of(worker);
    w->done += now.items_done;
    out->total.done += now.items_done;
    out->total.answered += now.items_done;
    out->total.correct += (double)now.correct;
    out->total.seen += (double)now.seen;
    if (now.seen == 0)
        return;
    snprintf(out->words[p], sizeof(out->words[p]), "accuracy %.4f",
             (double)now.correct / (double)now.seen);
    w->last_word = out->words[p];
}

static uint64_t items_own(const struct session *s)
{
    struct item_span own;
    uint64_t n_shards;
    if (!shards_own(s, &own, &n_shards))
        return shards_of(s)->n_items;
    struct share first = shard_share(shards_of(s), own.first),
                 last = shard_share(shards_of(s), own.first + own.count - 1);
    return last.start + last.count - first.start;
}

/* The display counts items, although the ledger counts shards. */
static void progress_take(struct session *s, struct snapshot *out)
{
    out->total.done = shards_of(s)->n_items_done;
    out->total.answered = 0;
    out->total.oldest_ms = 0; /* it is the time of a shard, and no item is late */
    out->total.aside = shards_of(s)->n_items_failed;
    out->total.known = items_own(s);
    out->total.input_is_final = true;
    for (uint32_t p = 0; p < session_n_seats(s); p++)
        shard_take(s, p, out);
}

static uint64_t n_done_here(const struct session *s)
{
    return shards_of(s)->n_items_here;
}

/* ---- the end ---- */

static void files_drop(struct session *s)
{
    struct err err = {0};
    const char *const folders[] = {shards_of(s)->input_dir, shards_of(s)->output_dir};
    for (size_t i = 0; i < countof(folders); i++)
        if (remove_tree(folders[i], &err) != 0)
            log_add(session_log(s), LOG_WARN, "map", "%s", err.text);
    shards_taken_drop(s);
}

const struct work shard_work = {
    .noun = "shard",
    .a_noun = "a shard",
    .worker = &shard_worker_ops,
    .identity_add = identity_add,
    .begin = shards_begin,
    .take = shards_take,
    .own = shards_own,
    .restore = restore,
    .recall = recall,
    .print = print,
    .input_begin = input_begin,
    .release = release,
    .position_add = position_add,
    .cause_text = cause_text,
    .given_up = given_up,
    .retry_add = retry_add,
    .merge = shards_join,
    .files_drop = files_drop,
    .safe_say = safe_say,
    .progress_take = progress_take,
    .n_done_here = n_done_here,
    .result_line = result_line,
    .advice_add = advice_add,
};
