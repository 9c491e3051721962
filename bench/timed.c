/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command and appends one line to a file: wall seconds, user, system, peak KiB of its largest
 * process, status. Beside time(1) it has microseconds, and is so small that the peak is the command's:
 * a child starts its account with the size of the process that it was forked from.
 *
 *     bench_timed FILE COMMAND [ARG]...
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct rusage usage;
    int status = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_timed FILE COMMAND [ARG]...\n");
        return 2;
    }
    double begin_s = now_s();
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid) {
        perror("bench_timed");
        return 1;
    }
    double wall_s = now_s() - begin_s;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    FILE *file = fopen(argv[1], "ae");
    if (!file) {
        perror(argv[1]);
        return 1;
    }
    fprintf(file, "%.6f %.6f %.6f %ld %d %.6f\n", wall_s, seconds_of(usage.ru_utime),
            seconds_of(usage.ru_stime), usage.ru_maxrss, code, begin_s);
    return fclose(file) == 0 ? code : 1;
}
