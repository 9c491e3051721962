/* SPDX-License-Identifier: Apache-2.0
 *
 * The gang's events and actions, from the request to the exit status.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "device/probe.h"
#include "launch/launch_impl.h"
#include "node/wire_body.h"
#include "rendezvous/address.h"

enum {
    RUN_ID_MAX = 64
};

/* ---- how many ranks ---- */

int devices_see(const char *self_path, struct device_list *out, struct err *err)
{
    struct device_spec spec;
    cleanup_buf struct buf notes = BUF_INIT;
    int rc = spec_parse("all", &spec, err);
    *out = (struct device_list){0};
    return rc ? rc
              : probe_universe(&(struct probe_opts){.self_path = self_path}, &spec, out, &notes,
                               err);
}

static int gpus_count(const char *self_path, uint32_t *out, struct err *err)
{
    struct device_list devices;
    int rc = devices_see(self_path, &devices, err);
    *out = 0;
    for (size_t i = 0; i < devices.len; i++)
        *out += devices.at[i].kind != DEVICE_CPU;
    device_list_release(&devices);
    return rc;
}

static bool nproc_is(const struct launch_request *request, const char *word)
{
    return request->nproc && strcmp(request->nproc, word) == 0;
}

/* "8", "gpu", "cpu", "auto", or not given. */
int ranks_count(const struct launch_request *request, const struct host_counts *counts,
                uint32_t *out, struct err *err)
{
    bool is_auto = nproc_is(request, "auto"), is_gpu = nproc_is(request, "gpu");
    uint64_t number = counts->n_usual;
    if (is_gpu && counts->n_gpus == 0)
        return fail(err, ERR_UNAVAILABLE,
                    "--nproc-per-node gpu: there is no GPU %s; muster gpus says why",
                    counts->where);
    if (is_gpu || (is_auto && counts->n_gpus > 0))
        number = counts->n_gpus;
    else if (is_auto || nproc_is(request, "cpu"))
        number = counts->n_processors;
    else if (request->nproc &&
             python_u64_parse(str_of(request->nproc), 1, UINT32_MAX, &number, NULL) != 0)
        return fail(err, ERR_USAGE,
                    "--nproc-per-node '%s': expected a number from 1, gpu, cpu or auto",
                    request->nproc);
    if (number > GANG_NODE_RANKS_MAX)
        return fail(err, ERR_USAGE, "%lu ranks are more than the %d that a machine may have",
                    number, GANG_NODE_RANKS_MAX);
    *out = (uint32_t)number;
    return 0;
}

static int own_ranks_count(struct launch *launch, struct err *err)
{
    const struct launch_request *request = launch->request;
    bool counts_gpus = nproc_is(request, "auto") || nproc_is(request, "gpu");
    uint32_t n_taken = (uint32_t)launch->allocation.n_chosen;
    struct host_counts counts = {.where = "here",
                                 .n_usual = MAX(n_taken, 1u),
                                 .n_gpus = n_taken,
                                 .n_processors = processors_allowed()};
    int rc = counts_gpus && !request->allocation.gpus
                 ? gpus_count(shell_self_path(launch->shell), &counts.n_gpus, err)
                 : 0;
    rc = rc ? rc : ranks_count(request, &counts, &launch->own.n_ranks, err);
    rc = rc ? rc : virtual_ranks_check(&launch->own, err);
    rc = rc ? rc : rank_devices_spare(launch, err);
    return rc ? rc : machine_cpus_find(&launch->own, err);
}

/* ---- the shell's verb ---- */

static void on_stop(void *context, enum shell_stop how)
{
    struct launch *launch = context;
    bool at_once = how == STOP_KILL;
    if (launch->gang && at_once)
        lead_kill(launch);
    else if (launch->gang)
        lead_tell(launch, (struct gang_event){.kind = GEV_STOP});
    else if (launch->rendezvous)
        follow_stop(launch, at_once);
    else
        launch->is_over = true; /* no rank has begun */
}

struct rendezvous_end launch_end(const struct launch *launch, bool at_once)
{
    int signal = shell_end(launch->shell)->signal;
    bool is_handed_on = signal > 0 && sigismember(&launch->request->signals.handled, signal) == 1;
    return (struct rendezvous_end){.at_once = at_once,
                                   .signal = (uint8_t)(is_handed_on ? signal : SIGTERM)};
}

static bool on_other_signal(void *context, int signal)
{
    const struct launch *launch = context;
    if (sigismember(&launch->request->signals.handled, signal) == 1)
        return true;
    if (signal == SIGUSR2)
        log_add(shell_log(launch->shell), LOG_WARN, "launch",
                "SIGUSR2 has no effect: --signals-to-handle does not name it");
    return false;
}

