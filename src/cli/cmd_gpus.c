/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/gpus_rows.h"
#include "cli/host_look.h"
#include "cli/run_arg.h"
#include "cli/verbs.h"
#include "device/probe.h"
#include "node/allocation_arg.h"
#include "opt/say.h"

struct gpus_request {
    const char *gpus;
    bool json, watch, all;
    struct allocation_wish hosts;
};

/* clang-format off */
static const struct opt gpus_opts[] = {
    {OPT_TEXT, 'g', "gpus", "SPEC",
     "only these devices (0,2,5-7, any:N, free, a UUID, cpu:N, sim:…)",
     offsetof(struct gpus_request, gpus)},
    {OPT_FLAG, 'a', "all", NULL,
     "list all devices of the machine, whatever CUDA_VISIBLE_DEVICES and similar variables say",
     offsetof(struct gpus_request, all)},
    {OPT_FLAG, 'w', "watch", NULL,
     "print the list again every PERIOD (default 2s), until interrupted",
     offsetof(struct gpus_request, watch)},
    {OPT_FLAG, 0, "json", NULL,
     "print one JSON object per line, one for each device, with everything that is known about it",
     offsetof(struct gpus_request, json)},
    LOOK_OPTS(offsetof(struct gpus_request, hosts)),
    {OPT_END},
};
/* clang-format on */

static const char *const gpus_examples[] = {
    "muster gpus",
    "the devices that a run could use",
    "muster gpus --watch 5s -g 0-3",
    "the first four, every five seconds",
    "muster gpus --json | jq -r 'select(.ill != \"\") | .uuid'",
    "the devices that are not fit",
    "muster gpus --hosts lab1,lab2,local",
    "the devices of three machines in one table",
    NULL,
};

/* ---- the verb ---- */

/* Without -g, takes all devices, also those that no run would use: the user may be looking for these. */
static int choose(const struct gpus_request *request, const struct device_spec *spec,
                  const struct device_list *list, size_t *shown, size_t *n_shown, struct err *err)
{
    if (request->gpus && (spec->kind == SPEC_FREE || spec->kind == SPEC_ANY))
        return spec_select(spec, list, shown, DEVICES_MAX, n_shown, NULL, err);
    if (request->gpus) {
        /* devices that no run would use are shown as well */
        struct device_list copy = {xcalloc(list->len + 1, sizeof(*copy.at)), list->len};
        for (size_t i = 0; i < list->len; i++) {
            copy.at[i] = list->at[i];
            copy.at[i].is_lost = copy.at[i].is_integrated = false;
        }
        int rc = spec_select(spec, &copy, shown, DEVICES_MAX, n_shown, NULL, err);
        device_list_release(&copy);
        return rc;
    }
    for (*n_shown = 0; *n_shown < list->len; (*n_shown)++)
        shown[*n_shown] = *n_shown;
    return 0;
}

static int rows_print(const struct gpus_request *request, const struct gpus_rows *rows,
                      struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    if (request->watch && !request->json && isatty(STDOUT_FILENO))
        buf_add_text(&out, "\033[H\033[J");
    (request->json ? gpus_rows_json : gpus_rows_table)(rows, &out);
    return out.len > 0 ? write_all(STDOUT_FILENO, out.at, out.len, err) : 0;
}

static int show(struct app *app, const struct gpus_request *request, const struct device_spec *spec,
                bool is_first, struct err *err)
{
    size_t shown[DEVICES_MAX], n_shown = 0;
    struct device_list list;
    struct gpus_rows rows = {0};
    cleanup_buf struct buf notes = BUF_INIT;
    struct probe_opts opts = {.self_path = app->self_path,
                              .ignore_visibility = request->all,
                              .is_for_looking = true,
                              .wants_details = request->json};
    int rc = probe_universe(&opts, spec, &list, &notes, err);
    if (rc)
        return rc;
    struct str rest = buf_str(&notes), line;
    while (is_first && rest.len > 0 && str_next(&rest, '\n', &line))
        if (line.len > 0)
            say(app, "%.*s", (int)line.len, line.at);
    rc = choose(request, spec, &list, shown, &n_shown, err);
    for (size_t i = 0; rc == 0 && i < n_shown; i++)
        gpus_rows_add(&rows, &list.at[shown[i]]);
    if (rc == 0)
        rc = rows_print(request, &rows, err);
    gpus_rows_release(&rows);
    device_list_release(&list);
    return rc;
}

