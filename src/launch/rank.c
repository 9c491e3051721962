/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank: its command, its environment, its process.
 */
#include <ctype.h>
#include <signal.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"
#include "launch/takeover.h"
#include "node/wire_body.h"

/* ---- the command ---- */

/* Runs a script in the interpreter itself, by runpy. torchrun does the same. */
static const char by_path[] = "import runpy, sys; sys.argv = sys.argv[1:]; "
                              "runpy.run_path(sys.argv[0], run_name='__main__')";

/* The first python3 or python in PATH: that of the active environment, which would run torchrun as well. */
static const char *interpreter_find(void)
{
    static const char *const names[] = {"python3", "python"};
    const char *named = getenv("PYTHON_EXEC"), *path = getenv("PATH");
    if (named && *named)
        return named;
    for (size_t i = 0; path && i < countof(names); i++)
        if (path_finds(path, names[i]))
            return names[i];
    return NULL;
}

/* The macro that begins at a `$`, and its length; NULL: none does. */
static const struct macro *macro_find(const char *at, const struct macro *macros, size_t n_macros,
                                      size_t *len)
{
    for (size_t i = 0; i < n_macros; i++) {
        size_t n = strlen(macros[i].name);
        bool is_braced =
            at[1] == '{' && strncmp(at + 2, macros[i].name, n) == 0 && at[2 + n] == '}';
        bool is_bare = strncmp(at + 1, macros[i].name, n) == 0 &&
                       !isalnum((unsigned char)at[1 + n]) && at[1 + n] != '_';
        *len = is_braced ? n + 3 : n + 1;
        if (is_braced || is_bare)
            return &macros[i];
    }
    return NULL;
}

/* Fills macros in as safe_substitute() of Python's string.Template does, which torchrun uses. */
char *macros_fill(const char *text, const struct macro *macros, size_t n_macros)
{
    cleanup_buf struct buf out = BUF_INIT;
    while (*text) {
        size_t len = 1;
        bool is_escaped = text[0] == '$' && text[1] == '$';
        const struct macro *macro =
            text[0] == '$' && !is_escaped ? macro_find(text, macros, n_macros, &len) : NULL;
        if (macro)
            buf_add_text(&out, macro->value);
        else
            buf_add_char(&out, *text);
        text += macro ? len : is_escaped ? 2 : 1;
    }
    return xstrdup(buf_text(&out));
}

static char *argument_new(const char *word, uint32_t local_rank)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", local_rank);
    return macros_fill(word, &(struct macro){"local_rank", number}, 1);
}

int rank_command(const struct launch *launch, uint32_t local_rank, struct env_list *out,
                 struct err *err)
{
    const struct launch_request *request = launch->request;
    struct env_list words = {0};
    if (!request->is_program) {
        const char *python = interpreter_find();
        if (!python && request->allocation.hosts)
            python = "python3"; /* the host has to have it */
        if (!python)
            return fail(err, ERR_UNAVAILABLE,
                        "there is no python3 in PATH; name one by PYTHON_EXEC, or give --no-python "
                        "for another program");
        const char *const before[] = {python, "-u",
                                      request->is_module     ? "-m"
                                      : request->is_run_path ? "-c"
                                                             : NULL,
                                      request->is_run_path ? by_path : NULL, NULL};
        env_list_add_words(&words, before);
    }
    env_list_add(&words, xstrdup(launch->command[0]));
    if (request->passes_local_rank)
        env_list_add(&words, xasprintf("--local-rank=%u", local_rank));
    for (const char *const *word = launch->command + 1; *word; word++)
        env_list_add(&words, argument_new(*word, local_rank));
    env_end(&words);
    environment_command(&request->environment, (const char *const *)words.at, out);
    env_list_release(&words);
    return 0;
}

/* ---- the environment ---- */

static void number_set(struct env_list *env, const char *name, uint64_t value)
{
    env_set(env, xasprintf("%s=%lu", name, (unsigned long)value));
}

