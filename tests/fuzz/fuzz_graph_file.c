/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of experiments (src/graph/file/file.h). The first byte says whether the first line is an override. What is refused has
 * a sentence. What is accepted is a plan in order: each job comes after those that it needs, is found by its name, has a
 * command, and texts that the run can fill in.
 */
#include "fuzz.h"
#include "graph/file/file.h"

enum {
    JOBS_MAX = 2000
};

/* Braces of a template come in pairs, or stand around a word. */
static void check_template(const char *text)
{
    for (const char *at = text; *at; at++) {
        if (*at != '{' && *at != '}')
            continue;
        if (at[1] == *at) {
            at++;
            continue;
        }
        size_t len = *at == '{' ? strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
        if (len == 0 || at[len + 1] != '}')
            BUG("'%s' is no template", text);
        at += len + 1;
    }
}

static void check_templates(const char *const *texts)
{
    for (; texts && *texts; texts++)
        check_template(*texts);
}

static void check_name(const char *name)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+=@-";
    ASSERT(strlen(name) <= PLAN_NAME_BYTES_MAX && *name && *name != '.' && *name != '/');
    for (const char *at = name; *at; at++)
        if (!strchr(plain, *at) && *at != '/' && *at != ',' && *at != '%')
            BUG("'%s' is a name", name);
    ASSERT(!strstr(name, "/."));
}

static void check_job(const struct plan *plan, uint32_t number)
{
    const struct plan_job *job = &plan->jobs[number];
    check_name(job->name);
    ASSERT(plan_find(plan, job->name) == number);
    ASSERT(job->stage < plan->n_stages && job->argv && job->argv[0]);
    check_templates(job->argv);
    check_templates(job->env);
    for (uint32_t i = 0; i < job->n_needs; i++)
        ASSERT(job->needs[i] < number && (i == 0 || job->needs[i] > job->needs[i - 1]));
    for (uint32_t i = 0; i < job->n_outs; i++)
        ASSERT(*job->outs[i].path);
    ASSERT(job->devices.n_min <= job->devices.n_max && job->devices.share < 1000);
    ASSERT(!job->cwd || *job->cwd == '/');
}

static void check_plan(const struct plan *plan)
{
    uint64_t n_edges = 0, n_jobs = 0;
    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        check_job(plan, i);
        n_edges += plan->jobs[i].n_needs;
    }
    for (uint32_t i = 0; i < plan->n_stages; i++)
        n_jobs += plan->stages[i].n_jobs;
    ASSERT(n_edges == plan->n_edges && n_jobs == plan->n_jobs && plan->n_jobs <= JOBS_MAX);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, line = {0};
    struct err err = {0};
    struct plan plan;
    cleanup_buf struct buf override = BUF_INIT;
    const char *words[1] = {NULL};
    struct graph_file_opts opts = {words, 0};
    if (fuzz_choice(&text) == '!' && text.len > 0 && str_next(&text, '\n', &line)) {
        buf_add_str(&override, line);
        words[0] = buf_text(&override);
        opts.n_overrides = 1;
    }
    if (!text.at)
        text = STR("");
    int rc = graph_text_read("file", text, &opts, JOBS_MAX, &plan, &err);
    if (rc == 0)
        check_plan(&plan);
    else
        ASSERT(rc == ERR_USAGE && err.text[0]);
    plan_release(&plan);
    return 0;
}
