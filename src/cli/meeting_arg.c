/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/meeting_arg.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "core/gang.h"
#include "rendezvous/rendezvous.h"

enum {
    PORT_MAX = 65535,
    PORT_STATIC = 29500,
    PORT_C10D = 29400,
    TOKEN_MAX_BYTES = 4096,
    JOIN_MS = 600000, /* torchrun's values, here and below */
    LAST_CALL_MS = 30000,
    SECONDS_MAX = 30 * 86400,
    KEEP_ALIVE_MAX_S = 3600,
    KEEP_ALIVES = 3 /* torchrun's keep_alive_max_attempt */
};

/* ---- values ---- */

/* "2", "2:4". */
static int nnodes_parse(const char *text, struct launch_meeting *out, struct err *err)
{
    struct str rest = str_of(text), min = rest, max = rest;
    uint64_t n_min, n_max;
    if (strchr(text, ':')) {
        (void)!str_next(&rest, ':', &min);
        max = rest;
    }
    if (python_u64_parse(min, 1, GANG_NODES_MAX, &n_min, NULL) != 0 ||
        python_u64_parse(max, n_min, GANG_NODES_MAX, &n_max, NULL) != 0)
        return fail(err, ERR_USAGE,
                    "--nnodes '%s': expected N, or MIN:MAX with MIN not above MAX, from 1 to %d",
                    text, GANG_NODES_MAX);
    out->n_nodes_min = (uint32_t)n_min;
    out->n_nodes_max = (uint32_t)n_max;
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

static int conf_seconds(struct str value, uint64_t *ms, struct err *err)
{
    uint64_t seconds;
    int rc = python_u64_parse(value, 1, SECONDS_MAX, &seconds, err);
    *ms = rc ? *ms : 1000 * seconds;
    return rc;
}

static int conf_keep_alive(struct str value, uint64_t *silence_ms, struct err *err)
{
    uint64_t seconds = 0;
    int rc = python_u64_parse(value, 1, KEEP_ALIVE_MAX_S, &seconds, err);
    *silence_ms = seconds * 1000 * KEEP_ALIVES;
    return rc;
}

static int conf_is_host(struct str value, enum launch_role *role, struct err *err)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"false", "true"}, {"no", "yes"}, {"f", "t"}, {"n", "y"}};
    cleanup_free char *word = xstrndup(value.at, value.len);
    for (size_t i = 0; i < countof(words); i++)
        for (size_t leads = 0; leads < 2; leads++)
            if (strcasecmp(word, words[i][leads]) == 0) {
                *role = leads ? LAUNCH_LEADS : LAUNCH_FOLLOWS;
                return 0;
            }
    return fail(err, ERR_USAGE, "expected true or false");
}

/* Parses torchrun's words for its own rendezvous; words without a meaning here are ignored. */
static int conf_parse(const char *text, struct launch_meeting *out, struct err *err)
{
    struct str rest = str_of(text ? text : ""), entry;
    while (rest.len > 0 && str_next(&rest, ',', &entry)) {
        struct str value = entry, name = STR("");
        if (!memchr(entry.at, '=', entry.len) || !str_next(&value, '=', &name))
            return fail(err, ERR_USAGE, "--rdzv-conf '%.*s': expected NAME=VALUE", (int)entry.len,
                        entry.at);
        int rc = 0;
        name = str_trim(name);
        value = str_trim(value);
        if (str_equal(name, STR("join_timeout")) || str_equal(name, STR("timeout")))
            rc = conf_seconds(value, &out->join_ms, err);
        else if (str_equal(name, STR("last_call_timeout")))
            rc = conf_seconds(value, &out->more_ms, err);
        else if (str_equal(name, STR("is_host")))
            rc = conf_is_host(value, &out->role, err);
        else if (str_equal(name, STR("keep_alive_interval")))
            rc = conf_keep_alive(value, &out->silence_ms, err);
        if (rc)
            return wrap(err, rc, "--rdzv-conf '%.*s'", (int)entry.len, entry.at);
    }
    return 0;
}

static int token_read(const char *path, struct buf *out, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_UNAVAILABLE, "--rdzv-token-file %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_USAGE, "--rdzv-token-file %s: expected a file", path);
    if (st.st_mode & 077)
        return fail(err, ERR_USAGE,
                    "--rdzv-token-file %s: others can read it; chmod 600 keeps it secret", path);
    int rc = file_read_fd(fd, path, TOKEN_MAX_BYTES, out, err);
    if (rc)
        return wrap(err, rc, "--rdzv-token-file");
    if (str_trim(buf_str(out)).len < RENDEZVOUS_TOKEN_MIN_BYTES)
        return fail(
            err, ERR_USAGE,
            "--rdzv-token-file %s: a secret has %d bytes or more; head -c 32 /dev/urandom | "
            "base64 makes one",
            path, RENDEZVOUS_TOKEN_MIN_BYTES);
    return 0;
}

/* ---- one machine ---- */

