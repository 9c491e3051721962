/* SPDX-License-Identifier: Apache-2.0
 *
 * Values in device memory, over a played NCCL and through the host: every operation on every type in
 * worlds of 1, 2, 3 and 4 ranks, the order with the caller's streams, and what goes wrong.
 */
#include "lib/ranks.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "base/attr.h"
#include "dist/half.h"
#include "muster/dist.h"
#include "unit/lib/played_gpu.h"

enum {
    TYPES = MUSTER_INT8 + 1,
    OPS = MUSTER_MAX + 1,
    COUNT_MAX = 40000,
    ROOM_BYTES = COUNT_MAX * 8 * 4
};

/* Below and above what the played NCCL moves at once. */
static const size_t counts[] = {0, 1, 7, 1000, COUNT_MAX};

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void *device_new(int ordinal, size_t bytes)
{
    struct context *context;
    uint64_t at = 0;
    cuDevicePrimaryCtxRetain(&context, ordinal);
    cuCtxPushCurrent_v2(context);
    cuMemAlloc_v2(&at, bytes);
    return (void *)(uintptr_t)at;
}

/* ---- values: small whole numbers, so that sums are exact in every type and order ---- */

static double value_of(uint32_t rank, size_t i, uint32_t size)
{
    return (double)((i * 7 + rank * 3 + (i >> 8)) % 5 * size);
}

static void put(void *at, size_t i, enum muster_type type, double value)
{
    int64_t whole = (int64_t)value; /* little endian: the low bytes */
    float single = (float)value;
    uint16_t half = type == MUSTER_BFLOAT16 ? md_to_bfloat16(single) : md_to_float16(single);
    const void *from = type >= MUSTER_INT32     ? (const void *)&whole
                       : type == MUSTER_FLOAT32 ? (const void *)&single
                       : type == MUSTER_FLOAT64 ? (const void *)&value
                                                : (const void *)&half;
    memcpy((char *)at + i * muster_type_bytes(type), from, muster_type_bytes(type));
}

struct bench {
    struct muster_dist *dist;
    uint32_t rank, size;
    enum muster_type type;
    char *in, *out;             /* device memory */
    char *in_seen, *out_seen;   /* where the host may touch it */
    char *expected, *of_others; /* ordinary */
};

static int bench_begin(struct bench *bench, uint32_t rank, uint32_t size,
                       const struct muster_dist_opts *opts)
{
    *bench = (struct bench){.dist = muster_dist_open(opts), .rank = rank, .size = size};
    CHECK(muster_dist_code(bench->dist) == 0, "open: %s", muster_dist_error(bench->dist));
    bench->in = device_new(0, ROOM_BYTES);
    bench->out = device_new(0, ROOM_BYTES);
    bench->in_seen = played_reach(bench->in);
    bench->out_seen = played_reach(bench->out);
    bench->expected = malloc(ROOM_BYTES);
    return 0;
}

static int bench_end(struct bench *bench)
{
    cuMemFree_v2((uintptr_t)bench->in);
    cuMemFree_v2((uintptr_t)bench->out);
    free(bench->expected);
    CHECK(muster_dist_close(bench->dist) == 0, "close");
    return 0;
}

static void fill(const struct bench *bench, void *at, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++)
        put(at, i, bench->type, value_of(rank, i, bench->size));
}

static void expect_reduced(const struct bench *bench, size_t count, enum muster_op op)
{
    for (size_t i = 0; i < count; i++) {
        double result = value_of(0, i, bench->size);
        for (uint32_t r = 1; r < bench->size; r++) {
            double other = value_of(r, i, bench->size);
            if (op == MUSTER_MIN)
                result = other < result ? other : result;
            else if (op == MUSTER_MAX)
                result = other > result ? other : result;
            else
                result += other;
        }
        put(bench->expected, i, bench->type, op == MUSTER_MEAN ? result / bench->size : result);
    }
}

static int compare(const struct bench *bench, const char *got, const char *expected, size_t count,
                   const char *what)
{
    size_t width = muster_type_bytes(bench->type);
    for (size_t i = 0; i < count; i++)
        CHECK(memcmp(got + i * width, expected + i * width, width) == 0,
              "rank %u of %u: %s of %zu %s: value %zu differs", bench->rank, bench->size, what,
              count, muster_type_name(bench->type), i);
    return 0;
}

