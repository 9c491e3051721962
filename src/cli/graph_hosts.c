/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/graph_hosts.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "cli/host_look.h"
#include "cli/verbs.h"

/*
 * Chooses the devices that a run would take: those that -g names, or else the GPUs that are free,
 * or CPU slots where there is no GPU.
 */
static int devices_choose(const struct gpus_rows *rows, bool is_named, struct device_list *out,
                          struct err *err)
{
    const struct device_spec is_free = {.kind = SPEC_FREE};
    struct device_list all = {xcalloc(rows->len + 1, sizeof(*all.at)), 0, NULL};
    size_t chosen[DEVICES_MAX], n_chosen = 0;
    for (size_t i = 0; i < rows->len; i++)
        if (is_named || !rows->at[i].locked_by)
            all.at[all.len++] = rows->at[i].device;
    bool has_gpus = all.len > 0 && all.at[0].kind != DEVICE_CPU;
    int rc = 0;
    if (!is_named && has_gpus)
        rc = spec_select(&is_free, &all, chosen, DEVICES_MAX, &n_chosen, NULL, err);
    for (; (is_named || !has_gpus) && n_chosen < MIN(all.len, (size_t)DEVICES_MAX); n_chosen++)
        chosen[n_chosen] = n_chosen;
    *out = (struct device_list){0};
    if (rc == 0)
        *out = device_list_pick(&all, chosen, n_chosen);
    device_list_release(&all);
    return rc;
}

/* Adds a host. Returns false if the host cannot be had, after printing why. */
static bool host_add(const struct app *app, const struct allocation_wish *wish,
                     const struct host_answer *answer, struct planned_hosts *out)
{
    struct planned_host *host = &out->at[out->len];
    struct gpus_rows rows = {0};
    struct host_answer again = *answer;
    *host = (struct planned_host){.is_local = answer->host->is_local, .n_cpus = answer->n_cpus};
    bool is_had = look_devices_add(app, answer, true, &rows);
    if (is_had && !wish->without_devices &&
        devices_choose(&rows, answer->host->gpus || wish->gpus, &host->devices, &again.why) != 0)
        is_had = look_devices_add(app, &again, false, &rows); /* prints why */
    gpus_rows_release(&rows);
    if (!is_had)
        return false;
    host->name = xstrdup(answer->host->name);
    out->len++;
    return true;
}

static int answers_take(const struct app *app, const struct allocation_wish *wish,
                        const struct host_ask *ask, struct planned_hosts *out, struct err *err)
{
    size_t n_answers;
    const struct host_answer *answers = host_answers(ask, &n_answers);
    uint64_t n_min = MIN(wish->hosts_min ? wish->hosts_min : 1, (uint64_t)n_answers);
    out->at = xcalloc(n_answers + 1, sizeof(*out->at));
    for (size_t i = 0; i < n_answers; i++)
        (void)host_add(app, wish, &answers[i], out);
    return out->len >= n_min ? 0
                             : fail(err, ERR_UNAVAILABLE,
                                    "%zu of %zu hosts can be had, and a run begins with %lu",
                                    out->len, n_answers, n_min);
}

int graph_hosts_ask(struct app *app, const struct allocation_wish *wish, struct planned_hosts *out,
                    struct err *err)
{
    struct host_ask *ask = NULL;
    struct look look = {.cmd = &cmd_gpus, .gpus = wish->without_devices ? "cpu:1" : wish->gpus};
    env_list_add(&look.words, xstrdup("gpus"));
    env_list_add(&look.words, xstrdup("--json"));
    env_end(&look.words);
    *out = (struct planned_hosts){0};
    int rc = look_open(app, wish, &ask, err);
    rc = rc ? rc : look_ask(ask, &look);
    rc = rc ? rc : answers_take(app, wish, ask, out, err);
    host_ask_close(ask);
    env_list_release(&look.words);
    return rc;
}

void graph_hosts_forget(struct planned_hosts *hosts)
{
    for (size_t i = 0; i < hosts->len; i++) {
        free(hosts->at[i].name);
        device_list_release(&hosts->at[i].devices);
    }
    free(hosts->at);
    *hosts = (struct planned_hosts){0};
}
