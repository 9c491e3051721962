/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks for tests: forked processes with the environment that `muster launch` gives. Each runs a
 * function, whose value is its exit status, and which says with CHECK what is not as it should be. A
 * rank that hangs is ended by SIGALRM.
 */
#pragma once

#include "unit/test.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RANKS_MAX = 8,
    RANK_LIMIT_S = 60
};

struct ranks {
    uint32_t size;
    pid_t pids[RANKS_MAX];
};

typedef int rank_main(uint32_t rank, uint32_t size, const void *arg);

#define CHECK(claim, ...)                                   \
    do {                                                    \
        if (!(claim)) {                                     \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                   \
            fputc('\n', stderr);                            \
            return 1;                                       \
        }                                                   \
    } while (0)

static inline void env_number(const char *name, unsigned long value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lu", value);
    setenv(name, text, 1);
}

static inline void ranks_environment(uint32_t rank, uint32_t size, unsigned job)
{
    env_number("RANK", rank);
    env_number("WORLD_SIZE", size);
    env_number("LOCAL_RANK", rank);
    env_number("LOCAL_WORLD_SIZE", size);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    env_number("MASTER_PORT", job);
}

/* A port that nobody has, for ranks that meet over TCP. */
static inline unsigned port_find(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/*
 * Ranks of one machine map as many addresses as it has memory, of which Valgrind takes seconds for each GiB. A limit on the
 * size of files makes that less.
 */
static inline void addresses_spare(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 256 << 20;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* `job` tells worlds apart that may be there at the same time. */
static inline struct ranks ranks_begin(uint32_t size, unsigned job, rank_main *run, const void *arg)
{
    struct ranks ranks = {.size = size};
    unsigned parent = (unsigned)getpid(), port = port_find();
    fflush(NULL);
    for (uint32_t r = 0; r < size; r++) {
        ranks.pids[r] = fork();
        assert_true(ranks.pids[r] >= 0);
        if (ranks.pids[r] == 0) {
            if (getenv("UNDER_VALGRIND"))
                addresses_spare();
            else
                alarm(RANK_LIMIT_S);
            ranks_environment(r, size, parent * 100 + job);
            env_number("MUSTER_DIST_PORT", port);
            _exit(run(r, size, arg));
        }
    }
    return ranks;
}

/* A wait status. */
static inline int ranks_status(struct ranks *ranks, uint32_t rank)
{
    int status = -1;
    assert_int_equal(waitpid(ranks->pids[rank], &status, 0), ranks->pids[rank]);
    return status;
}

static inline void ranks_end_well(struct ranks *ranks)
{
    int n_bad = 0;
    for (uint32_t r = 0; r < ranks->size; r++) {
        int status = ranks_status(ranks, r);
        if (status != 0)
            print_error("rank %u of %u: wait status %d\n", r, ranks->size, status);
        n_bad += status != 0;
    }
    assert_int_equal(n_bad, 0);
}

static inline void ranks_run(uint32_t size, rank_main *run, const void *arg)
{
    struct ranks ranks = ranks_begin(size, 0, run, arg);
    ranks_end_well(&ranks);
}
