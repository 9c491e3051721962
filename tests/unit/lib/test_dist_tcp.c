/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong between ranks over TCP, and what they are told: a rank that is killed within each
 * operation, disagreement, one that does not come, leaves or fails, worlds that do not come about,
 * other programs at the port, and bytes that no rank sends. The operations themselves: test_dist.c,
 * with MUSTER_DIST_BACKEND=tcp.
 */
#include "lib/ranks.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "base/attr.h"
#include "base/rng.h"
#include "dist/tcp.h"
#include "muster/dist.h"

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- the keyed hash ---- */

/* Of the key 00 … 0f and the bytes 00, 01, …: from the paper's appendix, and its authors' program. */
static void test_mac(void **state)
{
    (void)state;
    const struct md_mac_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
    unsigned char bytes[15];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    assert_true(md_mac(&key, bytes, 0) == 0x726fdb47dd0e0e31);
    assert_true(md_mac(&key, bytes, 8) == 0x93f5f5799a932462);
    assert_true(md_mac(&key, bytes, 15) == 0xa129ca6149be45e5);
}

/* ---- a rank that is killed ---- */

static float values[4 * 200000];

enum {
    KILLED_OF = 3, /* ranks: each of them is killed in a world of its own */
    N_KINDS = MUSTER_ALL_GATHER + 1
};

struct kill_case {
    uint32_t victim;
    enum muster_collective kind;
    size_t count;
    atomic_uint *n_begun;
};

static int work_forever(uint32_t rank, uint32_t size, const void *arg)
{
    const struct kill_case *work = arg;
    struct muster_dist *dist = muster_dist_open(NULL);
    struct muster_dist_call call = {work->kind, MUSTER_FLOAT32, MUSTER_MAX, 0,
                                    values,     values,         work->count};
    uint64_t ticket;
    (void)size;
    float *out = calloc(3 * work->count, sizeof(*out));
    if (work->kind == MUSTER_ALL_GATHER || work->kind == MUSTER_REDUCE_SCATTER)
        call.out = out;
    int rc = muster_dist_barrier(dist);
    atomic_fetch_add(work->n_begun, 1);
    while (rc == 0) {
        rc = muster_dist_start(dist, &call, &ticket);
        rc = rc ? rc : muster_dist_wait(dist, ticket);
    }
    const char *text = muster_dist_error(dist);
    char said[40];
    snprintf(said, sizeof(said), "the process of rank %u has ended", work->victim);
    CHECK(rank != work->victim && rc == MUSTER_DIST_ELOST, "rank %u: %d %s", rank, rc, text);
    CHECK(strstr(text, said), "%s", text);
    free(out);
    return muster_dist_close(dist) == rc ? 0 : 1;
}

static void test_killed(void **state)
{
    (void)state;
    atomic_uint *n_begun =
        mmap(NULL, sizeof(*n_begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(n_begun != MAP_FAILED);
    for (int i = 0; i < 2; i++) {
        struct kill_case works[KILLED_OF * N_KINDS];
        struct ranks ranks[countof(works)];
        atomic_store(n_begun, 0);
        for (unsigned n = 0; n < countof(works); n++) {
            works[n] = (struct kill_case){n / N_KINDS, (enum muster_collective)(n % N_KINDS),
                                          i ? 200000 : 100, n_begun};
            ranks[n] = ranks_begin(KILLED_OF, n, work_forever, &works[n]);
        }
        while (atomic_load(n_begun) < KILLED_OF * countof(works))
            sleep_ms(1);
        sleep_ms(20 + i * 7);
        for (size_t n = 0; n < countof(works); n++)
            kill(ranks[n].pids[works[n].victim], SIGKILL);
        for (size_t n = 0; n < countof(works); n++)
            for (uint32_t r = 0; r < KILLED_OF; r++)
                assert_int_equal(ranks_status(&ranks[n], r), r == works[n].victim ? SIGKILL : 0);
    }
    munmap(n_begun, sizeof(*n_begun));
}

/* ---- what ranks are told ---- */

/* Opened, with one barrier behind it. */
static struct muster_dist *open_well(uint64_t timeout_ms)
{
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.timeout_ms = timeout_ms});
    muster_dist_barrier(dist);
    return dist;
}

