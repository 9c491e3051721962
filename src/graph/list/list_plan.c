/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a list: names of jobs, and what the wish says about each.
 */
#include <string.h>
#include <xxhash.h>

#include "base/name_index.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/list/list.h"
#include "graph/list/replace.h"

struct naming {
    const struct graph_list *list;
    bool is_named;
    struct name_index names; /* those that were given */
    struct str *arguments;
    struct buf text;
};

static bool has_names(const struct graph_list *list)
{
    for (size_t i = 0; i < list->n_sources; i++)
        if (list->sources[i].name.len > 0)
            return true;
    return false;
}

static bool is_plain(struct str text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_.+-%@";
    for (size_t i = 0; i < text.len; i++)
        if (!memchr(plain, text.at[i], sizeof(plain) - 1))
            return false;
    return true;
}

/* False: no name can be made of the arguments. */
static bool name_of_arguments(struct naming *naming, size_t job)
{
    const struct graph_list *list = naming->list;
    graph_list_arguments(list, job, naming->arguments);
    for (size_t i = 0; i < list->n_sources; i++) {
        struct str name = list->sources[i].name, argument = naming->arguments[i];
        if (!is_plain(name) || !is_plain(argument))
            return false;
        buf_add_text(&naming->text, i > 0 ? "," : "");
        buf_add_str(&naming->text, name);
        buf_add_text(&naming->text, name.len > 0 ? "=" : "");
        buf_add_str(&naming->text, argument);
        if (naming->text.len > PLAN_NAME_BYTES_MAX)
            return false;
    }
    return name_index_find(&naming->names, buf_str(&naming->text)) == NAME_NONE;
}

static const char *job_name(struct naming *naming, size_t job, struct plan *plan)
{
    buf_reset(&naming->text);
    buf_add_text(&naming->text, "job/");
    if (naming->is_named && name_of_arguments(naming, job)) {
        name_index_add(&naming->names, buf_str(&naming->text));
    } else {
        buf_reset(&naming->text);
        buf_addf(&naming->text, "job/%zu", job + 1);
    }
    return plan_text(plan, buf_str(&naming->text));
}

static void plan_begin(struct plan *out, size_t n_jobs)
{
    *out = (struct plan){
        .jobs = xcalloc(MAX(n_jobs, (size_t)1), sizeof(*out->jobs)),
        .n_jobs = (uint32_t)n_jobs,
        .stages = xcalloc(1, sizeof(*out->stages)),
        .n_stages = 1,
    };
    out->stages[0] = (struct plan_stage){.name = "job", .n_jobs = (uint32_t)n_jobs};
}

static int jobs_fill(struct replacer *replacer, struct naming *naming, struct plan_job common,
                     struct plan *out, struct err *err)
{
    for (size_t i = 0; i < out->n_jobs; i++) {
        out->jobs[i] = common;
        out->jobs[i].name = job_name(naming, i, out);
        int rc = replacer_fill(replacer, i, out, &out->jobs[i].argv, err);
        if (rc != 0)
            return rc;
        if (replacer->bytes > LIST_TEXT_BYTES_MAX)
            return fail(err, ERR_USAGE,
                        "the commands of the first %zu jobs fill %d bytes, the most that a list "
                        "may have; split it, or pass what is long in files",
                        i + 1, LIST_TEXT_BYTES_MAX);
    }
    return 0;
}

/* Whole commands are another template each: then it is all of them. */
static uint64_t signature_of(const struct graph_list *list, const struct plan *plan,
                             const struct graph_list_wish *wish)
{
    uint64_t digest = wish->devices.n_min + (uint64_t)wish->is_shell;
    for (size_t i = 0; i < list->n_command; i++)
        digest = XXH3_64bits_withSeed(list->command[i], strlen(list->command[i]) + 1, digest);
    return list->n_command > 0 ? digest : plan_digest(plan);
}

int graph_list_plan(const struct graph_list *list, const struct graph_list_wish *wish,
                    struct plan *out, struct err *err)
{
    struct replacer replacer;
    struct naming naming = {.list = list, .is_named = has_names(list), .names = NAME_INDEX_INIT};
    naming.arguments = xcalloc(list->n_sources + 1, sizeof(*naming.arguments));
    plan_begin(out, list->n_jobs);
    struct plan_job common = {
        .kind = PLAN_RUN,
        .cwd = wish->cwd ? plan_text(out, str_of(wish->cwd)) : NULL,
        .devices = wish->devices,
        .n_cpus = wish->n_cpus,
        .priority = wish->priority,
        .n_retries = wish->n_retries,
        .timeout_ms = wish->timeout_ms,
    };
    int rc = replacer_open(&replacer, list, wish->is_shell, err);
    if (rc == 0)
        rc = jobs_fill(&replacer, &naming, common, out, err);
    if (rc == 0)
        out->stages[0].signature = signature_of(list, out, wish);
    replacer_close(&replacer);
    name_index_release(&naming.names);
    buf_release(&naming.text);
    free(naming.arguments);
    if (rc != 0)
        plan_release(out);
    return rc;
}
