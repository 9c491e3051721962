/* SPDX-License-Identifier: Apache-2.0 */
#include "map/summary.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/talk.h"
#include "map/progress.h"
#include "map/session_impl.h"
#include "map/work.h"
#include "store/runs.h"
#include "store/status.h"

struct figures {
    struct feed_counts counts;
    uint64_t wall_ms, busy_ms, load_ms, seat_ms;
    double items_per_s; /* over the whole run */
    double efficiency;
    /* a worker gave a result, and its loading time could be measured */
    bool is_load_known;
    struct hist item_times;
    bool was_loaded;   /* every seat had a worker that was ready, and all items are done */
    uint64_t ready_ms; /* from the start until the last of these was ready */
    double loaded_items_per_s;
};

static double items_per_s(const struct figures *f, uint64_t n_items)
{
    return (double)n_items * 1000.0 / (double)MAX(f->wall_ms, (uint64_t)1);
}

/*
 * The rate of loaded workers: the sum over seats of items by the time from readiness to the last result of the run,
 * busy or not. A worker that is ready before the others does not raise the rate of another one.
 */
static void loaded_take(const struct session *s, struct figures *f)
{
    uint64_t begin_us = shell_begin_ms(s->shell) * 1000, end_us = s->outcome.complete_us;
    f->was_loaded = f->is_load_known && s->outcome.is_complete;
    for (uint32_t p = 0; p < s->n_seats; p++) {
        const struct seat_state *seat = &s->seats[p];
        if (seat->ready_us == 0 || seat->ready_us >= end_us) {
            f->was_loaded = false;
            continue;
        }
        f->ready_ms = MAX(f->ready_ms, (seat->ready_us - MIN(begin_us, seat->ready_us)) / 1000);
        f->loaded_items_per_s += (double)seat->items_done * 1e6 / (double)(end_us - seat->ready_us);
    }
}

static struct figures figures_take(struct session *s)
{
    struct figures f = {0};
    feed_counts(s->feed, &f.counts);
    uint64_t now_ms = shell_now(s->shell), begin_ms = shell_begin_ms(s->shell);
    f.wall_ms = now_ms - begin_ms;
    for (uint32_t p = 0; p < s->n_seats; p++) {
        f.seat_ms += now_ms - MIN(now_ms, MAX(begin_ms, s->seats[p].since_ms));
        f.busy_ms += s->seats[p].busy_ms;
        f.load_ms += s->seats[p].load_ms;
        hist_merge(&f.item_times, &s->seats[p].item_times);
    }
    f.is_load_known = s->request->work->keeps_workers && s->outcome.has_result;
    f.items_per_s = items_per_s(&f, s->request->work->n_done_here(s));
    f.efficiency = f.seat_ms > 0 ? (double)f.busy_ms / (double)f.seat_ms : 0;
    loaded_take(s, &f);
    return f;
}

/* "0.8 ms", "2.35 s", "1 m 40 s": an item's time to three figures. */
static void item_time_format(char out[24], uint64_t us)
{
    if (us < 1000)
        snprintf(out, 24, "%lu us", us);
    else if (us < 1000000)
        snprintf(out, 24, "%.3g ms", (double)us / 1e3);
    else if (us < 100000000)
        snprintf(out, 24, "%.3g s", (double)us / 1e6);
    else
        duration_format(out, us / 1000);
}

static void items_line(const struct figures *f, const char *noun, struct buf *out)
{
    char median[24], slow[24], slowest[24];
    if (f->item_times.n == 0)
        return;
    item_time_format(median, hist_quantile_us(&f->item_times, 0.5));
    item_time_format(slow, hist_quantile_us(&f->item_times, 0.99));
    item_time_format(slowest, f->item_times.max_us);
    buf_addf(out, "  %-10s %s; 99 %% within %s, the slowest %s\n", noun, median, slow, slowest);
}

