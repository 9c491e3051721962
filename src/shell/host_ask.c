/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/host_ask.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "shell/host_link.h"
#include "shell/shell_impl.h"

enum {
    GRACE_MS = 2000 /* for the verb to end, after SIGTERM */
};

enum asked_state {
    ASKED_NOT,      /* not asked this question yet, or its last verb has not ended */
    ASKED_ENDING,   /* its connection was lost, and the transport has not ended yet */
    ASKED_STARTING, /* its agent has not answered */
    ASKED_READY,    /* connected; the verb is to be started */
    ASKED_RUNNING,  /* the verb */
    ASKED_DONE
};

struct asked_host {
    struct host_ask *ask;
    struct host_link link;
    bool is_up; /* connected */
    uint32_t n_cpus;
    enum asked_state state;
    struct node_worker *process; /* the verb; NULL: none */
    uint64_t begin_ms, limit_ms; /* when it was asked, and how long it may take */
    struct host_answer answer;
};

struct host_ask {
    struct shell *shell;
    struct allocation_wish wish;
    uint64_t answer_limit_ms; /* of each host, from its start, without the verb's limit */
    struct host_list list;
    struct bundles bundles;
    struct asked_host *at; /* [list.len] */
    struct host_answer *answers;
    const struct host_question *question;
};

static struct node *node_of(const struct asked_host *h)
{
    return h->link.host->is_local ? h->ask->shell->machines.local : h->link.node;
}

static void done(struct asked_host *h, const struct err *why)
{
    if (h->state == ASKED_DONE)
        return;
    h->state = ASKED_DONE;
    if (why)
        h->answer.why = *why;
}

static void done_late(struct asked_host *h)
{
    struct err why = {0};
    char limit[24];
    duration_format(limit, h->limit_ms);
    fail(&why, ERR_UNAVAILABLE, "no answer within %s", limit);
    done(h, &why);
}

/* ---- what a host says ---- */

static void said_add(struct asked_host *h, struct str bytes)
{
    struct buf *said = &h->answer.said;
    size_t n_kept =
        MIN(bytes.len, HOST_SAID_MAX_BYTES - MIN(said->len, (size_t)HOST_SAID_MAX_BYTES));
    buf_add(said, bytes.at, n_kept);
    h->answer.is_said_cut |= n_kept < bytes.len;
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct asked_host *h = context;
    struct err why = {0};
    char limit[16];
    if (h->state != ASKED_RUNNING) /* a late answer to the last question */
        return;
    if (stream != STREAM_OUT) {
        said_add(h, bytes);
        return;
    }
    if (bytes.len <= HOST_OUT_MAX_BYTES - h->answer.out.len) {
        buf_add_str(&h->answer.out, bytes);
        return;
    }
    size_format(limit, HOST_OUT_MAX_BYTES);
    fail(&why, ERR_DATA, "its answer is longer than %s", limit);
    done(h, &why);
    node_end(h->process, END_AT_ONCE);
}

static void verb_judge(struct asked_host *h, const struct worker_exit *exit)
{
    struct err why = {0};
    bool has_ended = exit->has_exited && exit->exit_signal == 0;
    h->answer.status = worker_exit_status(exit);
    if (exit->was_refused)
        fail(&why, ERR_UNAVAILABLE, "muster could not be executed: %s",
             errno_text(exit->exec_errno));
    else if (!has_ended)
        fail(&why, ERR_UNAVAILABLE, "muster was killed there (status %d)", h->answer.status);
    done(h, why.code ? &why : NULL);
}

static void on_verb_gone(void *context, const struct worker_exit *exit)
{
    struct asked_host *h = context;
    if (h->state == ASKED_RUNNING)
        verb_judge(h, exit);
    node_release(steal_ptr(&h->process));
}

static void on_verb_warned(void *context, const char *text)
{
    struct asked_host *h = context;
    if (h->state != ASKED_RUNNING)
        return;
    said_add(h, str_of(text));
    said_add(h, STR("\n"));
}

