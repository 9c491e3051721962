/* SPDX-License-Identifier: Apache-2.0
 *
 * After the last result: the merge with its checks and the list of failed items, while the workers end; then,
 * when they are gone, the summary and the status.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "data/inputs.h"
#include "map/output_identity.h"
#include "map/outputs.h"
#include "map/rows.h"
#include "map/session_impl.h"
#include "map/summary.h"
#include "map/work.h"

/* ---- the result ---- */

enum {
    TURN_MS = 20 /* how often a merge lets the loop turn */
};

struct turning {
    struct session *session;
    uint64_t turned_ms;
};

/* Turns the loop: the output of ending workers must be read, and signals, orders to stop and time limits be seen. */
static bool turn(void *context)
{
    struct turning *turning = context;
    uint64_t now_ms = clock_now_ms();
    if (now_ms - turning->turned_ms >= TURN_MS) {
        uv_run(shell_uv_loop(turning->session->shell), UV_RUN_NOWAIT);
        turning->turned_ms = now_ms;
    }
    return shell_is_to_end(turning->session->shell);
}

/* The rows are the first member: the callbacks of rows.c take a pointer to them. */
struct session_rows {
    struct merge_rows rows;
    struct session *session;
};

static int session_placing(void *context, int fd, struct err *err)
{
    const struct session *s = ((const struct session_rows *)context)->session;
    int rc = inputs_check(s->inputs, err);
    return rc ? rc
              : output_identity_note(shell_run_dir(s->shell), 0, s->request->out_path, fd, err);
}

static int session_range(void *context, struct result_range *range, struct err *err)
{
    struct session_rows *rows = context;
    int rc = stop_check(shell_merge_stop(rows->session->shell), err);
    return rc ? rc : merge_rows_range(&rows->rows, range, err);
}

int session_merge(struct session *s, struct result_merge_stats *stats, struct err *err)
{
    const struct map_request *r = s->request;
    struct session_rows rows = {.session = s};
    int rc = merge_rows_open(&rows.rows, shell_store(s->shell), !r->any_order, err);
    if (rc)
        return rc;
    struct result_merge_opts opts = {
        .out_path = r->out_path,
        .format = r->format_out == OUT_AUTO ? out_format_of_path(r->out_path) : r->format_out,
        .results_are_json = s->results.are_json,
        .in_order = !r->any_order,
        .overwrite = r->overwrite,
        .join = r->join,
        .source = s->source,
        .n_items = source_known(s->source),
        .next_range = session_range,
        .next_failed_item = merge_rows_failed_item,
        .placing = session_placing,
        .context = &rows};
    rc = result_merge_write(&opts, stats, err);
    merge_rows_close(&rows.rows);
    return rc;
}

/* ---- the end ---- */

static const char *const halt_texts[] = {
    [HALT_NONE] = "",
    [HALT_NO_RESULT] = "no worker gave a single result on any device; is the command right?",
    [HALT_UNFIT] = ("a thousand records are malformed and there is not one result; is the input in "
                    "another format (--format)?"),
    [HALT_FAILURES] = "too many items failed (--max-failures)",
    [HALT_NO_DEVICES] = "no device is left to work on",
    [HALT_DRAINED] = "all hosts were given back",
    [HALT_MISMATCH] = ("the worker breaks the rule of one line out for each line in, in order; "
                       "print other things to stderr, flush each line, or use --key or the "
                       "channel"),
    [HALT_STOPPED] = "stopped",
};

/* Has the command {}, as users of xargs and GNU parallel type it? */
static bool has_braces(const char *const *command)
{
    for (size_t i = 0; command && command[i]; i++)
        if (strcmp(command[i], "{}") == 0)
            return true;
    return false;
}

