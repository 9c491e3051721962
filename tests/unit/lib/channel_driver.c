/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays muster for a channel worker: channel_driver N WORKER [ARG...] gives the worker N small
 * items as its credits allow, checks that each comes back once with its own data, and prints the
 * pace. Its messages are made beforehand and its reading is the least that can be checked, so that
 * what is measured is the library.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 256
};

struct driver {
    int fd;
    size_t n_items, n_sent, n_done, credits;
    unsigned char *is_done;
    char in[1 << 18];
    size_t in_len;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "channel_driver: %s\n", what);
    exit(1);
}

static void send_all(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            die("the worker does not read");
        at += n;
        len -= (size_t)n;
    }
}

static void send_items(struct driver *driver)
{
    static char out[1 << 16];
    size_t len = 0;
    while (driver->credits > 0 && driver->n_sent < driver->n_items) {
        len += (size_t)snprintf(
            out + len, sizeof(out) - len,
            "{\"item\":%zu,\"seed\":\"%016zx\",\"attempt\":1,\"data\":{\"id\":%zu,\"text\":\"some "
            "words of an ordinary record, ninety bytes or so\"}}\n",
            driver->n_sent, driver->n_sent * 7, driver->n_sent);
        driver->credits--;
        driver->n_sent++;
        if (sizeof(out) - len < LINE_MAX_BYTES || driver->credits == 0 ||
            driver->n_sent == driver->n_items) {
            send_all(driver->fd, out, len);
            len = 0;
        }
    }
}

static void take_line(struct driver *driver, const char *line)
{
    char expected[LINE_MAX_BYTES];
    size_t n;
    if (sscanf(line, "{\"ready\":%zu}", &n) == 1) {
        driver->credits += n;
    } else if (sscanf(line, "{\"done\":%zu,", &n) == 1) {
        int len =
            snprintf(expected, sizeof(expected), "{\"done\":%zu,\"result\":{\"id\":%zu,", n, n);
        if (n >= driver->n_sent || driver->is_done[n] || strncmp(line, expected, (size_t)len) != 0)
            die(line);
        driver->is_done[n] = 1;
        driver->n_done++;
    } else if (strcmp(line, "{\"loaded\":true}") != 0) {
        die(line);
    }
}

static void read_lines(struct driver *driver)
{
    ssize_t n = read(driver->fd, driver->in + driver->in_len, sizeof(driver->in) - driver->in_len);
    if (n <= 0)
        die("the worker has gone");
    driver->in_len += (size_t)n;
    char *at = driver->in, *end = at + driver->in_len, *newline;
    while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        *newline = '\0';
        take_line(driver, at);
        at = newline + 1;
    }
    driver->in_len = (size_t)(end - at);
    memmove(driver->in, at, driver->in_len);
}

static pid_t start(struct driver *driver, char **argv)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        die("socketpair");
    pid_t pid = fork();
    if (pid == 0) {
        char number[16];
        close(ends[0]);
        snprintf(number, sizeof(number), "%d", ends[1]);
        setenv("MUSTER_CHANNEL", number, 1);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execv(argv[0], argv);
        die(argv[0]);
    }
    close(ends[1]);
    driver->fd = ends[0];
    return pid;
}

int main(int argc, char **argv)
{
    static struct driver driver;
    if (argc < 3)
        die("usage: channel_driver N WORKER [ARG...]");
    driver.n_items = strtoul(argv[1], NULL, 10);
    driver.is_done = calloc(driver.n_items, 1);
    pid_t pid = start(&driver, argv + 2);
    double begin_s = now_s();
    while (driver.n_done < driver.n_items) {
        read_lines(&driver);
        send_items(&driver);
    }
    double spent_s = now_s() - begin_s;
    send_all(driver.fd, "{\"stop\":true}\n", 14);
    shutdown(driver.fd, SHUT_WR);
    int status;
    struct rusage usage;
    if (wait4(pid, &status, 0, &usage) != pid || status != 0)
        die("the worker ended badly");
    double worker_s = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    printf("%zu items in %.3f s: %.0f items/s; the worker used %.3f s: %.2f us an item\n",
           driver.n_items, spent_s, (double)driver.n_items / spent_s, worker_s,
           worker_s * 1e6 / (double)driver.n_items);
    free(driver.is_done);
    return 0;
}