static int try_reduce(const struct bench *bench, size_t count, enum muster_op op)
{
    const struct muster_dist_call call = {MUSTER_ALL_REDUCE, bench->type, op,   0,
                                          bench->in,         bench->out,  count};
    uint64_t ticket;
    fill(bench, bench->in_seen, count, bench->rank);
    expect_reduced(bench, count, op);
    int rc = muster_dist_start(bench->dist, &call, &ticket);
    rc = rc ? rc : muster_dist_wait(bench->dist, ticket);
    rc = rc ? rc : muster_dist_all_reduce(bench->dist, bench->in, count, bench->type, op);
    CHECK(rc == 0, "all-reduce: %s", muster_dist_error(bench->dist));
    return compare(bench, bench->out_seen, bench->expected, count, "all-reduce") ||
           compare(bench, bench->in_seen, bench->expected, count, "all-reduce in place");
}

static int try_scatter(const struct bench *bench, size_t count, enum muster_op op)
{
    size_t own = bench->rank * count * muster_type_bytes(bench->type);
    fill(bench, bench->in_seen, count * bench->size, bench->rank);
    expect_reduced(bench, count * bench->size, op);
    int rc = muster_dist_reduce_scatter(bench->dist, bench->in, bench->out, count, bench->type, op);
    rc = rc ? rc
            : muster_dist_reduce_scatter(bench->dist, bench->in, bench->in + own, count,
                                         bench->type, op);
    CHECK(rc == 0, "reduce-scatter: %s", muster_dist_error(bench->dist));
    if (compare(bench, bench->out_seen, bench->expected + own, count, "reduce-scatter") ||
        compare(bench, bench->in_seen + own, bench->expected + own, count,
                "reduce-scatter in place"))
        return 1;
    fill(bench, bench->in_seen, count * bench->size, bench->rank);
    rc = muster_dist_reduce_scatter(bench->dist, NULL, bench->in, count, bench->type, op);
    CHECK(rc == 0, "reduce-scatter: %s", muster_dist_error(bench->dist));
    return compare(bench, bench->in_seen, bench->expected + own, count,
                   "reduce-scatter to the beginning");
}

static int compare_gathered(const struct bench *bench, size_t count, const char *what)
{
    size_t bytes = count * muster_type_bytes(bench->type);
    for (uint32_t r = 0; r < bench->size; r++) {
        fill(bench, bench->expected, count, r);
        if (compare(bench, bench->out_seen + r * bytes, bench->expected, count, what))
            return 1;
    }
    return 0;
}

static int try_copies(const struct bench *bench, size_t count)
{
    uint32_t root = (uint32_t)(count % bench->size);
    size_t bytes = count * muster_type_bytes(bench->type);
    fill(bench, bench->in_seen, count, bench->rank);
    int rc = muster_dist_all_gather(bench->dist, bench->in, bench->out, count, bench->type);
    rc = rc ? rc : muster_dist_broadcast(bench->dist, bench->in, count, bench->type, root);
    CHECK(rc == 0, "%s", muster_dist_error(bench->dist));
    if (compare_gathered(bench, count, "all-gather"))
        return 1;
    memset(bench->out_seen, 0, bytes * bench->size);
    fill(bench, bench->out_seen + bench->rank * bytes, count, bench->rank);
    rc = muster_dist_all_gather(bench->dist, NULL, bench->out, count, bench->type);
    CHECK(rc == 0, "%s", muster_dist_error(bench->dist));
    if (compare_gathered(bench, count, "all-gather in place"))
        return 1;
    fill(bench, bench->expected, count, root);
    return compare(bench, bench->in_seen, bench->expected, count, "broadcast");
}

static int every_type(struct bench *bench)
{
    for (int type = 0; type < TYPES; type++)
        for (size_t i = 0; i < countof(counts); i++) {
            bench->type = (enum muster_type)type;
            for (int op = 0; op < OPS; op++)
                if (try_reduce(bench, counts[i], (enum muster_op)op) ||
                    try_scatter(bench, counts[i] / 4, (enum muster_op)op))
                    return 1;
            if (try_copies(bench, counts[i] / 4) || muster_dist_barrier(bench->dist))
                return 1;
        }
    return 0;
}

