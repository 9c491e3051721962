/* SPDX-License-Identifier: Apache-2.0
 *
 * muster each runs one command on every seat. Each line of output begins with the name of the seat.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/xalloc.h"
#include "cli/verbs.h"
#include "node/allocation_arg.h"
#include "node/environment.h"
#include "shell/prefix.h"

struct each_request {
    struct allocation_wish allocation;
    struct environment_wish environment;
    uint64_t grace_ms, limit_ms;
    bool is_quiet;
};

struct each {
    const struct each_request *ask;
    struct shell *shell;
    struct allocation allocation;
    struct env_list words;       /* of the command */
    struct each_worker *workers; /* [allocation.n_seats] */
    uint32_t n_alive;
    int worst_status;
};

/* The command on one seat. */
struct each_worker {
    struct each *each;
    struct node_worker *process; /* NULL: the command has ended, or was not started */
    char before[136];            /* the seat's label, which begins each line */
    struct prefix out, errors;
};

static void on_stop(void *context, enum shell_stop how)
{
    struct each *each = context;
    for (uint32_t i = 0; each->workers && i < each->allocation.n_seats; i++)
        if (each->workers[i].process)
            node_end(each->workers[i].process, how == STOP_KILL ? END_AT_ONCE : END_POLITELY);
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct each_worker *w = context;
    prefix_print(w->each->shell, stream == STREAM_ERR ? &w->errors : &w->out, bytes, false);
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct each_worker *w = context;
    struct each *each = w->each;
    int status = worker_exit_status(exit);
    each->worst_status = MAX(each->worst_status, status);
    prefix_end(each->shell, &w->out);
    prefix_end(each->shell, &w->errors);
    if (exit->was_refused)
        log_add(shell_log(each->shell), LOG_ERROR, "each", "%scould not be executed: %s", w->before,
                errno_text(exit->exec_errno));
    else if (status != 0 && !shell_is_to_end(each->shell))
        log_add(shell_log(each->shell), LOG_WARN, "each", "%sstatus %d", w->before, status);
    node_release(steal_ptr(&w->process));
    each->n_alive--;
}

static void on_warned(void *context, const char *text)
{
    const struct each_worker *w = context;
    log_add(shell_log(w->each->shell), LOG_WARN, "each", "%s%s", w->before, text);
}

static void on_failed(void *context, const struct err *why)
{
    const struct each_worker *w = context;
    shell_abort(w->each->shell, why);
}

static int worker_start(struct each *each, uint32_t number, struct err *err)
{
    static const struct worker_handlers handlers = {
        .output = on_output, .gone = on_gone, .warned = on_warned, .failed = on_failed};
    struct each_worker *w = &each->workers[number];
    struct env_list env = {0};
    *w = (struct each_worker){each, .out = {w->before, STDOUT_FILENO},
                              .errors = {w->before, STDERR_FILENO}};
    snprintf(w->before, sizeof(w->before), "%s: ", each->allocation.seats[number].label);
    worker_environment_begin(&each->allocation, number, &each->ask->environment, &env);
    env_end(&env);
    const struct spawn_request request = {.argv = (const char *const *)each->words.at,
                                          .envp = (const char *const *)env.at,
                                          .seat = &each->allocation.seats[number],
                                          .sent = &each->ask->environment.env,
                                          .grace_ms = each->ask->grace_ms,
                                          .locks = &each->allocation.locks,
                                          .handlers = &handlers,
                                          .context = w};
    int rc = node_spawn(shell_node(each->shell), &request, &w->process, err);
    env_list_release(&env);
    each->n_alive += rc == 0;
    return rc;
}

static int workers_run(struct each *each, struct err *err)
{
    int rc = 0;
    each->workers = xcalloc(each->allocation.n_seats, sizeof(*each->workers));
    for (uint32_t i = 0; rc == 0 && i < each->allocation.n_seats; i++)
        rc = worker_start(each, i, err);
    if (rc)
        on_stop(each, STOP_KILL);
    while (each->n_alive > 0)
        shell_turn(each->shell);
    return rc;
}

static int each_check(struct app *app, void *request, int argc, char **argv, char **command,
                      struct cmd_check *check, struct err *err)
{
    const struct each_request *ask = request;
    bool is_elsewhere = check->has_setup || ask->environment.setup || check->has_hosts;
    (void)app, (void)argc, (void)argv;
    return is_elsewhere ? 0 : program_check(command[0], err);
}

static int each_run(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    struct each_request *ask = request;
    struct each each = {.ask = ask,
                        .shell = shell_new(&(struct shell_setup){
                            .verb = &(struct shell_verb){.name = "each", .stop = on_stop},
                            .context = &each,
                            .log = &app->log,
                            .self_path = app->self_path,
                            .limit_ms = ask->limit_ms})};
    (void)argc, (void)argv;
    app->log.console_quiet = app->log.console_quiet || ask->is_quiet;
    environment_program(&ask->environment, (const char *const *)command, &ask->allocation);
    environment_command(&ask->environment, (const char *const *)command, &each.words);
    int rc = shell_begin(each.shell, &ask->allocation, &each.allocation, err);
    if (rc == 0 && ask->allocation.is_plan)
        seats_print(&each.allocation, (const char *const *)each.words.at);
    else if (rc == 0)
        rc = workers_run(&each, err);
    rc = rc ? rc : shell_outcome(each.shell, err);
    shell_close(each.shell);
    shell_free(each.shell);
    free(each.workers);
    env_list_release(&each.words);
    allocation_release(&each.allocation);
    return rc ? rc : each.worst_status;
}

/* clang-format off */
static const struct opt each_opts[] = {
    ALLOCATION_OPTS(offsetof(struct each_request, allocation)),
    ENVIRONMENT_OPTS(offsetof(struct each_request, environment)),
    {OPT_FLAG, 0, "dry-run", NULL, "show what would run where, and run nothing", offsetof(struct each_request, allocation.is_plan)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing from muster itself on stderr but errors", offsetof(struct each_request, is_quiet)},
    {OPT_DURATION, 0, "time-limit", "DURATION", "end all commands after this time, with exit status 124 (default: no limit)", offsetof(struct each_request, limit_ms)},
    {OPT_DURATION, 0, "grace", "DURATION", "time between SIGTERM and SIGKILL when a worker is ended (default 10s)", offsetof(struct each_request, grace_ms)},
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
        "map. Each line that it prints appears as it comes, with its seat before it, such as gpu_0. The status is the highest of all commands.",
    .opts = each_opts,
    .examples = each_examples,
    .command = COMMAND_ALONE,
    .request_size = sizeof(struct each_request),
    .defaults = each_defaults,
    .run = each_run,
    .check = each_check,
};
