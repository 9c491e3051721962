/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "map/session_impl.h"
#include "map/summary.h"
#include "map/work.h"
#include "store/manifest.h"
#include "store/runs.h"

int earlier_work_match(struct session *s, struct err *err)
{
    cleanup_free char *count = NULL;
    struct store_totals totals = {0};
    bool is_asked = !s->request->work->keeps_workers;
    int rc = store_get(shell_store(s->shell), "shards", &count, err);
    if (rc == 0)
        rc = store_totals(shell_store(s->shell), &totals, err);
    if (rc == 0 && count && !is_asked)
        rc = fail(err, ERR_USAGE,
                  "this is a run of shards: its command needs {start}, {count}, {end}, {shard}, "
                  "{input} or {output}");
    if (rc == 0 && !count && is_asked && totals.items_done + totals.items_failed > 0)
        rc = fail(err, ERR_USAGE,
                  "this run was begun without shards, and its command now is a shard command");
    return rc;
}

static int by_first(const void *a, const void *b)
{
    const struct item_span *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Failed items are settled too: adds them to the intervals of done items, and joins adjacent intervals. */
static int failed_items_are_done(struct session *s, struct err *err)
{
    struct row_reader *reader = NULL;
    struct failed_item_row row;
    if (s->earlier.n_failed == 0)
        return 0;
    s->earlier.done = xrealloc(s->earlier.done, (s->earlier.n_done + s->earlier.n_failed) *
                                                    sizeof(*s->earlier.done));
    size_t n = s->earlier.n_done, kept = 0;
    int rc = failed_item_reader_open(&reader, shell_store(s->shell), err);
    while (rc == 0 && n < s->earlier.n_done + s->earlier.n_failed &&
           (rc = failed_item_reader_next(reader, &row, err)) > 0) {
        s->earlier.done[n++] = (struct item_span){row.item, 1};
        rc = 0;
    }
    row_reader_close(reader);
    qsort(s->earlier.done, n, sizeof(*s->earlier.done), by_first);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && s->earlier.done[kept - 1].first + s->earlier.done[kept - 1].count ==
                            s->earlier.done[i].first)
            s->earlier.done[kept - 1].count += s->earlier.done[i].count;
        else
            s->earlier.done[kept++] = s->earlier.done[i];
    }
    s->earlier.n_done = kept;
    return rc < 0 ? rc : 0;
}

/*
 * The items that were set aside are tried again: finds out whether they are all that is left. They
 * are if the run's state is `failed`, since such a run came to its end.
 */
static int only_failed_left_find(struct session *s, const struct store_totals *totals,
                                 struct err *err)
{
    cleanup_free char *state = NULL;
    int rc = store_get(shell_store(s->shell), "state", &state, err);
    s->earlier.only_failed_left = rc == 0 && totals->items_failed > 0 && totals->items_done > 0 &&
                                  !s->request->has_new_command && state &&
                                  strcmp(state, run_state_name(RUN_FAILED)) == 0;
    return rc;
}

static int done_read(struct session *s, struct err *err)
{
    struct store_totals totals;
    int rc = store_done(shell_store(s->shell), &s->earlier.done, &s->earlier.n_done, err);
    rc = rc ? rc : store_totals(shell_store(s->shell), &totals, err);
    if (rc)
        return rc;
    s->earlier.has_results = totals.items_done > 0 && !s->request->has_new_command;
    bool are_retried = s->request->retry_failed && totals.items_failed > 0;
    if (are_retried)
        rc = only_failed_left_find(s, &totals, err);
    else
        s->earlier.n_failed = totals.items_failed;
    rc = rc ? rc : failed_items_are_done(s, err);
    if (rc)
        return rc;
    log_add(shell_log(s->shell), LOG_INFO, "map", "going on: %lu %s%s done, %lu set aside%s",
            totals.items_done, s->request->work->noun, totals.items_done == 1 ? " is" : "s are",
            s->earlier.n_failed, are_retried ? "; failed ones are tried again" : "");
    return 0;
}

int earlier_begin(const struct session *s, struct err *err)
{
    uint64_t n_cleared;
    struct store *store = shell_store(s->shell);
    const char *go_on = s->request->run.go_on;
    int rc = s->request->retry_failed ? store_clear_failed_items(store, &n_cleared, err) : 0;
    if (rc == 0 && go_on)
        rc = store_set(store, "go_on", go_on, err);
    return rc ? rc : store_set(store, "state", run_state_name(RUN_RUNNING), err);
}