static int end_with(struct muster_dist *dist, int rc, int code, const char *said)
{
    const char *text = muster_dist_error(dist);
    CHECK(rc == code && strstr(text, said), "code %d: %s; expected: %s", rc, text, said);
    CHECK(muster_dist_barrier(dist) == rc, "the error stays");
    return muster_dist_close(dist) == rc ? 0 : 1;
}

static int disagree(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = open_well(0);
    (void)size;
    (void)arg;
    int rc = rank == 2 ? muster_dist_all_reduce(dist, values, 99999, MUSTER_FLOAT32, MUSTER_SUM)
                       : muster_dist_all_reduce(dist, values, 1000, MUSTER_FLOAT32, MUSTER_SUM);
    return end_with(
        dist, rc, MUSTER_DIST_EMISMATCH,
        "ranks disagree: rank 0 came to all-reduce #2 (float32 sum, 1000 values), rank 2 "
        "to all-reduce #2 (float32 sum, 99999 values)");
}

static int come_late(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = open_well(2000);
    int64_t sum = 1;
    (void)size;
    (void)arg;
    if (rank == 2)
        sleep_ms(3500);
    int rc = muster_dist_all_reduce(dist, &sum, 1, MUSTER_INT64, MUSTER_SUM);
    return end_with(dist, rc, MUSTER_DIST_ETIMEOUT,
                    "rank 2 has not come to all-reduce #2 (int64 sum, 1 values) within 2.0 s; the "
                    "last that rank 2 came to was barrier #1");
}

/* One that stands still in the midst of an operation is found by the limit as well. */
static int stand_still(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = open_well(2000);
    (void)size;
    (void)arg;
    if (rank == 2 && fork() == 0) {
        sleep_ms(50);
        kill(getppid(), SIGSTOP);
        sleep_ms(4000);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    int rc = 0;
    while (rc == 0)
        rc = muster_dist_all_reduce(dist, values, 200000, MUSTER_FLOAT32, MUSTER_MAX);
    /* "rank 2 has", or "ranks 1 and 2 have": what rank 0 waits for may be ahead of what rank 1 has. */
    return end_with(dist, rc, rank == 2 ? rc : MUSTER_DIST_ETIMEOUT, rank == 2 ? "" : "2 ha");
}

static int leave_early(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = open_well(0);
    (void)size;
    (void)arg;
    return rank == 0 ? muster_dist_close(dist)
                     : end_with(dist, muster_dist_barrier(dist), MUSTER_DIST_ELOST,
                                "rank 0 has closed its handle");
}

/* The rank's end is noticed if the child has closed its copy of the connections. */
static int child_survives(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = open_well(1500);
    (void)size;
    (void)arg;
    if (rank == 2 && fork() == 0) {
        muster_dist_close(dist);
        sleep_ms(3000);
        _exit(0);
    }
    if (rank == 2)
        _exit(0);
    return end_with(dist, muster_dist_barrier(dist), MUSTER_DIST_ELOST,
                    "the process of rank 2 has ended");
}

static int one_fails(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = open_well(0);
    (void)size;
    (void)arg;
    int rc = rank == 1 ? muster_dist_fail(dist, -77, "the loss is NaN at step 12")
                       : muster_dist_barrier(dist);
    return end_with(dist, rc, -77, "rank 1: the loss is NaN at step 12");
}

/*
 * Rank 0 has met all and fails within a barrier; rank 2 has no descriptor for its connection to rank 1, so these two
 * are still meeting.
 */
static int fail_early(uint32_t rank, uint32_t size, const void *arg)
{
    struct rlimit limit;
    (void)size;
    (void)arg;
    getrlimit(RLIMIT_NOFILE, &limit);
    int lowest = dup(0);
    close(lowest);
    limit.rlim_cur =
        rank == 2 ? (rlim_t)lowest + 2 : limit.rlim_cur; /* it listens, and meets rank 0 */
    setrlimit(RLIMIT_NOFILE, &limit);
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.timeout_ms = 4000});
    if (rank == 0) {
        const struct muster_dist_call barrier = {.kind = MUSTER_BARRIER};
        CHECK(muster_dist_start(dist, &barrier, NULL) == 0, "%s", muster_dist_error(dist));
        sleep_ms(300);
        muster_dist_fail(dist, -78, "the data are gone");
    }
    return end_with(dist, muster_dist_code(dist), -78, "rank 0: the data are gone");
}