static void on_verb_failed(void *context, const struct err *why)
{
    struct asked_host *h = context;
    if (h->state == ASKED_RUNNING)
        done(h, why);
}

static const struct worker_handlers verb_handlers = {
    .output = on_output, .gone = on_verb_gone, .warned = on_verb_warned, .failed = on_verb_failed};

/* ---- the connection ---- */

static void on_taken(void *context, const struct wire_taken *taken)
{
    struct asked_host *h = context;
    h->n_cpus = taken->n_cpus;
    if (h->state != ASKED_STARTING) /* too late: the transport is being ended */
        return;
    h->is_up = true;
    h->state = ASKED_READY;
}

static void on_lost(void *context, const struct err *why)
{
    struct asked_host *h = context;
    h->is_up = false;
    if (h->state != ASKED_NOT && h->state != ASKED_ENDING)
        done(h, why);
}

static void on_sampled(void *context, const struct device_sample *sample)
{
    (void)context, (void)sample; /* this agent has no device */
}

static void on_said(void *context, struct str line)
{
    said_add(context, line);
    said_add(context, STR("\n"));
}

static const struct remote_handlers link_handlers = {
    .taken = on_taken, .lost = on_lost, .sampled = on_sampled, .said = on_said};

/* ---- asking ---- */

void look_environment(const char *const *variables, struct env_list *env)
{
    env_inherit(env);
    for (size_t i = 0; variables[i]; i++)
        env_set(env, xasprintf("%s=", variables[i]));
    env_end(env);
}

static void words_make(const struct asked_host *h, struct env_list *words)
{
    const struct host_question *question = h->ask->question;
    const char *gpus = h->link.host->gpus ? h->link.host->gpus : question->gpus;
    env_list_add(words, xstrdup(h->link.host->is_local ? h->ask->shell->self_path : AGENT_PROGRAM));
    env_list_add_words(words, question->words);
    if (gpus) {
        env_list_add(words, xstrdup("-g"));
        env_list_add(words, xstrdup(gpus));
    }
    env_end(words);
}

static void verb_start(struct asked_host *h)
{
    static const struct seat bare = {.label = WISH_NO_DEVICES};
    struct env_list words = {0}, env = {0};
    struct err why = {0};
    words_make(h, &words);
    look_environment(h->ask->question->variables, &env);
    const struct spawn_request request = {.argv = (const char *const *)words.at,
                                          .envp = (const char *const *)env.at,
                                          .seat = &bare,
                                          .grace_ms = GRACE_MS,
                                          .handlers = &verb_handlers,
                                          .context = h};
    h->state = ASKED_RUNNING;
    h->limit_ms += h->ask->question->limit_ms;
    if (node_spawn(node_of(h), &request, &h->process, &why) != 0)
        done(h, &why);
    env_list_release(&words);
    env_list_release(&env);
}

static void host_begin(struct asked_host *h)
{
    bool is_ready = h->is_up || h->link.host->is_local;
    h->begin_ms = clock_now_ms();
    h->limit_ms = h->ask->answer_limit_ms;
    h->state = is_ready ? ASKED_READY : ASKED_ENDING;
}

static void host_connect(struct asked_host *h)
{
    struct err why = {0};
    h->state = ASKED_STARTING;
    if (remote_connect(h->link.node, &why) != 0)
        done(h, &why);
}

static bool is_starting(const struct asked_host *h)
{
    return h->state == ASKED_ENDING || h->state == ASKED_STARTING;
}