static void wall_line(const struct session *s, const struct figures *f, struct buf *out)
{
    char wall[24], load[24], rate[24], loaded[24];
    duration_format(wall, f->wall_ms);
    duration_format(load, f->load_ms);
    buf_addf(out, "  wall       %s", wall);
    figures_format(rate, f->items_per_s);
    figures_format(loaded, f->loaded_items_per_s);
    if (f->items_per_s > 0)
        buf_addf(out, ", %s items/s", rate);
    if (f->was_loaded && f->items_per_s > 0)
        buf_addf(out, " (%s once loaded)", loaded);
    buf_addf(out, "%s%s, over %u worker%s\n", f->is_load_known ? "; loading " : "",
             f->is_load_known ? load : "", s->n_seats, s->n_seats == 1 ? "" : "s");
}

static void trouble_line(const struct feed_counts *counts, struct buf *out)
{
    buf_addf(out, "  trouble    %lu %s, %lu %s, %lu out of memory, %lu item%s given twice\n",
             counts->retries, counted_noun(counts->retries, "retry", "retries"), counts->crashes,
             counted_noun(counts->crashes, "crash", "crashes"), counts->ooms, counts->reissued,
             plural(counts->reissued));
}

/*
 * The line about workers. A shard's process holds its device from its start to its end, so its real computing time is
 * not known. Several workers may share a device, and a worker may have several devices.
 */
static void workers_line(const struct session *s, const struct figures *f, struct buf *out)
{
    bool is_efficiency_known = s->request->work->keeps_workers;
    char busy[24];
    duration_format(busy, f->busy_ms);
    buf_addf(out, "  workers    %s %s of %.1f worker-seconds",
             is_efficiency_known ? "busy" : "held", busy, (double)f->seat_ms / 1000.0);
    if (is_efficiency_known)
        buf_addf(out, ": efficiency %.0f %%", f->efficiency * 100);
    buf_add_char(out, '\n');
}

char *summary_run_new(const struct session *s)
{
    return run_typed_new(shell_run_dir(s->shell), s->request->usual_root);
}

void summary_go_on(const struct session *s, const char *option, struct buf *out)
{
    cleanup_free char *run = summary_run_new(s);
    if (s->request->run.go_on)
        buf_add_text(out, s->request->run.go_on);
    else
        buf_addf(out, "muster resume %s%s%s", run, option ? " " : "", option ? option : "");
}

static void metrics_line(struct session *s, struct buf *out)
{
    const struct metrics *m = ledger_metrics(s->ledger);
    double correct, seen;
    char sum[METRIC_TEXT_BYTES];
    if (m->len == 0)
        return;
    buf_add_text(out, "  metrics    ");
    for (size_t i = 0; i < m->len; i++) {
        metric_format(sum, m->values[i]);
        buf_addf(out, "%s%s %s", i > 0 ? ", " : "", m->names[i], sum);
    }
    if (metrics_judged(m, &correct, &seen)) {
        accuracy_add(out, "  (", correct, seen);
        buf_add_char(out, ')');
    }
    buf_add_char(out, '\n');
}

static void memory_lines(struct session *s, struct buf *out)
{
    for (size_t d = 0; d < s->allocation.n_chosen; d++) {
        const struct device_sample *sample =
            device_watch_sample(s->devices, s->allocation.chosen[d]);
        cleanup_buf struct buf label = BUF_INIT;
        char used[16], total[16];
        if (sample->mem_total_bytes == 0)
            continue;
        allocation_label_add(&s->allocation, (uint32_t)d, &label);
        size_format(used, sample->mem_used_bytes);
        size_format(total, sample->mem_total_bytes);
        buf_addf(out, "  memory     %s: %s of %s\n", buf_text(&label), used, total);
    }
}

/* The status is 1, so even with --quiet the reason is printed. */
static void failed_items_say(struct session *s, uint64_t n_failed_items, const char *noun,
                             const char *failed)
{
    cleanup_buf struct buf next = BUF_INIT;
    if (n_failed_items > s->failed.n_malformed) {
        buf_add_text(&next, "; go on with: ");
        summary_go_on(s, "--retry-failed", &next);
    }
    talk("%lu %s%s set aside, with reasons in %s%s", n_failed_items, noun,
         n_failed_items == 1 ? " was" : "s were", failed, buf_text(&next));
}