/* While another thread is in the midst of an operation. */
static int fail_meanwhile(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = open_well(0);
    struct muster_dist_call call = {
        MUSTER_ALL_REDUCE, MUSTER_FLOAT32, MUSTER_MAX, 0, values, values, 200000};
    uint64_t ticket = 0;
    (void)size;
    (void)arg;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 1000; i++) {
        rc = muster_dist_start(dist, &call, &ticket);
        if (rank == 1 && i == 10)
            rc = muster_dist_fail(dist, -77, "no more");
    }
    rc = muster_dist_wait(dist, ticket);
    return end_with(dist, rc, -77, "rank 1: no more");
}

/* Bytes that no rank sends, on a connection between ranks. */
static int speak_garbage(uint32_t rank, uint32_t size, const void *arg)
{
    const unsigned *kind = arg;
    struct muster_dist *dist = open_well(5000);
    struct md_tcp *tcp = dist->impl;
    struct tcp_head heads[] = {{.kind = 0xffffffff, .bytes = UINT64_MAX},
                               {.kind = TCP_TOLD, .bytes = 1 << 30},
                               {.kind = TCP_DATA, .bytes = 4},
                               {.kind = TCP_CALL, .bytes = 1 << 20, .signature.seq = 2},
                               {.kind = TCP_LEFT, .bytes = 12}};
    (void)size;
    if (rank == 1) {
        send(tcp->peers[0].fd, &heads[*kind], sizeof(*heads), MSG_NOSIGNAL);
        sleep_ms(300);
    }
    int rc = muster_dist_barrier(dist);

    if (rank != 0) {
        muster_dist_close(dist);
        return 0;
    }
    return end_with(dist, rc, MUSTER_DIST_ELOST,
                    "the process of rank 1 has ended, or cannot be reached any more: "
                    "Protocol error; rank 0 waits for it in barrier #2");
}

/* At once, since most of the time is waited for. */
static void test_told(void **state)
{
    (void)state;
    static const unsigned kinds[] = {0, 1, 2, 3, 4};
    static rank_main *const runs[] = {disagree,  come_late,      stand_still,    leave_early,
                                      one_fails, fail_meanwhile, child_survives, fail_early};
    struct ranks worlds[countof(runs) + countof(kinds)];
    for (size_t i = 0; i < countof(worlds); i++)
        worlds[i] = i < countof(runs)
                        ? ranks_begin(3, (unsigned)i, runs[i], NULL)
                        : ranks_begin(3, (unsigned)i, speak_garbage, &kinds[i - countof(runs)]);
    for (size_t i = 0; i < countof(worlds); i++)
        ranks_end_well(&worlds[i]);
}

/* ---- worlds that do not come about ---- */

static int open_expect(uint64_t timeout_ms, int code, const char *said)
{
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.timeout_ms = timeout_ms});
    return end_with(dist, muster_dist_code(dist), code, said);
}

static int some_missing(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    (void)arg;
    return rank % 2 == 1 ? 0
                         : open_expect(1500, MUSTER_DIST_ETIMEOUT,
                                       "ranks 1 and 3 of 4 did not come to rank 0 within 1.5 s");
}

