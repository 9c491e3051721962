/* SPDX-License-Identifier: Apache-2.0
 *
 * What earlier sessions of the run did. A job that is done stays done, unless its definition changed, or the files
 * that it left, read or needed changed.
 */
#include <fnmatch.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/made.h"

enum {
    STALE_SHOWN = 10 /* of the lines on why jobs run again */
};

/* ---- what a job is ---- */

static uint64_t texts_digest(const char *const *texts, uint64_t seed)
{
    for (size_t i = 0; texts && texts[i]; i++)
        seed = XXH3_64bits_withSeed(texts[i], strlen(texts[i]) + 1, seed);
    return seed;
}

static uint64_t command_digest(const struct plan_job *job)
{
    uint64_t digest = texts_digest(job->argv, (uint64_t)job->kind);
    return job->cwd ? XXH3_64bits_withSeed(job->cwd, strlen(job->cwd), digest) : digest;
}

static uint64_t files_digest(const struct plan_job *job)
{
    uint64_t digest = texts_digest(job->inputs, 1);
    for (uint32_t i = 0; i < job->n_outs; i++) {
        const struct plan_out *out = &job->outs[i];
        const char *const texts[] = {out->path, out->json_has ? out->json_has : "",
                                     out->pattern ? out->pattern : "", NULL};
        digest = texts_digest(texts, digest + out->count_min);
    }
    return digest;
}

/* A digest of --setup and --env; 0: neither is given. A name without a value counts with the value that it has here. */
static uint64_t wish_digest(const struct environment_wish *wish)
{
    uint64_t digest = wish->setup ? XXH3_64bits(wish->setup, strlen(wish->setup)) : 0;
    for (size_t i = 0; i < wish->env.len; i++) {
        const char *entry = wish->env.at[i];
        const char *value = strchr(entry, '=') ? NULL : getenv(entry);
        const char *const texts[] = {entry, value, NULL};
        digest = texts_digest(texts, digest);
    }
    return digest;
}

char *definition_new(const struct graph *graph, const struct plan_job *job)
{
    uint64_t of_all = wish_digest(&graph->request->environment);
    return xasprintf("%016lx:%016lx:%016lx", command_digest(job), texts_digest(job->env, of_all),
                     files_digest(job));
}

static const char *definition_change(const struct graph *graph, const struct plan_job *job,
                                     const char *before)
{
    static const char *const parts[] = {"its command changed", "its environment changed",
                                        "what it reads or leaves is another list of files"};
    cleanup_free char *now = definition_new(graph, job);
    struct str of_now = str_of(now), of_before = str_of(before ? before : ""), a, b;
    for (size_t i = 0; i < countof(parts); i++)
        if (!str_next(&of_now, ':', &a) || !str_next(&of_before, ':', &b) || !str_equal(a, b))
            return parts[i];
    return NULL;
}

/* A sum, so that the order of jobs, or of a variable's values, in the file does not matter. */
uint64_t needs_digest(const struct graph *graph, const struct graph_job *job)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < job->plan->n_needs; i++) {
        uint64_t of_need = graph->jobs[job->plan->needs[i]].outs_digest;
        if (of_need != 0)
            digest += XXH3_64bits(&of_need, sizeof(of_need));
    }
    return digest;
}

/* Older versions wrote a digest that depends on the order of the needs: that one is accepted as well. */
static bool are_needs_the_same(const struct graph *graph, const struct graph_job *job)
{
    uint64_t in_order = 0;
    for (uint32_t i = 0; i < job->plan->n_needs; i++) {
        uint64_t of_need = graph->jobs[job->plan->needs[i]].outs_digest;
        if (of_need != 0)
            in_order = XXH3_64bits_withSeed(&of_need, sizeof(of_need), in_order);
    }
    return job->needs_digest == needs_digest(graph, job) || job->needs_digest == in_order;
}

/* ---- which jobs ---- */

const char *stage_name(const struct plan *plan, uint32_t stage)
{
    return stage < plan->n_stages ? plan->stages[stage].name : "added";
}

uint32_t graph_find(const struct graph *graph, const char *name)
{
    uint32_t found = plan_find(graph->plan, name);
    for (uint32_t i = graph->plan->n_jobs; found == UINT32_MAX && i < graph->n_jobs; i++)
        found = strcmp(graph->jobs[i].plan->name, name) == 0 ? i : UINT32_MAX;
    return found;
}

bool graph_selected(const struct texts *patterns, const struct plan *plan,
                    const struct plan_job *job)
{
    bool is_one = false;
    for (size_t i = 0; i < patterns->len && !is_one; i++)
        is_one = fnmatch(patterns->at[i], stage_name(plan, job->stage), 0) == 0 ||
                 fnmatch(patterns->at[i], job->name, 0) == 0;
    return is_one;
}

