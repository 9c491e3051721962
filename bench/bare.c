/* SPDX-License-Identifier: Apache-2.0
 *
 * What asking another process between items costs at least: the loop of `bench_worker model`, with one
 * message over a socket pair to a process that does nothing but answer.
 *
 *     bench_bare MS ITEMS
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ASK_BYTES = 41, /* a "done" and a "ready" */
    ANSWER_BYTES = 62
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int answer_all(int fd)
{
    char message[ANSWER_BYTES] = "";
    while (read(fd, message, sizeof(message)) > 0)
        if (write(fd, message, ANSWER_BYTES) < 0)
            return 1;
    return 0;
}

static int ask_all(int fd, double ms, long n_items)
{
    char message[ANSWER_BYTES] = "";
    for (long i = 0; i < n_items; i++) {
        double until_ms = now_ms() + ms;
        while (now_ms() < until_ms)
            ;
        if (write(fd, message, ASK_BYTES) < 0 || read(fd, message, sizeof(message)) <= 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int ends[2];
    if (argc != 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        fprintf(stderr, "usage: bench_bare MS ITEMS\n");
        return 2;
    }
    pid_t pid = fork();
    if (pid < 0)
        return 1;
    close(ends[pid == 0 ? 0 : 1]);
    if (pid == 0)
        _exit(answer_all(ends[1]));
    int rc = ask_all(ends[0], strtod(argv[1], NULL), strtol(argv[2], NULL, 10));
    close(ends[0]);
    waitpid(pid, NULL, 0);
    return rc;
}