static int first_missing(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    (void)arg;
    return rank == 0
               ? 0
               : open_expect(500, MUSTER_DIST_ETIMEOUT,
                             "rank 0 of 2 did not come within 0.5 s: rank 1 did not meet it at "
                             "127.0.0.1, port ");
}

static int sizes_differ(uint32_t rank, uint32_t size, const void *arg)
{
    (void)arg;
    if (rank == 1)
        env_number("WORLD_SIZE", size + 1);
    return open_expect(5000, MUSTER_DIST_EENV,
                       "ranks disagree: rank 1 says that there are 3, and rank 0 2");
}

static int comes_twice(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    (void)arg;
    if (rank == 2)
        env_number("RANK", 1);
    return open_expect(5000, MUSTER_DIST_EENV, "rank 1 has come twice");
}

static int other_token(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    (void)arg;
    setenv("MUSTER_DIST_TOKEN", rank == 1 ? "something else" : "what all know", 1);
    return open_expect(rank == 1 ? 700 : 2000, MUSTER_DIST_ETIMEOUT,
                       rank == 1 ? "has another MUSTER_DIST_TOKEN" : "rank 1 of 2 did not come");
}

/* Somebody else listens there, who says something else. */
static void other_serve(int fd)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    for (int one; (one = accept(fd, NULL, NULL)) >= 0; close(one))
        send(one, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
}

static int port_is_had(uint32_t rank, uint32_t size, const void *arg)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(getenv("MUSTER_DIST_PORT")))};
    (void)size;
    (void)arg;
    if (rank == 1) {
        sleep_ms(300);
        return open_expect(500, MUSTER_DIST_ETIMEOUT, "what listens there is no rank");
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 5) == 0, "listen");
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        other_serve(fd);
        _exit(0);
    }
    int rc = open_expect(500, MUSTER_DIST_EIO, "MUSTER_DIST_PORT names another one");
    sleep_ms(1500);
    kill(pid, SIGKILL);
    return rc;
}

static int no_address(uint32_t rank, uint32_t size, const void *arg)
{
    (void)rank;
    (void)size;
    (void)arg;
    setenv("MUSTER_DIST_PORT", "70000", 1);
    if (open_expect(500, MUSTER_DIST_EENV, "MUSTER_DIST_PORT: '70000' is not a port"))
        return 1;
    unsetenv("MASTER_ADDR");
    return open_expect(500, MUSTER_DIST_EENV,
                       "MASTER_ADDR, which says where rank 0 is, is not set");
}

/* Rank 2 never comes, so the victim, which is 0 or 1, is ended while it waits. */
static int ends_early(uint32_t rank, uint32_t size, const void *arg)
{
    uint32_t victim = *(const uint32_t *)arg;
    (void)size;
    if (rank == 2)
        return 0;
    if (rank == victim) {
        alarm(1);
        open_expect(10000, 0, "");
        return 1;
    }
    return open_expect(10000, MUSTER_DIST_ELOST,
                       victim == 1 ? "the process of rank 1 ended before all ranks had come"
                                   : "the process of rank 0 has ended, or cannot be reached any "
                                     "more; rank 1 waits for it in the meeting");
}

static void test_not_opened(void **state)
{
    (void)state;
    static const uint32_t victims[] = {0, 1};
    struct ranks early[countof(victims)];
    for (unsigned i = 0; i < countof(victims); i++)
        early[i] = ranks_begin(3, 10 + i, ends_early, &victims[i]);
    struct ranks worlds[] = {
        ranks_begin(4, 1, some_missing, NULL), ranks_begin(2, 2, first_missing, NULL),
        ranks_begin(2, 3, sizes_differ, NULL), ranks_begin(3, 4, comes_twice, NULL),
        ranks_begin(2, 5, other_token, NULL),  ranks_begin(2, 6, no_address, NULL),
        ranks_begin(2, 7, port_is_had, NULL)};
    for (size_t i = 0; i < countof(worlds); i++)
        ranks_end_well(&worlds[i]);
    for (unsigned i = 0; i < countof(victims); i++)
        for (uint32_t r = 0; r < early[i].size; r++)
            assert_int_equal(ranks_status(&early[i], r), r == victims[i] ? SIGALRM : 0);
}

