/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs about runs (ls, status, logs, stop, results, …) share: the option that says where
 * runs live, and the operand that says which one.
 */
#pragma once

#include "opt/cmd.h"
#include "opt/say.h"

/* For a request with a field `const char *runs_dir`. */
#define RUNS_DIR_OPT(request)                                                                     \
    {                                                                                             \
        .kind = OPT_PATH, .name = "runs-dir", .arg = "DIR",                                       \
        .help = "where the runs are (default muster-runs)", .offset = offsetof(request, runs_dir) \
    }

/* The folder of the run that argv[0] names, or of the latest; a new string. ERR_USAGE for more than
 * one operand. */
MUST_CHECK int run_arg_find(const char *runs_dir, int argc, char **argv, char **dir_out,
                            struct err *err);
/* Between two looks at something that cannot be waited for. */
void pause_ms(unsigned ms);