/* Writes the last words. The write blocks if stderr is not read; meanwhile a signal ends the process. */
static void last_words_write(struct session *s, struct str words)
{
    struct sigaction before[END_SIGNALS];
    cleanup_buf struct buf out = BUF_INIT;
    log_unread_add(shell_log(s->shell), &out);
    buf_add_str(&out, words);
    shell_signals_end(s->shell, before);
    if (write_all(STDERR_FILENO, out.at, out.len, NULL) != 0)
        shell_hush(s->shell);
    shell_signals_restore(s->shell, before);
}

/* The figures of each host of --hosts over the whole run. */
static struct host_status *hosts_take(struct session *s, const struct figures *f, size_t *n_hosts)
{
    struct snapshot shot = {0};
    if (!shell_hosts(s->shell)) {
        *n_hosts = 0;
        return NULL;
    }
    snapshot_take(s, &shot);
    struct host_status *hosts = snapshot_hosts(s, &shot, n_hosts);
    for (size_t i = 0; i < *n_hosts; i++)
        hosts[i].rate = items_per_s(f, hosts[i].done);
    snapshot_release(&shot);
    return hosts;
}

/* "lab1: 1,200 items, 12.3 items/s; 1.2 MiB sent, 3.4 MiB received; without a connection for 3.0 s, given up" */
static void host_line(const struct host_status *host, struct buf *out)
{
    char done[32], sent[16], received[16], lost[24], rate[24];
    count_format(done, host->done);
    size_format(sent, host->sent_bytes);
    size_format(received, host->received_bytes);
    duration_format(lost, host->lost_ms);
    figures_format(rate, host->rate);
    buf_addf(out, "  host       %s: %s item%s, %s items/s", host->name, done, plural(host->done),
             rate);
    if (host->sent_bytes + host->received_bytes > 0)
        buf_addf(out, "; %s sent, %s received", sent, received);
    if (host->lost_ms > 0)
        buf_addf(out, "; without a connection for %s", lost);
    if (strcmp(host->state, "up") != 0)
        buf_addf(out, "; %s", host->state);
    buf_add_char(out, '\n');
}

static void host_lines(struct session *s, const struct figures *f, struct buf *out)
{
    size_t n_hosts;
    cleanup_free struct host_status *hosts = hosts_take(s, f, &n_hosts);
    for (size_t i = 0; i < n_hosts; i++)
        host_line(&hosts[i], out);
}

static void failed_line(const struct session *s, uint64_t n_failed_items, struct buf *out)
{
    cleanup_free char *failed = failed_items_path(s);
    if (n_failed_items == 0)
        return;
    buf_addf(out, "  failed     %lu %s%s", n_failed_items, s->request->work->noun,
             n_failed_items == 1 ? "" : "s");
    if (s->failed.are_listed)
        buf_addf(out, ", with reasons in %s\n", failed);
    else
        buf_add_text(out, ", whose reasons could not be listed\n");
}

void summary_print(struct session *s, const struct result_merge_stats *stats)
{
    struct figures f = figures_take(s);
    cleanup_buf struct buf out = BUF_INIT;
    const struct work *work = s->request->work;
    cleanup_free char *failed = failed_items_path(s);
    work->result_line(s, stats, &out);
    failed_line(s, f.counts.aside, &out);
    wall_line(s, &f, &out);
    items_line(&f, work->a_noun, &out);
    workers_line(s, &f, &out);
    host_lines(s, &f, &out);
    if (f.counts.retries + f.counts.crashes + f.counts.reissued + f.counts.ooms > 0)
        trouble_line(&f.counts, &out);
    metrics_line(s, &out);
    memory_lines(s, &out);
    if (work->advice_add)
        work->advice_add(s, !stats || f.counts.aside > 0, &out);
    if (stats && f.counts.aside > s->failed.n_malformed) {
        buf_add_text(&out, "  next       ");
        summary_go_on(s, "--retry-failed", &out);
        buf_add_char(&out, '\n');
    } else if (stats && f.counts.aside > 0)
        buf_add_text(&out,
                     "  next       mend these records, and run them as an input of their own\n");
    log_add(shell_log(s->shell), LOG_INFO, "map", "%s", buf_text(&out));
    if (shell_is_quiet(s->shell) && stats && f.counts.aside > 0)
        failed_items_say(s, f.counts.aside, work->noun, failed);
    cleanup_buf struct buf shown = BUF_INIT;
    console_lines_add(&shown, buf_str(&out));
    if (!shell_is_quiet(s->shell))
        last_words_write(s, buf_str(&shown));
}