static const char *halt_text(const struct session *s)
{
    if (s->outcome.halt == HALT_MISMATCH && s->request->key_field)
        return "the worker breaks the rule of --key: each line out is a JSON object with its "
               "item's own value of that field; print other things to stderr, or use the channel";
    if (s->outcome.halt == HALT_NO_RESULT && has_braces(s->request->command))
        return "no worker gave a single result on any device; {} is not filled in here: items come "
               "as lines on stdin, and muster graph -- COMMAND {} ::: ITEM... runs one command each";
    return halt_texts[s->outcome.halt];
}

static const char *signal_verb(int signal)
{
    return signal == SIGINT ? "interrupted" : signal == SIGTERM ? "terminated" : "hung up";
}

static int status_of(const struct session *s, uint64_t n_failed_items)
{
    const struct shell_end *end = shell_end(s->shell);
    if (end->signal)
        return 128 + end->signal;
    if (end->status)
        return end->status;
    if (end->err.code)
        return err_exit_status(end->err.code);
    return s->outcome.was_halted || n_failed_items > 0 ? 1 : 0;
}

static void state_record(struct session *s, const char *state, int status)
{
    char text[24], malformed[24];
    struct err err = {0};
    snprintf(text, sizeof(text), "%d", status);
    snprintf(malformed, sizeof(malformed), "%lu", s->failed.n_malformed);
    if (s->input_is_changed) /* the same command starts over */
        state = "failed";
    if ((s->input_is_changed &&
         store_set(shell_store(s->shell), "input_changed", "1", &err) != 0) ||
        store_set(shell_store(s->shell), "state", state, &err) != 0 ||
        store_set(shell_store(s->shell), "malformed", malformed, &err) != 0 ||
        store_set(shell_store(s->shell), "exit", text, &err) != 0)
        log_add(shell_log(s->shell), LOG_WARN, "map", "the end could not be recorded: %s",
                err.text);
}

static void parts_drop(struct session *s)
{
    cleanup_free char *parts = path_join(shell_run_dir(s->shell), "parts"),
                      *gone = path_join(shell_run_dir(s->shell), "parts.gone");
    struct err err = {0};
    if (s->request->run.keep_parts)
        return;
    if (s->request->work->files_drop)
        s->request->work->files_drop(s);
    /* The folder is renamed before it is removed, so that a part of it is never taken for all of it. */
    log_add(shell_log(s->shell), LOG_DEBUG, "map", "%s is removed", parts);
    bool is_away = rename(parts, gone) == 0;
    if (remove_tree(is_away ? gone : parts, &err) != 0)
        log_add(shell_log(s->shell), LOG_WARN, "map", "%s", err.text);
}

/* Lists the items that were set aside, of a run that ends with items left. */
static void failed_items_list(struct session *s)
{
    struct err err = {0};
    uint64_t n_failed_items;
    if (failed_items_write(s, &n_failed_items, &err) != 0)
        log_add(shell_log(s->shell), LOG_WARN, "map", "the failed items are not listed: %s",
                err.text);
}

