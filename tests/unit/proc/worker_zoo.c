/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker of every kind, for the tests of supervision: does what its arguments say, one after the
 * other. A FILE gets a line with a pid appended.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note_pid(const char *path)
{
    char line[16];
    int len = snprintf(line, sizeof(line), "%d\n", (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        _exit(99);
    close(fd);
}

static void wait_forever(void)
{
    for (;;)
        pause();
}

static void act_exit(const char *value)
{
    exit((int)strtol(value, NULL, 10));
}

static void act_raise(const char *value)
{
    int number = (int)strtol(value, NULL, 10);
    signal(number, SIG_DFL);
    raise(number);
}

static void act_ignore(const char *value)
{
    signal((int)strtol(value, NULL, 10), SIG_IGN);
}

static void act_grandchild(const char *path)
{
    if (fork() == 0) {
        note_pid(path);
        wait_forever();
    }
}

/* A daemon: its own session, its parent gone, and not a descendant of the worker any more. */
static void act_daemon(const char *path)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            note_pid(path);
            wait_forever();
        }
        _exit(0);
    }
}

static void become_unmarked(const char *path)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[len > 0 ? len : 0] = '\0';
    execle(self, self, "pid", path, "sleep", "", (char *)NULL, (char *[]){NULL});
    _exit(99);
}

/* Without our marker in its environment: only its session tells where it comes from. */
static void act_unmarked(const char *path)
{
    if (fork() == 0)
        become_unmarked(path);
}

/* Not even that does. */
static void act_nobody(const char *path)
{
    if (fork() == 0) {
        setsid();
        become_unmarked(path);
    }
}

static void act_sleep(const char *value)
{
    (void)value;
    wait_forever();
}

static void act_flood(const char *value)
{
    static char block[1 << 16];
    memset(block, 'x', sizeof(block));
    for (size_t at = 99; at < sizeof(block); at += 100)
        block[at] = '\n';
    for (long left = strtol(value, NULL, 10); left > 0; left -= (long)sizeof(block))
        if (write(STDERR_FILENO, block, sizeof(block)) < 0)
            _exit(99);
}

static void act_cat(const char *value)
{
    (void)value;
    char block[4096];
    for (ssize_t got; (got = read(STDIN_FILENO, block, sizeof(block))) > 0;)
        if (write(STDOUT_FILENO, block, (size_t)got) != got)
            _exit(99);
}

static void act_close(const char *value)
{
    close((int)strtol(value, NULL, 10));
}

static void act_list_fds(const char *value)
{
    (void)value;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != dirfd(folder))
            printf("%s ", entry->d_name);
    closedir(folder);
    fflush(stdout);
}

static void act_say(const char *value)
{
    const char *text = getenv(value);
    printf("%s\n", text ? text : "(unset)");
    fflush(stdout);
}

static void act_cwd(const char *value)
{
    (void)value;
    char path[4096];
    puts(getcwd(path, sizeof(path)));
    fflush(stdout);
}

static void act_cpus(const char *value)
{
    (void)value;
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof(cpus), &cpus);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus))
            printf("%zu ", i);
    fflush(stdout);
}

/* The signals that are blocked or ignored at the start: all should be as after a login. */
static void act_signals(const char *value)
{
    (void)value;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < SIGRTMAX; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 &&
            (action.sa_handler != SIG_DFL || sigismember(&mask, number) == 1))
            printf("%d ", number);
    }
    puts("end");
    fflush(stdout);
}

static const struct {
    const char *name;
    void (*act)(const char *value);
} acts[] = {
    {"exit", act_exit},     {"raise", act_raise},
    {"ignore", act_ignore}, {"grandchild", act_grandchild},
    {"daemon", act_daemon}, {"unmarked", act_unmarked},
    {"nobody", act_nobody}, {"sleep", act_sleep},
    {"flood", act_flood},   {"cat", act_cat},
    {"close", act_close},   {"list-fds", act_list_fds},
    {"say", act_say},       {"cwd", act_cwd},
    {"cpus", act_cpus},     {"signals", act_signals},
    {"pid", note_pid},
};

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2)
        for (size_t k = 0; k < sizeof(acts) / sizeof(acts[0]); k++)
            if (strcmp(argv[i], acts[k].name) == 0)
                acts[k].act(argv[i + 1]);
    return 0;
}
