/* SPDX-License-Identifier: Apache-2.0
 *
 * muster agent: the far end of --hosts. Muster starts it on other machines; users never type it.
 */
#include <unistd.h>

#include "agent/agent.h"
#include "agent/kept.h"
#include "cli/verbs.h"

static int agent_main(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    const struct agent_request *r = request;
    (void)argv, (void)command;
    if (r->keep)
        return kept_install(app->self_path, r->keep, err);
    if (argc > 0 || isatty(STDIN_FILENO))
        return fail(err, ERR_USAGE, "muster starts its agents itself (muster map --hosts)");
    return agent_run(&app->log, app->self_path, r, err);
}

static const struct opt agent_opts[] = {
    {OPT_TEXT, 0, "keep", "NAME",
     "take the folder of this program into the folder above it, under the name that is its hash",
     offsetof(struct agent_request, keep)},
    {OPT_TEXT, 0, "folder", "FOLDER", "where workers start, if the folder of the head is not here",
     offsetof(struct agent_request, folder)},
    {OPT_END},
};

const struct cmd cmd_agent = {
    .name = "agent",
    .args = "",
    .summary = "serves a muster on another machine through its standard streams",
    .opts = agent_opts,
    .is_hidden = true,
    .request_size = sizeof(struct agent_request),
    .run = agent_main,
};