static int unfinished(struct session *s)
{
    int status = status_of(s, 0);
    /* A resume could not read malformed data either, and corrected data are another input. */
    bool is_hopeless = status == err_exit_status(ERR_DATA);
    const struct shell_end *end = shell_end(s->shell);
    const char *why = end->err.code ? end->err.text
                      : end->signal ? signal_verb(end->signal)
                                    : halt_text(s);
    cleanup_free char *sentence = NULL;
    bool is_hopeless_worker =
        s->outcome.halt == HALT_NO_RESULT || s->outcome.halt == HALT_NO_DEVICES;
    bool is_breach = is_hopeless_worker && s->outcome.is_last_a_breach && s->outcome.last_stray[0];
    if (s->outcome.halt == HALT_NO_RESULT && s->outcome.last_words[0] && !is_breach && !end->signal)
        /* NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores): freed at the end of the scope */
        why = sentence = xasprintf("%s (its worker's end: %s)", why, s->outcome.last_words);
    cleanup_buf struct buf next = BUF_INIT;
    cleanup_free char *run = summary_run_new(s);
    summary_go_on(s, NULL, &next);
    struct feed_counts counts;
    feed_counts(s->feed, &counts);
    bool has_begun = counts.done + counts.aside > 0;
    bool is_removed;
    cleanup_free char *folder =
        shell_folder_lost_new(s->shell, s->request->usual_root, &is_removed);
    bool can_resume = !is_removed && (status == 75 || status > 128 || status == 124 ||
                                      s->outcome.was_halted || has_begun);
    if (is_breach && !end->signal)
        why = "the worker breaks the protocol of the channel, see muster-worker(7)";
    if ((s->outcome.halt == HALT_MISMATCH || is_breach) && s->outcome.last_stray[0] && !end->signal)
        /* NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores) */
        why = sentence = xasprintf("%s (%s)", why, s->outcome.last_stray);
    state_record(s, end->signal || status == 75 || has_begun ? "stopped" : "failed", status);
    if (counts.aside > 0)
        failed_items_list(s);
    summary_print(s, NULL);
    if (folder)
        talk("%s; %s", why, folder);
    else if (is_hopeless && has_begun)
        talk("%s; what is done is printed by: muster results %s", why, run);
    else if (can_resume && !is_hopeless)
        talk("%s; go on with: %s", why, buf_text(&next));
    else
        talk("%s", why);
    return status;
}

/* The merge failed. No result is lost unless the folder is; the last line says what to do. */
static int merge_failed(struct session *s, int rc, const struct err *why)
{
    struct err settle_err = {0};
    cleanup_free char *run = summary_run_new(s);
    int status = err_exit_status(rc);
    log_keep(shell_log(s->shell), LOG_ERROR, "map", "the results are not merged: %s", why->text);
    talk("map: the results are not merged: %s", why->text);
    bool is_removed;
    cleanup_free char *folder =
        shell_folder_lost_new(s->shell, s->request->usual_root, &is_removed);
    if (is_removed) {
        talk("%s", folder);
        return status;
    }
    s->input_is_changed = s->input_is_changed || inputs_check(s->inputs, NULL) != 0;
    state_record(s, "stopped", status);
    int settle_rc = ledger_settle(s->ledger, true, &settle_err);
    if (settle_rc)
        log_add(shell_log(s->shell), LOG_ERROR, "map", "%s", settle_err.text);
    if (folder)
        talk("%s", folder);
    else if (settle_rc)
        return status;
    else if (s->input_is_changed)
        talk("what is done is printed by: muster results %s", run);
    else
        s->request->work->safe_say(s, rc);
    return status;
}

/* The merge was ended by a signal, an order to stop or a time limit: as if the run had ended before it. */
static int merge_ended(struct session *s)
{
    struct err err = {0};
    if (ledger_settle(s->ledger, true, &err) != 0)
        log_add(shell_log(s->shell), LOG_ERROR, "map", "%s", err.text);
    return ERR_STOPPED;
}

/* True if one of the outputs is written in place: a pipe, a terminal, /dev/null. */
static bool writes_directly(const struct session *s)
{
    cleanup_free char *failed_items = failed_items_path(s);
    bool is_direct = output_is_direct(s->request->out_path) || output_is_direct(failed_items);
    for (size_t i = 0; i < also_len(s->request); i++)
        is_direct = is_direct || output_is_direct(also_path(s->request, i));
    return is_direct;
}

/* Is this a part, whose results another run takes? */
static bool is_part(const struct session *s)
{
    return s->request->shards.n_parts > 0;
}

static int outputs_write(struct session *s, struct result_merge_stats *stats,
                         uint64_t *n_failed_items, struct err *err)
{
    int rc = is_part(s) ? 0 : s->request->work->merge(s, stats, err);
    return rc ? rc : failed_items_write(s, n_failed_items, err);
}

