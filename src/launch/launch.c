/* SPDX-License-Identifier: Apache-2.0
 *
 * The gang's events and actions, from the request to the exit status.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/probe.h"
#include "launch/launch_impl.h"

enum {
    SCRATCH_BYTES = 256 * 1024,
    WAIT_SAID_MS = 2000,
    RUN_ID_MAX = 64
};

/* ---- how many ranks ---- */

static int gpus_count(const char *self_path, uint32_t *out, struct err *err)
{
    struct device_spec spec;
    struct device_list devices = {0};
    cleanup_buf struct buf notes = BUF_INIT;
    int rc = spec_parse("all", &spec, err);
    if (rc == 0)
        rc = probe_universe(&(struct probe_opts){.self_path = self_path}, &spec, &devices, &notes,
                            err);
    *out = 0;
    for (size_t i = 0; i < devices.len; i++)
        *out += devices.at[i].kind != DEVICE_CPU;
    device_list_release(&devices);
    return rc;
}

static int gpus_needed(const struct launch *launch, bool is_auto, uint32_t *out, struct err *err)
{
    int rc = 0;
    *out = (uint32_t)launch->allocation.n_chosen;
    if (!launch->request->gpus)
        rc = gpus_count(launch->shell.self_path, out, err);
    if (rc || *out > 0 || is_auto)
        return rc;
    return fail(err, ERR_UNAVAILABLE,
                "--nproc-per-node gpu: there is no GPU here; muster gpus says why");
}