static void on_tick(void *context)
{
    struct launch *launch = context;
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        if (launch->ranks[i].process)
            rank_output_rest(&launch->ranks[i]);
    fold_say(launch, false);
    if (launch->fleet && launch->gang)
        fleet_tick(launch);
    if (launch->gang)
        lead_tick(launch);
    else if (launch->rendezvous)
        follow_tick(launch);
    watch_tick(launch);
    if (launch->rendezvous)
        rendezvous_tick(launch->rendezvous, shell_now(launch->shell));
}

static void on_say_alive(void *context)
{
    struct launch *launch = context;
    if (launch->rendezvous)
        rendezvous_say_alive(launch->rendezvous, shell_now(launch->shell));
}

static void on_before_sleep(void *context)
{
    struct launch *launch = context;
    if (launch->rendezvous)
        rendezvous_flush(launch->rendezvous, shell_now(launch->shell));
}

static const struct shell_verb launch_shell = {.name = "launch",
                                               .stop = on_stop,
                                               .ends_by = on_other_signal,
                                               .tick = on_tick,
                                               .say_alive = on_say_alive,
                                               .before_sleep = on_before_sleep};

/* ---- the run ---- */

/* Is there a rank that this muster has started, here or by an agent? */
static bool any_rank(const struct launch *launch)
{
    bool any = false;
    for (uint32_t i = 0; i < launch->n_ranks && !any; i++)
        any = launch->ranks[i].process;
    return any;
}

static int places_open(struct launch *launch, struct launch_meeting *meeting, struct err *err)
{
    if (launch->request->allocation.hosts)
        return fleet_open(launch, meeting, err);
    int rc = own_ranks_count(launch, err);
    if (rc == 0 && meeting->n_nodes_max > 1 && !launch->request->is_plan)
        rc = meeting_open(launch, err);
    return rc;
}

static int ranks_run(struct launch *launch, struct launch_meeting *meeting, struct err *err)
{
    int rc = places_open(launch, meeting, err);
    if (rc == 0 && launch->request->is_plan)
        return launch_dry_run(launch, meeting, err);
    rc = rc ? rc : logs_begin(launch, err);
    if (rc)
        return rc;
    bool leads = !launch->rendezvous || rendezvous_leads(launch->rendezvous);
    watch_open(launch);
    shell_files_allow(launch->shell, launch->own.n_ranks + (leads ? meeting->n_nodes_max : 0));
    if (leads)
        rc = lead_begin(launch, err);
    else
        follow_begin(launch);
    while (rc == 0 && (!launch->is_over || any_rank(launch)))
        shell_turn(launch->shell);
    fleet_close(launch);
    return rc;
}

static int outcome(struct launch *launch, struct err *err)
{
    int rc = shell_outcome(launch->shell, err);
    if (rc)
        return rc;
    return launch->gang ? lead_outcome(launch, err) : launch->orders.status;
}

/* Adds why the run has ended, for the other machines. */
static void why_add(const struct launch *launch, int status, const struct err *err, struct buf *out)
{
    int signal = shell_end(launch->shell)->signal;
    if (err->code)
        buf_add_text(out, err->text);
    else if (signal)
        buf_addf(out, "the machine that leads was ended by a signal: %s", strsignal(signal));
    else if (status)
        buf_add_str(out, buf_str(&launch->report));
}

static int status_of(struct launch *launch, struct err *err)
{
    cleanup_buf struct buf why = BUF_INIT;
    int status = outcome(launch, err);
    bool is_of_rank = launch->gang ? status != 0 && !err->code && !shell_end(launch->shell)->signal
                                   : launch->orders.is_of_rank;
    if (is_of_rank)
        record_hand_on(launch);
    if (launch->gang && launch->rendezvous) {
        why_add(launch, status, err, &why);
        lead_end(launch,
                 &(struct rendezvous_over){.status = status < 0 ? err_exit_status(status) : status,
                                           .is_of_rank = is_of_rank,
                                           .text = buf_str(&why)});
    }
    return is_of_rank && launch->request->fails_with_one ? 1 : status;
}

static void launch_release(struct launch *launch)
{
    fold_say(launch, true);
    rendezvous_close(launch->rendezvous);
    lookup_forget(launch->endpoint);
    rank_devices_end(launch);
    shell_close(launch->shell);
    rank_devices_release(launch);
    watch_close(launch);
    ranks_release(launch);
    fold_free(launch->fold);
    fleet_free(launch->fleet);
    logs_end(launch);
    lead_release(launch);
    allocation_release(&launch->allocation);
    free(launch->own.shares);
    buf_release(&launch->report);
}