/* ---- worlds ---- */

struct way {
    const char *asked, *backend;
    bool has_device_memory;
};

static int every_operation(uint32_t rank, uint32_t size, const void *arg)
{
    const struct way *way = arg;
    const struct muster_dist_opts opts = {.backend = way->asked,
                                          .has_device_memory = way->has_device_memory};
    struct bench bench;
    if (bench_begin(&bench, rank, size, &opts))
        return 1;
    CHECK(strcmp(muster_dist_backend(bench.dist), way->backend) == 0, "backend %s",
          muster_dist_backend(bench.dist));
    return every_type(&bench) || bench_end(&bench);
}

static void test_operations(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        struct way way;
    } cases[] = {
        {1, {"nccl", "self+nccl", false}}, {1, {NULL, "self", true}},
        {2, {"nccl", "shm+nccl", false}},  {2, {NULL, "shm+nccl", true}},
        {2, {"shm", "shm", true}},         {3, {"shm+nccl", "shm+nccl", false}},
        {4, {"auto", "shm+nccl", true}},   {4, {"shm", "shm", true}},
    };
    for (size_t i = 0; i < countof(cases); i++)
        ranks_run(cases[i].size, every_operation, &cases[i].way);
}

/* A handle that was not told of device memory asks no driver, so there may be none. */
static int host_alone(uint32_t rank, uint32_t size, const void *arg)
{
    (void)rank;
    (void)arg;
    setenv("MUSTER_DIST_CUDA", "/nowhere/libcuda.so.1", 1);
    struct muster_dist *dist = muster_dist_open(NULL);
    int32_t sum = 1;
    CHECK(muster_dist_all_reduce(dist, &sum, 1, MUSTER_INT32, MUSTER_SUM) == 0, "%s",
          muster_dist_error(dist));
    CHECK(sum == (int32_t)size && strcmp(muster_dist_backend(dist), "shm") == 0, "sum %d", sum);
    return muster_dist_close(dist);
}

/* ---- the order with streams ---- */

/* Operations are issued while the values that they are about are still to come, each on its heels. */
static int late_values(uint32_t rank, uint32_t size, const void *arg)
{
    struct played_stream *stream = NULL;
    const bool *has_stream = arg;
    enum {
        N = 5,
        COUNT = 1000
    };
    static int32_t host[N][COUNT];
    uint64_t tickets[N];
    char *data = device_new(0, sizeof(host));
    if (*has_stream)
        cuStreamCreate(&stream, 1);
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.has_device_memory = true, .stream = stream});
    int rc = muster_dist_code(dist);
    for (int n = 0; n < N; n++) {
        int32_t *at = (int32_t *)(void *)(data + sizeof(host[n]) * (size_t)n);
        struct muster_dist_call call = {
            .kind = MUSTER_ALL_REDUCE, .type = MUSTER_INT32, .out = at, .count = COUNT};
        for (int i = 0; i < COUNT; i++)
            host[n][i] = (int32_t)rank + n + i;
        played_kernel(stream, rank == 0 ? 20 : 1);
        cuMemcpyAsync((uintptr_t)at, (uintptr_t)host[n], sizeof(host[n]), stream);
        rc = rc ? rc : muster_dist_start(dist, &call, &tickets[n]);
        int32_t one = 1; /* in host memory, in between */
        rc = rc || n != 2 ? rc : muster_dist_all_reduce(dist, &one, 1, MUSTER_INT32, MUSTER_SUM);
        CHECK(n != 2 || one == (int32_t)size, "sum %d", one);
    }
    for (int n = 0; rc == 0 && n < N; n++) {
        rc = muster_dist_wait(dist, tickets[n]);
        const int32_t *seen = played_reach(data + sizeof(host[n]) * (size_t)n);
        for (int i = 0; rc == 0 && i < COUNT; i++)
            CHECK(seen[i] == (int32_t)(size * (size - 1) / 2) + (int32_t)size * (n + i),
                  "operation %d: value %d is %d", n, i, seen[i]);
    }
    CHECK(rc == 0, "%s", muster_dist_error(dist));
    return muster_dist_close(dist);
}

