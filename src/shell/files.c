/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "shell/shell_impl.h"

/* The needs of a run with one worker, with some reserve. */
enum {
    FILES_LEAST = 64
};

int shell_files_check(struct err *err)
{
    uint64_t allowed = open_files_allow(FILES_LEAST);
    if (allowed >= FILES_LEAST)
        return 0;
    return fail(err, ERR_UNAVAILABLE,
                "only %lu files may be open at a time, and a run needs %d; raise the limit (ulimit "
                "-n %d, in a shell whose ulimit -Hn allows that)",
                allowed, FILES_LEAST, FILES_LEAST);
}

/*
 * Each worker takes a dozen descriptors. The usual limit of 1024 is raised as far as they need, and not to
 * the maximum, because some programs close every descriptor that their limit allows.
 */
void shell_files_allow(struct shell *shell, uint32_t n_workers)
{
    enum {
        FILES_OF_A_WORKER = 12,
        FILES_OF_OURS = 128
    };
    uint64_t wanted = FILES_OF_OURS + FILES_OF_A_WORKER * n_workers;
    uint64_t allowed = open_files_allow(wanted);
    if (allowed < wanted)
        log_add(
            shell->log, LOG_WARN, shell->verb->name,
            "%u workers need about %lu open files, and %lu are allowed; some may not be started "
            "(ulimit -Hn)",
            n_workers, wanted, allowed);
}
