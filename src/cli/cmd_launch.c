/* SPDX-License-Identifier: Apache-2.0
 *
 * muster launch: with the options of torchrun, and a few of its own.
 */
#include "base/end_signals.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/accelerate_arg.h"
#include "cli/meeting_arg.h"
#include "cli/verbs.h"
#include "node/allocation_arg.h"

enum {
    PORT_MAX = 65535,
    RESTARTS_MAX = 1000000,
    THREADS_MAX = 65536,
    GRACE_DEFAULT_S = 30,
    GRACE_MAX_S = 1 << 30
};
#define GRACE_NOT_SAID UINT64_MAX

static int choice_store(struct str text, void *field, struct err *err)
{
    return std_choice_parse(text, field, err);
}

static const struct choice exit_codes[] = {{"rank", false}, {"torchrun", true}, {0}};
static const struct choice hang_ends[] = {{"report", false}, {"end", true}, {0}};
static const struct choice folds[] = {
    {"auto", FOLD_ON_TERMINAL}, {"always", FOLD_ALWAYS}, {"never", FOLD_NEVER}, {0}};
static const struct choice start_methods[] = {{"spawn"}, {"fork"}, {"forkserver"}, {0}};

/* Checks an option that has no effect here: a value that torchrun refuses is refused too. */
static int seconds_check(struct str text, void *field, struct err *err)
{
    double ignored;
    (void)field;
    return double_parse(text, &ignored, err);
}

static int threads_store(struct str text, void *field, struct err *err)
{
    struct rank_threads *threads = field;
    *threads = (struct rank_threads){.is_share = str_equal(text, STR("share"))};
    if (threads->is_share || u64_parse(text, 1, THREADS_MAX, &threads->n, NULL) == 0)
        return 0;
    return fail(err, ERR_USAGE, "expected a number from 1 to %d, or share, found '%.*s'",
                THREADS_MAX, (int)text.len, text.at);
}

static int final_statuses_store(struct str text, void *field, struct err *err)
{
    return final_statuses_parse(text, field, err);
}

struct launch_options {
    struct launch_request request;
    bool uses_env, is_quiet;
    struct meeting_options meeting;
    struct accelerate_options accelerate;
    const char *unused; /* for options of torchrun that mean nothing here */
    int start_method;   /* the same */
};

/* Gives the script the arguments that torch.distributed.launch gives. */
static int local_rank_settle(struct launch_options *options, struct log *log, struct err *err)
{
    struct launch_request *request = &options->request;
    if (options->uses_env)
        log_add(log, LOG_WARN, "launch",
                "--use-env: LOCAL_RANK is in the environment, as without it");
    request->passes_local_rank = request->passes_local_rank && !options->uses_env;
    if (!request->passes_local_rank)
        return 0;
    if (request->is_program)
        return fail(err, ERR_USAGE,
                    "--no-python and --pass-local-rank exclude each other; with --use-env as "
                    "well, LOCAL_RANK is in the environment only");
    log_add(log, LOG_WARN, "launch",
            "--pass-local-rank: --local-rank=N is before the script's arguments");
    return 0;
}

/* A name that is no signal is only left out, as in torchrun. */
static void signals_settle(struct launch_request *request, struct log *log)
{
    struct str rest = str_of(request->signals.names), name;
    sigemptyset(&request->signals.handled);
    while (rest.len > 0 && str_next(&rest, ',', &name)) {
        int number = end_signal_find(str_trim(name));
        if (number)
            sigaddset(&request->signals.handled, number);
        else
            log_add(log, LOG_WARN, "launch",
                    "--signals-to-handle: '%.*s' is passed over; there are SIGTERM, SIGINT, "
                    "SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2",
                    (int)name.len, name.at);
    }
}

