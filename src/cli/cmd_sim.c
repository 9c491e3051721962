/* SPDX-License-Identifier: Apache-2.0
 *
 * muster sim: how long a run will take. The feeder of `muster map` runs on a simulated machine.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/idlist.h"
#include "base/json.h"
#include "base/named_files.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "cli/sim_args.h"
#include "sim/forecast.h"
#include "store/runs.h"
#include "ui/timeline.h"

enum {
    ROWS_MAX = 64,
    RUNS_DEFAULT = 20,
    SLOW_FACTOR_MAX = 1000,
    WORK_DEFAULT = 1500000 /* items in all runs together; above this number fewer runs are made
                            * by default */
};

struct sim_request {
    const char *runs_dir, *like, *html, *devices;
    struct dist item_time, load;
    bool has_item_time, has_load, has_crash, json, filter, overwrite, longest_first, no_reissue;
    uint64_t items, workers_per_gpu, concurrency, batch, retries, runs, seed, deadline_ms;
    struct sim_faults faults;
    struct forecast_slow slow;
    double efficiency_least;
};

#define FIELD(name) offsetof(struct sim_request, name)

static int item_time_store(struct str text, void *field, struct err *err)
{
    struct sim_request *ask = (struct sim_request *)(void *)((char *)field - FIELD(item_time));
    ask->has_item_time = true;
    return dist_parse(text, field, err);
}

static int load_store(struct str text, void *field, struct err *err)
{
    struct sim_request *ask = (struct sim_request *)(void *)((char *)field - FIELD(load));
    ask->has_load = true;
    return dist_parse(text, field, err);
}

static int crash_store(struct str text, void *field, struct err *err)
{
    struct sim_request *ask = (struct sim_request *)(void *)((char *)field - FIELD(faults.crash));
    ask->has_crash = true;
    return share_parse(text, field, err);
}

static int share_store(struct str text, void *field, struct err *err)
{
    return share_parse(text, field, err);
}

static int efficiency_store(struct str text, void *field, struct err *err)
{
    double *least = field;
    int rc = share_parse(text, least, err);
    return rc || *least > 0
               ? rc
               : fail(
                     err, ERR_USAGE,
                     "expected a share above 0, found '%.*s': any number of devices is in use for 0%% of the time",
                     (int)text.len, text.at);
}

static int deadline_check(const char *value, struct err *err)
{
    uint64_t ms;
    int rc = duration_parse(str_of(value), &ms, err);
    return rc || ms > 0 ? rc : fail(err, ERR_USAGE, "expected a time above 0, found '%s'", value);
}

static int hours_store(struct str text, void *field, struct err *err)
{
    uint64_t ms;
    int rc = duration_parse(text, &ms, err);
    if (rc == 0)
        *(double *)field = (double)ms / 3.6e6;
    return rc;
}

/* "2:1.5": two devices that take one and a half times as long. */
static int slow_store(struct str text, void *field, struct err *err)
{
    struct forecast_slow *slow = field;
    struct str rest = text, count;
    uint64_t n_devices = 0;
    bool has_count = str_next(&rest, ':', &count) && count.len < text.len;
    if (!has_count || u64_parse(count, 1, SIM_WORKERS_MAX, &n_devices, NULL) != 0 ||
        double_parse(rest, &slow->factor, NULL) != 0 || !(slow->factor > 0))
        return fail(err, ERR_USAGE, "expected COUNT:FACTOR such as 1:2.5, found '%.*s'",
                    (int)text.len, text.at);
    if (slow->factor > SLOW_FACTOR_MAX)
        return fail(err, ERR_USAGE, "a device that takes %.*s times as long is none: at most %d",
                    (int)rest.len, rest.at, SLOW_FACTOR_MAX);
    slow->n_devices = (uint32_t)n_devices;
    return 0;
}

