/* SPDX-License-Identifier: Apache-2.0
 *
 * muster hosts shows the hosts of a run, adds hosts to it, and gives hosts back, while the run goes on.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/texts.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "node/host_list.h"
#include "store/lock.h"
#include "store/runs.h"
#include "store/status.h"

enum {
    RENEWAL_LIMIT_MS = 3000, /* a run writes its status about once a second */
    LOOK_EVERY_MS = 50,
    NAME_COLUMNS = 24
};

struct hosts_request {
    const char *runs_dir, *add;
    struct texts drop;
    bool now, json;
};

/* ---- the list ---- */

static void row_add(struct buf *out, const struct host_status *host)
{
    char done[32], trip[24];
    count_format(done, host->done);
    duration_format(trip, host->round_trip_ms);
    cleanup_free char *name = console_visible_new(host->name ? host->name : "?");
    cleanup_free char *state = console_visible_new(host->state ? host->state : "?");
    cleanup_free char *why = console_visible_new(host->why ? host->why : "");
    console_padded_add(out, str_of(name), NAME_COLUMNS);
    buf_addf(out, "  %-8s  %7lu  %7lu  %10s  %12s%s%s\n", state, host->n_devices, host->n_workers,
             trip, done, why[0] ? "  " : "", why);
}

static void list_add(const struct run_status *status, bool is_json, struct buf *out)
{
    cleanup_buf struct buf object = BUF_INIT;
    if (!is_json && status->n_hosts > 0)
        buf_addf(out, "%-*s  %-8s  %7s  %7s  %10s  %12s\n", NAME_COLUMNS, "HOST", "STATE",
                 "DEVICES", "WORKERS", "ROUND TRIP", "DONE");
    for (size_t i = 0; i < status->n_hosts; i++) {
        if (!is_json) {
            row_add(out, &status->hosts[i]);
            continue;
        }
        buf_reset(&object);
        host_status_format(&status->hosts[i], &object);
        console_visible_add(out, buf_str(&object));
        buf_add_char(out, '\n');
    }
}

/*
 * Waits for the status of the run; after an order, for a status that is newer than the order, but not for long. A run
 * that has just begun has no status yet.
 */
static int status_await(const char *dir, int64_t since_wall_ms, struct run_status *out,
                        struct err *err)
{
    uint64_t begin_ms = clock_now_ms();
    for (;;) {
        int rc = status_read(dir, out, err);
        bool is_old = rc == ERR_USAGE || (rc == 0 && out->updated_wall_ms < since_wall_ms);
        if (!is_old || clock_now_ms() - begin_ms >= RENEWAL_LIMIT_MS || !run_is_locked(dir, NULL))
            return rc;
        status_release(out);
        pause_ms(LOOK_EVERY_MS);
    }
}

static int list_print(struct app *app, const struct hosts_request *ask, const char *dir,
                      int64_t since_wall_ms, struct err *err)
{
    struct run_status status = {0};
    cleanup_buf struct buf out = BUF_INIT;
    int rc = status_await(dir, since_wall_ms, &status, err);
    if (rc)
        return rc;
    if (status.n_hosts == 0)
        say(app, "run %s uses one machine alone", path_basename(dir));
    list_add(&status, ask->json, &out);
    status_release(&status);
    return stdout_put(buf_str(&out), err);
}

/* ---- orders ---- */

/* Adds a line to an order. A name that contains a newline is refused, because it would be another line. */
static int line_add(struct buf *out, const char *what, const char *text, struct err *err)
{
    if (!text[0] || strchr(text, '\n'))
        return fail(err, ERR_USAGE, "'%s' names no host", text);
    buf_addf(out, "%s %s\n", what, text);
    return 0;
}