/* ---- other hosts ---- */

static int hosts_show(const struct app *app, const struct gpus_request *request,
                      const struct host_ask *ask, bool is_first, bool *is_missing, struct err *err)
{
    struct gpus_rows rows = {0};
    size_t n_answers;
    const struct host_answer *answers = host_answers(ask, &n_answers);
    for (size_t i = 0; i < n_answers; i++)
        *is_missing |= !look_devices_add(app, &answers[i], is_first, &rows);
    int rc = rows_print(request, &rows, err);
    gpus_rows_release(&rows);
    return rc;
}

static int hosts_look(struct app *app, const struct gpus_request *request, struct host_ask *ask,
                      const struct look *look, bool is_first, struct err *err)
{
    bool is_missing = false;
    int rc = look_ask(ask, look);
    if (rc == 0)
        rc = hosts_show(app, request, ask, is_first, &is_missing, err);
    return rc == 0 && is_missing ? err_exit_status(ERR_UNAVAILABLE) : rc;
}

/* Looks again and again, also if hosts are missing, until a signal comes or nobody reads the output any more. */
static int hosts_watch(struct app *app, const struct gpus_request *request, uint64_t period_ms,
                       struct host_ask *ask, const struct look *look, struct err *err)
{
    int rc = hosts_look(app, request, ask, look, true, err);
    while (request->watch && (rc == 0 || rc == err_exit_status(ERR_UNAVAILABLE)) &&
           reader_pause_ms(0)) {
        int ended = host_ask_pause(ask, period_ms);
        rc = ended ? ended : hosts_look(app, request, ask, look, false, err);
    }
    return rc;
}

static int hosts_run(struct app *app, const struct gpus_request *request, uint64_t period_ms,
                     struct err *err)
{
    struct host_ask *ask = NULL;
    struct look look = {.cmd = &cmd_gpus, .gpus = request->gpus};
    env_list_add(&look.words, xstrdup("gpus"));
    env_list_add(&look.words, xstrdup("--json"));
    if (request->all)
        env_list_add(&look.words, xstrdup("--all"));
    env_end(&look.words);
    int rc = look_open(app, &request->hosts, &ask, err);
    if (rc == 0)
        rc = hosts_watch(app, request, period_ms, ask, &look, err);
    host_ask_close(ask);
    env_list_release(&look.words);
    return rc;
}

static int gpus_run(struct app *app, void *request_, int argc, char **argv, char **command,
                    struct err *err)
{
    (void)command;
    const struct gpus_request *request = request_;
    cleanup_free struct device_spec *spec = xcalloc(1, sizeof(*spec));
    uint64_t period_ms = 2000;
    if (argc > (request->watch ? 1 : 0))
        return fail(err, ERR_USAGE, "unexpected '%s'", argv[request->watch ? 1 : 0]);
    int rc = spec_parse(request->gpus, spec, err);
    if (rc == 0 && argc > 0)
        rc = duration_parse(str_of(argv[0]), &period_ms, err);
    if (rc == 0 && period_ms < 100)
        rc = fail(err, ERR_USAGE, "period '%s' is too short (at least 100ms)", argv[0]);
    if (rc == 0 && request->hosts.hosts)
        return hosts_run(app, request, period_ms, err);
    if (rc == 0)
        rc = show(app, request, spec, true, err);
    while (rc == 0 && request->watch && reader_pause_ms(period_ms))
        rc = show(app, request, spec, false, err);
    return rc;
}

const struct cmd cmd_gpus = {
    .name = "gpus",
    .args = "[OPTION]... [PERIOD]",
    .summary = "list the devices: identity, memory, load, health, and the processes on them",
    .details =
        "Lists the devices that a run could use: the GPUs of this machine, or those that a list "
        "such as CUDA_VISIBLE_DEVICES leaves visible, or, on a machine without a GPU, the CPU slots. The "
        "number after the name is what -g takes; PCI# is the device's number on the machine.",
    .opts = gpus_opts,
    .examples = gpus_examples,
    .request_size = sizeof(struct gpus_request),
    .run = gpus_run,
};
