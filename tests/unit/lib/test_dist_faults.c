/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong between ranks, and what all of them are told: disagreement, a rank that is killed
 * within each operation, one that does not come, leaves or fails, worlds that do not come about, forked
 * processes, and memory that there is not.
 */
#include "lib/ranks.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "base/attr.h"
#include "dist/shm.h"
#include "muster/dist.h"

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- disagreement ---- */

static float values[65536];

/* What rank 2 does while the others add 1000 float32 values, and a part of what is said. */
static const struct odd_case {
    struct muster_dist_call call;
    const char *said;
} odd_cases[] = {
    {{.kind = MUSTER_BARRIER}, "rank 2 to barrier #2"},
    {{MUSTER_BROADCAST, MUSTER_FLOAT32, MUSTER_SUM, 1, NULL, values, 1000},
     "rank 2 to broadcast #2 (float32, 1000 values, from rank 1)"},
    {{MUSTER_ALL_REDUCE, MUSTER_FLOAT32, MUSTER_SUM, 0, NULL, values, 999},
     "rank 2 to all-reduce #2 (float32 sum, 999 values)"},
    {{MUSTER_ALL_REDUCE, MUSTER_FLOAT32, MUSTER_SUM, 0, NULL, values, 65536},
     "rank 2 to all-reduce #2 (float32 sum, 65536 values)"},
    {{MUSTER_ALL_REDUCE, MUSTER_INT32, MUSTER_SUM, 0, NULL, values, 1000},
     "rank 2 to all-reduce #2 (int32 sum, 1000 values)"},
    {{MUSTER_ALL_REDUCE, MUSTER_FLOAT32, MUSTER_MAX, 0, NULL, values, 1000},
     "rank 2 to all-reduce #2 (float32 max, 1000 values)"},
};

static int disagree(uint32_t rank, uint32_t size, const void *arg)
{
    const struct odd_case *odd = arg;
    struct muster_dist *dist = muster_dist_open(NULL);
    const struct muster_dist_call usual = {
        MUSTER_ALL_REDUCE, MUSTER_FLOAT32, MUSTER_SUM, 0, NULL, values, 1000};
    uint64_t ticket;
    (void)size;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    int rc = muster_dist_start(dist, rank == 2 ? &odd->call : &usual, &ticket);
    rc = rc ? rc : muster_dist_wait(dist, ticket);
    CHECK(rc == MUSTER_DIST_EMISMATCH, "code %d: %s", rc, muster_dist_error(dist));
    const char *text = muster_dist_error(dist);
    CHECK(strstr(text, "rank 0 came to all-reduce #2 (float32 sum, 1000 values)"), "%s", text);
    CHECK(strstr(text, odd->said), "%s", text);
    CHECK(muster_dist_barrier(dist) == rc, "the error stays");
    CHECK(muster_dist_close(dist) == rc, "close returns it");
    return 0;
}

static void test_disagree(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(odd_cases); i++)
        ranks_run(4, disagree, &odd_cases[i]);
}

/* ---- a rank that is killed ---- */

enum {
    KILLED_OF = 3, /* ranks: each of them is killed in a world of its own */
    N_KINDS = MUSTER_ALL_GATHER + 1
};

struct kill_case {
    uint32_t victim;
    enum muster_collective kind;
    size_t count;
    bool is_started, is_library;
    atomic_uint *n_begun; /* ranks that have done one */
};

