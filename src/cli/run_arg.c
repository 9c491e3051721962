/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_arg.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json_bytes.h"
#include "base/xalloc.h"
#include "store/lock.h"
#include "store/order_answer.h"
#include "store/orders.h"
#include "store/runs.h"

enum {
    ANSWER_LIMIT_MS = 15000, /* a muster on another host looks once a second */
    LOOK_EVERY_MS = 50
};

int run_arg_find(const char *runs_dir, int argc, char **argv, char **dir_out, struct err *err)
{
    if (argc > 1)
        return fail(err, ERR_USAGE, "expected one run, found also '%s'", argv[1]);
    cleanup_free char *root = runs_root(runs_dir);
    return run_find(root, argc ? argv[0] : NULL, dir_out, err);
}

void run_names_add(struct buf *out, const char *dir)
{
    buf_add_text(out, "\"run\":");
    buf_add_json_bytes(out, path_basename(dir));
    buf_add_text(out, ",\"dir\":");
    buf_add_json_bytes(out, dir);
}

static int answer_await(const char *dir, const char *order, char **told, struct err *err)
{
    uint64_t begin_ms = clock_now_ms();
    struct found_answer answer;
    while (!order_answer_find(dir, order, &answer)) {
        if (!run_is_locked(dir, NULL))
            return fail(err, ERR_UNAVAILABLE, "run %s has ended", path_basename(dir));
        if (clock_now_ms() - begin_ms >= ANSWER_LIMIT_MS) {
            bool is_back = run_order_withdraw(dir, order);
            return fail(err, ERR_TIMEOUT, "run %s has not %s the order within %d s%s",
                        path_basename(dir), is_back ? "looked at" : "answered",
                        ANSWER_LIMIT_MS / 1000, is_back ? "; it was taken back" : "");
        }
        pause_ms(LOOK_EVERY_MS);
    }
    int rc = 0;
    if (answer.refused)
        rc = fail(err, answer.is_wrong ? ERR_USAGE : ERR_UNAVAILABLE, "%s", answer.refused);
    else
        *told = steal_ptr(&answer.told);
    found_answer_release(&answer);
    return rc;
}

int run_order(const char *dir, struct str text, char **told, struct err *err)
{
    char name[ORDER_NAME_MAX];
    bool was_running = false;
    int rc = run_order_give(dir, text, name, &was_running, err);
    if (rc)
        return rc;
    if (!was_running)
        return fail(err, ERR_UNAVAILABLE, "run %s is not going on", path_basename(dir));
    return answer_await(dir, name, told, err);
}

/*
 * Returns a copy of the list, not of the words. Parsing moves operands to the beginning of the
 * list.
 */
static char **words_copy(const char *const *words, size_t n_words)
{
    char **copy = xcalloc(n_words + 1, sizeof(*copy));
    for (size_t i = 0; i < n_words; i++)
        copy[i] = (char *)(uintptr_t)words[i];
    return copy;
}

int replay_parse(struct replay *replay, const struct cmd *cmd, const struct manifest *manifest,
                 void *request, struct err *err)
{
    size_t n_old = 0;
    while (manifest->argv[n_old])
        n_old++;
    replay->old = words_copy(manifest->argv, n_old);
    if (n_old < 2)
        return fail(err, ERR_DATA, "the run's manifest does not hold the command line");
    int rc = cmd_parse(cmd, (int)n_old - 1, replay->old + 1, request, &replay->n_operands,
                       &replay->operands, &replay->command, err);
    return rc ? wrap(err, rc, "the command line in the run's manifest") : 0;
}

int replay_overlay(struct replay *replay, const struct cmd *cmd, const struct app *app,
                   void *request, struct err *err)
{
    replay->again = words_copy((const char *const *)app->argv, (size_t)app->argc);
    return cmd_overlay(cmd, app->argc - 1, replay->again + 1, request, err);
}

void replay_release(struct replay *replay)
{
    free(replay->old);
    free(replay->again);
}

bool reader_pause_ms(uint64_t ms)
{
    struct pollfd reader = {.fd = STDOUT_FILENO};
    return poll(&reader, 1, (int)MIN(ms, (uint64_t)3600000)) == 0;
}

void pause_ms(unsigned ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}