static void text_set(struct env_list *env, const char *name, const char *value)
{
    env_set(env, xasprintf("%s=%s", name, value));
}

/* Sets a variable to its value in this process, or else to `value`, so that all hosts have the same. */
static void usual_set(struct env_list *env, const char *name, const char *value)
{
    const char *own = getenv(name);
    if (own || value)
        text_set(env, name, own ? own : value);
}

static const char error_variable[] = "TORCHELASTIC_ERROR_FILE";

/* --threads comes before the environment. On another machine the agent sets a share. */
static void threads_set(const struct rank *rank, struct env_list *env)
{
    const struct rank_threads *threads = &rank->launch->request->cpus.threads;
    const struct machine *machine = rank->machine;
    bool are_several = machine->n_ranks > 1 || rank->launch->request->task.n_local > 1;
    if (threads->n > 0)
        number_set(env, "OMP_NUM_THREADS", threads->n);
    else if (threads->is_share && machine->shares)
        number_set(env, "OMP_NUM_THREADS", machine->shares[rank->local_rank].threads);
    else if (!threads->is_share)
        usual_set(env, "OMP_NUM_THREADS", are_several ? "1" : NULL);
}

/* The variables that torchrun promises to its scripts. */
void rank_contract(const struct rank *rank, struct env_list *env)
{
    const struct launch *launch = rank->launch;
    const struct launch_request *request = launch->request;
    const struct machine *machine = rank->machine;
    const struct rendezvous_start *part = &machine->part;
    const struct launch_task *task = &request->task;
    bool has_groups = task->n_local > 0 && task->n_groups > 0;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"RANK", rank->number},
        {"LOCAL_RANK", request->is_virtual ? 0 : rank->local_rank},
        {"WORLD_SIZE", part->world_size},
        {"LOCAL_WORLD_SIZE", task->n_local > 0 ? task->n_local : machine->n_ranks},
        {"GROUP_RANK", has_groups ? task->group_rank : part->group_rank},
        {"GROUP_WORLD_SIZE", has_groups ? task->n_groups : part->n_members},
        {"ROLE_RANK", rank->number},
        {"ROLE_WORLD_SIZE", part->world_size},
        {"MASTER_PORT", part->master_port},
        {"TORCHELASTIC_RESTART_COUNT", part->generation},
        {"TORCHELASTIC_MAX_RESTARTS", part->n_restarts_max},
    };
    for (size_t i = 0; i < countof(numbers); i++)
        number_set(env, numbers[i].name, numbers[i].value);
    text_set(env, "ROLE_NAME", request->role);
    text_set(env, "MASTER_ADDR", launch->master_addr);
    text_set(env, "TORCHELASTIC_RUN_ID", request->run_id);
    text_set(env, "TORCHELASTIC_SIGNALS_TO_HANDLE", request->signals.names);
    /* torch.distributed makes the store, in rank 0. */
    text_set(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
    if (!machine->is_far) /* else its agent names one */
        text_set(env, error_variable, rank->error_path);
    usual_set(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    threads_set(rank, env);
}

/* The variables that are sent to a host even if their values do not differ from those of this process. */
static struct texts sent_make(const struct environment_wish *wish, const struct env_list *contract)
{
    struct texts sent = {xcalloc(wish->env.len + contract->len + 1, sizeof(*sent.at)), 0};
    for (size_t i = 0; i < wish->env.len; i++)
        sent.at[sent.len++] = wish->env.at[i];
    for (size_t i = 0; i < contract->len; i++)
        sent.at[sent.len++] = contract->at[i];
    return sent;
}

/* ---- --virtual-local-rank: each rank sees one device ---- */

/* The list of devices that torch sees, by this process's environment; NULL: all. */
static const char *visible_devices(void)
{
    const char *hip = getenv("HIP_VISIBLE_DEVICES");
    return hip && *hip ? hip : getenv("CUDA_VISIBLE_DEVICES");
}

/* Finds an entry of the list by its position. False: the list is shorter. */
static bool entry_at(const char *list, uint32_t number, struct str *out)
{
    struct str rest = str_of(list);
    bool is_there = true;
    *out = STR("");
    for (uint32_t i = 0; is_there && i <= number; i++)
        is_there = rest.len > 0 && str_next(&rest, ',', out);
    *out = str_trim(*out);
    return is_there && out->len > 0;
}

int virtual_ranks_check(const struct machine *machine, struct err *err)
{
    const char *visible = visible_devices();
    struct str ignored;
    uint32_t n_ranks = machine->n_ranks;
    bool are_taken = machine_seat(machine)->n_devices > 0;
    if (!machine->launch->request->is_virtual)
        return 0;
    if (are_taken ? n_ranks <= machine_seat(machine)->n_devices
                  : !visible || entry_at(visible, n_ranks - 1, &ignored))
        return 0;
    return fail(err, ERR_USAGE,
                "--virtual-local-rank: %u rank%s need a device each, and there are fewer%s%s",
                n_ranks, plural(n_ranks),
                are_taken ? "" : ": CUDA_VISIBLE_DEVICES=", are_taken ? "" : visible);
}

static void virtual_device_show(const struct rank *rank, struct env_list *env)
{
    const struct seat *all = machine_seat(rank->machine);
    const char *hip = getenv("HIP_VISIBLE_DEVICES"), *visible = visible_devices();
    struct str entry;
    if (all->n_devices > 0) {
        struct seat one = {
            .n_devices = 1, .devices = {all->devices[rank->local_rank]}, .threads = all->threads};
        seat_devices_add(&rank->launch->allocation, &one, env);
        return;
    }
    cleanup_free char *own = visible && entry_at(visible, rank->local_rank, &entry)
                                 ? xstrndup(entry.at, entry.len)
                                 : xasprintf("%u", rank->local_rank);
    text_set(env, "CUDA_VISIBLE_DEVICES", own);
    if (hip && *hip)
        text_set(env, "HIP_VISIBLE_DEVICES", own);
}

/* ---- the process ---- */

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    rank_output_add(context, stream, bytes);
}