static int work_forever(uint32_t rank, uint32_t size, const void *arg)
{
    const struct kill_case *work = arg;
    struct muster_dist *dist = muster_dist_open(NULL);
    size_t bytes = work->count * size * sizeof(float);
    char *memory = work->is_library ? muster_dist_buffer_new(dist, 2 * bytes) : malloc(2 * bytes);
    struct muster_dist_call call = {work->kind, MUSTER_FLOAT32, MUSTER_MAX, 0,
                                    memory,     memory,         work->count};
    uint64_t ticket;
    memset(memory, 0, 2 * bytes);
    if (work->kind == MUSTER_ALL_GATHER || work->kind == MUSTER_REDUCE_SCATTER)
        call.out = memory + bytes;
    int rc = muster_dist_barrier(dist);
    atomic_fetch_add(work->n_begun, 1);
    while (rc == 0) {
        rc = muster_dist_start(dist, &call, &ticket);
        rc = rc || work->is_started ? rc : muster_dist_wait(dist, ticket);
    }
    const char *text = muster_dist_error(dist);
    char said[40];
    snprintf(said, sizeof(said), "the process of rank %u (pid ", work->victim);
    CHECK(rank != work->victim && rc == MUSTER_DIST_ELOST, "rank %u: %s", rank, text);
    CHECK(strstr(text, said), "%s", text);
    return muster_dist_close(dist) == rc ? 0 : 1;
}

/* Worlds of each operation and victim at once, since most of the time is waited for. */
static void kill_ones(struct kill_case *works, uint32_t n, long after_ms)
{
    atomic_uint *n_begun =
        mmap(NULL, sizeof(*n_begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(n_begun != MAP_FAILED);
    struct ranks ranks[KILLED_OF * N_KINDS];
    struct timespec begin, end;
    for (uint32_t i = 0; i < n; i++) {
        works[i].n_begun = n_begun;
        ranks[i] = ranks_begin(KILLED_OF, i, work_forever, &works[i]);
    }
    while (atomic_load(n_begun) < KILLED_OF * n)
        sleep_ms(1);
    sleep_ms(after_ms);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint32_t i = 0; i < n; i++)
        kill(ranks[i].pids[works[i].victim], SIGKILL);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < KILLED_OF; r++)
            assert_int_equal(ranks_status(&ranks[i], r), r == works[i].victim ? SIGKILL : 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    /* A second is promised; two CPUs that 45 ranks and others share are allowed for. */
    assert_true(end.tv_sec - begin.tv_sec < 5 || getenv("UNDER_VALGRIND"));
    munmap(n_begun, sizeof(*n_begun));
}

static void test_killed(void **state)
{
    uint32_t step = getenv("UNDER_VALGRIND") ? KILLED_OF : 1; /* where so many ranks are too slow */
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct kill_case works[KILLED_OF * N_KINDS];
        uint32_t n_works = 0;
        for (uint32_t n = 0; n < countof(works); n += step)
            works[n_works++] = (struct kill_case){.victim = n / N_KINDS,
                                                  .kind = (enum muster_collective)(n % N_KINDS),
                                                  .count = i & 1 ? 300000 : 100,
                                                  .is_started = (n + (unsigned)i) % 2 == 1,
                                                  .is_library = i >= 2};
        kill_ones(works, n_works, 20 + i * 7);
    }
}

/* ---- a rank that is late, leaves, or fails ---- */

static int come_late(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.timeout_ms = 2000});
    int64_t sum = 1;
    (void)size;
    (void)arg;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    if (rank == 2)
        sleep_ms(3500);
    int rc = muster_dist_all_reduce(dist, &sum, 1, MUSTER_INT64, MUSTER_SUM);
    const char *text = muster_dist_error(dist);
    CHECK(rc == MUSTER_DIST_ETIMEOUT, "code %d: %s", rc, text);
    CHECK(strstr(text,
                 "rank 2 has not come to all-reduce #2 (int64 sum, 1 values) within 2.0 s; its "
                 "last was barrier #1, to which it came "),
          "%s", text);
    return muster_dist_close(dist) == rc ? 0 : 1;
}

static int leave_early(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)size;
    (void)arg;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    if (rank == 0)
        return muster_dist_close(dist);
    int rc = muster_dist_barrier(dist);
    CHECK(rc == MUSTER_DIST_ELOST &&
              strstr(muster_dist_error(dist), "rank 0 has closed its handle"),
          "code %d: %s", rc, muster_dist_error(dist));
    muster_dist_close(dist);
    return 0;
}

