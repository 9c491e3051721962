/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sim_args.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "store/runs.h"
#include "store/store.h"

enum {
    QUANTILES = 4096,
    FILE_BYTES_MAX = 1 << 30
};

static int time_check(double ms, struct err *err)
{
    if (!(ms >= 0))
        return fail(err, ERR_USAGE, "a time is not negative");
    if (ms > DIST_MAX_S * 1e3)
        return fail(err, ERR_USAGE, "a time is at most %d days", DIST_MAX_S / 86400);
    return 0;
}

static int time_parse(struct str text, double *out_ms, struct err *err)
{
    struct str number = {text.at, text.len - MIN(text.len, (size_t)2)};
    uint64_t ms;
    int rc;
    if (str_ends_with(text, STR("us"))) {
        rc = double_parse(number, out_ms, err);
        *out_ms = rc ? 0 : *out_ms / 1e3;
    } else {
        rc = duration_parse(text, &ms, err);
        *out_ms = rc ? 0 : (double)ms;
    }
    return rc ? rc : time_check(*out_ms, err);
}

/* KIND:MEAN:SPREAD */
static const struct shape {
    const char *name;
    enum dist_kind kind;
    double spread_above, spread_most, spread_default;
    const char *spread_is;
} shapes[] = {
    {"lognormal", DIST_LOG_NORMAL, 0, 10, 1, "sigma, above 0 and at most 10"},
    {"uniform", DIST_UNIFORM, 0, 1, 0.5, "a share of the mean, above 0 and at most 1"},
    {"pareto", DIST_PARETO, 1, 100, 1.5, "an exponent above 1"},
};

static int shape_parse(const struct shape *shape, struct str rest, struct dist *out,
                       struct err *err)
{
    struct str mean;
    *out = (struct dist){.kind = shape->kind, .spread = shape->spread_default};
    if (!str_next(&rest, ':', &mean))
        return fail(err, ERR_USAGE, "expected %s:MEAN[:SPREAD]", shape->name);
    int rc = time_parse(mean, &out->mean_ms, err);
    if (rc || rest.at == NULL || rest.len == 0)
        return rc;
    rc = double_parse(rest, &out->spread, err);
    if (rc == 0 && !(out->spread > shape->spread_above && out->spread <= shape->spread_most))
        return fail(err, ERR_USAGE, "'%.*s': the spread of %s is %s", (int)rest.len, rest.at,
                    shape->name, shape->spread_is);
    return rc;
}

static int list_read(const char *path, struct dist *out, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    int rc = file_read(path, FILE_BYTES_MAX, &text, err);
    if (rc)
        return rc;
    struct str rest = buf_str(&text), line;
    double *list_ms = NULL;
    size_t n = 0, cap = 0, at_line = 0;
    while (rc == 0 && rest.len > 0 && str_next(&rest, '\n', &line)) {
        at_line++;
        line = str_trim(line);
        if (line.len == 0)
            continue;
        if (n == cap) {
            cap = cap ? 2 * cap : 256;
            list_ms = xrealloc(list_ms, cap * sizeof(*list_ms));
        }
        double seconds = 0;
        rc = double_parse(line, &seconds, err);
        list_ms[n++] = seconds * 1e3;
        rc = rc ? rc : time_check(seconds * 1e3, err);
        if (rc)
            rc = wrap(err, ERR_DATA, "%s line %zu, where seconds are expected", path, at_line);
    }
    if (rc == 0 && n == 0)
        rc = fail(err, ERR_DATA, "%s is empty: it should hold a time in seconds a line", path);
    if (rc)
        free(list_ms);
    else
        *out = (struct dist){.kind = DIST_LIST, .list_ms = list_ms, .n_list = n};
    return rc;
}

static int range_parse(struct str from, struct str to, struct dist *out, struct err *err)
{
    double low_ms, high_ms;
    int rc = time_parse(from, &low_ms, err);
    if (rc == 0)
        rc = time_parse(to, &high_ms, err);
    if (rc)
        return rc;
    if (high_ms < low_ms)
        return fail(err, ERR_USAGE, "the range ends before it begins");
    *out = (struct dist){.kind = DIST_UNIFORM, .mean_ms = (low_ms + high_ms) / 2};
    out->spread = out->mean_ms > 0 ? (high_ms - low_ms) / 2 / out->mean_ms : 0;
    return 0;
}