/* clang-format off */
static const struct opt sim_opts[] = {
    {.kind = OPT_HEADING, .help = "The work"},
    {OPT_TEXT, 0, "like", "RUN", "take the items, their times, the loading times and the deaths of workers from this run of muster map; other options override them", FIELD(like)},
    {OPT_U64, 'n', "items", "N", "number of items (default: that of --like)", FIELD(items), 1, UINT32_MAX},
    {OPT_PARSE, 0, "item-time", "TIME", "how long an item takes: 0.9s (each), 0.5s-2s (between), lognormal:0.9s:1 (mean, sigma), pareto:0.9s:1.5 (mean, exponent), @FILE (seconds, one a line)", FIELD(item_time), .parse = item_time_store},
    {OPT_PARSE, 0, "load-time", "TIME", "how long a worker takes to load its model (default 0)", FIELD(load), .parse = load_store},
    {OPT_HEADING, .help = "The machine"},
    {OPT_TEXT, 'd', "devices", "LIST", "how many devices, one row of the table for each: 1,2,4,8 or 1-8 (default 1,2,4,8,16,32,64)", FIELD(devices), .has_no_variable = true},
    {OPT_U64, 0, "workers-per-gpu", "N", "workers on each device (default 1)", FIELD(workers_per_gpu), 1, 1024},
    {OPT_U64, 0, "concurrency", "N", "items that a worker computes at the same time (default 1)", FIELD(concurrency), 1, 100000},
    {OPT_PARSE, 0, "slow", "N:FACTOR", "N of the devices take FACTOR times as long as the others (default: none)", FIELD(slow), .parse = slow_store},
    {OPT_FLAG, 0, "filter", NULL, "simulate a filter (default: a channel worker)", FIELD(filter)},
    {OPT_U64, 'b', "batch", "N", "send whole batches of N items", FIELD(batch), 1, 100000},
    {OPT_FLAG, 0, "longest-first", NULL, "the times of items are known beforehand, and the longest items start first", FIELD(longest_first)},
    {OPT_FLAG, 0, "no-reissue", NULL, "never give an item to a second worker while the first has it", FIELD(no_reissue)},
    {OPT_U64, 'r', "retries", "N", "try a failed item up to N more times (default 2)", FIELD(retries), 0, 100},
    {OPT_HEADING, .help = "What goes wrong"},
    {OPT_PARSE, 0, "fail", "SHARE", "share of the runs of items that fail, such as 0.5% or 0.005 (default 0)", FIELD(faults.fail), .parse = share_store},
    {OPT_PARSE, 0, "crash", "SHARE", "share of the runs of items that kill their worker (default 0; with --like that of the run)", FIELD(faults.crash), .parse = crash_store},
    {OPT_PARSE, 0, "poison", "SHARE", "share of the items that always kill their worker (default 0)", FIELD(faults.poison), .parse = share_store},
    {OPT_PARSE, 0, "start-fail", "SHARE", "share of the starts of workers that die while loading (default 0)", FIELD(faults.start_fail), .parse = share_store},
    {OPT_PARSE, 0, "device-life", "TIME", "mean time until a device is lost for good, such as 30d (default: no device is lost)", FIELD(faults.device_hours), .parse = hours_store},
    {OPT_HEADING, .help = "The answer"},
    {OPT_DURATION, 0, "deadline", "TIME", "recommend the smallest number of devices that finish within TIME in nine runs of ten", FIELD(deadline_ms), .check = deadline_check},
    {OPT_PARSE, 0, "efficiency", "SHARE", "without --deadline: recommend the largest number of devices that are in use for at least this share of the time (default 80%)", FIELD(efficiency_least), .parse = efficiency_store},
    {OPT_U64, 0, "runs", "N", "number of simulations of each row, each with its own seed (default 20; fewer if they would take long)", FIELD(runs), 1, 10000},
    {OPT_U64, 's', "seed", "N", "seed of the first simulation (default 1)", FIELD(seed), 0, 0},
    {OPT_TEXT, 0, "html", "FILE", "write a timeline of the workers in the recommended row", FIELD(html)},
    {OPT_FLAG, 'f', "force", NULL, "replace a file that exists", FIELD(overwrite)},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object per row instead of the table", FIELD(json)},
    RUNS_DIR_OPT(struct sim_request),
    {OPT_END},
};
/* clang-format on */

static void sim_defaults(void *request)
{
    struct sim_request *ask = request;
    ask->retries = 2;
    ask->seed = 1;
    ask->workers_per_gpu = ask->concurrency = 1;
    ask->devices = "1,2,4,8,16,32,64";
    ask->efficiency_least = 0.8;
}

/* Takes the values that no option gave from an earlier run. */
static int like_take(struct sim_request *ask, struct learned *learned, struct err *err)
{
    cleanup_free char *root = runs_root(ask->runs_dir), *dir = NULL;
    int rc = run_find(root, ask->like, &dir, err);
    if (rc == 0)
        rc = learned_read(dir, learned, err);
    if (rc)
        return rc;
    ask->items = ask->items ? ask->items : learned->items;
    if (!ask->has_item_time)
        ask->item_time = learned_times(&learned->times);
    if (!ask->has_load)
        ask->load = (struct dist){.kind = DIST_CONSTANT, .mean_ms = learned->load_ms};
    if (!ask->has_crash)
        ask->faults.crash = learned->crash;
    return 0;
}