static int one_fails(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)size;
    (void)arg;
    int rc = rank == 1 ? muster_dist_fail(dist, -77, "the loss is NaN at step 12")
                       : muster_dist_barrier(dist);
    CHECK(rc == -77, "code %d", rc);
    CHECK(strcmp(muster_dist_error(dist), "rank 1: the loss is NaN at step 12") == 0, "%s",
          muster_dist_error(dist));
    CHECK(muster_dist_close(dist) == -77, "close");
    return 0;
}

static int use_wrongly(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    float value = 0;
    (void)arg;
    int rc = muster_dist_broadcast(dist, &value, 1, MUSTER_FLOAT32, rank == 1 ? size : 0);
    CHECK(rc == MUSTER_DIST_EUSE, "code %d", rc);
    CHECK(strcmp(muster_dist_error(dist), "rank 1: broadcast: there is no such root") == 0, "%s",
          muster_dist_error(dist));
    CHECK(muster_dist_close(dist) == rc, "close");
    return 0;
}

/* The longest time there is must not be in the past. */
static int wait_for_ever(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.timeout_ms = UINT64_MAX});
    (void)size;
    (void)arg;
    CHECK(muster_dist_code(dist) == 0, "%s", muster_dist_error(dist));
    if (rank == 1)
        sleep_ms(400); /* longer than until others look at the time */
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    return muster_dist_close(dist);
}

/* At once, since most of the time is waited for. */
static void test_told(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND(); /* it counts milliseconds */
    static rank_main *const runs[] = {come_late, leave_early, one_fails, use_wrongly,
                                      wait_for_ever};
    struct ranks worlds[countof(runs)];
    for (size_t i = 0; i < countof(runs); i++)
        worlds[i] = ranks_begin(3, (unsigned)i, runs[i], NULL);
    for (size_t i = 0; i < countof(runs); i++)
        ranks_end_well(&worlds[i]);
}

/* ---- worlds that do not come about ---- */

static int open_expect(uint64_t timeout_ms, int code, const char *said)
{
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.timeout_ms = timeout_ms});
    const char *text = muster_dist_error(dist);
    CHECK(muster_dist_code(dist) == code && strstr(text, said), "code %d: %s",
          muster_dist_code(dist), text);
    CHECK(muster_dist_barrier(dist) == code, "the error stays");
    return muster_dist_close(dist) == code ? 0 : 1;
}

static int some_missing(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    (void)arg;
    if (rank == 1 || rank == 3)
        return 0;
    return open_expect(1500, MUSTER_DIST_ETIMEOUT, "ranks 1 and 3 of 4 did not come within 1.5 s");
}

static int first_missing(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    (void)arg;
    return rank == 0
               ? 0
               : open_expect(300, MUSTER_DIST_ETIMEOUT, "rank 0 of 2 did not come within 0.3");
}

/* As if it were stopped while it listens. */
static int first_is_dumb(uint32_t rank, uint32_t size, const void *arg)
{
    char error[200];
    struct md_place place;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)size;
    (void)arg;
    uint64_t begin_ns = md_now_ns();
    if (rank == 1) {
        int rc = open_expect(500, MUSTER_DIST_ETIMEOUT,
                             "rank 0 of 2 did not answer rank 1 within 0.5 s");
        CHECK(md_now_ns() - begin_ns < 4000000000, "it waited longer than it was told to");
        return rc;
    }
    CHECK(md_place_read(&place, error, sizeof(error)) == 0, "%s", error);
    int len =
        snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "muster-dist-%s", place.key);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CHECK(bind(fd, (const struct sockaddr *)&address, bytes) == 0 && listen(fd, 128) == 0,
          "no socket");
    sleep_ms(5000);
    return 0;
}

