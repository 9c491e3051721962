/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor_hosts.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/doctor_print.h"
#include "cli/run_arg.h"
#include "doctor/compare.h"
#include "doctor/report.h"

/* A finding of some hosts. If several hosts have the same finding, it is printed once. */
struct shared_finding {
    const struct finding *finding; /* the finding of the first of these hosts */
    bool *is_of;                   /* [n_hosts] */
    bool is_printed;
};

struct examined {
    struct compared_host *hosts; /* the hosts whose traits are known, in the list's order */
    struct report *reports;      /* [n_hosts] */
    size_t n_hosts;
    struct shared_finding *shared;
    size_t n_shared;
    struct findings of_all; /* differences between the hosts, and hosts that cannot be reached */
};

static const struct trouble not_had = {
    FINDING_FAIL,
    "muster map begins without this host and goes on trying to reach it; with fewer hosts "
    "than --hosts-min it does not begin.",
    "Try by hand what reaches it, without a question (ssh HOST true), then muster gpus --hosts"};

/* ---- what the hosts answered ---- */

/* Reads the answer of a host. Returns false if its doctor did not finish. */
static bool answer_read(const struct host_answer *answer, struct report *report,
                        struct findings *of_all)
{
    struct err err = answer->why;
    bool has_ended = answer->status == 0 || answer->status == 1;
    if (err.code == 0 && !has_ended)
        fail(&err, ERR_UNAVAILABLE, "muster doctor ended there with status %d", answer->status);
    if (err.code == 0)
        (void)!report_parse(buf_str(&answer->out), report, &err);
    if (err.code)
        found(of_all, &not_had, answer->host->name, "cannot be had: %s", err.text);
    return err.code == 0;
}

static bool is_same(const struct finding *a, const struct finding *b)
{
    return a->level == b->level && strcmp(a->check, b->check) == 0 &&
           strcmp(a->subject, b->subject) == 0 && strcmp(a->found, b->found) == 0;
}

static struct shared_finding *shared_find(struct examined *all, const struct finding *finding)
{
    for (size_t i = 0; i < all->n_shared; i++)
        if (is_same(all->shared[i].finding, finding))
            return &all->shared[i];
    all->shared = xrealloc(all->shared, (all->n_shared + 1) * sizeof(*all->shared));
    struct shared_finding *shared = &all->shared[all->n_shared++];
    *shared =
        (struct shared_finding){.finding = finding, .is_of = xcalloc(all->n_hosts, sizeof(bool))};
    return shared;
}

/*
 * Compares the hosts whose traits are known. Clocks and round trips were measured on this machine.
 */
static void compare(const struct examined *all, struct findings *out)
{
    struct compared_host *had = xcalloc(all->n_hosts + 1, sizeof(*had));
    size_t n_had = 0;
    for (size_t i = 0; i < all->n_hosts; i++)
        if (all->reports[i].is_whole)
            had[n_had++] = all->hosts[i];
    hosts_compare(had, n_had, out);
    free(had);
}

static void answers_read(const struct app *app, const struct host_answer *answers,
                         struct examined *all)
{
    all->of_all.check = "hosts";
    for (size_t i = 0; i < all->n_hosts; i++) {
        const struct host_answer *answer = &answers[i];
        struct report *report = &all->reports[i];
        look_said_print(app, answer);
        all->hosts[i] = (struct compared_host){.name = answer->host->name,
                                               .clock_ahead_ms = answer->clock_ahead_ms,
                                               .round_trip_ms = answer->round_trip_ms};
        if (!answer_read(answer, report, &all->of_all))
            continue;
        all->hosts[i].traits = report->traits;
        for (size_t k = 0; k < report->findings.len; k++)
            shared_find(all, &report->findings.at[k])->is_of[i] = true;
    }
}

/* ---- what is printed ---- */

static bool is_shown(const struct doctor_hosts *opts, const struct finding *finding)
{
    return !(opts->quiet && finding->level == FINDING_OK);
}

/* Adds the findings that exactly these hosts have, below the names of the hosts. */
static void group_add(const struct doctor_hosts *opts, struct examined *all, const bool *is_of,
                      bool has_color, struct buf *out)
{
    bool has_title = false;
    for (size_t i = 0; i < all->n_shared; i++) {
        struct shared_finding *shared = &all->shared[i];
        if (memcmp(shared->is_of, is_of, all->n_hosts * sizeof(bool)) != 0)
            continue;
        shared->is_printed = true;
        if (!is_shown(opts, shared->finding))
            continue;
        if (!has_title) {
            buf_add_text(out, out->len > 0 ? "\n" : "");
            host_names_add(all->hosts, is_of, all->n_hosts, out);
            buf_add_text(out, ":\n");
        }
        has_title = true;
        finding_add(out, shared->finding, has_color);
    }
}