/*
 * Decides as torchrun does. Without options, or with --standalone, the ranks meet at a free port of
 * localhost. With c10d the port of the endpoint is the one at which machines meet; the ranks have
 * another port, on one machine as on several.
 */
static int alone_settle(const struct meeting_options *options, struct launch_request *request,
                        struct meeting_texts *texts, struct err *err)
{
    bool is_c10d = strcmp(options->backend, "c10d") == 0;
    bool has_endpoint = options->endpoint && options->endpoint[0];
    request->meeting = (struct launch_meeting){.n_nodes_min = 1, .n_nodes_max = 1};
    if (options->is_standalone || (!has_endpoint && !is_c10d && options->master_port == 0)) {
        request->master_addr = "localhost";
        return 0;
    }
    request->run_id = request->run_id ? request->run_id : "none";
    request->master_addr = is_c10d                ? "localhost"
                           : options->master_addr ? options->master_addr
                                                  : "127.0.0.1";
    uint64_t port = has_endpoint ? PORT_STATIC : options->master_port;
    int rc = has_endpoint ? endpoint_parse(options->endpoint, &texts->host, &port, err) : 0;
    request->master_addr = has_endpoint ? texts->host : request->master_addr;
    request->master_port = is_c10d ? 0 : port;
    return rc ? wrap(err, rc, "--rdzv-endpoint %s", options->endpoint) : 0;
}

/* ---- several machines ---- */

/*
 * Decides where the leading machine listens: an option says it, else the launcher, else static's
 * defaults apply.
 */
static int place_settle(const struct meeting_options *options, struct launch_request *request,
                        struct meeting_texts *texts, struct err *err)
{
    struct launch_meeting *meeting = &request->meeting;
    const struct takeover *taken = &texts->takeover;
    bool is_static = strcmp(options->backend, "static") == 0;
    uint64_t port = is_static ? PORT_STATIC : PORT_C10D;
    if (options->endpoint && options->endpoint[0]) {
        int rc = endpoint_parse(options->endpoint, &texts->host, &port, err);
        if (rc)
            return wrap(err, rc, "--rdzv-endpoint %s", options->endpoint);
    } else if (options->master_addr || options->master_port > 0) {
        texts->host = xstrdup(options->master_addr ? options->master_addr : "127.0.0.1");
        port = options->master_port > 0 ? options->master_port : port;
    } else if (taken->launcher && taken->host) {
        texts->host = xstrdup(taken->host);
        port = taken->port > 0 ? taken->port : port;
    } else if (taken->launcher) {
        return fail(err, ERR_USAGE,
                    "%s does not say where its first task is; --rdzv-endpoint HOST:PORT does",
                    taken->launcher);
    } else if (!is_static) {
        return fail(err, ERR_USAGE,
                    "--rdzv-endpoint HOST:PORT is needed: of one of the machines, for all of them");
    } else {
        texts->host = xstrdup("127.0.0.1");
    }
    if (port == 0)
        return fail(err, ERR_USAGE, "several machines need a port that all of them know, not 0");
    meeting->host = request->master_addr = texts->host;
    meeting->port = (uint16_t)port;
    return 0;
}

static int number_settle(const struct meeting_options *options, struct launch_request *request,
                         const struct takeover *taken, struct err *err)
{
    struct launch_meeting *meeting = &request->meeting;
    bool is_static = strcmp(options->backend, "static") == 0;
    if (!taken->launcher && !is_static)
        return 0; /* c10d gives the numbers itself */
    uint64_t number = taken->launcher                    ? taken->node
                      : options->node_rank == UINT64_MAX ? 0
                                                         : options->node_rank;
    if (meeting->role != LAUNCH_BY_ENDPOINT)
        return fail(err, ERR_USAGE,
                    "--rdzv-conf is_host is for c10d: where machines have numbers, number 0 leads");
    if (number >= meeting->n_nodes_max)
        return fail(err, ERR_USAGE, "--node-rank %lu: %u machines have the numbers 0 to %u", number,
                    meeting->n_nodes_max, meeting->n_nodes_max - 1);
    meeting->node = (uint32_t)number;
    meeting->is_typed = !taken->launcher;
    meeting->role = number == 0 ? LAUNCH_LEADS : LAUNCH_FOLLOWS;
    return 0;
}

static int task_settle(struct launch_request *request, const struct takeover *taken,
                       struct err *err)
{
    if (!taken->is_a_task)
        return 0;
    if (taken->n_local == 0)
        return fail(err, ERR_USAGE,
                    "%s does not say which of its tasks share a machine; with one task a machine, "
                    "--nproc-per-node says how many ranks it has",
                    taken->launcher);
    uint64_t one;
    if (request->nproc && python_u64_parse(str_of(request->nproc), 1, 1, &one, NULL) != 0)
        return fail(err, ERR_USAGE,
                    "--nproc-per-node %s: %s has started %u tasks on this machine, each of which "
                    "is one rank; one task a machine may have several",
                    request->nproc, taken->launcher, taken->n_local);
    request->task = (struct launch_task){.local_rank = taken->local_rank,
                                         .n_local = taken->n_local,
                                         .group_rank = taken->group_rank,
                                         .n_groups = taken->n_groups};
    request->nproc = "1";
    return 0;
}