static void on_started(void *context)
{
    struct rank *rank = context;
    rank->pid = node_pid(rank->process);
}

static void on_stands(void *context, const struct proc_stand *stand)
{
    watch_stands(context, stand);
}

static void on_where(void *context, struct str text)
{
    watch_where(context, text);
}

static void on_error_file(void *context, struct str bytes, int64_t clock_ahead_ms)
{
    record_keep(context, bytes, clock_ahead_ms);
}

/* Logs why no process was made. Without an errno, the agent has said why, and the reason holds for all ranks. */
static void refused_say(const struct rank *rank, int exec_errno)
{
    struct err err = {0};
    if (exec_errno)
        log_add(shell_log(rank->launch->shell), LOG_ERROR, "launch",
                "rank %u: could not be executed: %s", rank->number, errno_text(exec_errno));
    else {
        fail(&err, ERR_UNAVAILABLE, "rank %u cannot be started on %s", rank->number,
             rank->host ? rank->host : "this machine");
        shell_abort(rank->launch->shell, &err);
    }
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct rank *rank = context;
    rank->status = worker_exit_status(exit);
    rank->exit_signal = exit->has_exited ? exit->exit_signal : SIGKILL * !exit->was_refused;
    rank->recorded_ms = (uint64_t)clock_wall_ms();
    rank_output_close(rank);
    rank_record_read(rank);
    if (exit->was_refused)
        refused_say(rank, exit->exec_errno);
    if (exit->stuck_pid)
        log_add(shell_log(rank->launch->shell), LOG_WARN, "launch",
                "rank %u: process %d does not end, even by SIGKILL, and is left: it is blocked in "
                "the kernel",
                rank->number, (int)exit->stuck_pid);
    node_release(steal_ptr(&rank->process));
    machine_lost_rank(rank);
}

