/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts whose Slurm job ends soon are given back in time for their workers to finish the items that they have. Slurm
 * is asked again and again when the time of a job is over, since limits can change while jobs run. The job of "slurm"
 * is the run's own: the run ends with it. A job of "slurm:4" is replaced by another one.
 */
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "shell/hosts_impl.h"
#include "slurm/job.h"

enum {
    ASK_EVERY_MS = 15000,
    LOOK_EVERY_MS = 1000,
    SAFETY_MS = 10000, /* for slow answers, clocks that differ, and workers that end slowly */
    MARGIN_SHARE = 2   /* 1/n: at most this share of the job's time is not used for work */
};

void job_end_joined(struct remote_host *h, uint64_t job)
{
    h->slurm.number = h->host.is_job || h->host.is_slurm ? job : 0;
    h->slurm.end_ms = h->slurm.length_ms = 0;
}

/* ---- asking ---- */

static void on_answered(void *context, struct str answer)
{
    struct hosts *hosts = context;
    uint64_t now_ms = clock_now_ms();
    struct slurm_time time;
    while (slurm_time_next(&answer, &time)) {
        int64_t left_ms = (int64_t)(time.end_s * 1000) - clock_wall_ms();
        for (size_t i = 0; i < hosts->len; i++) {
            struct remote_host *h = hosts->at[i];
            if (h->slurm.number != time.job)
                continue;
            h->slurm.end_ms = now_ms + (uint64_t)MAX(left_ms, (int64_t)0);
            h->slurm.length_ms = (time.end_s - time.begin_s) * 1000;
        }
    }
}

void job_ends_init(struct hosts *hosts)
{
    hosts->slurm.ask = (struct local_ask){
        .shell = hosts->shell, .name = "squeue", .answered = on_answered, .context = hosts};
}

/* "7,12" */
static void jobs_list(const struct hosts *hosts, struct buf *out)
{
    uint64_t before = 0; /* nodes of one job stand together */
    for (size_t i = 0; i < hosts->len; i++) {
        const struct remote_host *h = hosts->at[i];
        if (h->state != HOST_UP || h->slurm.number == 0 || h->slurm.number == before)
            continue;
        before = h->slurm.number;
        buf_addf(out, "%s%" PRIu64, out->len > 0 ? "," : "", before);
    }
}

static void jobs_ask(struct hosts *hosts, uint64_t now_ms)
{
    cleanup_buf struct buf jobs = BUF_INIT;
    struct env_list words = {0}, env = {0};
    if (now_ms < hosts->slurm.ask_at_ms || local_ask_is_busy(&hosts->slurm.ask))
        return;
    jobs_list(hosts, &jobs);
    if (jobs.len == 0)
        return;
    hosts->slurm.ask_at_ms = now_ms + ASK_EVERY_MS;
    slurm_time_words(buf_text(&jobs), &words);
    env_inherit(&env);
    slurm_time_environment(&env);
    env_end(&words);
    env_end(&env);
    local_ask_begin(&hosts->slurm.ask, (const char *const *)words.at, (const char *const *)env.at);
    env_list_release(&words);
    env_list_release(&env);
}

/* ---- ending ---- */

static uint64_t finish_ms(const struct remote_host *h)
{
    const struct shell *shell = h->hosts->shell;
    uint64_t longest_ms = shell->verb->finish_ms(shell->context, h->part);
    for (size_t i = 0; i < h->n_grown; i++)
        longest_ms = MAX(longest_ms, shell->verb->finish_ms(shell->context, h->grown[i].part));
    return longest_ms;
}

/*
 * Has the allocation room for the seats of another job? Seats that are given back are not used again, while those of
 * a lost host may be. So without room the host is kept until its job ends, and counts as lost then.
 */
static bool can_be_renewed(const struct remote_host *h)
{
    const struct hosts *hosts = h->hosts;
    size_t n_coming = 1;
    for (size_t i = 0; i < hosts->len; i++)
        n_coming += host_may_come(hosts->at[i]);
    return allocation_has_room(hosts->allocation, n_coming * h->devices.len, n_coming * h->n_seats);
}

static bool is_ending(const struct remote_host *h, uint64_t now_ms)
{
    uint64_t left_ms = h->slurm.end_ms - MIN(h->slurm.end_ms, now_ms);
    uint64_t margin_max_ms = h->slurm.length_ms / MARGIN_SHARE;
    if (h->state != HOST_UP || h->part == 0 || h->slurm.end_ms == 0 || left_ms > margin_max_ms)
        return false;
    return left_ms <= finish_ms(h) + SAFETY_MS && (h->host.is_slurm || can_be_renewed(h));
}

/* `when`: "in 20 s". */
static void end_begin(struct remote_host *h, const char *when)
{
    struct shell *shell = h->hosts->shell;
    char text[96];
    if (h->host.is_slurm) {
        log_add(shell->log, LOG_WARN, "host",
                "the run's Slurm job ends %s; the workers finish their items, and the run ends",
                when);
        shell_end_stopped(shell, false);
        return;
    }
    snprintf(text, sizeof(text), "its job ends %s; its workers finish their items", when);
    host_log(h, LOG_WARN, "", text);
    host_renew(h);
}

/*
 * A verb that does not finish items, such as graph, is refused here: its agent tells the jobs to end, and they may
 * save their state.
 */
bool job_end_told(struct remote_host *h)
{
    const struct shell *shell = h->hosts->shell;
    bool is_in_run = h->hosts->has_begun && shell->machines.watch && h->part > 0;
    if (!shell->verb->finishes_items || !is_in_run)
        return false;
    if (h->state == HOST_DRAINING || shell->end.is_stopped || shell_is_to_end(shell))
        return true; /* they are finishing their items already */
    if (!h->host.is_slurm && !can_be_renewed(h))
        return false;
    end_begin(h, "soon (it got SIGTERM)");
    return true;
}

void job_ends_check(struct hosts *hosts, uint64_t now_ms)
{
    const struct shell *shell = hosts->shell;
    bool is_due = shell->verb->takes_seats && hosts->has_begun && shell->machines.watch &&
                  now_ms >= hosts->slurm.look_at_ms;
    if (!is_due || shell_is_to_end(shell))
        return;
    hosts->slurm.look_at_ms = now_ms + LOOK_EVERY_MS;
    jobs_ask(hosts, now_ms);
    for (size_t i = 0; i < hosts->len && !shell->end.is_stopped; i++)
        if (is_ending(hosts->at[i], now_ms)) {
            uint64_t end_ms = hosts->at[i]->slurm.end_ms;
            char left[24], when[32];
            duration_format(left, end_ms - MIN(end_ms, now_ms));
            snprintf(when, sizeof(when), "in %s", left);
            end_begin(hosts->at[i], when);
        }
}