static void test_order(void **state)
{
    (void)state;
    ranks_run(2, host_alone, NULL);
    ranks_run(2, late_values, &(bool){false});
    ranks_run(3, late_values, &(bool){true});
}

/* ---- a rank that is killed within an operation ---- */

enum {
    KILLED_OF = 3,              /* ranks: each of them is killed in a world of its own */
    N_KINDS = MUSTER_ALL_GATHER /* without the barrier, which has no values */
};

struct kill_case {
    uint32_t victim;
    enum muster_collective kind;
    bool is_started;
    atomic_uint *n_begun;
};

static int work_forever(uint32_t rank, uint32_t size, const void *arg)
{
    const struct kill_case *work = arg;
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    struct muster_dist_call call = {.kind = work->kind, .type = MUSTER_FLOAT32, .count = 3000};
    call.out = device_new(0, 3000 * sizeof(float) * size);
    call.in = work->kind == MUSTER_ALL_REDUCE || work->kind == MUSTER_BROADCAST
                  ? call.out
                  : device_new(0, 3000 * sizeof(float) * size);
    uint64_t ticket;
    int rc = muster_dist_barrier(dist);
    for (int n = 0; rc == 0; n++) {
        rc = muster_dist_start(dist, &call, &ticket);
        rc = rc || work->is_started ? rc : muster_dist_wait(dist, ticket);
        if (n == 3)
            atomic_fetch_add(work->n_begun, 1);
    }
    const char *text = muster_dist_error(dist);
    char said[40];
    snprintf(said, sizeof(said), "the process of rank %u (pid ", work->victim);
    CHECK(rank != work->victim && rc == MUSTER_DIST_ELOST, "rank %u: %s", rank, text);
    CHECK(strstr(text, said) && strstr(text, "in device memory"), "%s", text);
    return muster_dist_close(dist) == rc ? 0 : 1;
}

static void test_killed(void **state)
{
    (void)state;
    atomic_uint *n_begun =
        mmap(NULL, sizeof(*n_begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(n_begun != MAP_FAILED);
    struct kill_case works[KILLED_OF * N_KINDS];
    struct ranks ranks[countof(works)];
    for (unsigned i = 0; i < countof(works); i++) {
        works[i] = (struct kill_case){i / N_KINDS, (enum muster_collective)(i % N_KINDS + 1),
                                      i % 2 == 1, n_begun};
        ranks[i] = ranks_begin(KILLED_OF, i, work_forever, &works[i]);
    }
    for (int ms = 0; ms < RANK_LIMIT_S * 1000 && atomic_load(n_begun) < KILLED_OF * countof(works);
         ms++)
        sleep_ms(1);
    for (unsigned i = 0; i < countof(works); i++)
        kill(ranks[i].pids[works[i].victim], SIGKILL);
    for (unsigned i = 0; i < countof(works); i++)
        for (uint32_t r = 0; r < KILLED_OF; r++)
            assert_int_equal(ranks_status(&ranks[i], r), r == works[i].victim ? SIGKILL : 0);
    munmap(n_begun, sizeof(*n_begun));
}

/* ---- what goes wrong, and what all ranks are told ---- */

/* One variable of one rank's environment, and what comes of all-reduces. */
struct fault {
    uint32_t rank;
    const char *variable, *value;
    int code;
    const char *said;
};

static const struct fault faults[] = {
    {1, "MUSTER_DIST_NCCL", "/nowhere/libnccl.so.2", MUSTER_DIST_EENV,
     "rank 1: NCCL, which carries values in device memory, cannot be loaded "
     "(/nowhere/libnccl.so.2: "},
    {0, "MUSTER_DIST_NCCL", "libc.so.6", MUSTER_DIST_EENV, "rank 0: NCCL has no ncclGetVersion"},
    {1, "MUSTER_DIST_CUDA", "/nowhere/libcuda.so.1", MUSTER_DIST_EENV,
     "rank 1: CUDA's driver, which values in device memory need, cannot be loaded "
     "(/nowhere/libcuda.so.1: "},
    {0, "PLAYED_NCCL_VERSION", "2708", MUSTER_DIST_EENV,
     "rank 0: NCCL is of version 2.7.8, and 2.18 and later ones before 3 are known"},
    {1, "PLAYED_NCCL_VERSION", "30001", MUSTER_DIST_EENV, "rank 1: NCCL is of version 3.0.1"},
    {1, "PLAYED_NCCL_VERSION", "22304", MUSTER_DIST_EENV,
     "ranks disagree: rank 0 has NCCL 2.27.3, rank 1 2.23.4"},
    {1, "PLAYED_UUID", "0", MUSTER_DIST_EENV,
     "ranks 0 and 1 are on the same device, GPU-00000000-0000-0000-0000-000000000000, and NCCL "
     "allows one rank a device"},
    {1, "PLAYED_NCCL_FAILS", "3", MUSTER_DIST_EIO,
     "rank 1: NCCL cannot go on: remote process exited or there was a network error: NET/IB : got "
     "completion with error 12"},
    {1, "PLAYED_NCCL_STUCK", "2", MUSTER_DIST_ETIMEOUT,
     ": NCCL's work for all-reduce #2 (float32 sum, 1000 values, in device memory) did not end "
     "within 3.0 s, though all ranks have come to it"},
};

static int reduce_until(struct muster_dist *dist, float *data, int n)
{
    int rc = muster_dist_code(dist);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = muster_dist_all_reduce(dist, data, 1000, MUSTER_FLOAT32, MUSTER_SUM);
    return rc;
}

static int meet_fault(uint32_t rank, uint32_t size, const void *arg)
{
    const struct fault *fault = arg;
    (void)size;
    if (rank == fault->rank)
        setenv(fault->variable, fault->value, 1);
    uint64_t timeout_ms = fault->code == MUSTER_DIST_ETIMEOUT ? 3000 : 20000;
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.timeout_ms = timeout_ms, .backend = "nccl"});
    int rc = reduce_until(dist, device_new(0, 4000), 5);
    CHECK(rc == fault->code && strstr(muster_dist_error(dist), fault->said), "rank %u: code %d: %s",
          rank, rc, muster_dist_error(dist));
    CHECK(muster_dist_barrier(dist) == rc, "the error stays");
    return muster_dist_close(dist) == rc ? 0 : 1;
}