static void on_warned(void *context, const char *text)
{
    const struct rank *rank = context;
    log_add(shell_log(rank->launch->shell), LOG_WARN, "launch", "rank %u: %s", rank->number, text);
}

static void on_failed(void *context, const struct err *why)
{
    struct rank *rank = context;
    shell_abort(rank->launch->shell, why);
}

static int process_start(struct rank *rank, const struct env_list *words,
                         const struct env_list *contract, struct err *err)
{
    /* Agents set these for workers. A name without a value is unset. */
    static const char *const not_of_ranks[] = {"MUSTER_WORKER", "MUSTER_WORKERS", NULL};
    static const struct worker_handlers handlers = {.started = on_started,
                                                    .output = on_output,
                                                    .stands = on_stands,
                                                    .where = on_where,
                                                    .gone = on_gone,
                                                    .error_file = on_error_file,
                                                    .warned = on_warned,
                                                    .failed = on_failed};
    struct launch *launch = rank->launch;
    struct allocation *a = &launch->allocation;
    struct seat bound = *machine_seat(rank->machine);
    const struct seat *seat = &bound;
    const struct environment_wish *wish = &launch->request->environment;
    struct env_list env = {0};
    struct texts sent = sent_make(wish, contract);
    if (rank->machine->shares)
        bound.cpus = rank->machine->shares[rank->local_rank].cpus;
    env_inherit(&env);
    takeover_environment(&env, rank->machine->n_ranks);
    env_set(&env, xstrdup(launch->mark));
    if (rank->machine->is_far)
        env_list_add_words(&env, not_of_ranks);
    else if (launch->request->is_virtual)
        virtual_device_show(rank, &env);
    else if (seat->n_devices > 0)
        seat_devices_add(a, seat, &env);
    for (size_t i = 0; i < contract->len; i++)
        env_set(&env, xstrdup(contract->at[i]));
    environment_wish_apply(wish, &env);
    env_end(&env);
    const struct spawn_request request = {
        .argv = (const char *const *)words->at,
        .envp = (const char *const *)env.at,
        .seat = seat,
        .cpus = rank->machine->cpus.n_ranks > 0 ? &rank->machine->cpus : NULL,
        .local_rank = rank->local_rank,
        .sent = &sent,
        .grace_ms = launch->request->grace_ms,
        .locks = &a->locks,
        .error_variable = error_variable,
        .handlers = &handlers,
        .context = rank};
    int rc = node_spawn(shell_node(launch->shell), &request, &rank->process, err);
    env_list_release(&env);
    free(sent.at);
    return rc;
}

/* Puts this machine's muster in the place of AGENT_PROGRAM, as an agent does on its host. */
static void own_program_fill(const struct rank *rank, struct env_list *words)
{
    if (rank->machine->is_far || words->len == 0 || strcmp(words->at[0], AGENT_PROGRAM) != 0)
        return;
    ASSERT(words->at);
    free(words->at[0]);
    words->at[0] = xstrdup(shell_self_path(rank->launch->shell));
}

int rank_start(struct rank *rank, struct err *err)
{
    struct env_list words = {0}, contract = {0};
    int rc = rank_command(rank->launch, rank->local_rank, &words, err);
    rc = rc ? rc : rank_output_open(rank, rank->machine->part.generation, err);
    if (rc == 0) {
        own_program_fill(rank, &words);
        rank_contract(rank, &contract);
        usual_set(&contract, LIBMUSTER_TOKEN, NULL); /* all ranks must know it */
        rc = process_start(rank, &words, &contract, err);
    }
    env_list_release(&contract);
    env_list_release(&words);
    return rc ? wrap(err, rc, "rank %u", rank->number) : 0;
}

void rank_release(struct rank *rank)
{
    rank_output_close(rank);
    buf_release(&rank->tail);
    free(rank->host);
    free(rank->before);
    free(rank->error_path);
    free(rank->message);
    free(rank->where);
}
