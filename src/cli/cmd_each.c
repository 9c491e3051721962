/* SPDX-License-Identifier: Apache-2.0
 *
 * muster each: one command on every seat; each line of its output has the seat's name before it.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/verbs.h"
#include "node/allocation_arg.h"
#include "node/environment.h"
#include "shell/prefix.h"

struct each_request {
    struct allocation_wish allocation;
    struct environment_wish environment;
    uint64_t grace_ms, limit_ms;
    bool dry_run, is_quiet;
};

/* The command on one seat. */
struct each_worker {
    struct each *each;
    const struct seat *seat;
    struct node_worker *process; /* NULL: it has ended, or was not started */
    char before[136];            /* its lines */
    struct prefix out, errors;
    int status;
};

struct each {
    const struct each_request *ask;
    struct shell *shell;
    struct allocation allocation;
    struct env_list words;       /* of the command */
    struct each_worker *workers; /* [allocation.n_seats] */
    uint32_t n_alive;
};

static void all_end(struct each *each, enum worker_end how)
{
    for (uint32_t i = 0; each->workers && i < each->allocation.n_seats; i++)
        if (each->workers[i].process)
            node_end(each->workers[i].process, how);
}

/* ---- what it prints ---- */

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct each_worker *w = context;
    prefix_print(w->each->shell, stream == STREAM_ERR ? &w->errors : &w->out, bytes, false);
}

/* ---- how it ends ---- */

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct each_worker *w = context;
    w->status = worker_exit_status(exit);
    prefix_print(w->each->shell, &w->out, STR(""), true);
    prefix_print(w->each->shell, &w->errors, STR(""), true);
    if (exit->was_refused)
        log_add(shell_log(w->each->shell), LOG_ERROR, "each", "%s: could not be executed: %s",
                w->seat->label, errno_text(exit->exec_errno));
    else if (w->status != 0 && !shell_is_to_end(w->each->shell))
        log_add(shell_log(w->each->shell), LOG_WARN, "each", "%s: status %d", w->seat->label,
                w->status);
    prefix_release(&w->out);
    prefix_release(&w->errors);
    node_release(steal_ptr(&w->process));
    w->each->n_alive--;
}

static void on_warned(void *context, const char *text)
{
    const struct each_worker *w = context;
    log_add(shell_log(w->each->shell), LOG_WARN, "each", "%s: %s", w->seat->label, text);
}

static void on_failed(void *context, const struct err *why)
{
    struct each_worker *w = context;
    shell_abort(w->each->shell, why);
}

static const struct worker_handlers handlers = {
    .output = on_output, .gone = on_gone, .warned = on_warned, .failed = on_failed};

/* ---- the run ---- */

static void on_stop(void *context, bool now)
{
    (void)now; /* there is nothing else to stop than the commands */
    all_end(context, END_POLITELY);
}

static void on_kill(void *context)
{
    all_end(context, END_AT_ONCE);
}

static const struct shell_verb each_shell = {.name = "each", .stop = on_stop, .kill = on_kill};

static int worker_start(struct each_worker *w, struct err *err)
{
    const struct each_request *ask = w->each->ask;
    struct allocation *a = &w->each->allocation;
    struct env_list env = {0};
    worker_environment_begin(a, (uint32_t)(w->seat - a->seats), &ask->environment, &env);
    env_end(&env);
    const struct spawn_request request = {.argv = (const char *const *)w->each->words.at,
                                          .envp = (const char *const *)env.at,
                                          .seat = w->seat,
                                          .sent = &ask->environment.env,
                                          .grace_ms = ask->grace_ms,
                                          .locks = &a->locks,
                                          .handlers = &handlers,
                                          .context = w};
    int rc = node_spawn(shell_node(w->each->shell), &request, &w->process, err);
    env_list_release(&env);
    w->each->n_alive += rc == 0;
    return rc;
}

static int workers_run(struct each *each, struct err *err)
{
    uint32_t n_seats = each->allocation.n_seats;
    int rc = 0;
    each->workers = xcalloc(n_seats, sizeof(*each->workers));
    for (uint32_t i = 0; rc == 0 && i < n_seats; i++) {
        const struct seat *seat = &each->allocation.seats[i];
        struct each_worker *w = &each->workers[i];
        *w = (struct each_worker){.each = each,
                                  .seat = seat,
                                  .out = {w->before, STDOUT_FILENO},
                                  .errors = {w->before, STDERR_FILENO}};
        snprintf(w->before, sizeof(w->before), "%s: ", seat->label);
        rc = worker_start(w, err);
    }
    if (rc)
        all_end(each, END_AT_ONCE);
    while (each->n_alive > 0)
        shell_turn(each->shell);
    return rc;
}

