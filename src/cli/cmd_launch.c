/* SPDX-License-Identifier: Apache-2.0
 *
 * muster launch: with the options of torchrun, and a few of its own.
 */
#include "base/parse.h"
#include "cli/allocation_arg.h"
#include "cli/verbs.h"
#include "launch/launch.h"

enum {
    PORT_MAX = 65535,
    RESTARTS_MAX = 1000000
};

/* What torchrun reads, and what has no meaning here: muster is told of an exit at once, and starts programs. */
struct unused_options {
    const char *monitor_interval, *start_method, *event_log_handler, *local_addr, *signals;
};

struct launch_options {
    struct launch_request request;
    struct unused_options unused;
};

static int choice_store(struct str text, void *field, struct err *err)
{
    return std_choice_parse(text, field, err);
}

static int exit_code_store(struct str text, void *field, struct err *err)
{
    bool is_torchruns = str_equal(text, STR("torchrun"));
    if (!is_torchruns && !str_equal(text, STR("rank")))
        return fail(err, ERR_USAGE, "expected rank or torchrun, found '%.*s'", (int)text.len,
                    text.at);
    *(bool *)field = is_torchruns;
    return 0;
}

/* "HOST:PORT", "HOST", "[::1]:29400": where the ranks meet. */
static int endpoint_apply(struct launch_request *request, struct err *err)
{
    struct str text = str_of(request->endpoint ? request->endpoint : "");
    const char *colon = text.len > 0 ? memrchr(text.at, ':', text.len) : NULL;
    bool is_bare_v6 = colon && memchr(text.at, ':', (size_t)(colon - text.at)) && colon[-1] != ']';
    if (text.len == 0 || !colon || is_bare_v6)
        return 0;
    struct str port = {colon + 1, (size_t)(text.at + text.len - colon - 1)};
    int rc = u64_parse(port, 0, PORT_MAX, &request->master_port, err);
    request->is_standalone = rc == 0 && request->master_port == 0;
    return rc ? wrap(err, rc, "--rdzv-endpoint %s", request->endpoint) : 0;
}

static int request_check(struct launch_request *request, struct err *err)
{
    const char *backend = request->backend, *nnodes = request->nnodes;
    if (strcmp(nnodes, "1") != 0 && strcmp(nnodes, "1:1") != 0)
        return fail(err, ERR_UNAVAILABLE,
                    "--nnodes %s: muster launch starts the ranks of one machine so far", nnodes);
    if (request->node_rank > 0)
        return fail(err, ERR_USAGE, "--node-rank %lu of one node", request->node_rank);
    if (strcmp(backend, "static") != 0 && strcmp(backend, "c10d") != 0)
        return fail(err, ERR_USAGE,
                    "--rdzv-backend %s: static and c10d are the same here, and there are no others",
                    backend);
    if (request->is_module + request->is_program + request->is_run_path > 1)
        return fail(err, ERR_USAGE, "--module, --no-python and --run-path exclude each other");
    return endpoint_apply(request, err);
}

static int launch_verb(struct app *app, void *typed, int argc, char **argv, char **command,
                       struct err *err)
{
    struct launch_options *options = typed;
    (void)argc;
    (void)argv;
    if (!command || !command[0])
        return fail(err, ERR_USAGE, "no script; it stands behind the options");
    int rc = request_check(&options->request, err);
    return rc ? rc
              : launch_run(&app->log, app->self_path, &options->request,
                           (const char *const *)command, err);
}

#define FIELD(name)  offsetof(struct launch_options, request.name)
#define UNUSED(name) offsetof(struct launch_options, unused.name)

