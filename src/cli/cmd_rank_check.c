/* SPDX-License-Identifier: Apache-2.0
 *
 * muster rank-check is a rank that measures its links to the other ranks. muster doctor --ranks starts it; users
 * never type it.
 */
#include "cli/verbs.h"
#include "mesh/mesh.h"

struct rank_check_request {
    bool is_quiet;
};

static int rank_check_main(struct app *app, void *request, int argc, char **argv, char **command,
                           struct err *err)
{
    const struct rank_check_request *typed = request;
    (void)app, (void)argv, (void)command;
    if (argc > 0)
        return fail(err, ERR_USAGE, "muster starts it itself (muster doctor --ranks)");
    return mesh_run(typed->is_quiet, err);
}

static const struct opt rank_check_opts[] = {
    {OPT_FLAG, 'q', "quiet", NULL, "do not announce a long measurement",
     offsetof(struct rank_check_request, is_quiet)},
    {OPT_END},
};

const struct cmd cmd_rank_check = {
    .name = "rank-check",
    .args = "",
    .summary = "a rank that measures its links to the others",
    .opts = rank_check_opts,
    .is_hidden = true,
    .request_size = sizeof(struct rank_check_request),
    .run = rank_check_main,
};