/* One host's next step, if there is one. */
static void host_step(struct asked_host *h, size_t *n_starting)
{
    if (h->state == ASKED_NOT && !h->process && *n_starting < HOSTS_STARTING_MAX) {
        host_begin(h);
        *n_starting += h->state == ASKED_ENDING;
    }
    if (h->state == ASKED_ENDING && !remote_has_transport(h->link.node))
        host_connect(h);
    if (h->state == ASKED_READY)
        verb_start(h);
    bool is_asked = h->state != ASKED_DONE && (h->state != ASKED_NOT || h->process);
    if (!is_asked || clock_now_ms() - h->begin_ms < h->limit_ms)
        return;
    done_late(h);
    if (h->process)
        node_end(h->process, END_AT_ONCE);
    h->is_up = false; /* the loss may be told later: not up for the next question */
    if (!h->link.host->is_local)
        remote_end_transport(h->link.node, END_AT_ONCE);
}

/* Takes the next step of each host. Returns how many have not answered yet. */
static size_t hosts_step(struct host_ask *ask)
{
    size_t n_starting = 0, n_left = 0;
    for (size_t i = 0; i < ask->list.len; i++)
        n_starting += is_starting(&ask->at[i]);
    for (size_t i = 0; i < ask->list.len; i++) {
        host_step(&ask->at[i], &n_starting);
        n_left += ask->at[i].state != ASKED_DONE;
    }
    return n_left;
}

static void answer_reset(struct asked_host *h)
{
    buf_release(&h->answer.out);
    buf_release(&h->answer.said);
    h->answer = (struct host_answer){.host = h->link.host};
    h->state = ASKED_NOT;
    /* The verb of the last question may still be ending; that may take no longer than an answer. */
    h->begin_ms = clock_now_ms();
    h->limit_ms = h->ask->answer_limit_ms;
}

static void answers_take(struct host_ask *ask)
{
    for (size_t i = 0; i < ask->list.len; i++) {
        struct asked_host *h = &ask->at[i];
        if (!h->link.host->is_local) {
            struct remote_peer peer = remote_peer(h->link.node);
            h->answer.round_trip_ms = remote_round_trip_ms(h->link.node);
            h->answer.clock_ahead_ms = peer.clock_ahead_ms;
            snprintf(h->answer.version, sizeof(h->answer.version), "%s", peer.version);
        }
        h->answer.n_cpus = h->link.host->is_local ? processors_allowed() : h->n_cpus;
        ask->answers[i] = h->answer;
    }
}

static int end_status(const struct host_ask *ask)
{
    return ask->shell->end.signal ? 128 + ask->shell->end.signal : 0;
}

int host_ask(struct host_ask *ask, const struct host_question *question)
{
    ask->question = question;
    for (size_t i = 0; i < ask->list.len; i++)
        answer_reset(&ask->at[i]);
    while (hosts_step(ask) > 0 && !shell_is_to_end(ask->shell))
        shell_turn(ask->shell);
    answers_take(ask);
    return end_status(ask);
}

int host_ask_pause(struct host_ask *ask, uint64_t pause_ms)
{
    uint64_t until_ms = clock_now_ms() + pause_ms;
    while (clock_now_ms() < until_ms && !shell_is_to_end(ask->shell))
        shell_turn(ask->shell);
    return end_status(ask);
}

const struct host_answer *host_answers(const struct host_ask *ask, size_t *n_answers)
{
    *n_answers = ask->list.len;
    return ask->answers;
}

/* ---- begin and end ---- */

static void remotes_each(struct host_ask *ask, void (*visit)(struct node *node))
{
    for (size_t i = 0; i < ask->list.len; i++)
        if (ask->at && ask->at[i].link.node)
            visit(ask->at[i].link.node);
}

static void visit_tick(struct node *node)
{
    node_tick(node);
}

static void visit_look(struct node *node)
{
    (void)node_look(node);
    node_flush(node);
}

static void visit_end(struct node *node)
{
    remote_end_transport(node, END_AT_ONCE);
}

static void on_stop(void *context, enum shell_stop how)
{
    if (how == STOP_KILL) /* else host_ask() returns, and the verbs end with their agents */
        remotes_each(context, visit_end);
}

static void on_tick(void *context)
{
    remotes_each(context, visit_tick);
}

static void on_before_sleep(void *context)
{
    remotes_each(context, visit_look);
}