/* Each pattern has to match a job that is wanted; otherwise it would have no effect. */
static int patterns_check(const struct graph *graph, const struct texts *patterns,
                          const char *option, struct err *err)
{
    const struct texts *only = &graph->request->only;
    for (size_t p = 0; p < patterns->len; p++) {
        const struct texts one = {&patterns->at[p], 1};
        bool is_any = false;
        for (uint32_t i = 0; i < graph->n_jobs && !is_any; i++)
            is_any =
                graph->jobs[i].is_wanted && graph_selected(&one, graph->plan, graph->jobs[i].plan);
        if (!is_any)
            return fail(err, ERR_USAGE, "%s '%s' matches no job%s; --print shows their names",
                        option, patterns->at[p],
                        patterns == only || only->len == 0 ? "" : " of those of --only");
    }
    return 0;
}

/* --only: the jobs that match, and all that they need. */
static void only_mark(struct graph *graph)
{
    const struct texts *only = &graph->request->only;
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        graph->jobs[i].is_wanted =
            only->len == 0 || graph_selected(only, graph->plan, graph->jobs[i].plan);
    for (uint32_t i = graph->n_jobs; i-- > 0;)
        for (uint32_t n = 0; graph->jobs[i].is_wanted && n < graph->jobs[i].plan->n_needs; n++)
            graph->jobs[graph->jobs[i].plan->needs[n]].is_wanted = true;
}

/* A resumed session also wants the jobs that muster release added to --only in an earlier session. */
static int released_take(struct graph *graph, struct err *err)
{
    cleanup_free char *names = NULL;
    struct str rest, line;
    if (!graph->is_resumed || (!graph->request->resume.dir && graph->request->since_wall_ms == 0))
        return 0;
    int rc = store_get(shell_store(graph->shell), "released", &names, err);
    rest = str_of(names ? names : "");
    while (rc == 0 && rest.len > 0 && str_next(&rest, '\n', &line)) {
        cleanup_free char *name = xstrndup(line.at, line.len);
        uint32_t i = graph_find(graph, name);
        if (i == UINT32_MAX)
            continue;
        graph->jobs[i].is_wanted = true;
        buf_addf(&graph->released, "%s\n", name);
    }
    return rc;
}

int released_note(const struct graph *graph, struct err *err)
{
    return store_set(shell_store(graph->shell), "released", buf_text(&graph->released), err);
}

/* Which jobs are to run. */
static int selection_take(struct graph *graph, struct err *err)
{
    const struct graph_request *request = graph->request;
    only_mark(graph);
    int rc = patterns_check(graph, &request->only, "--only", err);
    rc = rc ? rc : released_take(graph, err);
    rc = rc ? rc : patterns_check(graph, &request->from, "--from", err);
    return rc ? rc : patterns_check(graph, &request->redo, "--redo", err);
}

/* ---- rows ---- */

/* Are the files that it left as they were? Then they are known from now on. */
static enum mark_change outs_compare(struct graph_job *job, const char *proof, char **path)
{
    size_t n_outs = job->plan->n_outs, n_marks = 0;
    cleanup_free struct file_mark *left = xcalloc(n_outs + 1, sizeof(*left));
    enum mark_change change = marks_renew(proof, path, left, n_outs, &n_marks);
    if (change == MARK_SAME && n_outs > 0 && n_marks == n_outs)
        job->left = steal_ptr(&left);
    return change;
}

static char *change_text_new(const char *path, const char *whose, enum mark_change change)
{
    return xasprintf("%s, which it %s, %s", path ? path : "a file", whose,
                     change == MARK_GONE      ? "is gone"
                     : change == MARK_UNKNOWN ? "cannot be read"
                                              : "changed");
}

/* Why a job that its row calls done is to run again; NULL: it is done. *freed: holds the text. */
static const char *staleness_of(const struct graph *graph, struct graph_job *job,
                                const struct job_row *row, char **freed)
{
    cleanup_free char *path = NULL;
    const char *what = definition_change(graph, job->plan, row->definition);
    if (what)
        return what;
    enum mark_change change = outs_compare(job, row->proof, &path);
    if (change == MARK_SAME) {
        change = marks_compare(row->inputs, &path);
        if (change == MARK_SAME)
            return NULL;
        return *freed = change_text_new(path, "reads", change);
    }
    return *freed = change_text_new(path, "left", change);
}