static void hosts_json(struct session *s, const struct figures *f, struct buf *out)
{
    size_t n_hosts;
    cleanup_free struct host_status *hosts = hosts_take(s, f, &n_hosts);
    buf_add_text(out, ",\"hosts\":[");
    for (size_t i = 0; i < n_hosts; i++) {
        buf_add_text(out, i > 0 ? "," : "");
        host_status_format(&hosts[i], out);
    }
    buf_add_char(out, ']');
}

/* The items of the input. In a run of shards they are not the feeder's items, which are shards. */
static struct progress_total items_take(struct session *s, const struct figures *f)
{
    struct progress_total total = {
        .known = f->counts.known, .done = f->counts.done, .aside = f->counts.aside};
    struct snapshot shot = {0};
    if (s->request->work->keeps_workers)
        return total;
    snapshot_take(s, &shot);
    total = shot.total;
    snapshot_release(&shot);
    return total;
}

/* For a part of the work, the feeder counts the shards of other parts as done. */
static void shards_json(const struct session *s, const struct figures *f, struct buf *out)
{
    const struct work *work = s->request->work;
    struct item_span own;
    uint64_t n_all = f->counts.known, n_others = 0;
    if (work->keeps_workers) {
        buf_add_text(out, ",\"shards\":null");
        return;
    }
    if (work->own && work->own(s, &own, &n_all))
        n_others = n_all - own.count;
    buf_addf(out, ",\"shards\":{\"all\":%lu,\"done\":%lu,\"failed\":%lu}", n_all - n_others,
             f->counts.done - MIN(n_others, f->counts.done), f->counts.aside);
}

void summary_json(struct session *s, int status, struct buf *out)
{
    struct figures f = figures_take(s);
    struct progress_total items = items_take(s, &f);
    char load[24] = "null", efficiency[24] = "null", ready[24] = "null", loaded[32] = "null";
    if (f.is_load_known)
        snprintf(load, sizeof(load), "%lu", f.load_ms);
    if (s->request->work->keeps_workers)
        snprintf(efficiency, sizeof(efficiency), "%.4f", f.efficiency);
    if (f.was_loaded) {
        snprintf(ready, sizeof(ready), "%lu", f.ready_ms);
        snprintf(loaded, sizeof(loaded), "%.3f", f.loaded_items_per_s);
    }
    buf_add_text(out, "{\"run\":");
    buf_add_json(out, str_of(shell_run_dir(s->shell)));
    buf_add_text(out, ",\"output\":");
    buf_add_json(out, str_of(s->request->out_path));
    buf_addf(
        out,
        ",\"status\":%d,\"items\":%lu,\"done\":%lu,\"failed\":%lu,\"retries\":%lu,\"crashes\":%lu,\"ooms\":%lu,"
        "\"wall_ms\":%lu,\"load_ms\":%s,\"busy_ms\":%lu,\"workers\":%u,\"items_per_s\":%.3f,"
        "\"ready_ms\":%s,\"loaded_items_per_s\":%s,\"efficiency\":%s,\"item_us_median\":%lu,\"item_us_p99\":%lu,\"metrics\":",
        status, items.known, items.done, items.aside, f.counts.retries, f.counts.crashes,
        f.counts.ooms, f.wall_ms, load, f.busy_ms, s->n_seats, f.items_per_s, ready, loaded,
        efficiency, hist_quantile_us(&f.item_times, 0.5), hist_quantile_us(&f.item_times, 0.99));
    metrics_format(ledger_metrics(s->ledger), out);
    shards_json(s, &f, out);
    hosts_json(s, &f, out);
    buf_add_text(out, "}\n");
}