int dist_parse(struct str text, struct dist *out, struct err *err)
{
    struct str rest = text, head;
    if (text.len > 1 && text.at[0] == '@') {
        cleanup_free char *path = xstrndup(text.at + 1, text.len - 1);
        return list_read(path, out, err);
    }
    bool has_head = str_next(&rest, ':', &head) && head.len < text.len;
    for (size_t i = 0; has_head && i < countof(shapes); i++)
        if (str_equal(head, str_of(shapes[i].name)))
            return shape_parse(&shapes[i], rest, out, err);
    if (has_head)
        return fail(err, ERR_USAGE,
                    "'%.*s' is no kind of distribution: expected lognormal, uniform or pareto",
                    (int)head.len, head.at);
    rest = text;
    if (str_next(&rest, '-', &head) && head.len > 0 && head.len < text.len)
        return range_parse(head, rest, out, err);
    *out = (struct dist){.kind = DIST_CONSTANT};
    return time_parse(text, &out->mean_ms, err);
}

int share_parse(struct str text, double *out, struct err *err)
{
    bool is_percent = str_ends_with(text, STR("%"));
    int rc = double_parse((struct str){text.at, text.len - is_percent}, out, err);
    if (rc)
        return rc;
    *out /= is_percent ? 100 : 1;
    if (!(*out >= 0 && *out <= 1))
        return fail(err, ERR_USAGE, "'%.*s': a share is between 0%% and 100%%", (int)text.len,
                    text.at);
    return 0;
}

/* ---- from an earlier run ---- */

static int attempts_learn(struct store *store, struct learned *out, struct err *err)
{
    struct row_reader *reader;
    struct attempt_row row;
    double load_ms = 0;
    uint32_t n_loads = 0;
    int rc = attempt_reader_open(&reader, store, err);
    if (rc)
        return rc;
    while ((rc = attempt_reader_next(reader, &row, err)) > 0) {
        struct hist times = {0};
        out->workers = MAX(out->workers, row.seat + 1);
        if (row.times && hist_parse(&times, row.times, NULL) == 0)
            hist_merge(&out->times, &times);
        if (row.items_done > 0) {
            load_ms += (double)row.load_ms;
            n_loads++;
        }
    }
    row_reader_close(reader);
    out->load_ms = n_loads > 0 ? load_ms / n_loads : 0;
    return rc;
}

static int map_check(const char *run_dir, struct err *err)
{
    struct run_summary run;
    int rc = run_inspect(run_dir, &run, err);
    if (rc)
        return rc;
    if (run_is_graph(&run))
        rc =
            fail(err, ERR_USAGE,
                 "run %s is a graph, which has jobs and no items; muster graph --dry-run shows its "
                 "schedule, by the times of earlier jobs",
                 run.name);
    run_summary_release(&run);
    return rc;
}

/* Takes the counts from the ledger. The times of a run of shards are those of whole shards. */
static int counts_learn(struct store *store, struct learned *out, struct err *err)
{
    struct store_totals totals;
    cleanup_free char *items = NULL;
    uint64_t deaths;
    int rc = store_totals(store, &totals, err);
    rc = rc ? rc : store_get(store, "items", &items, err);
    rc = rc ? rc : store_event_count(store, "died", &deaths, err);
    if (rc)
        return rc;
    uint64_t done = totals.items_done;
    if (!items || u64_parse(str_of(items), 0, UINT64_MAX, &out->items, NULL) != 0)
        out->items = done;
    out->crash = done > 0 ? MIN((double)deaths / (double)(done + deaths), 1.0) : 0;
    return 0;
}

int learned_read(const char *run_dir, struct learned *out, struct err *err)
{
    struct store *store;
    *out = (struct learned){0};
    int rc = map_check(run_dir, err);
    rc = rc ? rc : store_open(&store, run_dir, STORE_READ, err);
    if (rc)
        return rc;
    rc = attempts_learn(store, out, err);
    rc = rc ? rc : counts_learn(store, out, err);
    store_close(store);
    if (rc == 0 && out->times.n == 0)
        rc = fail(err, ERR_DATA,
                  "%s has no times of items yet: a worker must have given two results", run_dir);
    return rc;
}

struct dist learned_times(const struct hist *times)
{
    double *list_ms = xmalloc(QUANTILES * sizeof(*list_ms));
    struct rng rng = {1};
    for (uint32_t i = 0; i < QUANTILES; i++) {
        uint32_t at = (uint32_t)rng_below(&rng, i + 1);
        list_ms[i] = list_ms[at];
        list_ms[at] = (double)hist_quantile_us(times, (i + 0.5) / QUANTILES) / 1e3;
    }
    double sum_ms = 0;
    for (uint32_t i = 0; i < QUANTILES; i++)
        sum_ms += list_ms[i];
    /*
     * Quantiles are inexact by some percent; the mean, on which the run's time depends, is known
     * exactly.
     */
    double scale = sum_ms > 0 ? hist_mean_us(times) / 1e3 / (sum_ms / QUANTILES) : 1;
    return (struct dist){
        .kind = DIST_LIST, .mean_ms = scale, .list_ms = list_ms, .n_list = QUANTILES};
}