static int sizes_differ(uint32_t rank, uint32_t size, const void *arg)
{
    (void)arg;
    if (rank == 1) {
        env_number("WORLD_SIZE", size + 1);
        env_number("LOCAL_WORLD_SIZE", size + 1);
    }
    return open_expect(5000, MUSTER_DIST_EENV,
                       "ranks disagree: rank 1 says that there are 3, and rank 0 2");
}

/* Rank 2 never comes, so the victim, which is 0 or 1, is ended while it waits. */
static int ends_early(uint32_t rank, uint32_t size, const void *arg)
{
    uint32_t victim = *(const uint32_t *)arg;
    char said[60];
    (void)size;
    if (rank == victim) {
        alarm(0);
        struct itimerval soon = {.it_value.tv_sec = 1};
        setitimer(ITIMER_REAL, &soon, NULL);
        open_expect(10000, 0, "");
        return 1;
    }
    snprintf(said, sizeof(said), "the process of rank %u ended before all ranks had come", victim);
    return rank == 2 ? 0 : open_expect(10000, MUSTER_DIST_ELOST, said);
}

static void test_not_opened(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND(); /* it counts milliseconds */
    static const uint32_t victims[] = {0, 1};
    struct ranks early[countof(victims)];
    for (unsigned i = 0; i < countof(victims); i++)
        early[i] = ranks_begin(3, 10 + i, ends_early, &victims[i]);
    struct ranks worlds[] = {
        ranks_begin(4, 1, some_missing, NULL), ranks_begin(2, 2, first_missing, NULL),
        ranks_begin(2, 3, sizes_differ, NULL), ranks_begin(2, 4, first_is_dumb, NULL)};
    for (size_t i = 0; i < countof(worlds); i++)
        ranks_end_well(&worlds[i]);
    for (unsigned i = 0; i < countof(victims); i++)
        for (uint32_t r = 0; r < early[i].size; r++)
            assert_int_equal(ranks_status(&early[i], r), r == victims[i] ? SIGALRM : 0);
}

/* ---- another attempt ---- */

static int first_attempt(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    setenv("MASTER_PORT", arg, 1);
    if (rank == 1)
        return 0;
    return open_expect(1500, MUSTER_DIST_ETIMEOUT, "rank 1 of 2 did not come");
}

