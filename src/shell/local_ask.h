/* SPDX-License-Identifier: Apache-2.0
 *
 * A command on this machine that is asked something while the run lasts: the loop reads what it prints, and never waits
 * for it.
 */
#pragma once

#include "base/buf.h"
#include "node/node.h"

struct shell;

/* The first four are given, and borrowed. */
struct local_ask {
    struct shell *shell;
    const char *name; /* in the log */
    /* It has ended with status 0, and printed this. Called on the loop's thread. */
    void (*answered)(void *context, struct str answer);
    void *context;
    struct node_worker *child; /* NULL: nothing is being asked */
    bool is_ending;
    struct buf answer;
};

/* `argv` and `envp` are borrowed for the call. Nothing must be being asked. If it cannot be started, that is logged. */
void local_ask_begin(struct local_ask *ask, const char *const *argv, const char *const *envp);
static inline bool local_ask_is_busy(const struct local_ask *ask)
{
    return ask->child != NULL;
}
/* Ends the command; nothing more is answered. The loop must still turn. */
void local_ask_end(struct local_ask *ask);
void local_ask_release(struct local_ask *ask);