/* A random UUID, made by the kernel; torchrun has UUIDs as well. NULL: err says why not. */
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

/* One seat for each machine, with all devices that are taken there. */
static struct allocation_wish wish_of(const struct launch_request *request)
{
    struct allocation_wish wish = request->allocation;
    if (!wish.gpus && !wish.hosts)
        wish.gpus = WISH_NO_DEVICES;
    wish.without_devices = wish.gpus && strcmp(wish.gpus, WISH_NO_DEVICES) == 0;
    wish.gpus_per_worker = SEAT_HAS_ALL;
    wish.is_plan = request->is_plan;
    wish.sent = &request->environment.env;
    wish.hosts_min = wish.hosts_min > 0 ? wish.hosts_min : HOSTS_ALL;
    wish.asks_presence = true;
    return wish;
}

/* A word that begins with `-` is an option of Python's; of a folder or a zip archive Python runs __main__.py. */
int launch_script_check(const struct launch_request *request, const char *script, struct err *err)
{
    const char *path = getenv("PATH"), *python = getenv("PYTHON_EXEC");
    if (request->is_module || request->is_program || script[0] == '-' || (python && *python))
        return 0;
    if (access(script, R_OK) != 0)
        return fail(err, ERR_USAGE, "the script %s: %s%s", script, errno_text(errno),
                    !strchr(script, '/') && path && path_finds(path, script)
                        ? "; to run the program of that name, give --no-python"
                        : "");
    cleanup_free char *main_file = xasprintf("%s/__main__.py", script);
    if (folder_exists(script) && !path_exists(main_file))
        return fail(err, ERR_USAGE,
                    "the script %s is a folder without a __main__.py; name the file to run",
                    script);
    return 0;
}

/* Before devices are taken: finds the words of the command and its program. Hosts look for the program themselves. */
static int command_check(const struct launch *launch, char **program, struct err *err)
{
    const struct environment_wish *wish = &launch->request->environment;
    struct env_list words = {0};
    int rc = rank_command(launch, 0, &words, err);
    bool is_known = rc == 0 && !wish->setup && strcmp(words.at[0], AGENT_PROGRAM) != 0;
    if (is_known && !launch->request->allocation.hosts)
        rc = program_check(words.at[0], err);
    if (is_known && rc == 0 && !launch->request->allocation.hosts)
        rc = launch_script_check(launch->request, launch->command[0], err);
    if (is_known && rc == 0)
        *program = xstrdup(words.at[0]);
    env_list_release(&words);
    return rc;
}

int launch_run(struct log *log, const char *self_path, const struct launch_request *request,
               const char *const *command, struct err *err)
{
    struct shell_verb verb = launch_shell;
    struct launch_request named = *request;
    cleanup_free char *made_id = named.run_id ? NULL : run_id_new(err);
    named.run_id = made_id ? made_id : named.run_id;
    verb.takes_hosts = request->restarts.n > 0; /* a restart can use a late host */
    if (!named.run_id)
        return err->code;
    struct launch launch = {.request = &named,
                            .command = command,
                            .master_addr = request->master_addr,
                            .own = {.launch = &launch},
                            .master_port = MASTER_PORT_INIT};
    struct shell_setup setup = {.verb = &verb,
                                .context = &launch,
                                .log = log,
                                .self_path = self_path,
                                .limit_ms = request->limit_ms};
    cleanup_free char *program = NULL;
    struct allocation_wish wish = wish_of(request);
    sigaddset(&setup.more_signals, SIGUSR2);
    if (sigismember(&request->signals.handled, SIGQUIT) == 1)
        sigaddset(&setup.more_signals, SIGQUIT);
    launch.shell = shell_new(&setup);
    int rc = output_parse(&launch, err);
    rc = rc ? rc : command_check(&launch, &program, err);
    wish.program = program;
    if (rc == 0)
        rc = shell_begin(launch.shell, &wish, &launch.allocation, err);
    if (rc == 0) {
        launch.mark = xasprintf("MUSTER_LAUNCH=%d-%lx", getpid(), clock_now_ns());
        shell_keeper_start(launch.shell, &launch.allocation, launch.mark, request->grace_ms);
    }
    rc = rc ? rc : ranks_run(&launch, &named.meeting, err);
    rc = rc ? rc : status_of(&launch, err);
    launch_release(&launch);
    shell_free(launch.shell);
    free(launch.mark);
    return rc;
}