static int together_settle(const struct meeting_options *options, struct launch_request *request,
                           struct meeting_texts *texts, struct log *log, struct err *err)
{
    struct launch_meeting *meeting = &request->meeting;
    const struct takeover *taken = &texts->takeover;
    meeting->local_addr = options->local_addr;
    int rc = place_settle(options, request, texts, err);
    rc = rc ? rc : number_settle(options, request, taken, err);
    rc = rc ? rc : task_settle(request, taken, err);
    meeting->token = str_trim(buf_str(&texts->token));
    if (!request->run_id)
        request->run_id = taken->run_id ? taken->run_id : "none";
    if (rc == 0 && taken->launcher && taken->node == 0)
        log_add(log, LOG_WARN, "launch", "%s has started %u %s, which meet at %s port %u",
                taken->launcher, taken->n_nodes,
                taken->is_a_task ? "tasks, each of which is a rank" : "musters, one a machine",
                meeting->host, meeting->port);
    return rc;
}

/* ---- other machines, from one terminal ---- */

/* This muster starts the ranks on the hosts, so there is no other muster to meet. */
static int hosts_settle(const struct meeting_options *options, struct launch_request *request,
                        struct err *err)
{
    const struct {
        const char *name;
        bool is_given;
    } others[] = {
        {"--nnodes", options->nnodes},
        {"--node-rank", options->node_rank != UINT64_MAX},
        {"--rdzv-endpoint", options->endpoint && options->endpoint[0]},
        {"--standalone", options->is_standalone},
    };
    for (size_t i = 0; i < countof(others); i++)
        if (others[i].is_given)
            return fail(err, ERR_USAGE,
                        "--hosts and %s exclude each other: with --hosts one command, typed once, "
                        "starts the ranks of all machines; --master-addr and --master-port say "
                        "where the ranks meet",
                        others[i].name);
    request->master_addr = options->master_addr;
    request->master_port = options->master_port;
    return conf_parse(options->conf, &request->meeting, err);
}

/*
 * Asks what a launcher says, unless --nnodes, --node-rank or --standalone is given: an explicit
 * option is meant as it is.
 */
static int takeover_ask(const struct meeting_options *options, struct launch_meeting *meeting,
                        struct takeover *taken, struct err *err)
{
    bool is_said = options->nnodes || options->is_standalone || options->node_rank != UINT64_MAX;
    int rc = is_said ? 0 : takeover_read((const char *const *)environ, taken, err);
    if (rc || !taken->launcher)
        return rc;
    if (taken->n_nodes > GANG_NODES_MAX)
        return fail(err, ERR_USAGE, "%s has started %u tasks, which are more than %d",
                    taken->launcher, taken->n_nodes, GANG_NODES_MAX);
    meeting->n_nodes_min = meeting->n_nodes_max = taken->n_nodes;
    return 0;
}

int meeting_settle(const struct meeting_options *options, struct launch_request *request,
                   struct meeting_texts *texts, struct log *log, struct err *err)
{
    struct launch_meeting *meeting = &request->meeting;
    *meeting = (struct launch_meeting){.n_nodes_min = 1,
                                       .n_nodes_max = 1,
                                       .node = RENDEZVOUS_ANY_NODE,
                                       .join_ms = JOIN_MS,
                                       .more_ms = LAST_CALL_MS};
    if (strcmp(options->backend, "static") != 0 && strcmp(options->backend, "c10d") != 0)
        return fail(err, ERR_USAGE, "--rdzv-backend %s: there are static and c10d",
                    options->backend);
    if (options->master_addr && !options->master_addr[0])
        return fail(err, ERR_USAGE, "--master-addr '': expected a name or an address");
    if (request->allocation.hosts)
        return hosts_settle(options, request, err);
    int rc = options->nnodes ? nnodes_parse(options->nnodes, meeting, err) : 0;
    rc = rc ? rc : conf_parse(options->conf, meeting, err);
    if (rc == 0 && options->token_file)
        rc = token_read(options->token_file, &texts->token, err);
    rc = rc ? rc : takeover_ask(options, meeting, &texts->takeover, err);
    if (rc)
        return rc;
    if (meeting->n_nodes_max > 1 && !options->is_standalone)
        return together_settle(options, request, texts, log, err);
    if (options->node_rank != UINT64_MAX && options->node_rank > 0)
        return fail(err, ERR_USAGE, "--node-rank %lu of one node", options->node_rank);
    return alone_settle(options, request, texts, err);
}

void meeting_texts_release(struct meeting_texts *texts)
{
    free(texts->host);
    buf_release(&texts->token);
    takeover_release(&texts->takeover);
}