/* NCCL's own refusal, where the variable says that a device may have two. */
static int refused_by_nccl(uint32_t rank, uint32_t size, const void *arg)
{
    (void)size;
    (void)arg;
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("PLAYED_UUID", "7", 1);
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    int rc = reduce_until(dist, device_new(0, 4000), 1);
    CHECK(rc == MUSTER_DIST_EENV &&
              strstr(muster_dist_error(dist), ": NCCL cannot go on: invalid usage: Duplicate GPU "
                                              "detected : rank "),
          "rank %u: code %d: %s", rank, rc, muster_dist_error(dist));
    muster_dist_close(dist);
    return 0;
}

static int disagree(uint32_t rank, uint32_t size, const void *arg)
{
    static float in_host[1000];
    const bool *is_place = arg;
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    float *data = device_new(0, 4000);
    (void)size;
    CHECK(reduce_until(dist, data, 1) == 0, "%s", muster_dist_error(dist));
    size_t count = *is_place || rank == 0 ? 1000 : 999;
    int rc = muster_dist_all_reduce(dist, *is_place && rank == 1 ? in_host : data, count,
                                    MUSTER_FLOAT32, MUSTER_MAX);
    const char *text = muster_dist_error(dist);
    CHECK(rc == MUSTER_DIST_EMISMATCH &&
              strstr(text, "rank 0 came to all-reduce #2 (float32 max, 1000 values, in device "
                           "memory), rank 1 to all-reduce #2 (float32 max, "),
          "code %d: %s", rc, text);
    CHECK(strstr(text, *is_place ? "1000 values)" : "999 values, in device memory)"), "%s", text);
    return muster_dist_close(dist) == rc ? 0 : 1;
}

static int come_late(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.backend = "nccl", .timeout_ms = 2000});
    float *data = device_new(0, 4000);
    (void)size;
    (void)arg;
    CHECK(reduce_until(dist, data, 1) == 0, "%s", muster_dist_error(dist));
    if (rank == 1)
        sleep_ms(3500);
    int rc = reduce_until(dist, data, 1);
    CHECK(rc == MUSTER_DIST_ETIMEOUT &&
              strstr(muster_dist_error(dist),
                     "rank 1 has not come to all-reduce #2 (float32 sum, 1000 values, in device "
                     "memory) within 2.0 s; its last was the end of all-reduce #1 "),
          "code %d: %s", rc, muster_dist_error(dist));
    return muster_dist_close(dist) == rc ? 0 : 1;
}

