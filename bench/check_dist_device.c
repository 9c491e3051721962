/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether operations on values in device memory are right, on the GPU that is there: every collective,
 * type and reduction, in and out of place, and a step of ddp, in the world that the environment says.
 * Small whole numbers, whose sums are exact in every order. Needs nothing but lib/dist, so that gcc alone
 * builds it where a GPU is (tools/gpu-dist).
 *
 *     check_dist_device BACKEND [COUNT]     as in MUSTER_DIST_BACKEND; says what is wrong, and ends with 1
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/cuda_driver.h"
#include "dist/half.h"
#include "muster/ddp.h"

enum {
    TYPES = MUSTER_INT8 + 1,
    OPS = MUSTER_MAX + 1
};

/* Values of each rank's part; the last is the default of the command line. */
static size_t counts[] = {1, 1000, 1 << 20};

struct check {
    struct muster_dist *dist;
    struct cuda_functions cuda;
    uint32_t rank, size;
    enum muster_type type;
    size_t count;             /* of each rank's part */
    cuda_address in, out;     /* room for a part of each rank */
    char *host, *expected;    /* likewise */
    uint64_t n_done, n_wrong; /* operations */
};

static double value_of(const struct check *check, uint32_t rank, size_t i)
{
    return (double)((i * 7 + rank * 3 + (i >> 8)) % 5 * check->size);
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

static double combined(const struct check *check, size_t i, enum muster_op op)
{
    double result = value_of(check, 0, i);
    for (uint32_t r = 1; r < check->size; r++) {
        double other = value_of(check, r, i);
        if (op == MUSTER_MIN)
            result = other < result ? other : result;
        else if (op == MUSTER_MAX)
            result = other > result ? other : result;
        else
            result += other;
    }
    return op == MUSTER_MEAN ? result / check->size : result;
}

/* On the default stream, for which operations wait. */
static void copy(const struct check *check, cuda_address to, cuda_address from, size_t bytes)
{
    cuda_event event;
    if (check->cuda.MemcpyAsync(to, from, bytes, NULL) != CUDA_OK ||
        check->cuda.EventCreate(&event, CUDA_EVENT_UNTIMED) != CUDA_OK ||
        check->cuda.EventRecord(event, NULL) != CUDA_OK)
        abort();
    while (check->cuda.EventQuery(event) == CUDA_NOT_READY)
        continue;
    check->cuda.EventDestroy(event);
}

/* `n` values of this rank into in; out is filled with what no result has. */
static void inputs_make(struct check *check, size_t n)
{
    size_t width = muster_type_bytes(check->type), room = check->count * check->size * width;
    memset(check->host, 0x55, room);
    copy(check, check->out, (uintptr_t)check->host, room);
    for (size_t i = 0; i < n; i++)
        put(check->host, i, check->type, value_of(check, check->rank, i));
    copy(check, check->in, (uintptr_t)check->host, n * width);
}

static void compare(struct check *check, int rc, cuda_address at, size_t n, const char *what)
{
    size_t width = muster_type_bytes(check->type), first = 0;
    check->n_done++;
    if (rc == 0) {
        copy(check, (uintptr_t)check->host, at, n * width);
        while (first < n * width && check->host[first] == check->expected[first])
            first++;
        if (first == n * width)
            return;
    }
    if (check->n_wrong++ > 0 && rc != 0)
        return; /* the error stays, and has been said */
    printf("rank %u of %u: %s of %zu %s: ", check->rank, check->size, what, check->count,
           muster_type_name(check->type));
    if (rc != 0)
        printf("%s\n", muster_dist_error(check->dist));
    else
        printf("value %zu differs\n", first / width);
}

static void reduce_check(struct check *check, enum muster_op op)
{
    size_t n = check->count * check->size, width = muster_type_bytes(check->type);
    size_t own = check->rank * check->count * width;
    void *in = (void *)check->in, *out = (void *)check->out;
    const struct muster_dist_call call = {MUSTER_ALL_REDUCE, check->type, op, 0, in, out, n};
    uint64_t ticket;
    for (size_t i = 0; i < n; i++)
        put(check->expected, i, check->type, combined(check, i, op));
    inputs_make(check, n);
    int rc = muster_dist_start(check->dist, &call, &ticket);
    rc = rc ? rc : muster_dist_wait(check->dist, ticket);
    compare(check, rc, check->out, n, "all-reduce");
    rc = muster_dist_all_reduce(check->dist, in, n, check->type, op);
    compare(check, rc, check->in, n, "all-reduce in place");
    inputs_make(check, n);
    memmove(check->expected, check->expected + own, check->count * width);
    rc = muster_dist_reduce_scatter(check->dist, in, out, check->count, check->type, op);
    compare(check, rc, check->out, check->count, "reduce-scatter");
}

static void copies_check(struct check *check)
{
    size_t n = check->count * check->size;
    void *in = (void *)check->in, *out = (void *)check->out;
    for (size_t i = 0; i < n; i++)
        put(check->expected, i, check->type,
            value_of(check, (uint32_t)(i / check->count), i % check->count));
    inputs_make(check, check->count);
    int rc = muster_dist_all_gather(check->dist, in, out, check->count, check->type);
    compare(check, rc, check->out, n, "all-gather");
    for (size_t i = 0; i < check->count; i++)
        put(check->expected, i, check->type, value_of(check, check->size - 1, i));
    rc = muster_dist_broadcast(check->dist, in, check->count, check->type, check->size - 1);
    compare(check, rc, check->in, check->count, "broadcast");
}

/* ---- gradients ---- */

/* Sums over four samples a rank, so that each rank's are divided by four on their way. */
static void step_check(struct check *check)
{
    size_t n = check->count * check->size, width = muster_type_bytes(check->type);
    double norm = 0, squares = 0;
    const struct muster_param param = {"gradient", check->type, n, NULL, (void *)check->in};
    const struct muster_ddp_opts opts = {.gradients_are_sums = true};
    for (size_t i = 0; i < n; i++) {
        put(check->host, i, check->type, value_of(check, check->rank, i) * 4);
        double mean = combined(check, i, MUSTER_MEAN);
        put(check->expected, i, check->type, mean);
        squares += mean * mean;
    }
    struct muster_ddp *ddp = muster_ddp_new(check->dist, &param, 1, &opts);
    int rc = ddp ? muster_ddp_begin(ddp, 4) : muster_dist_code(check->dist);
    /* After begin, on the default stream, as a backward pass makes it. */
    if (rc == 0 && check->cuda.MemcpyAsync(check->in, (uintptr_t)check->host, n * width, NULL))
        abort();
    rc = rc ? rc : muster_ddp_ready(ddp, 0);
    rc = rc ? rc : muster_ddp_finish(ddp);
    rc = rc ? rc : muster_ddp_norm(ddp, &norm);
    compare(check, rc, check->in, n, "step of ddp");
    if (fabs(norm - sqrt(squares)) > 1e-9 * norm && rc == 0 && check->n_wrong++ == 0)
        printf("the norm is %.12g, expected %.12g\n", norm, sqrt(squares));
    muster_ddp_free(ddp);
}

/* ---- begin and end ---- */

static int check_begin(struct check *check, const char *backend)
{
    const struct muster_dist_opts opts = {
        .timeout_ms = 60000, .backend = backend, .has_device_memory = true};
    struct muster_dist *dist = muster_dist_open(&opts);
    *check = (struct check){
        .dist = dist, .rank = muster_dist_rank(dist), .size = muster_dist_size(dist)};
    int device, rc = muster_dist_code(dist);
    cuda_context context;
    rc = rc ? rc : md_cuda_load(dist, &check->cuda);
    if (rc != 0)
        return rc;
    size_t room = counts[2] * 8 * check->size;
    if (check->cuda.DeviceGet(&device, 0) != CUDA_OK ||
        check->cuda.DevicePrimaryCtxRetain(&context, device) != CUDA_OK ||
        check->cuda.CtxPushCurrent(context) != CUDA_OK ||
        check->cuda.MemAlloc(&check->in, room) != CUDA_OK ||
        check->cuda.MemAlloc(&check->out, room) != CUDA_OK)
        return muster_dist_fail(dist, MUSTER_DIST_ENOMEM, "no memory of the device");
    check->host = malloc(room);
    check->expected = malloc(room);
    return 0;
}

int main(int argc, char **argv)
{
    struct check check;
    if (argc > 2)
        counts[2] = strtoul(argv[2], NULL, 10);
    int rc = check_begin(&check, argc > 1 ? argv[1] : "nccl");
    if (rc != 0) {
        printf("%s\n", muster_dist_error(check.dist));
        return 1;
    }
    for (int type = 0; type < TYPES; type++)
        for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
            if (muster_dist_code(check.dist) != 0)
                break;
            check.type = (enum muster_type)type;
            check.count = counts[i];
            for (int op = 0; op < OPS; op++)
                reduce_check(&check, (enum muster_op)op);
            copies_check(&check);
            if (type <= MUSTER_FLOAT16)
                step_check(&check);
        }
    printf("rank %u of %u over %s: %lu operations on device memory, %lu wrong\n", check.rank,
           check.size, muster_dist_backend(check.dist), (unsigned long)check.n_done,
           (unsigned long)check.n_wrong);
    free(check.host);
    free(check.expected);
    rc = muster_dist_close(check.dist);
    return rc == 0 && check.n_wrong == 0 ? 0 : 1;
}