/* "8", "gpu", "cpu", "auto"; not given: as many as devices were taken, or one. */
static int ranks_count(const struct launch *launch, uint32_t *out, struct err *err)
{
    const char *text = launch->request->nproc;
    uint64_t number = MAX(launch->allocation.n_chosen, (size_t)1);
    bool is_auto = text && strcmp(text, "auto") == 0;
    bool is_gpu = is_auto || (text && strcmp(text, "gpu") == 0);
    bool is_cpu = text && strcmp(text, "cpu") == 0;
    *out = 0;
    int rc = is_gpu ? gpus_needed(launch, is_auto, out, err) : 0;
    if (rc)
        return rc;
    if (*out > 0)
        number = *out;
    else if (is_auto || is_cpu)
        number = (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
    else if (text && u64_parse(str_of(text), 1, UINT32_MAX, &number, NULL) != 0)
        return fail(err, ERR_USAGE, "--nproc-per-node '%s': expected a number, gpu, cpu or auto",
                    text);
    if (number > GANG_NODE_RANKS_MAX)
        return fail(err, ERR_USAGE, "%lu ranks are more than the %d that a machine may have",
                    number, GANG_NODE_RANKS_MAX);
    *out = (uint32_t)number;
    return 0;
}

/* The devices that were taken, as one seat: each rank sees them all, and finds its own by LOCAL_RANK. */
static int seat_make(struct launch *launch, struct err *err)
{
    const struct allocation *a = &launch->allocation;
    if (a->n_chosen > SEAT_DEVICES_MAX)
        return fail(err, ERR_USAGE, "--gpus: %zu devices are more than the %d that ranks can see",
                    a->n_chosen, SEAT_DEVICES_MAX);
    for (size_t i = 0; i < a->n_chosen; i++)
        launch->seat.devices[launch->seat.n_devices++] = a->chosen[i];
    return 0;
}

/* ---- the gang's actions ---- */

static void ranks_release(struct launch *launch)
{
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        rank_release(&launch->ranks[i]);
    free(launch->ranks);
    launch->ranks = NULL;
    launch->n_ranks = 0;
}

/* The run is given up before the exits are told: they would seem to be failures of ranks. */
static void start_failed(struct launch *launch, const struct gang_member *member, struct err *err)
{
    if (err->code == ERR_USAGE) /* a folder that cannot be made while the run lasts */
        err->code = ERR_UNAVAILABLE;
    shell_abort(&launch->shell, err);
    for (uint32_t i = member->first_rank; i < member->first_rank + member->n_ranks; i++)
        if (!launch->ranks[i].process)
            launch_tell(launch,
                        (struct gang_event){.kind = GEV_EXIT,
                                            .rank = i,
                                            .generation = gang_view(launch->gang).generation,
                                            .status = 1});
}

/* Nobody will look at it, and ranks may be started again many times. */
static void earlier_logs_remove(const struct launch *launch, uint32_t generation)
{
    if (!launch->is_temporary || generation == 0)
        return;
    cleanup_free char *folder = xasprintf("%s/attempt_%u", launch->log_root, generation - 1);
    struct err ignored = {0};
    (void)!remove_tree(folder, &ignored);
}

/* The first node of a generation makes place for all ranks; those of the one before are gone. */
static void do_start(struct launch *launch, const struct gang_action *action)
{
    const struct gang_view view = gang_view(launch->gang);
    struct gang_member member;
    struct err err = {0};
    bool is_member = gang_member(launch->gang, action->node, &member);
    ASSERT(is_member);
    if (member.group_rank == 0) {
        ranks_release(launch);
        earlier_logs_remove(launch, view.generation);
        launch->ranks = xcalloc(view.world_size, sizeof(*launch->ranks));
        launch->n_ranks = view.world_size;
    }
    int rc = 0;
    for (uint32_t i = 0; i < member.n_ranks; i++) {
        struct rank *rank = &launch->ranks[member.first_rank + i];
        *rank = (struct rank){.launch = launch, .number = member.first_rank + i, .local_rank = i};
        rc = rc ? rc : rank_start(rank, &view, &member, &err);
    }
    if (rc)
        start_failed(launch, &member, &err);
}

static void do_end(struct launch *launch, const struct gang_action *action)
{
    struct gang_member member;
    if (!gang_member(launch->gang, action->node, &member))
        return;
    for (uint32_t i = member.first_rank; i < member.first_rank + member.n_ranks; i++)
        if (launch->ranks[i].process)
            node_end(launch->ranks[i].process, action->flag ? END_AT_ONCE : END_POLITELY);
}

static void do_fail(struct launch *launch, const struct gang_action *action)
{
    (void)action;
    launch->has_said_wait = false;
}

/* Ranks that end slowly would hide what happened from the user. */
static void wait_say(struct launch *launch)
{
    const struct gang_view view = gang_view(launch->gang);
    bool is_late = view.state == GANG_ENDS && view.first.cause != GANG_NO_CAUSE &&
                   view.first.generation == view.generation &&
                   shell_now(&launch->shell) - view.first.at_ms >= WAIT_SAID_MS;
    if (!is_late || launch->has_said_wait)
        return;
    launch->has_said_wait = true;
    log_add(launch->shell.log, LOG_WARN, "launch", "rank %u %s; waiting for %u rank%s to end",
            view.first.rank, view.first.cause == GANG_LINGERS ? "stays" : "failed", view.n_alive,
            plural(view.n_alive));
}

static void do_retry(struct launch *launch, const struct gang_action *action)
{
    char pause[24];
    duration_format(pause, action->pause_ms);
    report_make(launch);
    report_print(launch);
    log_add(launch->shell.log, LOG_WARN, "launch",
            "all ranks start again in %s (restart %u of %lu)", pause,
            gang_view(launch->gang).n_restarts_used, launch->request->n_restarts);
}

static void do_over(struct launch *launch, const struct gang_action *action)
{
    (void)action;
    launch->is_over = true;
    if (gang_view(launch->gang).outcome == GANG_FAILED)
        report_make(launch);
}

static void actions_do(struct launch *launch, const struct gang_action *actions, size_t n)
{
    static void (*const deeds[])(struct launch *, const struct gang_action *) = {
        [GACT_START] = do_start, [GACT_END] = do_end,   [GACT_FAIL] = do_fail,
        [GACT_RETRY] = do_retry, [GACT_OVER] = do_over,
    };
    for (size_t i = 0; i < n; i++)
        deeds[actions[i].kind](launch, &actions[i]);
}

/* What an action brings about is told after the actions beside it were carried out. */
void launch_tell(struct launch *launch, struct gang_event event)
{
    if (launch->events.len == launch->events.cap) {
        launch->events.cap = 2 * launch->events.cap + 16;
        launch->events.at =
            xrealloc(launch->events.at, launch->events.cap * sizeof(*launch->events.at));
    }
    launch->events.at[launch->events.len++] = event;
    if (launch->events.is_handled)
        return;
    launch->events.is_handled = true;
    for (size_t i = 0; i < launch->events.len; i++) {
        const struct gang_action *actions;
        struct gang_event next = launch->events.at[i];
        next.now_ms = shell_now(&launch->shell);
        size_t n = gang_step(launch->gang, &next, &actions);
        actions_do(launch, actions, n);
    }
    launch->events.len = 0;
    launch->events.is_handled = false;
}

/* ---- the shell's verb ---- */

static void on_stop(void *context, bool now)
{
    (void)now; /* there is nothing else to stop than the ranks */
    launch_tell(context, (struct gang_event){.kind = GEV_STOP});
}

static void on_kill(void *context)
{
    launch_tell(context, (struct gang_event){.kind = GEV_STOP, .flag = true});
}

static void on_tick(void *context)
{
    struct launch *launch = context;
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        if (launch->ranks[i].process)
            rank_output_rest(&launch->ranks[i]);
    launch_tell(launch, (struct gang_event){.kind = GEV_TICK});
    wait_say(launch);
}

static const struct shell_verb launch_shell = {
    .name = "launch", .stop = on_stop, .kill = on_kill, .tick = on_tick};

/* ---- the run ---- */

static int ranks_run(struct launch *launch, struct err *err)
{
    uint32_t n_ranks;
    int rc = seat_make(launch, err);
    rc = rc ? rc : ranks_count(launch, &n_ranks, err);
    if (rc == 0 &&
        rendezvous_take(&launch->rendezvous, (uint16_t)launch->request->master_port, err) != 0)
        return wrap(err, ERR_UNAVAILABLE,
                    "without --master-port and --rdzv-endpoint a free port is taken");
    rc = rc ? rc : logs_begin(launch, err);
    if (rc)
        return rc;
    shell_files_allow(&launch->shell, n_ranks);
    launch_tell(launch, (struct gang_event){.kind = GEV_NODE_UP, .node = 0, .count = n_ranks});
    while (!launch->is_over)
        shell_turn(&launch->shell);
    return 0;
}

static int status_of(struct launch *launch, struct err *err)
{
    const struct shell_end *end = &launch->shell.end;
    const struct gang_view view = gang_view(launch->gang);
    if (end->signal)
        return 128 + end->signal;
    if (end->err.code)
        return fail(err, end->err.code, "%s", end->err.text);
    if (view.outcome != GANG_FAILED)
        return 0;
    report_print(launch);
    return launch->request->fails_with_one ? 1 : MAX(launch->failed_status, 1);
}

static void launch_release(struct launch *launch)
{
    shell_close(&launch->shell);
    ranks_release(launch);
    logs_end(launch);
    rendezvous_release(&launch->rendezvous);
    allocation_release(&launch->allocation);
    gang_free(launch->gang);
    free(launch->events.at);
    buf_release(&launch->report);
}

/* As torchrun's: a random UUID, which the kernel makes. NULL: err says why not. */
static char *run_id_new(struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read("/proc/sys/kernel/random/uuid", RUN_ID_MAX, &text, err) != 0) {
        wrap(err, ERR_SYS, "make a name for the run (--rdzv-id gives one)");
        return NULL;
    }
    struct str id = str_trim(buf_str(&text));
    return xstrndup(id.at, id.len);
}