static int work_check(const struct sim_request *ask, struct err *err)
{
    if (ask->items == 0)
        return fail(err, ERR_USAGE, "how many items? Give --items N, or --like RUN");
    if (!ask->has_item_time && !ask->like)
        return fail(err, ERR_USAGE, "how long does an item take? Give --item-time, or --like RUN");
    if (ask->longest_first && ask->items > (1u << 24))
        return fail(err, ERR_USAGE, "--longest-first is for at most 16,777,216 items");
    return 0;
}

/* A filter computes one item at a time, whatever --concurrency says. */
static int slots_check(const struct sim_request *ask, const uint32_t *devices, size_t n_devices,
                       struct err *err)
{
    uint64_t each = ask->workers_per_gpu * (ask->filter ? 1 : ask->concurrency);
    char most[32];
    count_format(most, SIM_SLOTS_MAX);
    for (size_t i = 0; i < n_devices; i++)
        if (devices[i] * each > SIM_SLOTS_MAX)
            return fail(err, ERR_USAGE,
                        "%u devices with --concurrency %lu would have more than %s items in work "
                        "at one time, which is not simulated: give less of one",
                        devices[i], (unsigned long)ask->concurrency, most);
    return 0;
}

static int devices_parse(const struct sim_request *ask, uint32_t *devices, size_t *n_devices,
                         struct err *err)
{
    uint32_t most = (uint32_t)(SIM_WORKERS_MAX / ask->workers_per_gpu);
    int rc = idlist_parse(str_of(ask->devices), most, devices, ROWS_MAX, n_devices, err);
    if (rc)
        return wrap(err, rc, "--devices");
    for (size_t i = 0; i < *n_devices; i++)
        if (devices[i] == 0)
            return fail(err, ERR_USAGE, "--devices: nothing can be done on 0 devices");
    return slots_check(ask, devices, *n_devices, err);
}

static struct forecast_opts forecast_of(const struct sim_request *ask, size_t n_rows)
{
    uint64_t work = MAX(ask->items * n_rows, (uint64_t)1);
    uint64_t runs = MIN(MAX(WORK_DEFAULT / work, (uint64_t)1), (uint64_t)RUNS_DEFAULT);
    return (struct forecast_opts){
        .config = {.feed = {.retries = (uint32_t)ask->retries,
                            .batch = (uint32_t)ask->batch,
                            .no_reissue = ask->no_reissue},
                   .kind = ask->filter ? SIM_FILTER : SIM_CHANNEL,
                   .workers_per_device = (uint32_t)ask->workers_per_gpu,
                   .concurrency = (uint32_t)ask->concurrency,
                   .n_items = ask->items,
                   .seed = ask->seed,
                   .service = ask->item_time,
                   .load = ask->load,
                   .sizes_are_known = ask->longest_first,
                   .faults = ask->faults},
        .slow = ask->slow,
        .n_runs = (uint32_t)(ask->runs ? ask->runs : runs),
    };
}

/* ---- the table ---- */

static const char *why_not(const struct forecast_row *row)
{
    static const char *const halts[] = {
        [HALT_NONE] = "",
        [HALT_NO_RESULT] = "given up: no worker gave a result",
        [HALT_NO_DEVICES] = "given up: no device was left",
        [HALT_DRAINED] = "given up: all devices were given back",
        [HALT_FAILURES] = "given up: too many failures",
        [HALT_MISMATCH] = "given up: filters out of step",
        [HALT_STOPPED] = "stopped",
    };
    return row->worst_end == SIM_HALTED ? halts[row->halt] : "";
}

static void head_add(struct buf *out, const struct forecast_opts *opts)
{
    char items[32], load[24];
    const struct sim_config *config = &opts->config;
    count_format(items, config->n_items);
    duration_format(load, (uint64_t)config->load.mean_ms);
    buf_addf(out, "%s items, a load of %s, %u run%s a row\n\n", items,
             config->load.kind == DIST_LIST ? "varying length" : load, opts->n_runs,
             opts->n_runs == 1 ? "" : "s");
    buf_addf(out, "%7s  %12s  %-27s  %8s  %6s  %12s  %12s\n", "DEVICES", "WALL", "  10 % - 90 %",
             "SPEED-UP", "IN USE", "DEVICE-HOURS", "STATIC SPLIT");
}