/* The default of --shutdown-timeout, as torchrun reads it: whole seconds. */
static int grace_settle(struct launch_request *request, struct err *err)
{
    const char *text = getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    uint64_t seconds = GRACE_DEFAULT_S;
    if (request->grace_ms != GRACE_NOT_SAID)
        return 0;
    if (text && *text && python_u64_parse(str_of(text), 0, GRACE_MAX_S, &seconds, NULL) != 0)
        return fail(err, ERR_USAGE,
                    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: expected seconds, as 30, found '%.40s'", text);
    request->grace_ms = seconds * 1000;
    return 0;
}

static int words_check(const struct launch_request *request, char **command, struct err *err)
{
    if (!command || !command[0])
        return fail(
            err, ERR_USAGE,
            "no script: name it after the options, as muster launch --nproc-per-node 2 train.py");
    if (request->is_virtual && request->allocation.hosts)
        return fail(err, ERR_USAGE, "--hosts and --virtual-local-rank exclude each other");
    if (request->restarts.gpus_min > 0 && (!request->allocation.gpus || request->allocation.hosts))
        return fail(err, ERR_USAGE,
                    "--gpus-min is for the devices that --gpus takes on this machine%s",
                    request->allocation.hosts ? "; --hosts-min is for those of --hosts" : "");
    if (request->restarts.gpus_min > 0 && request->restarts.n == 0)
        return fail(err, ERR_USAGE, "--gpus-min needs restarts: add --max-restarts");
    if (request->is_module + request->is_program + request->is_run_path > 1)
        return fail(err, ERR_USAGE, "--module, --no-python and --run-path exclude each other");
    return 0;
}

/* A typed option counts more than the same option in a configuration file, whatever name it was typed by. */
static void typed_comes_first(struct launch_options *options,
                              const struct accelerate_options *typed)
{
    struct accelerate_options *given = &options->accelerate;
    const struct launch_request *request = &options->request;
    const struct meeting_options *meeting = &options->meeting;
    bool is_one = typed->n_machines == 1 || meeting->nnodes || request->allocation.hosts;
    if (request->nproc)
        given->n_processes = typed->n_processes;
    if (request->allocation.gpus)
        given->gpu_ids = typed->gpu_ids;
    if (is_one)
        given->n_machines = typed->n_machines;
    if (is_one || meeting->node_rank != UINT64_MAX)
        given->machine_rank = typed->machine_rank;
    if (is_one || meeting->master_addr || meeting->endpoint)
        given->ip = typed->ip;
    if (meeting->master_port > 0 || meeting->endpoint)
        given->port = typed->port;
    bool has_type = typed->is_cpu || typed->is_multi_gpu;
    for (size_t i = 0; i < PLUGINS; i++)
        has_type = has_type || typed->plugins.uses[i];
    for (size_t i = 0; i < PLUGINS && has_type; i++)
        given->plugins.uses[i] = typed->plugins.uses[i];
    given->is_cpu = typed->is_cpu || (given->is_cpu && !typed->is_multi_gpu);
    given->is_multi_gpu = typed->is_multi_gpu || (given->is_multi_gpu && !has_type);
}

static int config_settle(struct launch_options *options, struct accelerate_texts *texts,
                         struct err *err)
{
    accelerate_plugins_read(&options->accelerate.plugins, &texts->values);
    if (!options->accelerate.config)
        return 0;
    const struct accelerate_options typed = options->accelerate;
    struct env_list *words = &texts->config.words;
    env_list_add(words, xstrdup("launch"));
    int rc = accelerate_config_read(options->accelerate.config, typed.mixed_precision != NULL,
                                    &texts->config, err);
    env_end(words);
    if (rc == 0)
        rc = cmd_underlay(&cmd_launch, (int)words->len, words->at, options, err);
    typed_comes_first(options, &typed);
    return rc ? wrap(err, rc, "--config_file") : 0;
}

/*
 * Checks a launch that begins later. The meeting place of the ranks is decided on the machine that starts them; for
 * several machines, no option about it is allowed.
 */
static int launch_check(struct app *app, void *typed, int argc, char **argv, char **command,
                        struct cmd_check *check, struct err *err)
{
    struct launch_options *options = typed;
    struct launch_request *request = &options->request;
    struct meeting_texts texts = {0};
    struct accelerate_texts accelerate = {0};
    (void)argc, (void)argv;
    if (check->has_hosts)
        request->allocation.hosts = "slurm";
    int rc = words_check(request, command, err);
    if (rc == 0)
        rc = config_settle(options, &accelerate, err);
    if (rc == 0)
        rc = accelerate_settle(&options->accelerate, &options->meeting, request, &accelerate, err);
    if (rc == 0 && request->allocation.hosts)
        rc = meeting_settle(&options->meeting, request, &texts, &app->log, err);
    meeting_texts_release(&texts);
    accelerate_texts_release(&accelerate);
    bool is_elsewhere = check->has_setup || request->environment.setup;
    if (rc || is_elsewhere)
        return rc;
    return request->is_program ? program_check(command[0], err)
                               : launch_script_check(request, command[0], err);
}

/* Drops a "--" right behind the script: argparse drops the first "--" of a line also there. */
static void dashes_drop(char **command)
{
    bool had_dashes = strcmp(command[-1], "--") == 0;
    if (had_dashes || !command[1] || strcmp(command[1], "--") != 0)
        return;
    for (char **word = command + 1; *word; word++)
        word[0] = word[1];
}

static int launch_verb(struct app *app, void *typed, int argc, char **argv, char **command,
                       struct err *err)
{
    struct launch_options *options = typed;
    (void)argc;
    (void)argv;
    struct launch_request *request = &options->request;
    struct meeting_texts texts = {0};
    struct accelerate_texts accelerate = {0};
    app->log.console_quiet = options->is_quiet;
    int rc = words_check(request, command, err);
    if (rc == 0)
        dashes_drop(command);
    signals_settle(request, &app->log);
    rc = rc ? rc : grace_settle(request, err);
    rc = rc ? rc : local_rank_settle(options, &app->log, err);
    rc = rc ? rc : config_settle(options, &accelerate, err);
    rc = rc ? rc
            : accelerate_settle(&options->accelerate, &options->meeting, request, &accelerate, err);
    rc = rc ? rc : meeting_settle(&options->meeting, request, &texts, &app->log, err);
    rc = rc ? rc
            : accelerate_ranks_settle(&options->accelerate, request, &accelerate, &app->log, err);
    rc =
        rc ? rc : launch_run(&app->log, app->self_path, request, (const char *const *)command, err);
    meeting_texts_release(&texts);
    accelerate_texts_release(&accelerate);
    return rc;
}

#define FIELD(name)   offsetof(struct launch_options, request.name)
#define MEETING(name) offsetof(struct launch_options, meeting.name)
#define OPTION(name)  offsetof(struct launch_options, name)
#define UNUSED        offsetof(struct launch_options, unused)
#define ACCELERATE_AT offsetof(struct launch_options, accelerate)

/* clang-format off */
static const struct opt launch_opts[] = {
    {OPT_HEADING, .help = "Ranks"},
    {OPT_TEXT, 0, "nproc-per-node", "N", "ranks on this machine, with --hosts on each host: a number; gpu, one for each GPU; cpu, one for each processor that muster may run on; auto, gpu where there is a GPU, else cpu (default 1; with --gpus one for each device; with --hosts one for each GPU that is taken there)", FIELD(nproc)},
    {OPT_TEXT, 'g', "gpus", "SPEC", "take and lock these devices for the ranks, so that no other run of muster takes them: ids as 0,2,5-7; any:4; all; free; a UUID (default: nothing is locked, and the ranks see all devices that muster sees; with --hosts, free)", FIELD(allocation.gpus), .check = spec_check},
    {OPT_FLAG, 'm', "module", NULL, "the script is the name of a module, as for python -m", FIELD(is_module)},
    {OPT_FLAG, 0, "no-python", NULL, "the script is a program, which is started without Python", FIELD(is_program)},
    {OPT_FLAG, 0, "run-path", NULL, "run the script by runpy.run_path", FIELD(is_run_path)},
    {OPT_FLAG, 0, "pass-local-rank", NULL, "add --local-rank=N before the script's arguments, as python -m torch.distributed.launch does", FIELD(passes_local_rank)},
    {OPT_FLAG, 0, "use-env", NULL, "undo --pass-local-rank, as for torch.distributed.launch; LOCAL_RANK is in the environment in any case", OPTION(uses_env)},
    {OPT_FLAG, 0, "virtual-local-rank", NULL, "each rank sees one device, and has LOCAL_RANK 0", FIELD(is_virtual)},
    {OPT_CHOICE, 0, "numa-binding", "WHERE", "bind each rank to CPUs near its GPU: node, those of its NUMA node; socket, those of all nodes of its socket; exclusive, an even share of the node's cores, which no other rank has; core-complex, cores that share a last-level cache; ranks without GPUs are spread over the nodes", FIELD(cpus.binding), .choices = numa_bindings},
    {OPT_PARSE, 0, "threads", "N", "OMP_NUM_THREADS of each rank: a number; share, an even share of the cores that the ranks may use (default: OMP_NUM_THREADS as it is set; if it is not set and there are several ranks, 1)", FIELD(cpus.threads), .parse = threads_store},
    {OPT_TEXT, 0, "role", "NAME", "the role of the ranks (default default)", FIELD(role)},
    ENVIRONMENT_OPTS(FIELD(environment)),
    {OPT_HEADING, .help = "Where the ranks meet"},
    {OPT_TEXT, 0, "nnodes", "N", "number of machines, on each of which the same command is started: N, or MIN:MAX (default 1; under srun, mpirun and others the number that they give)", MEETING(nnodes)},
    {OPT_U64, 0, "node-rank", "N", "with --rdzv-backend static: the number of this machine; machine 0 leads (default 0)", MEETING(node_rank), 0, 4095},
    {OPT_FLAG, 0, "standalone", NULL, "the ranks meet at a free port of localhost, which is the default where none of the options below is given", MEETING(is_standalone)},
    {OPT_TEXT, 0, "master-addr", "HOST", "the address of machine 0, with --master-port (default 127.0.0.1)", MEETING(master_addr)},
    {OPT_U64, 0, "master-port", "PORT", "on one machine the port of rank 0; with several, the port at which the machines meet (default 29500)", MEETING(master_port), 1, PORT_MAX},
    {OPT_TEXT, 0, "rdzv-endpoint", "HOST:PORT", "address and port in one option; with c10d, the machine that has this address leads, the ranks meet at a free port, and the default port is 29400; with static and one machine, port 0 means a free port", MEETING(endpoint)},
    {OPT_TEXT, 0, "rdzv-backend", "NAME", "static (default) or c10d", MEETING(backend)},
    {OPT_TEXT, 0, "rdzv-id", "ID", "the name of the run (default: a random name; with a port that was given, none)", FIELD(run_id)},
    {OPT_PATH, 0, "rdzv-token-file", "FILE", "a secret that all machines share; a machine that does not know it is refused", MEETING(token_file)},
    {OPT_TEXT, 0, "rdzv-conf", "NAME=VALUE,...", "join_timeout or timeout: seconds to wait for the machines (default 600); last_call_timeout: seconds to wait for more than MIN machines (default 30); keep_alive_interval: a third of the silence, in seconds, after which a machine is lost (default 10); is_host: whether this machine leads, true or false; other names have no effect", MEETING(conf)},
    {OPT_TEXT, 0, "local-addr", "HOST", "the address, name or network interface of this machine, at which it listens or from which it connects; an IPv6 address that is tentative, as it is for a second or two when an interface is set up, is waited for up to 5s (default: any)", MEETING(local_addr)},
    {OPT_HEADING, .help = "Other machines, from one terminal"},
    HOST_LIST_OPTS(FIELD(allocation)),
    {OPT_U64, 0, "hosts-min", "N", "start, and start again, only with N hosts or more (default: all)", FIELD(allocation.hosts_min), 1, 4096},
    {OPT_HEADING, .help = "When a rank fails"},
    {OPT_U64, 0, "max-restarts", "N", "start all ranks again, N times at most (default 0)", FIELD(restarts.n), 0, RESTARTS_MAX},
    {OPT_DURATION, 0, "restart-pause", "DURATION", "pause before the first restart; the pause doubles with each restart (default 0.1s)", FIELD(restarts.pause_ms)},
    {OPT_DURATION, 0, "healthy-after", "DURATION", "ranks that ran for this time before one failed have all restarts of --max-restarts again (default: never)", FIELD(restarts.healthy_ms)},
    {OPT_PARSE, 0, "no-restart-after", "STATUSES", "do not start the ranks again if the rank that failed first has one of these exit statuses, such as 2,65, because another start would end in the same way (default: none)", FIELD(restarts), .parse = final_statuses_store},
    {OPT_U64, 0, "gpus-min", "N", "if devices of --gpus are lost, start again on the others, with one rank on each, as long as there are N or more; a device that answers again is used from the next start on (default: all must be there)", FIELD(restarts.gpus_min), 1, SEAT_DEVICES_MAX},
    {OPT_DURATION, 0, "wait-after-first", "DURATION", "how long the other ranks may go on after the first rank has ended with status 0; ranks that take longer have failed (default: no limit)", FIELD(linger_ms)},
    {OPT_DURATION, 0, "hang-after", "DURATION", "when no rank has printed anything for this time, look for ranks that stand still, and print which they are and where they stand; 0: never (default 5m)", FIELD(hang.after_ms)},
    {OPT_EITHER, 0, "on-hang", "WHAT", "report: print the hang, and let the ranks go on (default); end: the hang is a failure, with status 124", FIELD(hang.ends), .choices = hang_ends},
    {OPT_DURATION, 0, "shutdown-timeout", "DURATION", "time between SIGTERM and SIGKILL when ranks are ended (default TORCH_ELASTIC_SHUTDOWN_TIMEOUT, in seconds, or 30s)", FIELD(grace_ms)},
    {OPT_DURATION, 0, "time-limit", "DURATION", "end all ranks after this time, with exit status 124 (default: no limit); with several machines, only the limit of the machine that leads counts", FIELD(limit_ms)},
    {OPT_EITHER, 0, "exit-code", "WHOSE", "the status after a failure: rank, that of the rank that ended first without success (default); torchrun, always 1", FIELD(fails_with_one), .choices = exit_codes},
    {OPT_TEXT, 0, "signals-to-handle", "NAMES", "signals that end the ranks, which get the same signal: of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 (default TORCHELASTIC_SIGNALS_TO_HANDLE, or the first four)", FIELD(signals.names)},
    {OPT_PARSE, 0, "monitor-interval", "SECONDS", "no effect: muster knows at once when a rank ends", UNUSED, .parse = seconds_check},
    {OPT_HEADING, .help = "Output"},
    {OPT_PARSE, 'r', "redirects", "WHICH", "write output of the ranks into files instead of the terminal: 0 nothing, 1 stdout, 2 stderr, 3 both; or by local rank, as 0:3,1:2 (default 0)", FIELD(redirects), .parse = choice_store},
    {OPT_PARSE, 't', "tee", "WHICH", "write output of the ranks into files and to the terminal, with the rank before each line; values as for --redirects (default 0)", FIELD(tee), .parse = choice_store},
    {OPT_TEXT, 0, "log-line-prefix-template", "TEXT", "what --tee puts before each line, with ${role_name}, ${local_rank}, ${rank} and ${hostname} (default [${role_name}${local_rank}]:)", FIELD(line_prefix)},
    {OPT_TEXT, 0, "local-ranks-filter", "RANKS", "show the output of these local ranks only, such as 0,2 (default: of all)", FIELD(shown.ranks)},
    {OPT_TEXT, 0, "duplicate-stdout-filters", "TEXT,...", "copy the lines of stdout that contain one of these texts into filtered_stdout.log, beside the folders of the ranks; this concerns the ranks that --tee copies and that are shown; ,, stands for a comma", FIELD(copied.out)},
    {OPT_TEXT, 0, "duplicate-stderr-filters", "TEXT,...", "the same of stderr, into filtered_stderr.log", FIELD(copied.errors)},
    {OPT_CHOICE, 0, "fold", "WHEN", "show a line that several ranks print on stderr only once, with the number of ranks: auto, on a terminal (default); always; never", FIELD(shown.fold), .choices = folds},
    {OPT_PATH, 0, "log-dir", "DIR", "where the files are: DIR/ID_RANDOM/attempt_N/RANK/stdout.log, stderr.log, error.json (default: a temporary folder)", FIELD(log_dir)},
    {OPT_FLAG, 0, "dry-run", NULL, "show the ranks that would be started, with their environment and commands, and start none", FIELD(is_plan)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing from muster itself on stderr but errors", OPTION(is_quiet)},
    {OPT_CHOICE, 0, "start-method", "NAME", "spawn, fork or forkserver; has no effect", OPTION(start_method), .choices = start_methods},
    {OPT_TEXT, 0, "event-log-handler", "NAME", "has no effect", UNUSED},
    ACCELERATE_OPTS(ACCELERATE_AT)
    {OPT_END},
};
/* clang-format on */

static void launch_defaults(void *typed)
{
    struct launch_options *options = typed;
    options->meeting.node_rank = UINT64_MAX;
    accelerate_defaults(&options->accelerate);
    options->meeting.backend = "static";
    options->request.role = "default";
    const char *signals = getenv("TORCHELASTIC_SIGNALS_TO_HANDLE");
    options->request.signals.names = signals ? signals : "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
    options->request.grace_ms = GRACE_NOT_SAID;
    options->request.restarts.pause_ms = 100;
    options->request.hang.after_ms = 300000;
    options->request.line_prefix = getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
}

static const char *const launch_examples[] = {
    "muster launch --nproc-per-node 8 train.py --epochs 3",
    "eight ranks, as torchrun starts them",
    "muster launch -g free -m package.train",
    "a rank for each GPU that is free, which no other run of muster takes meanwhile",
    "muster launch --hosts node1,node2 train.py",
    "a rank for each free GPU of two machines, which are reached by ssh",
    NULL,
};

const struct cmd cmd_launch = {
    .name = "launch",
    .args = "[OPTION]... SCRIPT [ARG]...",
    .summary = "the ranks of a distributed program, as torchrun starts them",
    .details =
        "Every rank has the environment that torchrun gives it. When a rank fails, muster ends the other ranks, names the rank that failed first, and leaves no process behind. Option names may have _ for -, and may be shortened, as with torchrun; the "
        "variable PET_NAME is the default of the option --name. Everything after SCRIPT belongs to the script.",
    .opts = launch_opts,
    .examples = launch_examples,
    .is_like_argparse = true,
    .other_prefix = "PET_",
    .foreign = accelerate_foreign,
    .request_size = sizeof(struct launch_options),
    .defaults = launch_defaults,
    .run = launch_verb,
    .check = launch_check,
};
