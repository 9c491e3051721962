/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the place where ranks meet: `muster meet` (reach.c) on the host of rank 0 holds a port as long as
 * ranks may need it; on every other host it tries the addresses of that host.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"
#include "launch/meeting_point.h"
#include "node/wire_body.h"

enum {
    OUT_MAX_BYTES = 16384
};

enum meet_state { /* in this order */
    MEET_NOWHERE,
    MEET_CLEARS,  /* an earlier search, or port, is being ended */
    MEET_TAKES,   /* the host of rank 0 takes a port */
    MEET_REACHES, /* the other hosts try its addresses */
    MEET_SETTLES, /* one was found; the port is left to rank 0 */
    MEET_IS_HELD
};

/* `muster meet` on one host. */
struct meet_ask {
    struct meet *meet;
    struct machine *machine;
    struct node_worker *process; /* NULL: it has ended, or was not started */
    struct buf out, errors;
};

struct meet {
    struct launch *launch;
    enum meet_state state;
    struct meet_ask *asks; /* [n]; the first is on the host of rank 0 */
    uint32_t n, n_running;
    struct machine **wanted; /* [n_wanted], when those of an earlier search have ended */
    uint32_t n_wanted;
    struct meeting_point point;
    char *address; /* the address that was found */
};

static void step(struct meet *meet);

static void give_up(struct meet *meet, const struct err *why)
{
    meet->state = MEET_NOWHERE;
    shell_abort(meet->launch->shell, why);
}

/* ---- what is found ---- */

static void unreached_fail(struct meet *meet, const struct meeting_answer *answers)
{
    const struct meeting_point *point = &meet->point;
    cleanup_buf struct buf text = BUF_INIT;
    struct err err = {0};
    for (size_t i = 0; i < point->n_addresses; i++)
        buf_addf(&text, "%s%s", i > 0 ? " " : "", point->addresses[i]);
    buf_add_text(&text, "): ");
    meeting_point_unreached_add(point, answers, meet->n - 1, &text);
    fail(
        &err, ERR_UNAVAILABLE,
        "no address of %s, the host of rank 0, is reached from all other hosts at port %u (%s; a firewall "
        "may be in the way, and --master-addr and --master-port name another place",
        meet->asks[0].machine->name, point->port, buf_text(&text));
    give_up(meet, &err);
}

static void found(struct meet *meet, const char *address)
{
    bool listens = meet->n > 1 && !meet->launch->request->master_addr;
    free(meet->address);
    meet->address = xstrdup(address);
    meet->state = listens ? MEET_SETTLES : MEET_IS_HELD;
    log_add(shell_log(meet->launch->shell), LOG_INFO, "launch", "the ranks meet at %s port %u",
            address, meet->point.port);
    buf_reset(&meet->asks[0].out);
    if (listens)
        (void)node_write(meet->asks[0].process, STREAM_IN, STR("\n"));
    else
        fleet_meet(meet->launch);
}

static void choose(struct meet *meet)
{
    cleanup_free struct meeting_answer *answers = xcalloc(meet->n, sizeof(*answers));
    for (uint32_t i = 1; i < meet->n; i++)
        answers[i - 1] =
            (struct meeting_answer){meet->asks[i].machine->name, buf_str(&meet->asks[i].out)};
    const char *address = meeting_point_choose(&meet->point, answers, meet->n - 1);
    if (!fleet_waits(meet->launch->fleet)) /* a host was lost meanwhile: no rank is started */
        meet->state = MEET_NOWHERE;
    else if (address)
        found(meet, address);
    else
        unreached_fail(meet, answers);
}

/* ---- `muster meet` ---- */

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct meet_ask *ask = context;
    struct buf *to = stream == STREAM_ERR ? &ask->errors : &ask->out;
    if (to->len + bytes.len <= OUT_MAX_BYTES)
        buf_add_str(to, bytes);
    if (ask == ask->meet->asks && stream == STREAM_OUT)
        step(ask->meet);
}

