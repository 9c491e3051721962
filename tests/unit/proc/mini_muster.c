/* SPDX-License-Identifier: Apache-2.0
 *
 * The least that supervises: two workers under guards, one reaper, orderly end on TERM, INT, HUP.
 * The survivors test kills it, or its guards, in every way.
 *
 *     mini-muster GUARD ZOO FOLDER GRACE_MS ACTION...
 *
 * FOLDER/pids gets a line for each worker and grandchild, FOLDER/guards one for each guard.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "proc/front.h"
#include "proc/guard.h"

enum {
    WORKERS = 2,
    ARG_GUARD = 1,
    ARG_ZOO,
    ARG_FOLDER,
    ARG_GRACE_MS,
    ARG_ACTIONS
};

struct mini {
    struct guard guards[WORKERS];
    struct reaper *reaper;
    int alive;
};

static void guard_ended(void *context, pid_t pid, int wait_status)
{
    (void)wait_status;
    struct mini *mini = context;
    for (size_t i = 0; i < WORKERS; i++)
        if (mini->guards[i].pid == pid)
            mini->alive--;
}

static void start(struct mini *mini, struct guard *guard, char **argv)
{
    struct err err = {0};
    struct spawn_opts opts = SPAWN_OPTS_INIT;
    const char *worker[64] = {argv[ARG_ZOO]};
    for (size_t i = 0; argv[ARG_ACTIONS + i] && i < countof(worker) - 2; i++)
        worker[i + 1] = argv[ARG_ACTIONS + i];
    opts.guard_path = argv[ARG_GUARD];
    opts.argv = worker;
    opts.grace_ms = strtoull(argv[ARG_GRACE_MS], NULL, 10);
    opts.stdout_fd = STDOUT_FILENO;
    opts.stderr_fd = STDERR_FILENO;
    if (guard_spawn(guard, &opts, &err) != 0) {
        fprintf(stderr, "mini-muster: %s\n", err.text);
        exit(98);
    }
    reaper_add(mini->reaper, guard->pid);
    mini->alive++;
}

static void note_guards(const struct mini *mini, const char *folder)
{
    char *path = xasprintf("%s/guards", folder);
    FILE *file = fopen(path, "we");
    for (size_t i = 0; file && i < WORKERS; i++)
        fprintf(file, "%d\n", (int)mini->guards[i].pid);
    if (file)
        fclose(file);
    free(path);
}

/* Returns the signal that ended the wait, 0 when all guards ended by themselves. */
static int run(struct mini *mini, int signal_fd)
{
    int stopped_by = 0;
    while (mini->alive > 0) {
        struct signalfd_siginfo info;
        if (read(signal_fd, &info, sizeof(info)) != sizeof(info))
            exit(97);
        if (info.ssi_signo == SIGCHLD) {
            reaper_run(mini->reaper, guard_ended, mini);
            continue;
        }
        stopped_by = (int)info.ssi_signo;
        for (size_t i = 0; i < WORKERS; i++)
            guard_terminate(&mini->guards[i]);
    }
    return stopped_by;
}

int main(int argc, char **argv)
{
    struct mini mini = {0};
    struct err err = {0};
    sigset_t set;
    int signals_fd; /* not listened to: the front sends them on */
    if (front_begin(&signals_fd, NULL, &err) != 0)
        return 2;
    sigemptyset(&set);
    for (size_t i = 0; i < 4; i++)
        sigaddset(&set, (const int[]){SIGCHLD, SIGTERM, SIGINT, SIGHUP}[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (argc < ARG_ACTIONS || reaper_open(&mini.reaper, &err) != 0)
        return 2;
    for (size_t i = 0; i < WORKERS; i++)
        start(&mini, &mini.guards[i], argv);
    note_guards(&mini, argv[ARG_FOLDER]);

    int stopped_by = run(&mini, signal_fd);
    size_t left = reaper_finish(mini.reaper, 5000);
    for (size_t i = 0; i < WORKERS; i++)
        guard_close(&mini.guards[i]);
    reaper_close(mini.reaper);
    if (left > 0)
        return 96;
    return stopped_by ? 128 + stopped_by : 3;
}
