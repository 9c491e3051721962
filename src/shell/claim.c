/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/claim.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "proc/proctree.h"
#include "store/lock.h"

#include <xxhash.h>

enum {
    DEAD_TRIES_MAX = 200,
    DEAD_PAUSE_NS = 10000000,
    CLAIM_BACKLOG = 64 /* how many may ask for the holder within a second */
};

/* False: the folder does not exist; that is reported later. */
static bool claim_name(const char *path, struct sockaddr_un *name, socklen_t *len)
{
    cleanup_free char *given = output_base_new(path), *base = NULL;
    if (output_follow(given, &base, NULL) != 0)
        return false;
    cleanup_free char *folder = path_dirname(base);
    struct stat st;
    if (stat(folder, &st) != 0)
        return false;
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const char *last = path_basename(base);
    int n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "muster-output-%lx-%lx-%016lx",
                     (unsigned long)st.st_dev, (unsigned long)st.st_ino,
                     (unsigned long)XXH3_64bits(last, strlen(last)));
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return true;
}

/* Finds the process that listens at the name. False: there is none any more. */
static bool holder_ask(const struct sockaddr_un *name, socklen_t len, struct ucred *holder)
{
    socklen_t size = sizeof(*holder);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *holder = (struct ucred){0};
    if (fd < 0 || connect(fd, (const struct sockaddr *)name, len) != 0)
        return errno != ECONNREFUSED;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, holder, &size) == 0;
}

static int claim_taken(const char *path, const struct ucred *holder, struct err *err)
{
    char owner[80];
    owner_name(owner, holder->uid);
    if (holder->pid <= 0)
        return fail(err, ERR_UNAVAILABLE,
                    "another muster writes to %s; wait for it, or name another output", path);
    return fail(err, ERR_UNAVAILABLE,
                "process %d of %s is at work on the output %s; wait for it, or name another output",
                (int)holder->pid, owner, path);
}

/*
 * True if another try may succeed. A muster that was killed while it started a guard leaves its descriptors to the
 * new process for a moment; a holder that has just bound the name listens a moment later; a holder that many have
 * asked answers within a second.
 */
static bool may_change(const struct ucred *holder, bool is_held, unsigned n_tries)
{
    bool is_known = is_held && holder->pid > 0;
    bool is_dead = is_known && kill(holder->pid, 0) != 0 && errno == ESRCH;
    if ((is_known && !is_dead) || n_tries >= DEAD_TRIES_MAX)
        return false;
    nanosleep(&(struct timespec){.tv_nsec = DEAD_PAUSE_NS}, NULL);
    return true;
}

/* Has the holder the run that this process is a job or a worker of? Slurm or sshd may have started this process here. */
static bool has_our_run(pid_t pid)
{
    const char *dir = getenv("MUSTER_RUN_DIR");
    struct run_holder holder;
    return dir && run_is_locked(dir, &holder) && holder.is_here && holder.pid == pid;
}

/*
 * Is the holder this process or an ancestor of it? A graph claims what its job leaves, and the job may be a muster
 * map.
 */
static bool is_our_own(pid_t holder)
{
    struct proc_stat stat;
    if (holder > 0 && has_our_run(holder))
        return true;
    for (pid_t pid = getpid(); pid > 1 && proc_stat_read(pid, &stat); pid = stat.parent)
        if (pid == holder)
            return true;
    return false;
}

int output_claim_add(struct output_claim *claim, const char *path, struct err *err)
{
    struct sockaddr_un name;
    socklen_t len;
    struct ucred holder;
    if (output_is_direct(path) || !claim_name(path, &name, &len))
        return 0;
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return 0; /* the same: such names are forbidden */
    if (fd < 0)
        return fail_errno(err, "claim the output %s", path);
    for (unsigned n_tries = 0; bind(fd, (const struct sockaddr *)&name, len) != 0; n_tries++) {
        if (errno == EACCES || errno == EPERM)
            return 0; /* some sandboxes forbid such names: then two runs at once are found only at the end */
        if (errno != EADDRINUSE)
            return fail_errno(err, "claim the output %s", path);
        bool is_held = holder_ask(&name, len, &holder);
        if (is_held && is_our_own(holder.pid))
            return 0; /* two equal outputs of one command are refused elsewhere */
        if (!may_change(&holder, is_held, n_tries))
            return claim_taken(path, &holder, err);
    }
    if (listen(fd, CLAIM_BACKLOG) != 0)
        return fail_errno(err, "claim the output %s", path);
    claim->fds = xrealloc(claim->fds, (claim->n_fds + 1) * sizeof(*claim->fds));
    claim->fds[claim->n_fds++] = steal_fd(&fd);
    return 0;
}

/* The kernel reports the process that called listen() last. */
void output_claim_renew(const struct output_claim *claim)
{
    for (size_t i = 0; i < claim->n_fds; i++)
        if (listen(claim->fds[i], CLAIM_BACKLOG) != 0)
            errno = 0; /* the claim is still held, under the pid of the process that has ended */
}

void output_claim_answer(const struct output_claim *claim)
{
    for (size_t i = 0; i < claim->n_fds; i++)
        for (int fd; (fd = accept4(claim->fds[i], NULL, NULL, SOCK_CLOEXEC)) >= 0;)
            close(fd);
}

void output_claim_release(struct output_claim *claim)
{
    for (size_t i = 0; i < claim->n_fds; i++)
        close(claim->fds[i]);
    free(claim->fds);
    *claim = (struct output_claim)OUTPUT_CLAIM_INIT;
}