static void stale_note(struct graph *graph, struct graph_job *job, const char *why)
{
    job->is_stale = true;
    if (job->is_wanted)
        buf_addf(&graph->stale, "  %s runs again: %s\n", job->plan->name, why);
}

/* Files since the start of an unfinished job are its own work, unless its definition was another one then. */
static void not_done_take(const struct graph *graph, struct graph_job *job,
                          const struct job_row *row)
{
    bool is_other =
        row->attempts > 0 && definition_change(graph, job->plan, row->definition) != NULL;
    job->begun_wall_ms = is_other ? 0 : row->started_wall_ms;
}

/* As long as the job and its batch are the same, what is known not to fit is not tried again. */
static uint32_t halvings_of(const struct graph *graph, const struct plan_job *plan,
                            const struct job_row *row)
{
    uint32_t n = MIN(row->n_halvings, 63u);
    bool is_same_batch =
        plan->batch == PLAN_BATCH_AUTO || MAX(batch_halved(plan->batch, n), 1ul) == row->batch;
    return n > 0 && is_same_batch && !definition_change(graph, plan, row->definition) ? n : 0;
}

static void row_take(struct graph *graph, struct graph_job *job, const struct job_row *row)
{
    cleanup_free char *freed = NULL;
    bool has_run =
        row->started_wall_ms > 0; /* else it was adopted, and nobody knows what it takes */
    uint64_t ran_ms = has_run && row->ended_wall_ms > row->started_wall_ms
                          ? (uint64_t)(row->ended_wall_ms - row->started_wall_ms)
                          : 0;
    job->row_state = row->state;
    job->attempts_before = row->attempts;
    job->mem_peak_bytes = row->mem_peak_bytes;
    job->n_halvings = halvings_of(graph, job->plan, row);
    job->is_held = row->state == JOB_HELD;
    job->is_cancelled = row->state == JOB_CANCELLED;
    if (!job_was_done(row->state)) {
        not_done_take(graph, job, row);
        return;
    }
    job->was_done = true;
    job->done_wall_ms = row->ended_wall_ms;
    job->outs_digest = row->outs_digest;
    job->needs_digest = row->needs_digest;
    job->expected_ms = (uint32_t)MIN(ran_ms, (uint64_t)UINT32_MAX);
    if (has_run)
        learned_add_past(graph, job, ran_ms);
    const char *why = staleness_of(graph, job, row, &freed);
    if (why)
        stale_note(graph, job, why);
}

/* Changes the state of a row. `if_done`: the new state of a job that was done; one that failed is to run again. */
static void row_renew(struct graph *graph, const char *name, enum job_state before,
                      enum job_state if_done)
{
    enum job_state now = job_was_done(before) ? if_done : before == JOB_FAILED ? JOB_NONE : before;
    if (now != before)
        record_state(graph, name, now);
}

static int rows_read(struct graph *graph, struct err *err)
{
    struct row_reader *reader = NULL;
    struct job_row row;
    int rc = job_reader_open(&reader, shell_store(graph->shell), err);
    while (rc == 0 && (rc = job_reader_next(reader, &row, err)) == 1) {
        rc = 0;
        if (!row.name)
            continue;
        uint32_t i = graph_find(graph, row.name);
        if (i < graph->n_jobs)
            row_take(graph, &graph->jobs[i], &row);
        else
            row_renew(graph, row.name, row.state, JOB_DROPPED);
    }
    row_reader_close(reader);
    return rc;
}

/* Of the jobs that are done, those that --from and --redo name, unless they ran since the words were said. */
static void redone_mark(struct graph *graph)
{
    const struct graph_request *request = graph->request;
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        struct graph_job *job = &graph->jobs[i];
        bool is_from = graph_selected(&request->from, graph->plan, job->plan);
        bool is_new =
            request->since_wall_ms > 0 && job->done_wall_ms >= (int64_t)request->since_wall_ms;
        if (job->is_wanted && job->was_done && !job->is_stale && !is_new &&
            (is_from || graph_selected(&request->redo, graph->plan, job->plan))) {
            stale_note(graph, job, is_from ? "--from names it" : "--redo names it");
            job->is_redone = true;
        }
    }
}

/* Jobs come after those that they need, so one pass suffices. */
static void followers_mark(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        struct graph_job *job = &graph->jobs[i];
        for (uint32_t n = 0; job->was_done && !job->is_stale && n < job->plan->n_needs; n++) {
            const struct graph_job *need = &graph->jobs[job->plan->needs[n]];
            cleanup_free char *why = xasprintf("it needs %s, which %s", need->plan->name,
                                               need->is_stale ? "runs again" : "is not done");
            if (!need->was_done || need->is_stale)
                stale_note(graph, job, why);
        }
        if (job->was_done && !job->is_stale && !are_needs_the_same(graph, job))
            stale_note(
                graph, job,
                "it needs other jobs than it did, or one of them ran again, or left another file");
    }
}

