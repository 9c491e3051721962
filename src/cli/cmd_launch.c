/* SPDX-License-Identifier: Apache-2.0
 *
 * muster launch: with the options of torchrun, and a few of its own.
 */
#include <arpa/inet.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/allocation_arg.h"
#include "cli/verbs.h"
#include "launch/launch.h"

enum {
    PORT_MAX = 65535,
    PORT_STATIC = 29500,
    PORT_C10D = 29400,
    RESTARTS_MAX = 1000000
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

/* Where ranks meet. */
struct meeting_options {
    bool is_standalone;
    const char *nnodes, *backend, *endpoint;
    const char *master_addr; /* NULL: not given */
    uint64_t master_port;    /* 0: not given */
    uint64_t node_rank;
};

static int nodes_check(const struct meeting_options *meeting, struct err *err)
{
    const char *backend = meeting->backend, *nnodes = meeting->nnodes;
    if (strcmp(nnodes, "1") != 0 && strcmp(nnodes, "1:1") != 0)
        return fail(err, ERR_UNAVAILABLE,
                    "--nnodes %s: muster launch starts the ranks of one machine so far", nnodes);
    if (meeting->node_rank > 0)
        return fail(err, ERR_USAGE, "--node-rank %lu of one node", meeting->node_rank);
    if (strcmp(backend, "static") != 0 && strcmp(backend, "c10d") != 0)
        return fail(err, ERR_USAGE, "--rdzv-backend %s: there are static and c10d", backend);
    return 0;
}

/* "HOST:PORT", "HOST", "[::1]:29400". `host` owns the name. */
static int endpoint_parse(const char *text, char **host, uint64_t *port, struct err *err)
{
    const char *colon = strrchr(text, ':');
    bool has_port = colon && (strchr(text, ':') == colon || (colon > text && colon[-1] == ']'));
    size_t len = has_port ? (size_t)(colon - text) : strlen(text);
    bool is_in_brackets = len > 2 && text[0] == '[' && text[len - 1] == ']';
    *host = is_in_brackets ? xstrndup(text + 1, len - 2) : xstrndup(text, len);
    struct in6_addr v6;
    bool is_host = (*host)[0] && !strpbrk(*host, "[]") &&
                   (!strchr(*host, ':') || inet_pton(AF_INET6, *host, &v6) == 1);
    if (!is_host)
        return fail(err, ERR_USAGE, "expected HOST:PORT, HOST or [IPV6]:PORT");
    return has_port ? u64_parse(str_of(colon + 1), 0, PORT_MAX, port, err) : 0;
}

/*
 * As torchrun decides it for one machine: with nothing said, or --standalone, the ranks meet at a free port of localhost.
 * `host` owns a name that the request borrows.
 */
static int meeting_settle(const struct meeting_options *meeting, struct launch_request *request,
                          char **host, struct err *err)
{
    bool is_c10d = strcmp(meeting->backend, "c10d") == 0;
    bool has_endpoint = meeting->endpoint && meeting->endpoint[0];
    if (meeting->is_standalone || (!has_endpoint && !is_c10d && meeting->master_port == 0)) {
        request->master_addr = "localhost";
        return 0;
    }
    request->run_id = request->run_id ? request->run_id : "none";
    request->master_addr = is_c10d                ? "localhost"
                           : meeting->master_addr ? meeting->master_addr
                                                  : "127.0.0.1";
    request->master_port = is_c10d ? PORT_C10D : has_endpoint ? PORT_STATIC : meeting->master_port;
    if (!has_endpoint)
        return 0;
    int rc = endpoint_parse(meeting->endpoint, host, &request->master_port, err);
    request->master_addr = *host;
    return rc ? wrap(err, rc, "--rdzv-endpoint %s", meeting->endpoint) : 0;
}

struct launch_options {
    struct launch_request request;
    struct meeting_options meeting;
    const char *unused; /* what torchrun reads, and what has no meaning here */
};

static int launch_verb(struct app *app, void *typed, int argc, char **argv, char **command,
                       struct err *err)
{
    struct launch_options *options = typed;
    (void)argc;
    (void)argv;
    struct launch_request *request = &options->request;
    cleanup_free char *host = NULL;
    if (!command || !command[0])
        return fail(err, ERR_USAGE, "no script; it stands behind the options");
    if (request->is_module + request->is_program + request->is_run_path > 1)
        return fail(err, ERR_USAGE, "--module, --no-python and --run-path exclude each other");
    int rc = nodes_check(&options->meeting, err);
    rc = rc ? rc : meeting_settle(&options->meeting, request, &host, err);
    return rc ? rc
              : launch_run(&app->log, app->self_path, request, (const char *const *)command, err);
}

#define FIELD(name)   offsetof(struct launch_options, request.name)
#define MEETING(name) offsetof(struct launch_options, meeting.name)
#define UNUSED        offsetof(struct launch_options, unused)

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
    {OPT_TEXT, 0, "nnodes", "N", "machines: 1 (default)", MEETING(nnodes)},
    {OPT_U64, 0, "node-rank", "N", "the number of this machine (default 0)", MEETING(node_rank), 0, 4095},
    {OPT_FLAG, 0, "standalone", NULL, "meet at a free port of localhost; so they do as well without the options below", MEETING(is_standalone)},
    {OPT_TEXT, 0, "master-addr", "HOST", "the address of rank 0, with --master-port (default 127.0.0.1)", MEETING(master_addr)},
    {OPT_U64, 0, "master-port", "PORT", "the port of rank 0", MEETING(master_port), 1, PORT_MAX},
    {OPT_TEXT, 0, "rdzv-endpoint", "HOST:PORT", "the address and the port of rank 0; port 0 is a free one (default 29400 with c10d)", MEETING(endpoint)},
    {OPT_TEXT, 0, "rdzv-backend", "NAME", "static (default) or c10d", MEETING(backend)},
    {OPT_TEXT, 0, "rdzv-id", "ID", "the name of the run (default: a random one, or none with a given port)", FIELD(run_id)},
    {OPT_TEXT, 0, "rdzv-conf", "NAME=VALUE,...", "has no effect", UNUSED},
    {OPT_TEXT, 0, "local-addr", "HOST", "has no effect", UNUSED},
    {OPT_HEADING, .help = "When a rank fails"},
    {OPT_U64, 0, "max-restarts", "N", "start all ranks again, N times at most (default 0)", FIELD(n_restarts), 0, RESTARTS_MAX},
    {OPT_DURATION, 0, "restart-pause", "DURATION", "before a restart; each one that follows waits twice as long (default 0.1s)", FIELD(pause_ms)},
    {OPT_DURATION, 0, "healthy-after", "DURATION", "ranks that ran for so long before one failed get all restarts back (default: never)", FIELD(healthy_ms)},
    {OPT_DURATION, 0, "wait-after-first", "DURATION", "when a rank has ended well, the others may take so long; then it is a failure (default: no limit)", FIELD(linger_ms)},
    {OPT_DURATION, 0, "shutdown-timeout", "DURATION", "time between SIGTERM and SIGKILL when ranks are ended (default 30s)", FIELD(grace_ms)},
    {OPT_DURATION, 0, "time-limit", "DURATION", "end all ranks after this time (exit status 124)", FIELD(limit_ms)},
    {OPT_PARSE, 0, "exit-code", "WHOSE", "the status after a failure: rank, that of the rank that ended first without success (default); torchrun, always 1", FIELD(fails_with_one), .parse = exit_code_store},
    {OPT_TEXT, 0, "signals-to-handle", "NAMES", "has no effect but on the environment of ranks: SIGTERM, SIGINT and SIGHUP end them", FIELD(signals)},
    {OPT_TEXT, 0, "monitor-interval", "SECONDS", "has no effect: the end of a rank is known at once", UNUSED},
    {OPT_HEADING, .help = "Output"},
    {OPT_PARSE, 'r', "redirects", "WHICH", "into files instead of the terminal: 0 nothing, 1 stdout, 2 stderr, 3 both; or by local rank, as 0:3,1:2", FIELD(redirects), .parse = choice_store},
    {OPT_PARSE, 't', "tee", "WHICH", "into files as well, and to the terminal with the rank before each line", FIELD(tee), .parse = choice_store},
    {OPT_TEXT, 0, "local-ranks-filter", "RANKS", "show the output of these local ranks only: 0,2", FIELD(shown_ranks)},
    {OPT_PATH, 0, "log-dir", "DIR", "where the files are: DIR/ID_RANDOM/attempt_N/RANK/stdout.log, stderr.log, error.json (default: a temporary folder)", FIELD(log_dir)},
    {OPT_TEXT, 0, "start-method", "NAME", "has no effect", UNUSED},
    {OPT_TEXT, 0, "event-log-handler", "NAME", "has no effect", UNUSED},
    {OPT_END},
};
/* clang-format on */

static void launch_defaults(void *typed)
{
    struct launch_options *options = typed;
    options->meeting.nnodes = "1";
    options->meeting.backend = "static";
    options->request.role = "default";
    options->request.signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
    options->request.grace_ms = 30000;
    options->request.pause_ms = 100;
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
