/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the verbs that look at other hosts (shell/host_ask.h): the question to the hosts, and
 * what the hosts printed on stderr.
 */
#pragma once

#include "cli/gpus_rows.h"
#include "opt/cmd.h"
#include "shell/host_ask.h"

struct look {
    const struct cmd *cmd; /* the verb whose options the hosts' environment must not set */
    struct env_list words; /* the verb and its options */
    const char *gpus;      /* -g; NULL: none */
    uint64_t limit_ms;     /* time for the verb */
};

MUST_CHECK int look_open(struct app *app, const struct allocation_wish *wish, struct host_ask **out,
                         struct err *err);
/* Asks all hosts. Returns 0, or 128 + a signal. */
MUST_CHECK int look_ask(struct host_ask *ask, const struct look *look);
/*
 * Prints what a host printed on its standard error, each line with the host's name before it.
 * Prints nothing with -q.
 */
void look_said_print(const struct app *app, const struct host_answer *answer);
/*
 * Adds the devices of a host that was asked for its `gpus --json`. Returns false if the host cannot
 * be had, after printing why. is_first: whatever else the host printed is printed as well.
 */
bool look_devices_add(const struct app *app, const struct host_answer *answer, bool is_first,
                      struct gpus_rows *rows);