/* The status of a signal, or the highest of all commands. */
static int status_of(const struct each *each, struct err *err)
{
    int worst = 0, status = shell_outcome(each->shell, err);
    for (uint32_t i = 0; status == 0 && each->workers && i < each->allocation.n_seats; i++)
        worst = MAX(worst, each->workers[i].status);
    return status ? status : worst;
}

static int each_check(struct app *app, void *request, int argc, char **argv, char **command,
                      struct cmd_check *check, struct err *err)
{
    const struct each_request *ask = request;
    bool is_elsewhere = check->has_setup || ask->environment.setup || check->has_hosts;
    (void)app;
    int rc = cmd_command_check(argc, argv, command, err);
    return rc == 0 && !is_elsewhere ? program_check(command[0], err) : rc;
}

static int each_run(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    const struct each_request *ask = request;
    struct each each = {.ask = ask};
    int rc = cmd_command_check(argc, argv, command, err);
    if (rc)
        return rc;
    each.shell = shell_new(&(struct shell_setup){.verb = &each_shell,
                                                 .context = &each,
                                                 .log = &app->log,
                                                 .self_path = app->self_path,
                                                 .limit_ms = ask->limit_ms});
    app->log.console_quiet = app->log.console_quiet || ask->is_quiet;
    struct allocation_wish wish = ask->allocation;
    wish.is_plan = ask->dry_run;
    wish.program = ask->environment.setup ? NULL : command[0];
    wish.script = ask->environment.setup ? NULL : program_script((const char *const *)command);
    environment_command(&ask->environment, (const char *const *)command, &each.words);
    rc = shell_begin(each.shell, &wish, &each.allocation, err);
    if (rc == 0 && ask->dry_run)
        seats_print(&each.allocation, (const char *const *)each.words.at);
    else if (rc == 0)
        rc = workers_run(&each, err);
    if (rc == 0)
        rc = status_of(&each, err);
    shell_close(each.shell);
    shell_free(each.shell);
    free(each.workers);
    env_list_release(&each.words);
    allocation_release(&each.allocation);
    return rc;
}

#define FIELD(name) offsetof(struct each_request, name)

/* clang-format off */
static const struct opt each_opts[] = {
    ALLOCATION_OPTS(FIELD(allocation)),
    ENVIRONMENT_OPTS(FIELD(environment)),
    {OPT_FLAG, 0, "dry-run", NULL, "show what would run where, and run nothing", FIELD(dry_run)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing from muster itself on stderr but errors", FIELD(is_quiet)},
    {OPT_DURATION, 0, "time-limit", "DURATION", "end all commands after this time (exit status 124)", FIELD(limit_ms)},
    {OPT_DURATION, 0, "grace", "DURATION", "time between SIGTERM and SIGKILL when a worker is ended (default 10s)", FIELD(grace_ms)},
    {OPT_END},
};
/* clang-format on */

static void each_defaults(void *request)
{
    ((struct each_request *)request)->grace_ms = 10000;
}

static const char *const each_examples[] = {
    "muster each -g all -- nvidia-smi -L",
    "what each GPU's processes see",
    "muster each -g 0-3 -- python -c 'import torch; print(torch.cuda.get_device_name())'",
    "does torch find its device on each of four GPUs?",
    NULL,
};

const struct cmd cmd_each = {
    .name = "each",
    .args = "[OPTION]... -- COMMAND [ARG]...",
    .summary = "one command on every device, each line with the device's name before it",
    .details =
        "COMMAND is started once on each device, all at the same time, with the environment of a worker of muster "
        "map. Its lines are printed as they come, with the name of its seat before each. The status is the highest of "
        "all commands.",
    .opts = each_opts,
    .examples = each_examples,
    .keeps_dashdash = true,
    .request_size = sizeof(struct each_request),
    .defaults = each_defaults,
    .run = each_run,
    .check = each_check,
};
