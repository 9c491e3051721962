/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command on this machine while the run lasts, and hands its output to a callback. The loop reads the output
 * as it comes, and never waits for the command.
 */
#pragma once

#include "base/buf.h"
#include "node/node.h"

struct shell;

/* The caller sets the first four members, which are borrowed. */
struct local_ask {
    struct shell *shell;
    const char *name; /* in the log */
    /* The command has ended with status 0, and has printed `answer`. Called on the loop's thread. */
    void (*answered)(void *context, struct str answer);
    void *context;
    struct node_worker *child; /* NULL: no command runs */
    bool is_ending;
    struct buf answer;
};

/* `argv` and `envp` are borrowed for the call. No command may be running. A failure to start it is logged. */
void local_ask_begin(struct local_ask *ask, const char *const *argv, const char *const *envp);
static inline bool local_ask_is_busy(const struct local_ask *ask)
{
    return ask->child != NULL;
}
/* Ends the command; `answered` is not called any more. The loop must still turn. */
void local_ask_end(struct local_ask *ask);
void local_ask_release(struct local_ask *ask);