static bool is_of_all(const struct examined *all, const struct shared_finding *shared)
{
    for (size_t i = 0; i < all->n_hosts; i++)
        if (!shared->is_of[i] && all->reports[i].is_whole)
            return false;
    return true;
}

/*
 * Adds all findings as text. Findings that all hosts share come first, findings about the hosts as
 * a whole last.
 */
static void text_add(const struct doctor_hosts *opts, struct examined *all, bool has_color,
                     struct buf *out)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < all->n_shared; i++)
            if (!all->shared[i].is_printed && (pass == 1 || is_of_all(all, &all->shared[i])))
                group_add(opts, all, all->shared[i].is_of, has_color, out);
    for (size_t i = 0; opts->wants_traits && i < all->n_hosts; i++) {
        buf_addf(out, "\n%s:\n", all->hosts[i].name);
        traits_add(out, &all->hosts[i].traits);
    }
    size_t len_before = out->len;
    for (size_t i = 0; i < all->of_all.len; i++) {
        if (!is_shown(opts, &all->of_all.at[i]))
            continue;
        buf_add_text(out, out->len == len_before ? "\nbetween the hosts:\n" : "");
        finding_add(out, &all->of_all.at[i], has_color);
    }
}

static void objects_add(const struct doctor_hosts *opts, const struct examined *all,
                        struct buf *out)
{
    for (size_t i = 0; i < all->n_hosts; i++) {
        const struct findings *findings = &all->reports[i].findings;
        for (size_t k = 0; all->reports[i].is_whole && k < findings->len; k++)
            if (is_shown(opts, &findings->at[k]))
                finding_object_add(out, &findings->at[k], all->hosts[i].name);
        if (opts->wants_traits)
            traits_objects_add(out, &all->hosts[i].traits, all->hosts[i].name);
    }
    for (size_t i = 0; i < all->of_all.len; i++)
        if (is_shown(opts, &all->of_all.at[i]))
            finding_object_add(out, &all->of_all.at[i], "");
}

/* Returns all findings, each once. Free the array; its entries are borrowed. */
static struct findings findings_sum(const struct examined *all)
{
    struct findings sum = {xcalloc(all->n_shared + all->of_all.len + 1, sizeof(*sum.at)), 0, NULL};
    for (size_t i = 0; i < all->n_shared; i++)
        sum.at[sum.len++] = *all->shared[i].finding;
    for (size_t i = 0; i < all->of_all.len; i++)
        sum.at[sum.len++] = all->of_all.at[i];
    return sum;
}

static int print(const struct app *app, const struct doctor_hosts *opts, struct examined *all,
                 const struct findings *sum, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    bool has_color = app->color && isatty(STDOUT_FILENO);
    if (opts->json)
        objects_add(opts, all, &out);
    else
        text_add(opts, all, has_color, &out);
    if (!opts->json && !(opts->quiet && out.len == 0))
        findings_summary_add(&out, sum, has_color);
    return stdout_put(buf_str(&out), err);
}

/* ---- the verb ---- */

static int examine(struct app *app, const struct doctor_hosts *opts, const struct host_ask *ask,
                   struct err *err)
{
    struct examined all = {0};
    const struct host_answer *answers = host_answers(ask, &all.n_hosts);
    all.hosts = xcalloc(all.n_hosts + 1, sizeof(*all.hosts));
    all.reports = xcalloc(all.n_hosts + 1, sizeof(*all.reports));
    answers_read(app, answers, &all);
    if (opts->compares)
        compare(&all, &all.of_all);
    struct findings sum = findings_sum(&all);
    int rc = print(app, opts, &all, &sum, err);
    bool is_bad = findings_count(&sum, FINDING_FAIL) > 0 ||
                  (opts->strict && findings_count(&sum, FINDING_WARN) > 0);
    free(sum.at);
    for (size_t i = 0; i < all.n_shared; i++)
        free(all.shared[i].is_of);
    for (size_t i = 0; i < all.n_hosts; i++)
        report_release(&all.reports[i]);
    findings_release(&all.of_all);
    free(all.shared);
    free(all.reports);
    free(all.hosts);
    return rc ? rc : is_bad;
}

int doctor_hosts_run(struct app *app, const struct doctor_hosts *opts, struct err *err)
{
    struct host_ask *ask = NULL;
    int rc = look_open(app, opts->wish, &ask, err);
    if (rc == 0)
        rc = look_ask(ask, &opts->look);
    if (rc == 0)
        rc = examine(app, opts, ask, err);
    host_ask_close(ask);
    return rc;
}