/*
 * Brings the rows up to date before jobs begin: other commands count and explain jobs by them, even if this session
 * is killed. Jobs that --from and --redo name, and jobs that need those, are not done any more, so a resume need not
 * repeat the options.
 */
static void rows_renew(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        const struct graph_job *job = &graph->jobs[i];
        if (job->is_redone)
            record_job(graph, i, JOB_NONE, NULL);
        else
            row_renew(graph, job->plan->name, job->row_state, job->is_stale ? JOB_AGAIN : JOB_DONE);
    }
}

/* May the files at the places of its outs be those of an attempt, complete or not? */
static bool is_own(const struct graph_job *job)
{
    return job->was_done || job->attempts_before > 0 || job->begun_wall_ms > 0;
}

const char *existing_out_find(const struct graph *graph, const struct plan_job *job)
{
    const char *cwd = job->cwd ? job->cwd : graph->cwd;
    for (uint32_t n = 0; n < job->n_outs && !graph->request->overwrites; n++) {
        cleanup_free char *path = path_join(cwd, job->outs[n].path);
        if (path_exists(path))
            return job->outs[n].path;
    }
    return NULL;
}

/* Refuses foreign files at the places of outs: those that no run of this graph has made. */
static int foreign_outs_check(struct graph *graph, struct err *err)
{
    struct made made = {0};
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < graph->n_jobs && !graph->request->adopts; i++) {
        const struct graph_job *job = &graph->jobs[i];
        const char *out =
            !is_own(job) && job->is_wanted ? made_foreign_out(&made, graph, job->plan) : NULL;
        if (out)
            rc = fail(err, ERR_USAGE,
                      "%s: %s is there, and no run of this graph has made it; --adopt takes "
                      "such files for done, --overwrite lets the jobs write them anew",
                      job->plan->name, out);
    }
    made_release(&made);
    return rc;
}

static void adopt(struct graph *graph, struct made *made, uint32_t number)
{
    struct graph_job *job = &graph->jobs[number];
    const char *cwd = job->plan->cwd ? job->plan->cwd : graph->cwd;
    struct process adopted = {.graph = graph, .job = number, .attempt = job->attempts_before};
    struct proof_ask ask = {.job = job->plan, .cwd = cwd};
    job_proof_take(&ask, &adopted.proof);
    if (adopted.proof.why.code == 0 && !made_by_half(made, graph, job->plan)) {
        job->was_done = true;
        job->outs_digest = job_proof_digest(&adopted.proof);
        job->needs_digest = needs_digest(graph, job);
        record_job(graph, number, JOB_DONE, &adopted);
        job->left = job_proof_steal(&adopted.proof);
    }
    job_proof_release(&adopted.proof);
}

/*
 * --adopt: a job whose outs are all there and pass their checks is done, unless they may be incomplete files of
 * another run.
 */
static void foreign_outs_adopt(struct graph *graph)
{
    struct made made = {0};
    for (uint32_t i = 0; graph->request->adopts && i < graph->n_jobs; i++)
        if (!is_own(&graph->jobs[i]) && graph->jobs[i].plan->n_outs > 0)
            adopt(graph, &made, i);
    made_release(&made);
}

static void stale_tell(struct graph *graph)
{
    struct str rest = buf_str(&graph->stale), line;
    size_t n = 0;
    while (rest.len > 0 && str_next(&rest, '\n', &line) && line.len > 0)
        if (n++ < STALE_SHOWN || graph->request->explain)
            log_add(shell_log(graph->shell), LOG_WARN, "graph", "%.*s", (int)line.len - 2,
                    line.at + 2);
    if (n > STALE_SHOWN && !graph->request->explain)
        log_add(shell_log(graph->shell), LOG_WARN, "graph",
                "%zu more jobs run again; --explain says why", n - STALE_SHOWN);
}

int past_check(struct graph *graph, struct err *err)
{
    learned_open(graph);
    int rc = selection_take(graph, err);
    if (rc == 0 && graph->is_resumed)
        rc = rows_read(graph, err);
    if (rc)
        return rc;
    redone_mark(graph);
    return foreign_outs_check(graph, err);
}

int past_take(struct graph *graph, struct err *err)
{
    int rc = past_check(graph, err);
    if (rc)
        return rc;
    foreign_outs_adopt(graph);
    followers_mark(graph);
    rows_renew(graph);
    learned_spread(graph);
    stale_tell(graph);
    return 0;
}
