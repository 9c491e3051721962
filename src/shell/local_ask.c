/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/local_ask.h"

#include "base/cleanup.h"
#include "shell/shell_impl.h"

enum {
    ANSWER_MAX_BYTES = 4 << 20,
    GRACE_MS = 1000
};

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct local_ask *ask = context;
    if (stream == STREAM_OUT && ask->answer.len + bytes.len <= ANSWER_MAX_BYTES)
        buf_add_str(&ask->answer, bytes);
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct local_ask *ask = context;
    node_release(steal_ptr(&ask->child));
    if (worker_exit_status(exit) == 0 && !ask->is_ending)
        ask->answered(ask->context, buf_str(&ask->answer));
}

static void on_warned(void *context, const char *text)
{
    const struct local_ask *ask = context;
    log_add(ask->shell->log, LOG_DEBUG, "shell", "%s: %s", ask->name, text);
}

static void on_failed(void *context, const struct err *why)
{
    on_warned(context, why->text);
}

void local_ask_begin(struct local_ask *ask, const char *const *argv, const char *const *envp)
{
    static const struct worker_handlers handlers = {
        .output = on_output, .gone = on_gone, .warned = on_warned, .failed = on_failed};
    static const struct seat anywhere = {.label = "ask"};
    const struct spawn_request request = {.argv = argv,
                                          .envp = envp,
                                          .seat = &anywhere,
                                          .grace_ms = GRACE_MS,
                                          .handlers = &handlers,
                                          .context = ask};
    struct err err = {0};
    ASSERT(!ask->child);
    buf_reset(&ask->answer);
    if (node_spawn(ask->shell->machines.local, &request, &ask->child, &err) != 0)
        on_failed(ask, &err);
}

void local_ask_end(struct local_ask *ask)
{
    if (!ask->child)
        return;
    ask->is_ending = true;
    node_end(ask->child, END_AT_ONCE);
    while (ask->child)
        shell_turn(ask->shell);
}

void local_ask_release(struct local_ask *ask)
{
    buf_release(&ask->answer);
}
