/* SPDX-License-Identifier: Apache-2.0
 *
 * The gang's events and actions, from the request to the exit status.
 */
#include <sched.h>
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

/* Those that this process may run on: a job has a part of the machine. */
static uint64_t processors_count(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        return (uint64_t)CPU_COUNT(&allowed);
    return (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
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
        number = processors_count();
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

/* ---- the shell's verb ---- */

static void stop(struct launch *launch, bool at_once)
{
    if (launch->gang)
        lead_tell(launch, (struct gang_event){.kind = GEV_STOP, .flag = at_once});
    else if (launch->rendezvous)
        follow_stop(launch, at_once);
    else
        launch->is_over = true; /* nothing has begun */
}

static void on_stop(void *context, bool now)
{
    (void)now; /* there is nothing else to stop than the ranks */
    stop(context, false);
}

static void on_kill(void *context)
{
    stop(context, true);
}

static void on_tick(void *context)
{
    struct launch *launch = context;
    for (uint32_t i = 0; launch->own.n_alive > 0 && i < launch->own.n_ranks; i++)
        if (launch->own.ranks[i].process)
            rank_output_rest(&launch->own.ranks[i]);
    if (launch->gang)
        lead_tick(launch);
    if (launch->rendezvous)
        rendezvous_tick(launch->rendezvous, shell_now(&launch->shell));
}

static void on_before_sleep(void *context)
{
    struct launch *launch = context;
    if (launch->rendezvous)
        rendezvous_flush(launch->rendezvous, shell_now(&launch->shell));
}

static const struct shell_verb launch_shell = {.name = "launch",
                                               .stop = on_stop,
                                               .kill = on_kill,
                                               .tick = on_tick,
                                               .before_sleep = on_before_sleep};

/* ---- the run ---- */

static int ranks_run(struct launch *launch, struct err *err)
{
    bool is_alone = launch->request->meeting.n_nodes_max == 1;
    int rc = seat_make(launch, err);
    rc = rc ? rc : ranks_count(launch, &launch->own.n_ranks, err);
    if (rc == 0 && !is_alone)
        rc = meeting_open(launch, err);
    rc = rc ? rc : logs_begin(launch, err);
    if (rc)
        return rc;
    shell_files_allow(&launch->shell, launch->own.n_ranks);
    if (is_alone || rendezvous_leads(launch->rendezvous))
        rc = lead_begin(launch, err);
    while (rc == 0 && (!launch->is_over || launch->own.n_alive > 0))
        shell_turn(&launch->shell);
    return rc;
}

static int outcome(struct launch *launch, struct err *err)
{
    const struct shell_end *end = &launch->shell.end;
    if (end->signal)
        return 128 + end->signal;
    if (end->err.code)
        return fail(err, end->err.code, "%s", end->err.text);
    return launch->gang ? lead_outcome(launch, err) : launch->orders.status;
}

static int status_of(struct launch *launch, struct err *err)
{
    int status = outcome(launch, err);
    const char *why = err->code                  ? err->text
                      : launch->shell.end.signal ? strsignal(launch->shell.end.signal)
                      : status                   ? buf_text(&launch->report)
                                                 : "";
    if (launch->gang && launch->rendezvous)
        lead_end(launch, status < 0 ? err_exit_status(status) : status, why);
    bool is_of_a_rank = status != 0 && err->code == 0 && !launch->shell.end.signal;
    return is_of_a_rank && launch->request->fails_with_one ? 1 : status;
}

static void launch_release(struct launch *launch)
{
    rendezvous_close(launch->rendezvous);
    shell_close(&launch->shell);
    ranks_release(launch);
    logs_end(launch);
    lead_release(launch);
    allocation_release(&launch->allocation);
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
                            .master_port = MASTER_PORT_INIT,
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