static void row_add(struct buf *out, const struct forecast_row *row)
{
    char wall[24], low[24], high[24], piece[24], range[64], hours[24];
    duration_format(wall, row->wall_us / 1000);
    duration_format(low, row->wall_low_us / 1000);
    duration_format(high, row->wall_high_us / 1000);
    duration_format(piece, row->static_us / 1000);
    snprintf(range, sizeof(range), "(%s - %s)", low, high);
    figures_format(hours, row->device_hours);
    buf_addf(out, "%7u  %12s  %-27s  %8.2f  %4.0f %%  %12s  %12s", row->n_devices, wall, range,
             row->speedup, row->efficiency * 100, hours, piece);
    if (row->aside >= 0.5)
        buf_addf(out, "  %.0f set aside", row->aside);
    if (row->crashes >= 0.5)
        buf_addf(out, "  %.0f deaths", row->crashes);
    if (row->devices_lost >= 0.05)
        buf_addf(out, "  %.1f devices lost", row->devices_lost);
    buf_addf(out, "%s%s\n", *why_not(row) ? "  " : "", why_not(row));
}

static void object_add(struct buf *out, const struct forecast_row *row, bool is_best)
{
    buf_addf(out,
             "{\"devices\":%u,\"runs\":%u,\"wall_s\":%.3f,\"wall_p10_s\":%.3f,"
             "\"wall_p90_s\":%.3f,\"speedup\":%.3f,\"efficiency\":%.4f,\"device_hours\":%.6g,"
             "\"static_s\":%.3f,\"aside\":%.2f,\"retries\":%.2f,\"deaths\":%.2f,"
             "\"devices_lost\":%.2f,\"is_complete\":%s,\"is_best\":%s}\n",
             row->n_devices, row->n_runs, (double)row->wall_us / 1e6,
             (double)row->wall_low_us / 1e6, (double)row->wall_high_us / 1e6, row->speedup,
             row->efficiency, row->device_hours, (double)row->static_us / 1e6, row->aside,
             row->retries, row->crashes, row->devices_lost,
             row->worst_end == SIM_DONE ? "true" : "false", is_best ? "true" : "false");
}

static void best_add(struct buf *out, const struct sim_request *ask,
                     const struct forecast_row *best)
{
    char wall[24], deadline[24];
    duration_format(deadline, ask->deadline_ms);
    if (!best) {
        buf_addf(out, "\nbest       none of these%s%s\n",
                 ask->deadline_ms ? " is sure to be through in " : " comes to its end",
                 ask->deadline_ms ? deadline : "");
        return;
    }
    duration_format(wall, best->wall_us / 1000);
    buf_addf(out, "\nbest       %u device%s: %s, in use %.0f %% of the time\n", best->n_devices,
             best->n_devices == 1 ? "" : "s", wall, best->efficiency * 100);
    if (best->static_us > best->wall_us && best->wall_us > 0)
        buf_addf(out, "split      an even piece for each device beforehand takes %.0f %% longer\n",
                 100.0 * ((double)best->static_us / (double)best->wall_us - 1));
}

static int death_add(struct buf *out, const struct forecast_opts *opts, uint32_t n_devices,
                     struct err *err)
{
    char cost[24];
    double death_us = forecast_death_us(opts, n_devices);
    if (death_us < 0)
        return fail(err, ERR_SYS, "no memory for a simulation of that size");
    duration_format(cost, (uint64_t)(death_us / 1000));
    buf_addf(out, "a death    of a worker costs %s of device time\n", cost);
    return 0;
}

/* ---- the picture ---- */

static void span_draw(void *context, const struct sim_span *span)
{
    static const enum timeline_kind kinds[] = {[SPAN_LOADING] = TIMELINE_LOADING,
                                               [SPAN_ITEM] = TIMELINE_ITEM,
                                               [SPAN_LOST] = TIMELINE_LOST};
    timeline_add(context, kinds[span->kind], span->worker, span->from_us, span->to_us);
}

static int html_write(const char *path, const struct forecast_opts *opts,
                      const struct forecast_row *row, const char *text, struct err *err)
{
    cleanup_buf struct buf page = BUF_INIT;
    struct forecast_row drawn;
    struct forecast_opts one = *opts;
    char title[64];
    struct timeline *timeline = timeline_new(row->n_devices * opts->config.workers_per_device);
    one.n_runs = 1;
    one.config.context = timeline;
    one.config.on_span = span_draw;
    int rc = forecast_run(&one, row->n_devices, &drawn);
    snprintf(title, sizeof(title), "muster sim: one run on %u device%s", row->n_devices,
             row->n_devices == 1 ? "" : "s");
    if (rc == 0 && drawn.worst_end == SIM_DONE)
        timeline_mark_end(timeline, drawn.wall_us);
    timeline_page(timeline, title, text, &page);
    timeline_free(timeline);
    if (rc)
        return fail(err, ERR_SYS, "no memory for a simulation of that size");
    rc = outfile_put(path, buf_str(&page), err);
    return rc ? wrap(err, rc, "--html") : 0;
}