static void ended_early(struct meet_ask *ask, const struct worker_exit *exit)
{
    static const struct str before = STR("muster: meet: ");
    struct err err = {0};
    struct str words = str_trim(buf_str(&ask->errors));
    if (str_starts_with(words, before))
        words = (struct str){words.at + before.len, words.len - before.len};
    if (words.len > 0)
        fail(&err, ERR_UNAVAILABLE, "%s: %.*s", ask->machine->name, (int)words.len, words.at);
    else
        fail(&err, ERR_UNAVAILABLE,
             "%s: the search for the place where ranks meet ended with status %d",
             ask->machine->name, worker_exit_status(exit));
    give_up(ask->meet, &err);
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct meet_ask *ask = context;
    struct meet *meet = ask->meet;
    node_release(steal_ptr(&ask->process));
    meet->n_running--;
    bool is_lost = ask->machine->is_far && fleet_loss_tell(ask->machine);
    bool is_over = meet->launch->is_over || shell_is_to_end(meet->launch->shell);
    bool is_holder = ask == meet->asks;
    bool is_early = is_holder || exit->exit_code || exit->exit_signal;
    bool is_sought = meet->state > MEET_CLEARS && meet->state < MEET_IS_HELD;
    bool is_let_go = is_holder && meet->state == MEET_IS_HELD;
    if ((is_sought && (is_lost || is_over)) || is_let_go)
        meet->state = MEET_NOWHERE;
    else if (is_sought && is_early)
        ended_early(ask, exit);
    else
        step(meet);
}

static void on_failed(void *context, const struct err *why)
{
    const struct meet_ask *ask = context;
    shell_abort(ask->meet->launch->shell, why);
}

static void on_warned(void *context, const char *text)
{
    const struct meet_ask *ask = context;
    log_add(shell_log(ask->meet->launch->shell), LOG_WARN, "launch", "%s: %s", ask->machine->name,
            text);
}

static void ask_start(struct meet_ask *ask, struct env_list *words)
{
    static const struct worker_handlers handlers = {
        .output = on_output, .gone = on_gone, .warned = on_warned, .failed = on_failed};
    struct launch *launch = ask->meet->launch;
    struct env_list env = {0};
    struct err err = {0};
    env_inherit(&env);
    env_end(&env);
    env_end(words);
    const struct spawn_request request = {.argv = (const char *const *)words->at,
                                          .envp = (const char *const *)env.at,
                                          .seat = machine_seat(ask->machine),
                                          .grace_ms = launch->request->grace_ms,
                                          .has_input = true,
                                          .handlers = &handlers,
                                          .context = ask};
    int rc = node_spawn(shell_node(launch->shell), &request, &ask->process, &err);
    env_list_release(&env);
    ask->meet->n_running += rc == 0;
    if (rc == 0)
        return;
    if (ask->machine->is_far && fleet_loss_tell(ask->machine))
        ask->meet->state = MEET_NOWHERE;
    else
        give_up(ask->meet, &err);
}

static void words_begin(const struct meet_ask *ask, struct env_list *words)
{
    const char *program =
        ask->machine->is_far ? AGENT_PROGRAM : shell_self_path(ask->meet->launch->shell);
    env_list_add(words, xstrdup(program));
    env_list_add(words, xstrdup("meet"));
}

/* ---- the search ---- */

static void asks_end(struct meet *meet)
{
    for (uint32_t i = 0; i < meet->n; i++)
        if (meet->asks[i].process)
            node_end(meet->asks[i].process, END_AT_ONCE);
}

static void asks_release(struct meet *meet)
{
    for (uint32_t i = 0; i < meet->n; i++) {
        buf_release(&meet->asks[i].out);
        buf_release(&meet->asks[i].errors);
    }
    meet->n = 0;
}

static void take_begin(struct meet *meet)
{
    const struct launch_request *request = meet->launch->request;
    struct env_list words = {0};
    asks_release(meet);
    meet->n = meet->n_wanted;
    for (uint32_t i = 0; i < meet->n; i++)
        meet->asks[i] = (struct meet_ask){.meet = meet, .machine = meet->wanted[i]};
    meet->state = MEET_TAKES;
    words_begin(&meet->asks[0], &words);
    env_list_add(&words, xasprintf("--port=%lu", request->master_port));
    if (meet->n > 1 && !request->master_addr)
        env_list_add(&words, xstrdup("--listen"));
    ask_start(&meet->asks[0], &words);
    env_list_release(&words);
}