/* A kernel that hangs: the rank that has it is named, though others wait as long. */
static int kernel_hangs(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist =
        muster_dist_open(&(struct muster_dist_opts){.backend = "nccl", .timeout_ms = 4000});
    float *data = device_new(0, 4000);
    (void)size;
    (void)arg;
    CHECK(reduce_until(dist, data, 1) == 0, "%s", muster_dist_error(dist));
    if (rank == 1)
        played_kernel(NULL, 6000);
    int rc = reduce_until(dist, data, 1);
    CHECK(rc == MUSTER_DIST_ETIMEOUT &&
              strcmp(muster_dist_error(dist),
                     "rank 1: what its stream has before all-reduce #2 (float32 sum, 1000 values, "
                     "in device memory) did not end within 4.0 s") == 0,
          "code %d: %s", rc, muster_dist_error(dist));
    return muster_dist_close(dist) == rc ? 0 : 1;
}

static int use_wrongly(uint32_t rank, uint32_t size, const void *arg)
{
    const bool *is_device = arg;
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    static float in_host[1000];
    float *data = device_new(0, 4000), *elsewhere = device_new(1, 4000);
    (void)size;
    CHECK(reduce_until(dist, data, 1) == 0, "%s", muster_dist_error(dist));
    int rc = 0;
    if (rank == 0)
        rc = muster_dist_barrier(dist);
    else if (*is_device)
        rc = reduce_until(dist, elsewhere, 1);
    else
        rc = muster_dist_all_gather(dist, in_host, data, 100, MUSTER_FLOAT32);
    CHECK(rc == MUSTER_DIST_EUSE &&
              strstr(muster_dist_error(dist),
                     *is_device ? "rank 1: values on device 1, and those before were on device 0"
                                : "rank 1: all-gather: in and out are not in the same memory"),
          "code %d: %s", rc, muster_dist_error(dist));
    muster_dist_close(dist);
    return 0;
}

static int fork_within(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    float *data = device_new(0, 4000);
    int status;
    (void)rank;
    (void)size;
    (void)arg;
    CHECK(reduce_until(dist, data, 1) == 0, "%s", muster_dist_error(dist));
    pid_t pid = fork();
    if (pid == 0)
        _exit(muster_dist_all_reduce(dist, data, 1, MUSTER_FLOAT32, MUSTER_SUM) ==
                          MUSTER_DIST_EUSE &&
                      muster_dist_close(dist) == MUSTER_DIST_EUSE
                  ? 0
                  : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status of the child: %d", status);
    CHECK(reduce_until(dist, data, 2) == 0, "%s", muster_dist_error(dist));
    return muster_dist_close(dist);
}

static void test_faults(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND();
    struct ranks worlds[countof(faults)];
    for (size_t i = 0; i < countof(faults); i++)
        worlds[i] = ranks_begin(2, (unsigned)i, meet_fault, &faults[i]);
    for (size_t i = 0; i < countof(faults); i++)
        ranks_end_well(&worlds[i]);
}

static void test_told(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND();
    static const bool no = false, yes = true;
    static const struct {
        rank_main *run;
        const void *arg;
    } cases[] = {{refused_by_nccl, NULL}, {disagree, &no},      {disagree, &yes},
                 {come_late, NULL},       {kernel_hangs, NULL}, {use_wrongly, &no},
                 {use_wrongly, &yes},     {fork_within, NULL}};
    struct ranks worlds[countof(cases)];
    for (size_t i = 0; i < countof(cases); i++)
        worlds[i] = ranks_begin(2, (unsigned)i, cases[i].run, cases[i].arg);
    for (size_t i = 0; i < countof(cases); i++)
        ranks_end_well(&worlds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations), cmocka_unit_test(test_order),
        cmocka_unit_test(test_killed),     cmocka_unit_test(test_faults),
        cmocka_unit_test(test_told),
    };
    played_use();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
