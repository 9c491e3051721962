/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    REAP_TRIES = 20 /* a millisecond each: a killed process not in D state is gone by then */
};

/* False if no child could be started. */
static bool child_begin(struct task *task, void (*gather)(const void *context, void *facts),
                        const void *context)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    task->pid = fork();
    if (task->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        gather(context, task->facts);
        _exit(write_all(ends[1], task->facts, task->n_bytes, NULL) == 0 ? 0 : 1);
    }
    close(ends[1]);
    if (task->pid < 0) {
        close(ends[0]);
        task->pid = 0;
        return false;
    }
    task->fd = ends[0];
    fcntl(task->fd, F_SETFL, O_NONBLOCK);
    return true;
}

void task_begin(struct task *task, void (*gather)(const void *context, void *facts),
                const void *context, void *facts, size_t n_bytes)
{
    *task = (struct task){.fd = -1, .facts = facts, .n_bytes = n_bytes};
    task->is_done = !child_begin(task, gather, context);
    if (task->is_done)
        gather(context, facts);
}

/* True while more may come. */
static bool take(struct task *task, char *into)
{
    ssize_t got = read(task->fd, into + task->n_got, task->n_bytes - task->n_got);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    task->n_got += (size_t)got;
    return got > 0 && task->n_got < task->n_bytes;
}

static void child_end(pid_t pid)
{
    kill(pid, SIGKILL);
    for (int i = 0; i < REAP_TRIES && waitpid(pid, NULL, WNOHANG) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

bool task_end(struct task *task, uint64_t until_ms)
{
    if (task->pid == 0)
        return task->is_done;
    cleanup_free char *into = xmalloc(task->n_bytes);
    bool is_open = true;
    while (is_open) {
        struct pollfd pipe_end = {.fd = task->fd, .events = POLLIN};
        uint64_t now_ms = clock_now_ms();
        int wait_ms = until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
        int n_ready = poll(&pipe_end, 1, wait_ms);
        if (n_ready == 0)
            break;
        is_open = n_ready < 0 ? errno == EINTR : take(task, into);
    }
    child_end(task->pid);
    fd_close(&task->fd);
    task->pid = 0;
    if (task->n_got < task->n_bytes)
        return false;
    memcpy(task->facts, into, task->n_bytes);
    return true;
}
