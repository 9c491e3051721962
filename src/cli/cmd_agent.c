/* SPDX-License-Identifier: Apache-2.0
 *
 * muster agent: the far end of --hosts. muster starts it on other machines; it is never typed.
 */
#include <unistd.h>

#include "agent/agent.h"
#include "cli/verbs.h"

static int agent_main(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    (void)request, (void)argv, (void)command;
    if (argc > 0 || isatty(STDIN_FILENO))
        return fail(err, ERR_USAGE, "muster starts its agents itself (muster map --hosts)");
    return agent_run(&app->log, app->self_path, err);
}

static const struct opt agent_opts[] = {{OPT_END}};

const struct cmd cmd_agent = {
    .name = "agent",
    .args = "",
    .summary = "serves a muster on another machine through its standard streams",
    .opts = agent_opts,
    .is_hidden = true,
    .run = agent_main,
};