static const struct shell_verb ask_shell = {
    .name = "hosts", .stop = on_stop, .tick = on_tick, .before_sleep = on_before_sleep};

static int links_open(struct host_ask *ask, struct err *err)
{
    int rc = 0;
    ask->at = xcalloc(ask->list.len + 1, sizeof(*ask->at));
    ask->answers = xcalloc(ask->list.len + 1, sizeof(*ask->answers));
    for (size_t i = 0; rc == 0 && i < ask->list.len; i++) {
        struct asked_host *h = &ask->at[i];
        if (ask->list.at[i].is_job)
            return fail(
                err, ERR_USAGE,
                "--hosts slurm:N: nodes that Slurm has not granted yet cannot be looked at");
        h->ask = ask;
        h->link = (struct host_link){.host = &ask->list.at[i],
                                     .bundles = &ask->bundles,
                                     .handlers = &link_handlers,
                                     .context = h};
        if (!h->link.host->is_local)
            rc = host_link_open(ask->shell, &ask->list.job, &ask->wish, &h->link, err);
    }
    return rc;
}

int host_ask_open(const struct host_ask_opts *opts, struct host_ask **out, struct err *err)
{
    struct host_ask *ask = *out = xcalloc(1, sizeof(*ask));
    ask->shell = shell_new(&(struct shell_setup){
        .verb = &ask_shell, .context = ask, .log = opts->log, .self_path = opts->self_path});
    ask->bundles.self_path = opts->self_path;
    ask->wish = *opts->wish;
    ask->wish.without_devices = true;
    ask->wish.gpus = WISH_NO_DEVICES;
    ask->answer_limit_ms = ask->wish.host_timeout_ms ? ask->wish.host_timeout_ms : HOST_TIMEOUT_MS;
    ask->wish.host_timeout_ms = 2 * ask->answer_limit_ms; /* of the link, longer than a look */
    int rc = host_list_parse(ask->wish.hosts, &ask->list, err);
    if (rc == 0)
        rc = shell_begin_bare(ask->shell, err);
    if (rc == 0)
        rc = links_open(ask, err);
    if (rc)
        return rc;
    shell_files_allow(ask->shell, (uint32_t)ask->list.len);
    return shell_loop_begin(ask->shell, err);
}

static bool is_anything_left(const struct host_ask *ask)
{
    bool is_left = false;
    for (size_t i = 0; ask->at && i < ask->list.len; i++) {
        const struct asked_host *h = &ask->at[i];
        is_left = is_left || (h->link.node ? remote_has_transport(h->link.node) : !!h->process);
    }
    return is_left;
}

/* Leaves the hosts, and waits until the transports have ended, and the verb on this machine. */
static void hosts_end(struct host_ask *ask)
{
    uint64_t deadline_ms = clock_now_ms() + HOST_LEAVE_MS;
    bool was_ended = false;
    remotes_each(ask, remote_leave);
    for (size_t i = 0; ask->at && i < ask->list.len; i++)
        if (ask->at[i].process && ask->at[i].link.host->is_local)
            node_end(ask->at[i].process, END_POLITELY);
    while (is_anything_left(ask)) {
        if (!was_ended && clock_now_ms() >= deadline_ms) {
            was_ended = true;
            remotes_each(ask, visit_end);
        }
        shell_turn(ask->shell);
    }
}

void host_ask_close(struct host_ask *ask)
{
    if (!ask)
        return;
    hosts_end(ask);
    for (size_t i = 0; ask->at && i < ask->list.len; i++) {
        node_close(ask->at[i].link.node);
        host_link_release(&ask->at[i].link);
        buf_release(&ask->at[i].answer.out);
        buf_release(&ask->at[i].answer.said);
    }
    shell_close(ask->shell);
    shell_free(ask->shell);
    host_list_release(&ask->list);
    bundles_release(&ask->bundles);
    free(ask->at);
    free(ask->answers);
    free(ask);
}
