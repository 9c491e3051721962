/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker is cloned with VM and VFORK: the guard sleeps until the exec has succeeded or failed,
 * and reads the outcome from memory that both share, so no pipe is needed to report it. Between
 * clone and exec the child makes only async-signal-safe calls.
 */
#include "proc/guard_start.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/guard_wire.h"

struct child {
    const struct start *start;
    char **envp;
    const char *search; /* PATH, or a default if it is not set */
    pid_t guard;
    char path[4096 + 256];  /* the file that is tried */
    enum guard_stage stage; /* the current step; the one that failed if sys is set */
    volatile int sys;
};

static const char *env_get(char *const *envp, const char *name)
{
    size_t len = strlen(name);
    for (; *envp; envp++)
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

/*
 * Returns the environment with this guard's pair added to the marker. free() both the array and its
 * last text.
 */
static char **env_mark(char *const *envp, const char *muster_pid, pid_t guard)
{
    size_t n = 0;
    while (envp[n])
        n++;
    const char *outer = env_get(envp, GUARD_MARKER);
    size_t room = (outer ? strlen(outer) : 0) + 64;
    char **marked = calloc(n + 2, sizeof(*marked));
    char *marker = malloc(room);
    if (!marked || !marker) {
        free(marked);
        free(marker);
        return NULL;
    }
    snprintf(marker, room, GUARD_MARKER "=%s%s%s.%d", outer ? outer : "", outer ? "," : "",
             muster_pid, (int)guard);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(envp[i], GUARD_MARKER "=", sizeof(GUARD_MARKER)) != 0)
            marked[kept++] = envp[i];
    marked[kept] = marker;
    return marked;
}

/*
 * Puts "folder/name" into child->path; an empty folder is the current one. False: the path is too
 * long.
 */
static bool candidate(struct child *child, const char *folder, size_t len, const char *name)
{
    size_t name_len = strlen(name), slash = len > 0;
    if (len + slash + name_len >= sizeof(child->path))
        return false;
    memcpy(child->path, folder, len);
    if (slash)
        child->path[len] = '/';
    memcpy(child->path + len + slash, name, name_len + 1);
    return true;
}

/*
 * As execvpe, with one difference: a script without #! is ENOEXEC, not handed to a shell. Returns
 * the errno that says most: EACCES if any candidate is not executable, else ENOENT.
 */
static int exec_along_path(struct child *child)
{
    char *const *argv = child->start->argv;
    if (strchr(argv[0], '/') || argv[0][0] == '\0') {
        execve(argv[0], argv, child->envp);
        return errno;
    }
    int sys = ENOENT;
    for (const char *at = child->search;; at++) {
        size_t len = strcspn(at, ":");
        if (candidate(child, at, len, argv[0])) {
            execve(child->path, argv, child->envp);
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != ESTALE)
                return errno;
            sys = errno == EACCES ? EACCES : sys;
        }
        at += len;
        if (*at == '\0')
            return sys;
    }
}

/* The steps, in the order they are taken. Each returns 0 or an errno. */
static int step_fds(struct child *child)
{
    const int *fds = child->start->fds; /* all above the numbers that they get */
    for (int fd = 0; fd < GUARD_STREAMS; fd++)
        if (fds[fd] >= 0 && dup2(fds[fd], fd) < 0)
            return errno;
    return 0;
}

static int step_limits(struct child *child)
{
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return errno;
    /* If the guard died before the line above, the parent-death signal would never come. */
    if (getppid() != child->guard)
        _exit(1);
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) != 0 ? errno : 0;
}

/*
 * Near cores are only preferred: if a container, a job or taskset restricts us to other cores, we
 * keep to those.
 */
static int step_affinity(struct child *child)
{
    cpu_set_t allowed, cpus;
    if (!child->start->cpus)
        return 0;
    cpus = *child->start->cpus;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        CPU_AND(&cpus, &cpus, &allowed);
    if (CPU_COUNT(&cpus) == 0)
        return 0;
    return sched_setaffinity(0, sizeof(cpus), &cpus) != 0 ? errno : 0;
}

static int step_chdir(struct child *child)
{
    return child->start->cwd[0] != '\0' && chdir(child->start->cwd) != 0 ? errno : 0;
}

static const struct {
    enum guard_stage stage;
    int (*take)(struct child *);
} steps[] = {
    {STAGE_FDS, step_fds},     {STAGE_LIMITS, step_limits},   {STAGE_AFFINITY, step_affinity},
    {STAGE_CHDIR, step_chdir}, {STAGE_EXEC, exec_along_path},
};

static int child_main(void *context)
{
    struct child *child = context;
    for (size_t i = 0; i < countof(steps); i++) {
        child->stage = steps[i].stage;
        child->sys = steps[i].take(child);
        if (child->sys != 0)
            break;
    }
    _exit(1);
}

static void env_free(char **envp)
{
    size_t n = 0;
    while (envp[n])
        n++;
    free(envp[n - 1]);
    free(envp);
}

pid_t worker_start(const struct start *start, enum guard_stage *stage, int *sys)
{
    static struct child child;
    static char stack[GUARD_STACK_BYTES] __attribute__((aligned(64)));
    child = (struct child){.start = start, .guard = getpid()};
    child.envp = env_mark(start->envp, start->muster_pid, child.guard);
    child.search = env_get(start->envp, "PATH");
    child.search = child.search ? child.search : "/usr/local/bin:/usr/bin:/bin";
    *stage = STAGE_FORK;
    *sys = ENOMEM;
    if (!child.envp)
        return -1;

    pid_t pid = clone(child_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
    *stage = pid < 0 ? STAGE_FORK : child.stage;
    *sys = pid < 0 ? errno : child.sys;
    if (pid >= 0 && child.sys != 0)
        waitpid(pid, NULL, 0);
    env_free(child.envp);
    return *sys != 0 ? -1 : pid;
}