/* Before anything is taken: the words of the command, and its program. */
static int command_check(const struct launch *launch, struct err *err)
{
    const struct environment_wish *wish = &launch->request->environment;
    struct env_list words = {0};
    int rc = environment_wish_check(wish, err);
    rc = rc ? rc : rank_command(launch, 0, &words, err);
    if (rc == 0 && !wish->setup)
        rc = program_check(words.at[0], err);
    env_list_release(&words);
    return rc;
}

static struct gang *gang_make(const struct launch_request *request)
{
    const struct gang_config config = {.n_nodes_min = 1,
                                       .n_nodes_max = 1,
                                       .n_restarts = (uint32_t)request->n_restarts,
                                       .pause_ms = request->pause_ms,
                                       .healthy_ms = request->healthy_ms,
                                       .linger_ms = request->linger_ms};
    return xalloc_checked(gang_new(&config), sizeof(config));
}

int launch_run(struct log *log, const char *self_path, const struct launch_request *request,
               const char *const *command, struct err *err)
{
    cleanup_free char *scratch = xmalloc(SCRATCH_BYTES);
    struct launch_request named = *request;
    cleanup_free char *made_id = named.run_id ? NULL : run_id_new(err);
    named.run_id = made_id ? made_id : named.run_id;
    if (!named.run_id)
        return err->code;
    struct launch launch = {.request = &named,
                            .command = command,
                            .rendezvous = RENDEZVOUS_INIT,
                            .gang = gang_make(request),
                            .shell = {.verb = &launch_shell,
                                      .context = &launch,
                                      .log = log,
                                      .self_path = self_path,
                                      .signals = {.front_fd = -1},
                                      .limit_ms = request->limit_ms}};
    const struct allocation_wish wish = {.gpus = request->gpus ? request->gpus : WISH_NO_DEVICES,
                                         .without_devices = !request->gpus};
    int rc = shown_ranks_parse(&launch, err);
    rc = rc ? rc : command_check(&launch, err);
    if (rc == 0)
        rc = shell_begin(&launch.shell, &wish, &launch.allocation,
                         (struct str){scratch, SCRATCH_BYTES}, err);
    rc = rc ? rc : ranks_run(&launch, err);
    rc = rc ? rc : status_of(&launch, err);
    launch_release(&launch);
    return rc;
}