static int second_attempt(uint32_t rank, uint32_t size, const void *arg)
{
    setenv("MASTER_PORT", arg, 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    struct muster_dist *dist = muster_dist_open(NULL);
    int32_t sum = (int32_t)rank;
    CHECK(muster_dist_all_reduce(dist, &sum, 1, MUSTER_INT32, MUSTER_SUM) == 0, "%s",
          muster_dist_error(dist));
    CHECK(sum == 1 && size == 2, "sum %d", sum);
    return muster_dist_close(dist);
}

/* At the same port, while rank 0 of the first still waits for one that was lost. */
static void test_attempts(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND(); /* it counts milliseconds */
    char port[16];
    snprintf(port, sizeof(port), "%d", (int)getpid());
    struct ranks first = ranks_begin(2, 0, first_attempt, port);
    sleep_ms(100);
    struct ranks second = ranks_begin(2, 0, second_attempt, port);
    ranks_end_well(&second);
    ranks_end_well(&first);
    ranks_run(2, second_attempt, port);
}

/* ---- forked processes ---- */

static int fork_within(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    int32_t sum = 1, status;
    (void)rank;
    (void)arg;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    pid_t pid = fork();
    if (pid == 0) {
        bool refused = muster_dist_barrier(dist) == MUSTER_DIST_EUSE &&
                       muster_dist_code(dist) == MUSTER_DIST_EUSE &&
                       strstr(muster_dist_error(dist), "forked") &&
                       !muster_dist_buffer_new(dist, 1);
        _exit(refused && muster_dist_close(dist) == MUSTER_DIST_EUSE ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status of the child: %d", status);
    CHECK(muster_dist_all_reduce(dist, &sum, 1, MUSTER_INT32, MUSTER_SUM) == 0, "%s",
          muster_dist_error(dist));
    CHECK(sum == (int32_t)size, "sum %d", sum);
    return muster_dist_close(dist);
}

/* A rank whose child goes on is dead nevertheless. */
static int child_survives(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)size;
    (void)arg;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    if (rank == 1) {
        if (fork() == 0) {
            sleep_ms(1000);
            _exit(0);
        }
        _exit(0);
    }
    int rc = muster_dist_barrier(dist);
    CHECK(rc == MUSTER_DIST_ELOST && strstr(muster_dist_error(dist), "process of rank 1"), "%s",
          muster_dist_error(dist));
    muster_dist_close(dist);
    return 0;
}

static void test_fork(void **state)
{
    (void)state;
    ranks_run(2, fork_within, NULL);
    ranks_run(2, child_survives, NULL);
}

/* ---- memory and names ---- */

static int has_name(const char *path, const char *part)
{
    char line[512];
    FILE *file = fopen(path, "r");
    int found = 0;
    while (file && fgets(line, sizeof(line), file))
        found |= strstr(line, part) != NULL;
    if (file)
        fclose(file);
    return found;
}

/* While the world is open there is nothing that a SIGKILL could leave behind. */
static int leave_no_name(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    struct md_place place;
    char error[100];
    (void)rank;
    (void)size;
    (void)arg;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    CHECK(md_place_read(&place, error, sizeof(error)) == 0, "%s", error);
    CHECK(has_name("/proc/self/maps", "memfd:muster-dist"), "the memory has another name");
    CHECK(!has_name("/proc/self/maps", "/dev/shm/"), "a file in /dev/shm");
    CHECK(!has_name("/proc/net/unix", place.key), "the socket is still there");
    return muster_dist_close(dist);
}

static int ask_too_much(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)size;
    (void)arg;
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    if (rank == 1)
        CHECK(!muster_dist_buffer_new(dist, (size_t)1 << 50), "there was room");
    int rc = rank == 1 ? muster_dist_code(dist) : muster_dist_barrier(dist);
    CHECK(rc == MUSTER_DIST_ENOMEM, "code %d", rc);
    CHECK(strstr(muster_dist_error(dist), "rank 1: no room for a buffer of 1073741824.0 MiB"), "%s",
          muster_dist_error(dist));
    muster_dist_close(dist);
    return 0;
}

static int limit_files(uint32_t rank, uint32_t size, const void *arg)
{
    const struct rlimit *limit = arg;
    (void)size;
    if (rank == 0)
        setrlimit(RLIMIT_FSIZE, limit);
    if (limit->rlim_cur < 1 << 20)
        return rank == 1 ? 0 : open_expect(500, MUSTER_DIST_ENOMEM, "(ulimit -f)");
    struct muster_dist *dist = muster_dist_open(NULL);
    CHECK(muster_dist_barrier(dist) == 0, "%s", muster_dist_error(dist));
    return muster_dist_close(dist);
}

static int use_again(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    char *a = muster_dist_buffer_new(dist, 1 << 20), *b = muster_dist_buffer_new(dist, 1);
    (void)rank;
    (void)size;
    (void)arg;
    CHECK(a && b && b >= a + (1 << 20), "two buffers overlap");
    memset(a, 1, 1 << 20);
    muster_dist_buffer_free(dist, a);
    muster_dist_buffer_free(dist, NULL);
    char *c = muster_dist_buffer_new(dist, 1 << 19);
    CHECK(c == a && c[0] == 0 && c[(1 << 19) - 1] == 0, "what was freed is used again, as zeros");
    return muster_dist_close(dist);
}

static int have_no_room(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)size;
    (void)arg;
    CHECK(md_room_check(dist, 1 << 20, 1 << 20, "a buffer") == 0, "%s", muster_dist_error(dist));
    int rc = muster_dist_barrier(dist);
    rc = rank == 0 ? md_room_check(dist, 3 << 20, 1 << 20, "a buffer") : muster_dist_barrier(dist);
    CHECK(rc == MUSTER_DIST_ENOMEM, "code %d", rc);
    CHECK(strcmp(muster_dist_error(dist), "rank 0: no memory for a buffer: 3.0 MiB are needed, and "
                                          "1.0 MiB available") == 0,
          "%s", muster_dist_error(dist));
    muster_dist_close(dist);
    return 0;
}