/* clang-format off */
static const struct opt launch_opts[] = {
    {OPT_HEADING, .help = "Ranks"},
    {OPT_TEXT, 0, "nproc-per-node", "N", "ranks: a number, gpu (one for each GPU), cpu (for each processor), auto (gpu, or cpu where there is none); default 1, or one for each device of --gpus", FIELD(nproc)},
    {OPT_TEXT, 'g', "gpus", "SPEC", "take these devices for the ranks, and hold them against other runs of muster: ids as 0,2,5-7; any:4; all; free; a UUID (default: the ranks see all that muster sees)", FIELD(gpus)},
    {OPT_FLAG, 'm', "module", NULL, "the script is a module, as of python -m", FIELD(is_module)},
    {OPT_FLAG, 0, "no-python", NULL, "the script is a program", FIELD(is_program)},
    {OPT_FLAG, 0, "run-path", NULL, "run the script by runpy.run_path", FIELD(is_run_path)},
    {OPT_TEXT, 0, "role", "NAME", "the role of the ranks (default default)", FIELD(role)},
    ENVIRONMENT_OPTS(FIELD(environment)),
    {OPT_HEADING, .help = "Where they meet"},
    {OPT_TEXT, 0, "nnodes", "N", "machines: 1 (default)", FIELD(nnodes)},
    {OPT_U64, 0, "node-rank", "N", "the number of this machine (default 0)", FIELD(node_rank), 0, 4095},
    {OPT_FLAG, 0, "standalone", NULL, "meet at a free port", FIELD(is_standalone)},
    {OPT_TEXT, 0, "master-addr", "HOST", "the address of rank 0 (default 127.0.0.1)", FIELD(master_addr)},
    {OPT_U64, 0, "master-port", "PORT", "the port of rank 0 (default 29500, or the next free one)", FIELD(master_port), 1, PORT_MAX},
    {OPT_TEXT, 0, "rdzv-endpoint", "HOST:PORT", "the same as --master-port PORT; port 0 is a free one", FIELD(endpoint)},
    {OPT_TEXT, 0, "rdzv-backend", "NAME", "static or c10d, which are the same here", FIELD(backend)},
    {OPT_TEXT, 0, "rdzv-id", "ID", "the name of the run (default none)", FIELD(run_id)},
    {OPT_TEXT, 0, "rdzv-conf", "NAME=VALUE,...", "has no effect", FIELD(rendezvous_conf)},
    {OPT_TEXT, 0, "local-addr", "HOST", "has no effect", UNUSED(local_addr)},
    {OPT_HEADING, .help = "When a rank fails"},
    {OPT_U64, 0, "max-restarts", "N", "start all ranks again, N times at most (default 0)", FIELD(n_restarts), 0, RESTARTS_MAX},
    {OPT_DURATION, 0, "restart-pause", "DURATION", "before a restart; each one that follows waits twice as long (default 0.1s)", FIELD(pause_ms)},
    {OPT_DURATION, 0, "healthy-after", "DURATION", "ranks that ran for so long before one failed get all restarts back (default: never)", FIELD(healthy_ms)},
    {OPT_DURATION, 0, "wait-after-first", "DURATION", "when a rank has ended well, the others may take so long; then it is a failure (default: no limit)", FIELD(linger_ms)},
    {OPT_DURATION, 0, "shutdown-timeout", "DURATION", "time between SIGTERM and SIGKILL when ranks are ended (default 30s)", FIELD(grace_ms)},
    {OPT_DURATION, 0, "time-limit", "DURATION", "end all ranks after this time (exit status 124)", FIELD(limit_ms)},
    {OPT_PARSE, 0, "exit-code", "WHOSE", "the status after a failure: rank, that of the rank that failed first (default); torchrun, always 1", FIELD(fails_with_one), .parse = exit_code_store},
    {OPT_TEXT, 0, "signals-to-handle", "NAMES", "has no effect: SIGTERM, SIGINT and SIGHUP end the ranks", UNUSED(signals)},
    {OPT_TEXT, 0, "monitor-interval", "SECONDS", "has no effect: the end of a rank is known at once", UNUSED(monitor_interval)},
    {OPT_HEADING, .help = "Output"},
    {OPT_PARSE, 'r', "redirects", "WHICH", "into files instead of the terminal: 0 nothing, 1 stdout, 2 stderr, 3 both; or by local rank, as 0:3,1:2", FIELD(redirects), .parse = choice_store},
    {OPT_PARSE, 't', "tee", "WHICH", "into files as well, and to the terminal with the rank before each line", FIELD(tee), .parse = choice_store},
    {OPT_TEXT, 0, "local-ranks-filter", "RANKS", "show the output of these local ranks only: 0,2", FIELD(shown_ranks)},
    {OPT_PATH, 0, "log-dir", "DIR", "where the files are: DIR/ID_RANDOM/attempt_N/RANK/stdout.log, stderr.log, error.json (default: a temporary folder)", FIELD(log_dir)},
    {OPT_TEXT, 0, "start-method", "NAME", "has no effect", UNUSED(start_method)},
    {OPT_TEXT, 0, "event-log-handler", "NAME", "has no effect", UNUSED(event_log_handler)},
    {OPT_END},
};
/* clang-format on */

static void launch_defaults(void *typed)
{
    struct launch_request *request = &((struct launch_options *)typed)->request;
    request->nnodes = "1";
    request->backend = "static";
    request->run_id = "none";
    request->role = "default";
    request->master_addr = "127.0.0.1";
    request->grace_ms = 30000;
    request->pause_ms = 100;
}

static const char *const launch_examples[] = {
    "muster launch --nproc-per-node 8 train.py --epochs 3",
    "eight ranks, as torchrun starts them",
    "muster launch -g free -m package.train",
    "a rank for each GPU that is free, which no other run of muster takes meanwhile",
    NULL,
};

const struct cmd cmd_launch = {
    .name = "launch",
    .args = "[OPTION]... SCRIPT [ARG]...",
    .summary = "the ranks of a distributed program, as torchrun starts them",
    .details =
        "Every rank has the environment that torchrun gives it. When one fails, the others are ended, what failed first is "
        "said, and nothing is left. Options may be written as torchrun's: with _ for -, and shortened; PET_NAME is their "
        "default. Everything after SCRIPT belongs to the script.",
    .opts = launch_opts,
    .examples = launch_examples,
    .is_like_argparse = true,
    .other_prefix = "PET_",
    .request_size = sizeof(struct launch_options),
    .defaults = launch_defaults,
    .run = launch_verb,
};