/* ---- another attempt at the same port ---- */

static int attempt(uint32_t rank, uint32_t size, const void *arg)
{
    const unsigned *numbers = arg; /* of the port, and of the attempt */
    (void)size;
    env_number("MUSTER_DIST_PORT", numbers[0]);
    env_number("TORCHELASTIC_RESTART_COUNT", numbers[1]);
    if (numbers[1] == 0)
        return rank == 1 ? 0 : open_expect(1500, MUSTER_DIST_ETIMEOUT, "rank 1 of 2 did not come");
    struct muster_dist *dist = open_well(0);
    CHECK(muster_dist_code(dist) == 0, "%s", muster_dist_error(dist));
    return muster_dist_close(dist);
}

static void test_attempts(void **state)
{
    (void)state;
    unsigned first[] = {port_find(), 0}, second[] = {first[0], 1};
    struct ranks a = ranks_begin(2, 0, attempt, first);
    sleep_ms(200);
    struct ranks b = ranks_begin(2, 1, attempt, second);
    ranks_end_well(&a);
    ranks_end_well(&b);
}

/* ---- other programs at the port ---- */

static int sum_at(uint32_t rank, uint32_t size, const void *arg)
{
    int32_t sum = 1;
    if (rank > 0)
        sleep_ms(400 * (long)rank); /* so that the other program comes first */
    env_number("MUSTER_DIST_PORT", *(const unsigned *)arg);
    struct muster_dist *dist = muster_dist_open(NULL);
    CHECK(muster_dist_all_reduce(dist, &sum, 1, MUSTER_INT32, MUSTER_SUM) == 0, "%s",
          muster_dist_error(dist));
    CHECK(sum == (int32_t)size, "sum %d", sum);
    return muster_dist_close(dist);
}

/* Any bytes, some of them after the right beginning, and silence: more than are listened to at once. */
static void other_program_run(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t bytes[64];
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        for (size_t k = 0; k < countof(bytes); k++)
            bytes[k] = mix64(i * 64 + k);
        if (i % 3 == 1)
            bytes[0] = 0x6d647431 | 1ull << 32; /* the magic number and rank 1 */
        if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
            send(fd, bytes, i % 3 == 2 ? 0 : mix64(i) % sizeof(bytes), MSG_NOSIGNAL);
        if (i % 5 != 0 || i > 30)
            close(fd); /* the others stay, and say nothing more */
        sleep_ms(2);
    }
}

static void test_other_programs(void **state)
{
    (void)state;
    unsigned port = port_find();
    struct ranks ranks = ranks_begin(3, 0, sum_at, &port);
    other_program_run(port);
    ranks_end_well(&ranks);
}

/* ---- what is told behind the bytes of another operation ---- */

/* The head of another operation, its bytes, and an error. */
static void odd_rank_writes(int fd, size_t bytes)
{
    const struct tcp_head call = {
        .kind = TCP_CALL, .bytes = bytes, .signature = {.what = 1, .count = 1, .seq = 3}};
    const struct tcp_head head = {
        .kind = TCP_TOLD, .bytes = sizeof(struct tcp_told), .signature = {.seq = 2}};
    const struct tcp_told told = {.code = -77, .text = "the cause"};
    const char rest[256] = {0};
    assert_int_equal(write(fd, &call, sizeof(call)), sizeof(call));
    assert_int_equal(write(fd, rest, bytes), bytes);
    assert_int_equal(write(fd, &head, sizeof(head)), sizeof(head));
    assert_int_equal(write(fd, &told, sizeof(told)), sizeof(told));
}

