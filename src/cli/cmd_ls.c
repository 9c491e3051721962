/* SPDX-License-Identifier: Apache-2.0
 *
 * muster ls: the runs, newest first.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/json.h"
#include "base/json_bytes.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "store/runs.h"
#include "submit/look.h"

enum {
    NAME_COLUMNS = 28
};

struct ls_request {
    const char *runs_dir;
    bool json;
    uint64_t last;
};

static void progress_format(struct buf *out, const struct run_summary *run)
{
    char done[32], total[32];
    count_format(done, run->items_done);
    count_format(total, run->items_total);
    if (run->is_total_known)
        buf_addf(out, "%s/%s", done, total);
    else
        buf_add_text(out, done);
    if (run->items_failed)
        buf_addf(out, " (%llu %s)", (unsigned long long)run->items_failed,
                 run_is_graph(run) ? "failed" : "aside");
}

static void row_add(struct buf *out, const struct run_summary *run, int64_t now_ms)
{
    char age[24] = "-";
    cleanup_buf struct buf progress = BUF_INIT;
    if (run->started_wall_ms)
        duration_format(age, (uint64_t)MAX(now_ms - run->started_wall_ms, 0));
    progress_format(&progress, run);
    cleanup_free char *name = console_visible_new(run->name);
    cleanup_free char *output = console_visible_new(run->output ? run->output : "-");
    console_padded_add(out, str_of(name), NAME_COLUMNS);
    buf_addf(out, "  %-11s  %-24s  %12s  %s\n", run_state_name(run->state), buf_text(&progress),
             age, output);
}

static void text_add(struct buf *out, const char *key, const char *text)
{
    buf_addf(out, ",\"%s\":", key);
    if (text)
        buf_add_json(out, str_of(text));
    else
        buf_add_text(out, "null");
}

static void object_add(struct buf *line, const struct run_summary *run, uint64_t job)
{
    cleanup_buf struct buf object = BUF_INIT;
    struct buf *out = &object;
    buf_add_char(out, '{');
    run_names_add(out, run->dir);
    text_add(out, "verb", run->verb);
    text_add(out, "state", run_state_name(run->state));
    if (run->is_total_known)
        buf_addf(out, ",\"items\":%llu", (unsigned long long)run->items_total);
    else
        text_add(out, "items", NULL);
    buf_addf(out, ",\"done\":%llu,\"aside\":%llu,\"started_ms\":%lld,\"updated_ms\":%lld",
             (unsigned long long)run->items_done, (unsigned long long)run->items_failed,
             (long long)run->started_wall_ms, (long long)run->updated_wall_ms);
    buf_add_text(out, ",\"output\":");
    buf_add_json_bytes(out, run->output);
    buf_add_text(out, ",\"not_read\":");
    buf_add_json_bytes(out, run->oddity);
    if (job > 0)
        buf_addf(out, ",\"job\":%llu", (unsigned long long)job);
    buf_add_char(out, '}');
    console_visible_add(line, buf_str(out));
    buf_add_char(line, '\n');
}

/* A run that is removed meanwhile is left out; of one that cannot be read, what is known is shown. */
static int ls_run(struct app *app, void *request, int argc, char **argv, char **command,
                  struct err *err)
{
    (void)command;
    const struct ls_request *ask = request;
    if (argc > 0)
        return fail(err, ERR_USAGE, "'%s' is not expected: ls takes no operands", argv[0]);
    cleanup_free char *root = runs_root(ask->runs_dir);
    struct run_names names;
    int rc = runs_list(root, &names, err);
    if (rc)
        return rc;
    size_t n_shown = ask->last ? MIN(names.len, (size_t)ask->last) : names.len;
    cleanup_buf struct buf out = BUF_INIT;
    if (n_shown && !ask->json)
        buf_addf(&out, "%-*s  %-11s  %-24s  %12s  %s\n", NAME_COLUMNS, "RUN", "STATE", "DONE",
                 "AGE", "OUTPUT");
    for (size_t i = 0; i < n_shown; i++) {
        cleanup_free char *dir = xasprintf("%s/%s", root, names.at[i]);
        struct run_summary run;
        struct submitted_look submitted;
        if (run_inspect(dir, &run, NULL) != 0)
            continue;
        submitted_look(&run, &submitted);
        if (ask->json)
            object_add(&out, &run, submitted.job);
        else
            row_add(&out, &run, clock_wall_ms());
        if (run.oddity)
            say(app, "run %s: %s", run.name, run.oddity);
        submitted_look_release(&submitted);
        run_summary_release(&run);
    }
    if (names.len == 0)
        say(app, "there are no runs in %s", root);
    run_names_release(&names);
    return stdout_put(buf_str(&out), err);
}

static const struct opt ls_opts[] = {
    {.kind = OPT_U64,
     .letter = 'n',
     .name = "last",
     .arg = "N",
     .help = "list only the newest N runs (default: all)",
     .offset = offsetof(struct ls_request, last),
     .min = 1},
    {.kind = OPT_FLAG,
     .name = "json",
     .help = "print one JSON object per line instead of the table",
     .offset = offsetof(struct ls_request, json)},
    RUNS_DIR_OPT(struct ls_request),
    {.kind = OPT_END},
};

static const char *const ls_examples[] = {
    "muster ls",
    "every run, its state and how far it is",
    "muster ls --json | jq -r 'select(.state == \"interrupted\").run'",
    "the runs that could be resumed",
    NULL,
};

const struct cmd cmd_ls = {
    .name = "ls",
    .args = "[OPTION]...",
    .summary = "list the runs, newest first",
    .details =
        "States: running; finished; failed (it ended with results missing); stopped (by muster stop, a signal, a limit, a full disk or a lack of devices); interrupted (its muster died); queued (its Slurm job waits). Failed, stopped and interrupted "
        "runs can be resumed.",
    .opts = ls_opts,
    .examples = ls_examples,
    .request_size = sizeof(struct ls_request),
    .run = ls_run,
};
