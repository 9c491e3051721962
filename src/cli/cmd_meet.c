/* SPDX-License-Identifier: Apache-2.0
 *
 * muster meet is the meeting place for the ranks of several hosts. muster launch --hosts starts it on a host; users
 * never type it.
 */
#include "cli/verbs.h"
#include "launch/reach.h"

static int meet_main(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    (void)app, (void)argv, (void)command;
    if (argc > 0)
        return fail(err, ERR_USAGE, "muster starts it itself (muster launch --hosts)");
    return reach_run(request, err);
}

#define FIELD(name) offsetof(struct reach_request, name)

static const struct opt meet_opts[] = {
    {OPT_U64, 0, "port", "PORT", "hold this port, or connect to it (default: a free one)",
     FIELD(port), 0, 65535},
    {OPT_FLAG, 0, "listen", NULL, "answer those who connect, until a line is read", FIELD(listens)},
    {OPT_TEXT, 0, "reach", "ADDRESSES", "try which of them can be reached", FIELD(addresses)},
    {OPT_TEXT, 0, "token", "TOKEN", "the answer that is expected there", FIELD(token)},
    {OPT_END},
};

const struct cmd cmd_meet = {
    .name = "meet",
    .args = "",
    .summary = "holds the port at which ranks meet, or tries to reach it",
    .opts = meet_opts,
    .is_hidden = true,
    .request_size = sizeof(struct reach_request),
    .run = meet_main,
};