static int rows_fill(const struct forecast_opts *opts, const uint32_t *devices, size_t n,
                     struct forecast_row *rows, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (opts->slow.n_devices > devices[i])
            return fail(err, ERR_USAGE, "--slow names %u devices, and there is a row with %u",
                        opts->slow.n_devices, devices[i]);
        if (forecast_run(opts, devices[i], &rows[i]) != 0)
            return fail(err, ERR_SYS, "no memory for a simulation of that size");
        if (rows[i].worst_end == SIM_YEARS)
            return fail(err, ERR_USAGE,
                        "a run on %u device%s takes more than %d years, which is not simulated: "
                        "give --devices more, or --items less",
                        devices[i], devices[i] == 1 ? "" : "s", SIM_YEARS_MAX);
        if (rows[i].worst_end == SIM_STUCK)
            BUG("the simulated run stood still: seed %lu, %u devices", opts->config.seed,
                devices[i]);
    }
    return 0;
}

static int answer(const struct sim_request *ask, const struct forecast_opts *opts,
                  const struct forecast_row *rows, size_t n, struct err *err)
{
    cleanup_buf struct buf table = BUF_INIT, objects = BUF_INIT;
    size_t best = forecast_best(rows, n, ask->efficiency_least, ask->deadline_ms * 1000);
    int rc = 0;
    head_add(&table, opts);
    for (size_t i = 0; i < n; i++) {
        row_add(&table, &rows[i]);
        object_add(&objects, &rows[i], i == best);
    }
    best_add(&table, ask, best < n ? &rows[best] : NULL);
    if (!ask->json && best < n)
        rc = death_add(&table, opts, rows[best].n_devices, err);
    if (rc == 0) /* printed before the HTML file is written, which may fail */
        rc = stdout_put(buf_str(ask->json ? &objects : &table), err);
    if (rc == 0 && ask->html)
        rc = html_write(ask->html, opts, &rows[best < n ? best : n - 1], buf_text(&table), err);
    return rc;
}

static int sim_run_verb(struct app *app, void *request, int argc, char **argv, char **command,
                        struct err *err)
{
    (void)app, (void)command;
    struct sim_request *ask = request;
    uint32_t devices[ROWS_MAX];
    struct forecast_row rows[ROWS_MAX] = {0};
    size_t n = 0;
    cleanup_free struct learned *learned = xcalloc(1, sizeof(*learned));
    int rc =
        argc > 0 ? fail(err, ERR_USAGE, "'%s' is not expected: sim takes no operands", argv[0]) : 0;
    if (rc == 0)
        rc = named_files_free(&(struct named_file){ask->html, "--html", true}, 1, ask->overwrite,
                              err);
    if (rc == 0 && ask->like)
        rc = like_take(ask, learned, err);
    if (rc == 0)
        rc = work_check(ask, err);
    if (rc == 0)
        rc = devices_parse(ask, devices, &n, err);
    if (rc == 0) {
        struct forecast_opts opts = forecast_of(ask, n);
        rc = rows_fill(&opts, devices, n, rows, err);
        if (rc == 0)
            rc = answer(ask, &opts, rows, n, err);
    }
    free((void *)(uintptr_t)ask->item_time.list_ms);
    free((void *)(uintptr_t)ask->load.list_ms);
    return rc;
}

static const char *const sim_examples[] = {
    "muster sim --items 8000 --item-time lognormal:0.9s:1 --load-time 35s",
    "what 1 to 64 devices would make of it",
    "muster sim --like latest --items 1000000 --devices 8,16,32 --deadline 8h",
    "the whole data set, after a trial run on some of it",
    "muster sim --like latest --crash 0.1% --devices 8 --html run.html",
    "and if workers died now and then? With a picture",
    NULL,
};

const struct cmd cmd_sim = {
    .name = "sim",
    .args = "[OPTION]...",
    .summary = "simulate a run, to say how long it will take and on how many devices",
    .details =
        "The scheduler of muster map itself works on a simulated machine, days in a second. STATIC SPLIT is the time that the same items take if they are cut beforehand into one even piece for each worker, and nothing fails. IN USE is the share of the devices' time that went into results; the rest is loading, waiting and work whose result was not used.",
    .opts = sim_opts,
    .examples = sim_examples,
    .request_size = sizeof(struct sim_request),
    .defaults = sim_defaults,
    .run = sim_run_verb,
};