/* If an input was written to during the run, its results may mix two contents, even if the input is restored. */
static int resume_is_sound(struct session *s, struct err *err)
{
    cleanup_free char *is_changed = NULL, *run = summary_run_new(s);
    int rc = store_get(shell_store(s->shell), "input_changed", &is_changed, err);
    if (rc == 0 && is_changed)
        rc = fail(err, ERR_DATA,
                  "the input was written to while this run read it; start over by muster map, and "
                  "muster results %s prints what is done",
                  run);
    return rc;
}

static int input_verify(const struct session *s, const char *input_json, struct err *err)
{
    struct err why = {0};
    struct sigaction before[END_SIGNALS];
    shell_signals_end(s->shell, before); /* reading standard input may block */
    int rc = source_verify(s->source, str_of(input_json), &why);
    shell_signals_restore(s->shell, before);
    return rc == ERR_USAGE ? fail(err, rc, "%s; muster map --fresh starts over", why.text)
           : rc            ? fail(err, rc, "%s", why.text)
                           : 0;
}

int earlier_take(struct session *s, struct err *err)
{
    struct manifest manifest;
    int rc = resume_is_sound(s, err);
    if (rc == 0)
        rc = manifest_read(shell_run_dir(s->shell), &manifest, err);
    if (rc)
        return rc;
    s->base_seed = manifest.seed;
    if (manifest.input_json && s->source)
        rc = input_verify(s, manifest.input_json, err);
    manifest_release(&manifest);
    if (rc == 0 && s->request->work->restore)
        rc = s->request->work->restore(s, err);
    return rc ? rc : done_read(s, err);
}

void earlier_limit(struct session *s)
{
    const struct work *work = s->request->work;
    struct item_span own, *spans;
    size_t n = 0;
    uint64_t n_items;
    if (!work->own || !work->own(s, &own, &n_items))
        return;
    spans = xcalloc(s->earlier.n_done + 2, sizeof(*spans));
    if (own.first > 0)
        spans[n++] = (struct item_span){0, own.first};
    for (size_t i = 0; i < s->earlier.n_done; i++)
        if (s->earlier.done[i].first >= own.first &&
            s->earlier.done[i].first < own.first + own.count)
            spans[n++] = s->earlier.done[i];
    if (own.first + own.count < n_items)
        spans[n++] = (struct item_span){own.first + own.count, n_items - own.first - own.count};
    free(s->earlier.done);
    s->earlier.done = spans;
    s->earlier.n_done = n;
}

int earlier_check(const struct session *s, struct err *err)
{
    for (size_t i = 0; s->order && i < s->earlier.n_done; i++) {
        const struct item_span *span = &s->earlier.done[i];
        if (span->first >= source_known(s->source) ||
            span->count > source_known(s->source) - span->first)
            return fail(err, ERR_DATA,
                        "%s/run.db is damaged: item %lu is settled, but there are only %lu items",
                        shell_run_dir(s->shell), span->first + span->count - 1,
                        source_known(s->source));
    }
    return 0;
}

/* Reads how much of a resumed run is done. */
static int left_read(struct session *s, uint64_t *n_all, struct err *err)
{
    int rc = s->request->work->recall(s, n_all, err);
    struct store_totals totals = {0};
    if (rc == 0)
        rc = store_totals(shell_store(s->shell), &totals, err);
    if (rc == 0)
        rc = store_done(shell_store(s->shell), &s->earlier.done, &s->earlier.n_done, err);
    s->earlier.n_failed = rc == 0 && !s->request->retry_failed ? totals.items_failed : 0;
    return rc ? rc : failed_items_are_done(s, err);
}

int session_plan_left(struct session *s, struct err *err)
{
    const char *noun = s->request->work->noun;
    uint64_t n_all = 0, n_done = 0;
    shell_folder_name(s->shell, path_absolute(s->request->resume_dir));
    int rc = shell_store_open(s->shell, STORE_PEEK, err);
    if (rc)
        return rc;
    rc = left_read(s, &n_all, err);
    shell_store_close(s->shell);
    for (size_t i = 0; rc == 0 && i < s->earlier.n_done; i++)
        n_done += s->earlier.done[i].count;
    if (rc == 0 && n_all >= n_done && n_all > 0)
        print_line("run %s goes on: %lu of %lu %ss are left", path_basename(s->request->resume_dir),
                   n_all - n_done, n_all, noun);
    else if (rc == 0)
        print_line("run %s goes on: %lu %ss are done", path_basename(s->request->resume_dir),
                   n_done, noun);
    return rc;
}