static int complete(struct session *s, bool is_direct, struct result_merge_stats *stats,
                    struct err *err)
{
    struct turning turning = {s, clock_now_ms()};
    struct sigaction before[END_SIGNALS];
    uint64_t n_failed_items = 0;
    if (!is_part(s))
        log_add(shell_log(s->shell), LOG_INFO, "map", "merging the parts into %s",
                s->request->out_path);
    int rc = inputs_check(s->inputs, err);
    if (is_direct)
        shell_signals_end(s->shell, before);
    shell_merge_begin(s->shell, (struct stop){turn, &turning});
    if (rc == 0)
        rc = outputs_write(s, stats, &n_failed_items, err);
    shell_merge_end(s->shell);
    if (is_direct)
        shell_signals_restore(s->shell, before);
    if (rc == ERR_STOPPED && shell_is_to_end(s->shell))
        return merge_ended(s);
    if (rc)
        return merge_failed(s, rc, err);
    int status = n_failed_items > 0 ? 1 : 0;
    shell_settle(s->shell);
    session_progress(s, true);
    state_record(s, n_failed_items > 0 ? "failed" : "finished", status);
    rc = ledger_settle(s->ledger, n_failed_items > 0 || s->request->run.keep_parts || is_part(s),
                       err);
    if (rc)
        return wrap(err, rc, "the results are complete in %s, but this could not be recorded",
                    s->request->out_path);
    if (n_failed_items == 0 && strcmp(s->request->out_path, "-") != 0 && !is_part(s))
        parts_drop(s);
    s->outcome.is_merged = true;
    return status;
}

/* All results are taken. Waits for the workers to end; the feeder ends those that take too long. */
static void workers_await(struct session *s)
{
    struct err err = {0};
    session_loop_end(s);
    shell_reap(s->shell);
    if (ledger_finish(s->ledger, false, &err) != 0 && s->outcome.is_merged)
        log_add(shell_log(s->shell), LOG_WARN, "map", "how the workers ended is not recorded: %s",
                err.text);
}

static int score_tell(const struct session *s, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct score *score = NULL;
    int rc = score_file(&s->request->score, s->request->out_path, &score, err);
    if (rc)
        return wrap(err, rc, "%s is in place, but --score failed", s->request->out_path);
    struct sigaction before[END_SIGNALS];
    score_print(score, &out);
    shell_signals_end(s->shell, before); /* a pipe may wait for its reader */
    rc = score_write(score, err);
    if (rc == 0)
        rc = write_all(STDOUT_FILENO, out.at, out.len, err);
    shell_signals_restore(s->shell, before);
    score_free(score);
    return rc;
}

int session_finish(struct session *s, struct err *err)
{
    struct result_merge_stats stats = {0};
    int status = 0;
    session_progress(s, true);
    shell_progress_end(s->shell);
    bool merges = s->outcome.is_complete && shell_end(s->shell)->err.code == 0;
    bool is_direct = merges && writes_directly(s);
    int rc = ledger_finish(s->ledger, merges && !is_direct, err);
    if (rc)
        shell_end_by_error(s->shell, err);
    merges = merges && rc == 0;
    ledger_hold(s->ledger, merges);
    if (merges)
        status = complete(s, is_direct, &stats, err);
    merges = merges && (shell_is_settled(s->shell) || status != ERR_STOPPED);
    workers_await(s);
    if (!shell_is_settled(s->shell))
        session_progress(s, true);
    if (!merges)
        status = unfinished(s);
    else if (s->outcome.is_merged)
        summary_print(s, &stats);
    int score_rc = s->outcome.is_merged && !is_part(s) && s->request->score.true_field.at
                       ? score_tell(s, err)
                       : 0;
    if (score_rc)
        status = score_rc;
    if (shell_hook_input(s->shell))
        summary_json(s, status < 0 ? err_exit_status(status) : status, shell_hook_input(s->shell));
    return status;
}