static void test_memory(void **state)
{
    (void)state;
    ranks_run(2, leave_no_name, NULL);
    ranks_run(2, ask_too_much, NULL);
    ranks_run(2, limit_files, &(struct rlimit){4096, RLIM_INFINITY});
    ranks_run(2, limit_files, &(struct rlimit){64 << 20, RLIM_INFINITY});
    ranks_run(2, have_no_room, NULL);
    ranks_run(2, use_again, NULL);
}

/* The least of what the machine and the control groups have; what the kernel gives back counts. */
static const struct room_step {
    const char *file, *text;
    uint64_t expected;
} room_steps[] = {
    {"self/cgroup", "3:cpu:/\n0::/job/step\n", UINT64_MAX},
    {"meminfo", "MemTotal: 100 kB\nMemAvailable:   90 kB\n", 90 * 1024},
    {"job/step/memory.max", "max\n", 90 * 1024},
    {"job/step/memory.current", "50000\n", 90 * 1024},
    {"job/step/memory.max", "60000\n", 10000},
    {"job/step/memory.stat", "anon 7\ninactive_file 5000\n", 15000},
    {"job/step/memory.stat", "inactive_file 5000\nactive_file 3000\n", 18000},
    /* Of a group above, and of version 1. */
    {"job/memory.current", "70000\n", 18000},
    {"job/memory.max", "71000\n", 1000},
    {"memory/job/memory.usage_in_bytes", "80000\n", 1000},
    {"memory/job/memory.limit_in_bytes", "80500\n", 1000},
    {"self/cgroup", "3:cpu,memory:/job\n0::/job/step\n", 500},
    {"memory/job/memory.stat", "inactive_file 0\ntotal_inactive_file 200\n", 700},
    {"memory/job/memory.stat", "total_active_file 100\ntotal_inactive_file 200\n", 800},
    {"memory/job/memory.limit_in_bytes", "9223372036854771712\n", 1000},
    /* In a container the path is that of the machine, and the group is at the mount. */
    {"self/cgroup", "3:memory:/docker/0123\n", 90 * 1024},
    {"memory/memory.usage_in_bytes", "80000\n", 90 * 1024},
    {"memory/memory.limit_in_bytes", "80000\n", 0},
};

static void file_write(const char *folder, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_room(void **state)
{
    (void)state;
    static const char *const folders[] = {"self", "job", "job/step", "memory", "memory/job"};
    char root[] = "/tmp/muster-room-XXXXXX", path[200];
    assert_non_null(mkdtemp(root));
    assert_true(md_room_bytes(root, root) == UINT64_MAX);
    for (size_t i = 0; i < countof(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    for (size_t i = 0; i < countof(room_steps); i++) {
        file_write(root, room_steps[i].file, room_steps[i].text);
        if (md_room_bytes(root, root) != room_steps[i].expected)
            fail_msg("%s: %llu bytes, expected %llu", room_steps[i].file,
                     (unsigned long long)md_room_bytes(root, root),
                     (unsigned long long)room_steps[i].expected);
    }
    for (size_t i = 0; i < countof(room_steps); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, room_steps[i].file);
        unlink(path);
    }
    for (size_t i = countof(folders); i-- > 0;) {
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        rmdir(path);
    }
    rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disagree), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_told),     cmocka_unit_test(test_not_opened),
        cmocka_unit_test(test_attempts), cmocka_unit_test(test_fork),
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
