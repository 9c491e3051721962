/* SPDX-License-Identifier: Apache-2.0
 *
 * The node of a run, and the helpers that end processes that workers have left.
 */
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/local.h"
#include "proc/front.h"
#include "proc/guard.h"
#include "proc/orphans.h"
#include "shell/hosts.h"
#include "shell/shell_impl.h"

enum {
    SCRATCH_BYTES = 256 * 1024
};

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

int shell_node_open(struct shell *shell, struct err *err)
{
    if (shell->node)
        return 0;
    if (!shell->scratch.at)
        shell->scratch = (struct str){shell->own_scratch = xmalloc(SCRATCH_BYTES), SCRATCH_BYTES};
    int rc = reaper_open(&shell->reaper, err);
    if (rc == 0)
        shell->node = shell->machines.local =
            local_open(&(struct local_opts){.loop = &shell->loop,
                                            .reaper = shell->reaper,
                                            .guard_path = shell->guard_path,
                                            .scratch = (char *)(uintptr_t)shell->scratch.at,
                                            .scratch_bytes = shell->scratch.len});
    return rc;
}

int shell_begin(struct shell *shell, const struct allocation_wish *wish,
                struct allocation *allocation, struct err *err)
{
    int rc = shell_guard_find(shell, err);
    if (rc == 0)
        rc = shell_front_begin(shell, err);
    if (rc == 0)
        rc = shell_loop_open(shell, err);
    if (rc == 0)
        rc = shell_seats_take(shell, wish, allocation, err);
    if (rc == 0)
        rc = shell_node_open(shell, err);
    if (rc)
        return rc;
    shell_files_allow(shell, allocation->n_seats);
    return shell_loop_begin(shell, err);
}

/* Leaves the other hosts. The loop still turns for that, but the verb is not called, since it may be half closed. */
static void hosts_end(struct shell *shell)
{
    shell->phase.is_verb_away = true;
    if (shell->machines.hosts)
        hosts_leave(shell->machines.hosts);
}

/*
 * If guards were killed, their workers may all have ended before the processes that these leave are
 * found. Then they are ended here.
 */
void shell_close(struct shell *shell)
{
    if (shell->machines.local && !shell->phase.is_reaped)
        shell_reap(shell);
    else
        hosts_end(shell);
    node_close(shell->node);
    shell_loop_close(shell);
    store_close(shell->store);
    keeper_dismiss(&shell->keeper);
    if (shell->reaper)
        reaper_close(shell->reaper);
    front_listen(shell->signals.front_fd, false);
    fd_close(&shell->signals.front_fd);
    free(shell->guard_path);
    shell->guard_path = NULL;
    hosts_free(steal_ptr(&shell->machines.hosts));
    shell_orders_release(shell);
}

enum {
    ORPHANS_WAIT_MS = 60000,
    ORPHANS_LOOK_MS = 50,
    KEEPER_PATIENCE_MS = 30000, /* added to the grace period of the guards */
    REAP_MS = 5000
};

int shell_orphans_await(struct shell *shell, struct err *err)
{
    cleanup_free char *entry = xasprintf("MUSTER_RUN_DIR=%s", shell->run_dir);
    uint64_t deadline_ms = clock_now_ms() + ORPHANS_WAIT_MS;
    bool said = false;
    pid_t pid = 0;
    while (orphans_end(entry, &pid) > 0) {
        if (clock_now_ms() > deadline_ms)
            return fail(err, ERR_UNAVAILABLE,
                        "process %d of this run's last session is still there; end it, then resume",
                        pid);
        if (!said)
            log_add(shell->log, LOG_WARN, shell->verb->name,
                    "waiting for the last session's processes to end");
        said = true;
        struct timespec pause = {.tv_nsec = ORPHANS_LOOK_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
    return 0;
}

static void keeper_note(struct shell *shell, int rc, const struct err *why)
{
    if (rc == 0)
        reaper_spare(shell->reaper, shell->keeper.pid);
    else
        log_add(shell->log, LOG_WARN, shell->verb->name,
                "if muster and a guard are killed together: %s", why->text);
}

/* The locks that the keeper is to hold; free() them. */
static int *locks_held_new(const struct allocation *allocation, size_t *n_held)
{
    int *held = xcalloc(2 * allocation->n_chosen + 2, sizeof(*held));
    *n_held = device_locks_fds(&allocation->locks, allocation->chosen, allocation->n_chosen, held);
    return held;
}

void shell_keeper_start(struct shell *shell, const struct allocation *allocation, const char *entry,
                        uint64_t grace_ms)
{
    size_t n_held;
    cleanup_free int *held = locks_held_new(allocation, &n_held);
    struct err err = {0};
    int rc = keeper_start(&shell->keeper, entry, grace_ms + KEEPER_PATIENCE_MS, held, n_held, &err);
    keeper_note(shell, rc, &err);
}

void shell_keeper_renew(struct shell *shell, const struct allocation *allocation)
{
    size_t n_held;
    cleanup_free int *held = locks_held_new(allocation, &n_held);
    struct err err = {0};
    int rc = keeper_renew(&shell->keeper, held, n_held, &err);
    keeper_note(shell, rc, &err);
}

void shell_reap(struct shell *shell)
{
    hosts_end(shell);
    if (shell->machines.local)
        local_guards_end(shell->machines.local);
    keeper_dismiss(&shell->keeper); /* first: while a child lives the reaper reads all of /proc */
    size_t left = reaper_finish(shell->reaper, REAP_MS);
    shell->phase.is_reaped = true; /* shell_close() does not wait again for what is left */
    if (left > 0)
        log_add(shell->log, LOG_ERROR, shell->verb->name,
                "%zu processes of this run could not be ended", left);
}
