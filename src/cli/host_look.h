/* SPDX-License-Identifier: Apache-2.0
 *
 * What verbs that look at other hosts share (shell/host_ask.h): the question, and what hosts said on stderr.
 */
#pragma once

#include "cli/gpus_rows.h"
#include "opt/cmd.h"
#include "shell/host_ask.h"

struct look {
    const struct cmd *cmd; /* of the verb, whose options the hosts' environment must not set */
    struct env_list words; /* the verb and its options */
    const char *gpus;      /* -g; NULL: none */
    uint64_t limit_ms;     /* for the verb */
};

MUST_CHECK int look_open(struct app *app, const struct allocation_wish *wish, struct host_ask **out,
                         struct err *err);
/* Asks all hosts. Returns 0, or 128 + a signal. */
MUST_CHECK int look_ask(struct host_ask *ask, const struct look *look);
/* Prints what a host said on its standard error, each line with the host's name before it. Nothing with -q. */
void look_said_print(const struct app *app, const struct host_answer *answer);
/*
 * What a host that was asked for its `gpus --json` has. False if it cannot be had; then why has been said. is_first: what
 * it said besides is printed as well.
 */
bool look_devices_add(const struct app *app, const struct host_answer *answer, bool is_first,
                      struct gpus_rows *rows);