static int file_expand(struct str piece, struct buf *out, struct err *err)
{
    cleanup_free char *text = xstrndup(piece.at, piece.len);
    struct host_list list;
    int rc = host_list_parse(text, &list, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < list.len; i++) {
        const struct host *host = &list.at[i];
        buf_addf(out, "%s%s%s%s", i > 0 ? "," : "", host->name, host->gpus ? "=" : "",
                 host->gpus ? host->gpus : "");
    }
    host_list_release(&list);
    return 0;
}

/*
 * Reads the files of hosts in this process: the muster of the run may have another working folder, and must not wait
 * for a file server.
 */
static int files_expand(const char *text, struct buf *out, struct err *err)
{
    struct str rest = str_of(text), piece;
    int rc = 0;
    for (bool is_first = true; rc == 0 && str_next(&rest, ',', &piece); is_first = false) {
        piece = str_trim(piece);
        buf_add_text(out, is_first ? "" : ",");
        if (piece.len > 0 && piece.at[0] == '@')
            rc = file_expand(piece, out, err);
        else
            buf_add_str(out, piece);
    }
    return rc;
}

static int order_make(const struct hosts_request *ask, struct buf *out, struct err *err)
{
    cleanup_buf struct buf add = BUF_INIT;
    int rc = ask->add ? files_expand(ask->add, &add, err) : 0;
    if (rc == 0 && ask->add)
        rc = line_add(out, "add", buf_text(&add), err);
    for (size_t i = 0; rc == 0 && i < ask->drop.len; i++)
        rc = line_add(out, ask->now ? "drop-now" : "drop", ask->drop.at[i], err);
    return rc;
}

static int order_give(const char *dir, const struct hosts_request *ask, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_free char *told = NULL;
    int rc = order_make(ask, &text, err);
    return rc ? rc : run_order(dir, buf_str(&text), &told, err);
}

static int hosts_run(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    const struct hosts_request *ask = request;
    cleanup_free char *dir = NULL;
    (void)command;
    if (ask->now && ask->drop.len == 0)
        return fail(err, ERR_USAGE, "--now belongs to --drop");
    int rc = run_arg_find(ask->runs_dir, argc, argv, &dir, err);
    bool is_order = ask->add || ask->drop.len > 0;
    if (rc == 0 && is_order)
        rc = order_give(dir, ask, err);
    return rc ? rc : list_print(app, ask, dir, is_order ? clock_wall_ms() : 0, err);
}

static const struct opt hosts_opts[] = {
    {.kind = OPT_TEXT,
     .name = "add",
     .arg = "LIST",
     .help = "add these hosts, written as for --hosts of muster map; their devices get workers "
             "of their own",
     .offset = offsetof(struct hosts_request, add)},
    {.kind = OPT_TEXTS,
     .name = "drop",
     .arg = "HOST",
     .help = "remove this host from the run when its workers have finished the items that they "
             "have (may be repeated)",
     .offset = offsetof(struct hosts_request, drop)},
    {.kind = OPT_FLAG,
     .name = "now",
     .help = "with --drop: end the workers of the host at once; other hosts run their items again",
     .offset = offsetof(struct hosts_request, now)},
    {.kind = OPT_FLAG,
     .name = "json",
     .help = "print one JSON object per line for each host, as in the run's status.json",
     .offset = offsetof(struct hosts_request, json)},
    RUNS_DIR_OPT(struct hosts_request),
    {.kind = OPT_END},
};

static const char *const hosts_examples[] = {
    "muster hosts",
    "the hosts of the latest run: what they are doing, and how much they have done",
    "muster hosts --add node9 --drop node2",
    "node9 joins the run, and node2 leaves it when its workers have finished their items",
    NULL,
};

const struct cmd cmd_hosts = {
    .name = "hosts",
    .args = "[OPTION]... [RUN]",
    .summary = "list the hosts of a run, and add or drop some while it goes on",
    .details = "Works from another host too, when the run's folder is shared.",
    .opts = hosts_opts,
    .examples = hosts_examples,
    .request_size = sizeof(struct hosts_request),
    .run = hosts_run,
};
