/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders to a run that goes on: to stop, about its hosts, or about what its verb does; and their answers.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "shell/hosts.h"
#include "shell/shell_impl.h"
#include "store/order_answer.h"

enum {
    ORDERS_AT_ONCE = 16,    /* in one look; further ones wait for the next look */
    ORDERS_LOOKED_AT = 256, /* including those that cannot be removed */
    DONE_SHOWN = 128        /* bytes of an order in its answer */
};

static void stop_order_check(struct shell *shell)
{
    enum stop_how how;
    if (!run_stop_asked(shell->run_dir, &how))
        return;
    bool is_news = !shell->end.is_stopped || (how == STOP_NOW && !shell->end.is_at_once);
    if (is_news)
        shell_end_stopped(shell, how == STOP_NOW);
}

static void answers_tell(const struct shell *shell)
{
    struct order_answer answers[ANSWERS_KEPT];
    size_t n_answers = MIN(shell->orders.n_answers, (size_t)ANSWERS_KEPT);
    struct err err = {0};
    for (size_t i = 0; i < n_answers; i++) {
        const struct given_answer *given = &shell->orders.answers[i];
        answers[i] = (struct order_answer){
            .order = given->order,
            .refused = given->is_refused ? given->why.text : NULL,
            .told = given->told,
            .is_wrong = given->is_refused && given->why.code == ERR_USAGE,
        };
    }
    if (order_answers_write(shell->run_dir, answers, n_answers, &err) != 0)
        log_add(shell->log, LOG_WARN, "order", "%s", err.text);
}

static int line_do(struct shell *shell, struct str line, struct buf *told, struct err *err)
{
    if (shell->verb->order && !shell->phase.is_verb_away)
        return shell->verb->order(shell->context, line, told, err);
    if (shell->machines.hosts)
        return hosts_order(shell->machines.hosts, line, err);
    return fail(err, ERR_DATA, "an order that cannot be understood");
}

static void answer_keep(struct shell *shell, const char *name, int rc, const struct err *why,
                        struct buf *told)
{
    struct given_answer *answer = &shell->orders.answers[shell->orders.n_answers++ % ANSWERS_KEPT];
    free(answer->told);
    *answer = (struct given_answer){
        .is_refused = rc != 0, .why = *why, .told = told->len > 0 ? buf_steal(told) : NULL};
    snprintf(answer->order, sizeof(answer->order), "%s", name);
}

/* Carries out the lines of an order one after the other, up to the first that fails. */
static void order_do(struct shell *shell, const char *name, struct str text)
{
    struct str line;
    struct err err = {0};
    struct str done = {text.at, 0};
    cleanup_buf struct buf told = BUF_INIT;
    int rc = 0;
    while (rc == 0 && text.len > 0 && str_next(&text, '\n', &line)) {
        rc = line.len > 0 ? line_do(shell, line, &told, &err) : 0;
        if (rc == 0)
            done.len = (size_t)(line.at + line.len - done.at);
    }
    if (rc && done.len > 0)
        wrap(&err, rc, "'%.*s' was carried out, but then", (int)MIN(done.len, (size_t)DONE_SHOWN),
             done.at);
    answer_keep(shell, name, rc, &err, &told);
    if (rc)
        log_add(shell->log, LOG_WARN, "order", "an order is refused: %s", err.text);
    answers_tell(shell);
}

/* Logs an order that cannot be read or removed; only once if it cannot be removed, since every look finds it. */
static void not_taken_log(struct shell *shell, const char *name, const struct err *why)
{
    bool is_left = why->code == ERR_SYS;
    if (is_left && strcmp(name, shell->orders.left) <= 0)
        return;
    if (is_left)
        snprintf(shell->orders.left, sizeof(shell->orders.left), "%s", name);
    log_add(shell->log, LOG_WARN, "order", "an order is not carried out: %s", why->text);
}

static bool takes_orders(const struct shell *shell)
{
    bool of_verb = shell->verb->order && !shell->phase.is_verb_away;
    return of_verb || (shell->machines.hosts && hosts_take_orders(shell->machines.hosts));
}

static void orders_take(struct shell *shell)
{
    char name[ORDER_NAME_MAX] = "";
    int n_taken = 0;
    for (int i = 0; i < ORDERS_LOOKED_AT && n_taken < ORDERS_AT_ONCE; i++) {
        cleanup_buf struct buf text = BUF_INIT;
        struct err err = {0};
        int rc = run_order_take(shell->run_dir, name, &text, &err);
        if (!name[0])
            return;
        n_taken += rc != ERR_SYS;
        if (rc)
            not_taken_log(shell, name, &err);
        else
            order_do(shell, name, buf_str(&text));
    }
}

void shell_orders_check(struct shell *shell)
{
    if (!shell->run_dir)
        return;
    stop_order_check(shell);
    if (takes_orders(shell))
        orders_take(shell);
}

void shell_orders_release(struct shell *shell)
{
    for (size_t i = 0; i < ANSWERS_KEPT; i++)
        free(steal_ptr(&shell->orders.answers[i].told));
}
