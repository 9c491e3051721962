/* SPDX-License-Identifier: Apache-2.0
 *
 * The node of a run: this machine, and what looks after its processes.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "node/local.h"
#include "proc/front.h"
#include "proc/guard.h"
#include "shell/shell.h"

int shell_guard_find(struct shell *shell, struct err *err)
{
    if (!path_exists("/proc/self/exe"))
        return fail(err, ERR_UNAVAILABLE,
                    "/proc is not mounted; muster finds its own programs and the processes of its "
                    "workers there (mount -t proc proc /proc)");
    shell->guard_path = program_find_beside(shell->self_path, "muster-guard");
    if (!shell->guard_path)
        return fail(err, ERR_UNAVAILABLE, "muster-guard is not beside %s; install both",
                    shell->self_path);
    return 0;
}

int shell_node_open(struct shell *shell, struct str scratch, struct err *err)
{
    int rc = reaper_open(&shell->reaper, err);
    if (rc == 0)
        shell->node = local_open(&(struct local_opts){.loop = &shell->loop,
                                                      .reaper = shell->reaper,
                                                      .guard_path = shell->guard_path,
                                                      .scratch = (char *)(uintptr_t)scratch.at,
                                                      .scratch_bytes = scratch.len});
    return rc;
}

int shell_begin(struct shell *shell, const struct allocation_wish *wish,
                struct allocation *allocation, struct str scratch, struct err *err)
{
    const struct allocation_holder holder = {shell->self_path, shell->run_id, shell->log};
    int rc = shell_guard_find(shell, err);
    if (rc == 0)
        rc = allocation_take(allocation, wish, &holder, err);
    if (rc == 0)
        rc = front_begin(&shell->signals.front_fd, err);
    if (rc == 0)
        rc = shell_loop_open(shell, err);
    if (rc == 0)
        rc = shell_node_open(shell, scratch, err);
    if (rc)
        return rc;
    shell_files_allow(shell, allocation->n_seats);
    return shell_loop_begin(shell, err);
}

void shell_close(struct shell *shell)
{
    node_close(shell->node);
    shell_loop_close(shell);
    store_close(shell->store);
    keeper_dismiss(&shell->keeper);
    if (shell->reaper)
        reaper_close(shell->reaper);
    fd_close(&shell->signals.front_fd);
    free(shell->guard_path);
    shell->guard_path = NULL;
}