/* Rank 2 is lost while rank 1, which has failed, was at another operation, with more or fewer bytes. */
static void test_odd(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{40, 40}, {40, 80}, {80, 40}, {0, 40}, {40, 0}};
    static char room[3 * 256];
    for (size_t i = 0; i < countof(sizes); i++) {
        int odd[2], lost[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, odd), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lost), 0);
        struct tcp_peer peers[3] = {{.fd = -1}, {.fd = odd[0]}, {.fd = lost[0]}};
        struct pollfd polls[3];
        struct md_tcp tcp = {.size = 3,
                             .peers = peers,
                             .polls = polls,
                             .lock = PTHREAD_MUTEX_INITIALIZER,
                             .deadline_ns = UINT64_MAX};
        struct muster_dist dist = {.impl = &tcp, .fail_lock = PTHREAD_MUTEX_INITIALIZER};
        const struct md_call call = {.what = {.kind = MUSTER_ALL_REDUCE}, .seq = 3};
        for (int r = 1; r < 3; r++) {
            md_tcp_send(&peers[r], TCP_CALL, room, sizes[i][1], &(struct tcp_signature){.seq = 3});
            md_tcp_expect(&peers[r], TCP_CALL, room + r * 256, sizes[i][1]);
        }
        odd_rank_writes(odd[1], sizes[i][0]);
        close(lost[1]);
        assert_int_equal(md_tcp_exchange(&dist, &call), -77);
        assert_string_equal(dist.error, "the cause");
        close(odd[0]), close(odd[1]), close(lost[0]);
    }
}

/* ---- a rank that comes when the others give up ---- */

enum {
    LATE_OF = 3,
    N_LATE = 12,
    LATE_TIMEOUT_MS = 3000, /* also for the ranks to meet */
    LATE_ASKED_MS = 1000    /* tcp_frame.c: ASK_NS */
};

struct late_case {
    int off_us; /* from the moment when the others give up */
    struct {
        int code;
        char text[256];
    } * ends; /* [LATE_OF], shared */
};

static int come_when_given_up(uint32_t rank, uint32_t size, const void *arg)
{
    const struct late_case *late = arg;
    const struct muster_dist_opts opts = {.timeout_ms = LATE_TIMEOUT_MS};
    struct muster_dist *dist = muster_dist_open(&opts);
    (void)size;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    if (rank == 2)
        usleep((unsigned)((LATE_TIMEOUT_MS + LATE_ASKED_MS) * 1000 + late->off_us));
    muster_dist_barrier(dist);
    snprintf(late->ends[rank].text, sizeof(late->ends[rank].text), "%s", muster_dist_error(dist));
    late->ends[rank].code = muster_dist_close(dist);
    return 0;
}

static void test_late(void **state)
{
    (void)state;
    struct late_case cases[N_LATE];
    struct ranks ranks[N_LATE];
    size_t bytes = LATE_OF * sizeof(*cases[0].ends);
    for (int i = 0; i < N_LATE; i++) {
        cases[i].off_us = (i - N_LATE / 2) * 1500;
        cases[i].ends =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(cases[i].ends != MAP_FAILED);
        ranks[i] = ranks_begin(LATE_OF, (unsigned)i, come_when_given_up, &cases[i]);
    }
    for (int i = 0; i < N_LATE; i++) {
        ranks_end_well(&ranks[i]);
        for (uint32_t r = 0; r < LATE_OF; r++) {
            const char *text = cases[i].ends[r].text;
            assert_int_equal(cases[i].ends[r].code, cases[i].ends[0].code);
            if (*text && !strstr(text, "rank 2 has not come to barrier #2"))
                fail_msg("%s", text);
        }
        munmap(cases[i].ends, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mac),      cmocka_unit_test(test_killed),
        cmocka_unit_test(test_told),     cmocka_unit_test(test_not_opened),
        cmocka_unit_test(test_attempts), cmocka_unit_test(test_other_programs),
        cmocka_unit_test(test_odd),      cmocka_unit_test(test_late),
    };
    setenv("MUSTER_DIST_BACKEND", "tcp", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