static void reach_begin(struct meet *meet)
{
    cleanup_buf struct buf list = BUF_INIT;
    meet->state = MEET_REACHES;
    for (size_t i = 0; i < meet->point.n_addresses; i++)
        buf_addf(&list, "%s%s", i > 0 ? "," : "", meet->point.addresses[i]);
    for (uint32_t i = 1; i < meet->n && meet->state == MEET_REACHES; i++) {
        struct env_list words = {0};
        words_begin(&meet->asks[i], &words);
        env_list_add(&words, xasprintf("--port=%u", meet->point.port));
        env_list_add(&words, xasprintf("--token=%s", meet->point.token));
        env_list_add(&words, xasprintf("--reach=%s", buf_text(&list)));
        ask_start(&meet->asks[i], &words);
        env_list_release(&words);
    }
}

static void taken(struct meet *meet, struct str line)
{
    const char *given = meet->launch->request->master_addr;
    struct err err = {0};
    if (!meeting_point_read(line, &meet->point)) {
        fail(&err, ERR_DATA, "%s: it told no port where ranks can meet",
             meet->asks[0].machine->name);
        give_up(meet, &err);
    } else if (given || meet->n == 1) {
        found(meet, given ? given : "127.0.0.1");
    } else {
        reach_begin(meet);
    }
}

/* Takes all steps that are possible now. */
static void step(struct meet *meet)
{
    struct str rest = meet->n > 0 ? buf_str(&meet->asks[0].out) : STR(""), line = {0};
    bool has_line = rest.len > 0 && memchr(rest.at, '\n', rest.len) && str_next(&rest, '\n', &line);
    if (meet->state == MEET_CLEARS && meet->n_running == 0)
        take_begin(meet);
    else if (meet->state == MEET_TAKES && has_line)
        taken(meet, line);
    else if (meet->state == MEET_REACHES && meet->n_running == 1)
        choose(meet);
    else if (meet->state == MEET_SETTLES && has_line) {
        meet->state = MEET_IS_HELD;
        fleet_meet(meet->launch);
    }
}

static bool was_asked(const struct meet *meet, const struct machine *machine)
{
    bool was = false;
    for (uint32_t i = 0; i < meet->n; i++)
        was = was || meet->asks[i].machine == machine;
    return was;
}

/* Does the address serve these machines? A host that came later has not tried it. */
static bool is_for_all(const struct meet *meet, struct machine *const *machines, uint32_t n)
{
    bool is = meet->state == MEET_IS_HELD && meet->asks[0].machine == machines[0];
    for (uint32_t i = 0; is && i < n; i++)
        is = was_asked(meet, machines[i]);
    return is;
}

void meet_seek(struct meet *meet, struct machine *const *machines, uint32_t n_machines)
{
    if (is_for_all(meet, machines, n_machines))
        return;
    meet->n_wanted = n_machines;
    memcpy(meet->wanted, machines, n_machines * sizeof(struct machine *));
    meet->state = MEET_CLEARS;
    asks_end(meet);
    step(meet);
}

bool meet_is_held(const struct meet *meet)
{
    return meet->state == MEET_IS_HELD;
}

const char *meet_address(const struct meet *meet)
{
    return meet->address;
}

uint16_t meet_port(const struct meet *meet)
{
    return meet->point.port;
}

/* ---- the room ---- */

struct meet *meet_new(struct launch *launch, uint32_t n_machines)
{
    struct meet *meet = xcalloc(1, sizeof(*meet));
    *meet = (struct meet){.launch = launch,
                          .asks = xcalloc(n_machines + 1, sizeof(struct meet_ask)),
                          .wanted = xcalloc(n_machines + 1, sizeof(struct machine *))};
    return meet;
}

/* `muster meet` is ended by its agents, when the hosts are left. */
void meet_close(struct meet *meet)
{
    meet->state = MEET_NOWHERE;
    asks_end(meet);
    for (uint32_t i = 0; i < meet->n; i++)
        while (meet->asks[i].process && !meet->asks[i].machine->is_far)
            shell_turn(meet->launch->shell);
}

void meet_free(struct meet *meet)
{
    asks_release(meet);
    free(meet->asks);
    free(meet->wanted);
    free(meet->address);
    free(meet);
}
