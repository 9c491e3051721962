/* SPDX-License-Identifier: Apache-2.0
 *
 * muster-guard: stands between muster and one worker so that no process is left running, whichever
 * of them dies. It is the session leader and subreaper of all descendants of the worker. It ends
 * them (TERM, grace period, KILL until none is left) when muster orders it or is gone, and ends the
 * processes that a worker leaves behind. After the start it allocates memory only to read /proc.
 *
 * All signals stay blocked: SIGCHLD and the polite ones arrive through a signalfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proc/guard_start.h"
#include "proc/guard_wire.h"
#include "proc/proctree.h"

enum {
    LEFTOVER_GRACE_MS = 2000, /* for what a worker that has ended leaves behind */
    STUCK_AFTER_MS = 5000,    /* between the first KILL and the report that it does not help */
    ROUND_FIRST_MS = 2,       /* between two rounds of KILL: doubled each time … */
    ROUND_LAST_MS = 100,      /* … up to this */
    ROUND_STUCK_MS = 1000,
};

enum phase {
    PHASE_RUNNING,
    PHASE_ASKED,
    PHASE_FORCED
};

struct guard_state {
    pid_t worker;
    bool worker_alive, children_alive, muster_alive, stuck;
    enum phase phase;
    uint64_t grace_ms;
    uint64_t deadline_ms; /* ASKED: when to KILL; FORCED: when to report STUCK */
    uint64_t round_at_ms, round_ms;
    int signal_fd, muster_fd; /* muster_fd: a pidfd of muster, or -1 */
    int ended;                /* descendants reaped after they were asked to go */
    int64_t cpu_ms, rss_peak_bytes;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* One write for each message, far below PIPE_BUF. An error is ignored: muster no longer reads then. */
static void report(const struct guard_report *message)
{
    while (write(GUARD_FD_REPORT, message, sizeof(*message)) < 0 && errno == EINTR)
        ;
}

static void report_value(const struct guard_state *guard, enum guard_report_kind kind, int value)
{
    report(&(struct guard_report){.kind = (int32_t)kind,
                                  .value = value,
                                  .cpu_ms = guard->cpu_ms,
                                  .rss_peak_bytes = guard->rss_peak_bytes});
}

static void report_exited(const struct guard_state *guard, int status)
{
    report(&(struct guard_report){.kind = GUARD_EXITED,
                                  .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                                  .exit_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                                  .cpu_ms = guard->cpu_ms,
                                  .rss_peak_bytes = guard->rss_peak_bytes});
}

/*
 * Signals the worker's process group at once, then every other descendant, whatever its group or
 * session. Returns the pid of one that is alive, 0 if none was seen.
 */
static pid_t signal_all(const struct guard_state *guard, int signal, bool wake)
{
    if (guard->worker_alive) {
        kill(-guard->worker, signal);
        if (wake)
            kill(-guard->worker, SIGCONT);
    }
    pid_t alive = 0;
    struct proctree tree = PROCTREE_INIT;
    if (proctree_read(&tree)) {
        proctree_keep_below(&tree, getpid());
        for (size_t i = 0; i < tree.n; i++) {
            if (proc_is_dead(&tree.at[i]))
                continue;
            alive = tree.at[i].pid;
            /* Signalled with the group already; a second TERM makes some programs skip their cleanup. */
            if (guard->worker_alive && tree.at[i].group == guard->worker)
                continue;
            proc_signal(&tree.at[i], signal);
            if (wake)
                proc_signal(&tree.at[i], SIGCONT);
        }
    }
    proctree_release(&tree);
    return alive;
}

static void force(struct guard_state *guard, uint64_t now)
{
    if (guard->phase == PHASE_FORCED)
        return;
    guard->phase = PHASE_FORCED;
    guard->deadline_ms = now + STUCK_AFTER_MS;
    guard->round_at_ms = now;
    guard->round_ms = ROUND_FIRST_MS;
}

static void ask(struct guard_state *guard, uint64_t grace_ms, uint64_t now)
{
    if (guard->phase == PHASE_RUNNING) {
        guard->phase = PHASE_ASKED;
        guard->deadline_ms = now + grace_ms;
        signal_all(guard, SIGTERM, true);
    } else if (guard->phase == PHASE_ASKED && guard->deadline_ms > now + grace_ms) {
        guard->deadline_ms = now + grace_ms;
    }
}

/* One of the rounds of KILL: the children of a process that dies become ours; the next round sees
 * them. */
static void kill_round(struct guard_state *guard, uint64_t now)
{
    pid_t alive = signal_all(guard, SIGKILL, false);
    if (!guard->stuck && now >= guard->deadline_ms && alive > 0) {
        guard->stuck = true;
        report_value(guard, GUARD_STUCK, alive);
    }
    guard->round_ms = guard->stuck ? ROUND_STUCK_MS : guard->round_ms;
    guard->round_at_ms = now + guard->round_ms;
    guard->round_ms = 2 * guard->round_ms < ROUND_LAST_MS ? 2 * guard->round_ms : ROUND_LAST_MS;
}

static void account(struct guard_state *guard, const struct rusage *usage)
{
    guard->cpu_ms += (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000 +
                     (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
    if (usage->ru_maxrss * 1024 > guard->rss_peak_bytes)
        guard->rss_peak_bytes = usage->ru_maxrss * 1024;
}

/* Reaps all children that have ended. A subreaper without children has no descendants either. */
static void reap(struct guard_state *guard)
{
    struct rusage usage;
    int status;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0) {
        account(guard, &usage);
        guard->round_at_ms = 0; /* the children of `pid` may be ours now */
        if (pid == guard->worker) {
            guard->worker_alive = false;
            report_exited(guard, status);
        } else if (guard->phase != PHASE_RUNNING) {
            guard->ended++;
        }
    }
    guard->children_alive = pid == 0;
}

static void muster_is_gone(struct guard_state *guard, uint64_t now)
{
    guard->muster_alive = false;
    ask(guard, guard->grace_ms, now);
}

static void take_orders(struct guard_state *guard, uint64_t now)
{
    struct guard_order order;
    ssize_t got;
    while ((got = recv(GUARD_FD_CONTROL, &order, sizeof(order), MSG_DONTWAIT)) == sizeof(order)) {
        if (order.kind == GUARD_ORDER_TERMINATE)
            ask(guard, guard->grace_ms, now);
        else if (order.kind == GUARD_ORDER_KILL)
            force(guard, now);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        muster_is_gone(guard, now);
}

/* TERM, INT or HUP to the guard itself (systemd signals every process of a unit) means TERMINATE. */
static void take_signals(struct guard_state *guard, uint64_t now)
{
    struct signalfd_siginfo info;
    while (read(guard->signal_fd, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            ask(guard, guard->grace_ms, now);
}

static int timeout_ms(const struct guard_state *guard, uint64_t now)
{
    if (guard->phase == PHASE_RUNNING)
        return -1;
    uint64_t due = guard->phase == PHASE_ASKED ? guard->deadline_ms : guard->round_at_ms;
    if (due <= now)
        return 0;
    return due - now > 60000 ? 60000 : (int)(due - now);
}

static void wait_for_news(struct guard_state *guard)
{
    struct pollfd fds[] = {
        {.fd = guard->signal_fd, .events = POLLIN},
        {.fd = guard->muster_alive ? GUARD_FD_CONTROL : -1, .events = POLLIN},
        {.fd = guard->muster_alive ? guard->muster_fd : -1, .events = POLLIN},
    };
    if (poll(fds, countof(fds), timeout_ms(guard, now_ms())) <= 0)
        return;
    uint64_t now = now_ms();
    if (fds[0].revents)
        take_signals(guard, now);
    if (fds[1].revents)
        take_orders(guard, now);
    if (fds[2].revents)
        muster_is_gone(guard, now);
}

static void act_on_time(struct guard_state *guard, uint64_t now)
{
    if (!guard->worker_alive)
        ask(guard, guard->grace_ms < LEFTOVER_GRACE_MS ? guard->grace_ms : LEFTOVER_GRACE_MS, now);
    if (guard->phase == PHASE_ASKED && now >= guard->deadline_ms)
        force(guard, now);
    if (guard->phase == PHASE_FORCED && now >= guard->round_at_ms)
        kill_round(guard, now);
}

static int supervise(struct guard_state *guard)
{
    for (;;) {
        reap(guard);
        if (!guard->children_alive) {
            report_value(guard, GUARD_GONE, guard->ended);
            return 0;
        }
        act_on_time(guard, now_ms());
        /* A process that survives KILL hangs in the kernel; there is no muster left to report it to. */
        if (guard->stuck && !guard->muster_alive)
            return 1;
        wait_for_news(guard);
    }
}

/*
 * Closes all descriptors but the six agreed ones and those that are held for muster. The latter are
 * locks, which last as long as the guard. None from GUARD_FD_CONTROL on reaches the worker: it must
 * not be able to keep a lock.
 */
static void descriptors_settle(int n_held)
{
    int end = GUARD_FD_END + n_held;
    if (syscall(SYS_close_range, end, ~0u, 0) != 0)
        for (int fd = end; fd < 1024; fd++)
            close(fd);
    for (int fd = GUARD_FD_CONTROL; fd < end; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    /* Without a channel, occupy its number: a descriptor opened there now would be closed later. */
    if (fcntl(GUARD_FD_CHANNEL, F_GETFD) < 0)
        dup3(GUARD_FD_CONTROL, GUARD_FD_CHANNEL, O_CLOEXEC);
}

/* Closes our copies of the worker's streams: their readers must get end of file without the guard. */
static void descriptors_let_go(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= GUARD_FD_CHANNEL; fd++)
        if (null < 0 || fd == GUARD_FD_CHANNEL || dup3(null, fd, O_CLOEXEC) < 0)
            close(fd);
    if (null >= 0)
        close(null);
}

static void signals_settle(struct guard_state *guard)
{
    sigset_t all, wanted;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* A signal that muster ignores (such as SIGPIPE) would stay ignored in the worker. */
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGHUP);
    guard->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Watches muster by a pidfd as well: the control stream does not end with muster while a forked copy
 * of muster holds it open. */
static void muster_watch(struct guard_state *guard, pid_t muster)
{
    guard->muster_fd = (int)syscall(SYS_pidfd_open, muster, 0);
    if (getppid() != muster)
        guard->muster_alive = false;
}

static int usage(void)
{
    static const char text[] = "muster-guard: started by muster, not by hand (see muster(1))\n";
    return write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? 3 : 2;
}

int main(int argc, char **argv)
{
    if (argc <= GUARD_ARG_WORKER || fcntl(GUARD_FD_REPORT, F_GETFD) < 0)
        return usage();
    static struct guard_state guard = {.muster_alive = true, .muster_fd = -1};
    descriptors_settle((int)strtol(argv[GUARD_ARG_HELD], NULL, 10));
    signals_settle(&guard);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    muster_watch(&guard, (pid_t)strtol(argv[GUARD_ARG_MUSTER_PID], NULL, 10));
    if (!guard.muster_alive)
        return 1;
    guard.grace_ms = strtoull(argv[GUARD_ARG_GRACE_MS], NULL, 10);

    struct start start = {.argv = argv + GUARD_ARG_WORKER,
                          .envp = environ,
                          .muster_pid = argv[GUARD_ARG_MUSTER_PID],
                          .cwd = argv[GUARD_ARG_CWD],
                          .cpus = argv[GUARD_ARG_CPUS]};
    enum guard_stage stage;
    int sys;
    guard.worker = worker_start(&start, &stage, &sys);
    descriptors_let_go();
    if (guard.worker < 0) {
        report(&(struct guard_report){
            .kind = GUARD_EXEC_FAILED, .stage = (int32_t)stage, .value = sys});
        return 0;
    }
    guard.worker_alive = guard.children_alive = true;
    report_value(&guard, GUARD_STARTED, guard.worker);
    return supervise(&guard);
}
