/* SPDX-License-Identifier: Apache-2.0
 *
 * muster-guard: stands between muster and one worker so that no process is left running, whichever
 * of them dies. It is the session leader and subreaper of all descendants of the worker. It ends
 * them (TERM or another signal, grace period, KILL until none is left) when muster orders it or is
 * gone, and ends the processes that a worker leaves behind. When none is left muster may give it
 * another worker: then a worker costs one start of a program, not two. While a worker runs it
 * allocates memory only to read /proc.
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
    LEFTOVER_GRACE_MS = 2000, /* for the processes that an ended worker leaves behind */
    STUCK_AFTER_MS = 5000,    /* between the first KILL and the report that it does not help */
    ROUND_FIRST_MS = 2,       /* between two rounds of KILL: doubled each time … */
    ROUND_LAST_MS = 100,      /* … up to this */
    ROUND_STUCK_MS = 1000,
    NEWS_DELAY_MS = 3, /* a start is reported so much later, to save a write if the worker ends
                        * before */
    REPORTS_MAX = 4
};

enum phase {
    PHASE_IDLE, /* no worker, and no descendants */
    PHASE_RUNNING,
    PHASE_ASKED,
    PHASE_FORCED
};

struct guard_state {
    pid_t worker;
    bool worker_alive, children_alive, muster_alive, stuck;
    bool is_leaving; /* the guard ends when it is idle */
    const char *muster_pid;
    int held[GUARD_HELD_MAX]; /* open until the worker is gone */
    int n_held;
    struct guard_report reports[REPORTS_MAX]; /* not written yet */
    size_t n_reports;
    enum phase phase;
    int asked_by; /* ASKED: the signal */
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

/*
 * Writes all reports in one write, far below PIPE_BUF. If that fails the guard ends, and its end
 * tells muster the rest.
 */
static void reports_write(struct guard_state *guard)
{
    size_t len = guard->n_reports * sizeof(*guard->reports);
    ssize_t put = (ssize_t)len;
    while (len > 0 && (put = write(GUARD_FD_REPORT, guard->reports, len)) < 0 && errno == EINTR)
        ;
    guard->is_leaving = guard->is_leaving || put != (ssize_t)len;
    guard->n_reports = 0;
}

static void report(struct guard_state *guard, const struct guard_report *message)
{
    if (guard->n_reports == REPORTS_MAX)
        reports_write(guard);
    guard->reports[guard->n_reports++] = *message;
}

static void report_value(struct guard_state *guard, enum guard_report_kind kind, int value)
{
    report(guard, &(struct guard_report){.kind = (int32_t)kind,
                                         .value = value,
                                         .cpu_ms = guard->cpu_ms,
                                         .rss_peak_bytes = guard->rss_peak_bytes});
}

static void report_exited(struct guard_state *guard, int status)
{
    report(guard, &(struct guard_report){.kind = GUARD_EXITED,
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
            /*
             * Signalled with the group already; a second TERM makes some programs skip their
             * cleanup.
             */
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
    if (guard->phase == PHASE_FORCED || guard->phase == PHASE_IDLE)
        return; /* idle: the order was for a worker that is gone */
    guard->phase = PHASE_FORCED;
    guard->deadline_ms = now + STUCK_AFTER_MS;
    guard->round_at_ms = now;
    guard->round_ms = ROUND_FIRST_MS;
}

/*
 * Asks the worker and its descendants to end. Processes that a shell has put into the background
 * ignore INT and QUIT, so those that outlive the worker may be asked once more, by TERM.
 */
static void ask(struct guard_state *guard, int signal, uint64_t grace_ms, uint64_t now)
{
    bool is_first = guard->phase == PHASE_RUNNING, is_asked = guard->phase == PHASE_ASKED;
    bool is_rest =
        is_asked && !guard->worker_alive && signal == SIGTERM && guard->asked_by != SIGTERM;
    if (is_first || (is_asked && guard->deadline_ms > now + grace_ms))
        guard->deadline_ms = now + grace_ms;
    if (!is_first && !is_rest)
        return;
    guard->phase = PHASE_ASKED;
    guard->asked_by = signal;
    signal_all(guard, signal, true);
}

/*
 * One round of KILL. The children of a process that dies become the guard's, and the next round
 * finds them.
 */
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
    ask(guard, SIGTERM, guard->grace_ms, now);
}

/* ---- the start of a worker ---- */

struct order_message {
    struct guard_order order;
    char texts[GUARD_TEXTS_MAX];
};

static void fds_close(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* The worker is gone with all its descendants, or could not be started. */
static void idle_begin(struct guard_state *guard)
{
    fds_close(guard->held, guard->n_held);
    guard->n_held = 0;
    guard->phase = PHASE_IDLE;
    guard->stuck = false;
    guard->cpu_ms = guard->rss_peak_bytes = 0;
    guard->ended = 0;
}

static void start_failed(struct guard_state *guard, enum guard_stage stage, int sys)
{
    report(guard, &(struct guard_report){
                      .kind = GUARD_EXEC_FAILED, .stage = (int32_t)stage, .value = sys});
    idle_begin(guard);
}

/* Returns the texts of an order as arrays in one block of memory, or NULL with errno. */
static char **texts_new(const struct order_message *message, int file, const char **cwd)
{
    const struct guard_order *order = &message->order;
    size_t n_pointers = (size_t)order->n_argv + order->n_envp + 2;
    char **all = malloc(n_pointers * sizeof(*all) + order->n_text_bytes);
    if (!all)
        return NULL;
    char *text = (char *)(all + n_pointers);
    if (!order->has_file)
        memcpy(text, message->texts, order->n_text_bytes);
    else if (pread(file, text, order->n_text_bytes, 0) != (ssize_t)order->n_text_bytes) {
        free(all);
        return NULL;
    }
    *cwd = text;
    text += strlen(text) + 1;
    for (size_t i = 0; i < n_pointers; i++) {
        bool is_end = i == order->n_argv || i == n_pointers - 1;
        all[i] = is_end ? NULL : text;
        text += is_end ? 0 : strlen(text) + 1;
    }
    return all;
}

static void worker_begin(struct guard_state *guard, const struct order_message *message, int file,
                         struct start *start)
{
    enum guard_stage stage = STAGE_FORK;
    char **texts = texts_new(message, file, &start->cwd);
    int sys = errno;
    if (texts) {
        start->argv = texts;
        start->envp = texts + message->order.n_argv + 1;
        guard->worker = worker_start(start, &stage, &sys);
    }
    if (!texts || guard->worker < 0) {
        start_failed(guard, stage, sys);
    } else {
        guard->phase = PHASE_RUNNING;
        guard->worker_alive = guard->children_alive = true;
        report_value(guard, GUARD_STARTED, guard->worker);
    }
    free(texts);
}

/*
 * `fds`: the descriptors that came with the order, in the sequence that struct guard_order gives.
 */
static void start_order(struct guard_state *guard, const struct order_message *message,
                        const int *fds, int n_fds)
{
    const struct guard_order *order = &message->order;
    struct start start = {.muster_pid = guard->muster_pid,
                          .cpus = order->is_pinned ? &order->cpus : NULL};
    int n_sent = order->has_file, at = n_sent;
    for (int i = 0; i < GUARD_STREAMS; i++)
        n_sent += order->streams >> i & 1;
    guard->grace_ms = order->grace_ms;
    guard->is_leaving = order->is_last != 0;
    for (int i = 0; i < GUARD_STREAMS; i++)
        start.fds[i] = order->streams >> i & 1 && at < n_fds ? fds[at++] : -1;
    for (; at < n_fds; at++)
        guard->held[guard->n_held++] = fds[at];
    if (n_fds < n_sent)
        start_failed(guard, STAGE_FDS, EMFILE); /* the kernel could not give us all of them */
    else
        worker_begin(guard, message, fds[0], &start);
    /*
     * The guard closes its copies, because a reader of the worker's streams must get the end of
     * file while the guard lives.
     */
    fds_close(fds, MIN(n_fds, n_sent));
}

/* ---- orders and signals ---- */

/* Returns as recvmsg(2). */
static ssize_t order_receive(struct order_message *message, int *fds, int *n_fds)
{
    union {
        struct cmsghdr header; /* aligns the bytes */
        char bytes[CMSG_SPACE(GUARD_SENT_MAX * sizeof(int))];
    } control;
    struct iovec part = {message, sizeof(*message)};
    struct msghdr received = {.msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(GUARD_FD_CONTROL, &received, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&received) : NULL;
    *n_fds = 0;
    if (header && header->cmsg_type == SCM_RIGHTS) {
        *n_fds = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(*fds));
        memcpy(fds, CMSG_DATA(header), (size_t)*n_fds * sizeof(*fds));
    }
    return got;
}

static void take_orders(struct guard_state *guard, uint64_t now)
{
    static struct order_message message;
    int fds[GUARD_SENT_MAX], n_fds;
    ssize_t got;
    while ((got = order_receive(&message, fds, &n_fds)) > 0) {
        if (message.order.kind == GUARD_ORDER_TERMINATE)
            ask(guard, message.order.signal, guard->grace_ms, now);
        else if (message.order.kind == GUARD_ORDER_KILL)
            force(guard, now);
        else if (guard->phase == PHASE_IDLE && !guard->is_leaving)
            start_order(guard, &message, fds, n_fds);
        else
            fds_close(fds, n_fds);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        muster_is_gone(guard, now);
}

/*
 * TERM, INT or HUP to the guard itself (systemd signals every process of a unit) means TERMINATE,
 * and that no other worker is started.
 */
static void take_signals(struct guard_state *guard, uint64_t now)
{
    struct signalfd_siginfo infos[4];
    ssize_t got;
    do {
        got = read(guard->signal_fd, infos, sizeof(infos));
        for (ssize_t i = 0; i < got / (ssize_t)sizeof(*infos); i++) {
            if (infos[i].ssi_signo == SIGCHLD)
                continue;
            guard->is_leaving = true;
            ask(guard, SIGTERM, guard->grace_ms, now);
        }
    } while (got == sizeof(infos));
}

static int timeout_ms(const struct guard_state *guard, uint64_t now)
{
    if (guard->n_reports > 0)
        return NEWS_DELAY_MS;
    if (guard->phase == PHASE_IDLE || guard->phase == PHASE_RUNNING)
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
    if (poll(fds, countof(fds), timeout_ms(guard, now_ms())) <= 0) {
        reports_write(guard);
        return;
    }
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
        ask(guard, SIGTERM, MIN(guard->grace_ms, (uint64_t)LEFTOVER_GRACE_MS), now);
    if (guard->phase == PHASE_ASKED && now >= guard->deadline_ms)
        force(guard, now);
    if (guard->phase == PHASE_FORCED && now >= guard->round_at_ms)
        kill_round(guard, now);
}

static void worker_tend(struct guard_state *guard)
{
    reap(guard);
    if (guard->children_alive) {
        act_on_time(guard, now_ms());
        return;
    }
    report_value(guard, GUARD_GONE, guard->ended);
    idle_begin(guard);
}

static int supervise(struct guard_state *guard)
{
    for (;;) {
        if (guard->phase != PHASE_IDLE)
            worker_tend(guard);
        bool is_idle = guard->phase == PHASE_IDLE;
        /* Reports that follow that of a start must not wait; see NEWS_DELAY_MS. */
        if (is_idle || guard->n_reports > 1 || guard->phase != PHASE_RUNNING)
            reports_write(guard);
        if (is_idle && (guard->is_leaving || !guard->muster_alive))
            return 0;
        /*
         * A process that survives KILL hangs in the kernel; there is no muster left to report it
         * to.
         */
        if (guard->stuck && !guard->muster_alive)
            return 1;
        wait_for_news(guard);
    }
}

/*
 * Closes all descriptors but the agreed ones. Those from GUARD_FD_CHANNEL on close at an exec, so
 * none of them reaches the worker.
 */
static void descriptors_settle(void)
{
    if (syscall(SYS_close_range, GUARD_FD_END, ~0u, 0) != 0)
        for (int fd = GUARD_FD_END; fd < 1024; fd++)
            close(fd);
    for (int fd = GUARD_FD_CHANNEL; fd < GUARD_FD_END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
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

/*
 * Watches muster by a pidfd as well: the control stream does not end with muster while a forked
 * copy of muster holds it open.
 */
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
    if (argc != GUARD_ARGS || fcntl(GUARD_FD_REPORT, F_GETFD) < 0)
        return usage();
    static struct guard_state guard = {.muster_alive = true, .muster_fd = -1};
    descriptors_settle();
    signals_settle(&guard);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    guard.muster_pid = argv[GUARD_ARG_MUSTER_PID];
    muster_watch(&guard, (pid_t)strtol(guard.muster_pid, NULL, 10));
    return guard.muster_alive ? supervise(&guard) : 1;
}
