/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation on every type in worlds of 1, 2, 3, 4 and 8 ranks, against a plain oracle: values of
 * all ranks are made anew on each rank, and combined in the order of the ranks.
 */
#include "lib/ranks.h"

#include <math.h>

#include "base/attr.h"
#include "base/rng.h"
#include "muster/dist.h"

enum {
    TYPES = MUSTER_INT8 + 1,
    OPS = MUSTER_MAX + 1,
    COUNT_MAX = 300000
};

/* Below and above what goes through one piece, several, and what ranks do not share evenly. */
static const size_t counts[] = {0, 1, 7, 1000, 4097, 20000};

/* ---- 16-bit floats by the book: the nearest of all that there are ---- */

static double half_compute(uint16_t half, bool is_brain)
{
    int digits = is_brain ? 7 : 10, bias = is_brain ? 127 : 15;
    int exponent = half >> digits & (is_brain ? 0xff : 0x1f), top = is_brain ? 0xff : 0x1f;
    double fraction = half & ((1 << digits) - 1);
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == top)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - digits);
    return sign * ldexp(fraction + (1 << digits), exponent - bias - digits);
}

/* Of all that there are, by is_brain; made before the ranks are. */
static double half_values_of[2][65536];

static void half_values_make(void)
{
    for (uint32_t half = 0; half < 65536; half++) {
        half_values_of[0][half] = half_compute((uint16_t)half, false);
        half_values_of[1][half] = half_compute((uint16_t)half, true);
    }
}

static double half_value(uint16_t half, bool is_brain)
{
    return half_values_of[is_brain][half];
}

static uint16_t half_nearest(float value, bool is_brain)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0, low = 0, high = is_brain ? 0x7f80 : 0x7c00;
    double size = fabs((double)value);
    if (isnan(value))
        return is_brain ? 0x7fc0 : 0x7e00;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (half_value(middle, is_brain) <= size)
            low = middle;
        else
            high = middle;
    }
    /* Infinity counts as the value that would follow the greatest. */
    double above = high == (is_brain ? 0x7f80 : 0x7c00) ? ldexp(1, is_brain ? 128 : 16)
                                                        : half_value(high, is_brain);
    double below = half_value(low, is_brain);
    bool up = size - below > above - size || (size - below == above - size && (low & 1));
    return sign | (up ? high : low);
}

/* ---- values ---- */

static void put_value(void *out, size_t i, uint32_t rank, enum muster_type type)
{
    uint64_t bits = mix64((uint64_t)rank * 1000003 + i * 8 + type);
    double value = (double)(int64_t)bits / 1e16;
    switch (type) {
    case MUSTER_FLOAT32:
        ((float *)out)[i] = (float)value;
        break;
    case MUSTER_FLOAT64:
        ((double *)out)[i] = value;
        break;
    case MUSTER_BFLOAT16:
        ((uint16_t *)out)[i] = half_nearest((float)value, true);
        break;
    case MUSTER_FLOAT16:
        ((uint16_t *)out)[i] = half_nearest((float)value, false);
        break;
    case MUSTER_INT32:
        ((int32_t *)out)[i] = (int32_t)bits;
        break;
    case MUSTER_INT64:
        ((int64_t *)out)[i] = (int64_t)bits;
        break;
    case MUSTER_UINT8:
        ((uint8_t *)out)[i] = (uint8_t)bits;
        break;
    case MUSTER_INT8:
        ((int8_t *)out)[i] = (int8_t)bits;
        break;
    }
}

/* One value as the oracle sees it: what its type is combined in. */
struct number {
    float f;
    double d;
    int64_t i;
};

static struct number get_value(const void *from, size_t i, enum muster_type type)
{
    switch (type) {
    case MUSTER_FLOAT32:
        return (struct number){.f = ((const float *)from)[i]};
    case MUSTER_FLOAT64:
        return (struct number){.d = ((const double *)from)[i]};
    case MUSTER_BFLOAT16:
        return (struct number){.f = (float)half_value(((const uint16_t *)from)[i], true)};
    case MUSTER_FLOAT16:
        return (struct number){.f = (float)half_value(((const uint16_t *)from)[i], false)};
    case MUSTER_INT32:
        return (struct number){.i = ((const int32_t *)from)[i]};
    case MUSTER_INT64:
        return (struct number){.i = ((const int64_t *)from)[i]};
    case MUSTER_UINT8:
        return (struct number){.i = ((const uint8_t *)from)[i]};
    case MUSTER_INT8:
        return (struct number){.i = ((const int8_t *)from)[i]};
    }
    return (struct number){0};
}

static void set_number(void *out, size_t i, struct number value, enum muster_type type)
{
    if (type == MUSTER_FLOAT32)
        ((float *)out)[i] = value.f;
    else if (type == MUSTER_FLOAT64)
        ((double *)out)[i] = value.d;
    else if (type == MUSTER_BFLOAT16 || type == MUSTER_FLOAT16)
        ((uint16_t *)out)[i] = half_nearest(value.f, type == MUSTER_BFLOAT16);
    else /* little endian: the low bytes */
        memcpy((char *)out + i * muster_type_bytes(type), &value.i, muster_type_bytes(type));
}

static struct number combine(struct number a, struct number b, enum muster_op op)
{
    if (op == MUSTER_MIN)
        return (struct number){b.f < a.f ? b.f : a.f, b.d < a.d ? b.d : a.d, b.i < a.i ? b.i : a.i};
    if (op == MUSTER_MAX)
        return (struct number){b.f > a.f ? b.f : a.f, b.d > a.d ? b.d : a.d, b.i > a.i ? b.i : a.i};
    return (struct number){a.f + b.f, a.d + b.d, (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
}

/* ---- one rank's work ---- */

enum memory {
    ORDINARY,
    LIBRARY,
    MIXED, /* odd ranks have the library's */
    N_MEMORIES
};

struct bench {
    struct muster_dist *dist;
    uint32_t rank, size;
    enum muster_type type;
    size_t width;
    void *inputs[RANKS_MAX]; /* of all ranks, as this one knows them */
    void *shared[2], *ordinary[2], *expected;
};

static void expect_reduced(const struct bench *bench, size_t count, enum muster_op op)
{
    for (size_t i = 0; i < count; i++) {
        struct number sum = get_value(bench->inputs[0], i, bench->type);
        for (uint32_t r = 1; r < bench->size; r++)
            sum = combine(sum, get_value(bench->inputs[r], i, bench->type), op);
        if (op == MUSTER_MEAN)
            sum = (struct number){sum.f / (float)bench->size, sum.d / bench->size,
                                  sum.i / (int64_t)bench->size};
        set_number(bench->expected, i, sum, bench->type);
    }
}

static void *memory_of(const struct bench *bench, enum memory memory, int which)
{
    bool is_shared = memory == LIBRARY || (memory == MIXED && bench->rank % 2 == 1);
    return is_shared ? bench->shared[which] : bench->ordinary[which];
}

static int compare(const struct bench *bench, const void *got, const void *expected, size_t count,
                   const char *what)
{
    const char *a = got, *b = expected;
    for (size_t i = 0; i < count * bench->width; i++)
        CHECK(a[i] == b[i], "rank %u of %u: %s of %zu %s: value %zu differs", bench->rank,
              bench->size, what, count, muster_type_name(bench->type), i / bench->width);
    return 0;
}

static int try_reduce(const struct bench *bench, size_t count, enum muster_op op,
                      enum memory memory)
{
    size_t bytes = count * bench->width;
    char *in = memory_of(bench, memory, 0), *out = memory_of(bench, memory, 1);
    uint64_t ticket;
    memcpy(in, bench->inputs[bench->rank], bytes);
    struct muster_dist_call call = {MUSTER_ALL_REDUCE, bench->type, op, 0, in, out, count};
    int rc = muster_dist_start(bench->dist, &call, &ticket);
    rc = rc ? rc : muster_dist_wait(bench->dist, ticket);
    rc = rc ? rc : muster_dist_all_reduce(bench->dist, in, count, bench->type, op);
    CHECK(rc == 0, "all-reduce: %s", muster_dist_error(bench->dist));
    return compare(bench, out, bench->expected, count, "all-reduce") ||
           compare(bench, in, bench->expected, count, "all-reduce in place");
}

static int try_scatter(const struct bench *bench, size_t count, enum muster_op op,
                       enum memory memory)
{
    size_t bytes = count * bench->width, own = bench->rank * bytes;
    char *in = memory_of(bench, memory, 0), *out = memory_of(bench, memory, 1);
    memcpy(in, bench->inputs[bench->rank], bytes * bench->size);
    int rc = muster_dist_reduce_scatter(bench->dist, in, out, count, bench->type, op);
    rc = rc ? rc : muster_dist_reduce_scatter(bench->dist, in, in + own, count, bench->type, op);
    CHECK(rc == 0, "reduce-scatter: %s", muster_dist_error(bench->dist));
    const char *expected = (const char *)bench->expected + own;
    return compare(bench, out, expected, count, "reduce-scatter") ||
           compare(bench, in + own, expected, count, "reduce-scatter in place");
}

static int try_gather(const struct bench *bench, size_t count, enum memory memory)
{
    size_t bytes = count * bench->width;
    char *in = memory_of(bench, memory, 0), *out = memory_of(bench, memory, 1);
    memcpy(in, bench->inputs[bench->rank], bytes);
    int rc = muster_dist_all_gather(bench->dist, in, out, count, bench->type);
    CHECK(rc == 0, "all-gather: %s", muster_dist_error(bench->dist));
    for (uint32_t r = 0; r < bench->size; r++)
        if (compare(bench, out + r * bytes, bench->inputs[r], count, "all-gather"))
            return 1;
    return 0;
}

static int try_broadcast(const struct bench *bench, size_t count, enum memory memory)
{
    uint32_t root = (uint32_t)(count % bench->size);
    void *data = memory_of(bench, memory, 0);
    memcpy(data, bench->inputs[bench->rank], count * bench->width);
    int rc = muster_dist_broadcast(bench->dist, data, count, bench->type, root);
    CHECK(rc == 0, "broadcast: %s", muster_dist_error(bench->dist));
    return compare(bench, data, bench->inputs[root], count, "broadcast");
}

static int try_reductions(const struct bench *bench, size_t count, enum muster_op op,
                          enum memory memory)
{
    expect_reduced(bench, count, op);
    return try_reduce(bench, count, op, memory) ||
           try_scatter(bench, count / bench->size, op, memory);
}

static int try_copies(const struct bench *bench, size_t count, enum memory memory)
{
    return try_gather(bench, count / bench->size, memory) || try_broadcast(bench, count, memory) ||
           muster_dist_barrier(bench->dist);
}

static int bench_begin(struct bench *bench, struct muster_dist *dist, uint32_t rank, uint32_t size)
{
    *bench = (struct bench){.dist = dist, .rank = rank, .size = size};
    CHECK(muster_dist_code(bench->dist) == 0, "open: %s", muster_dist_error(bench->dist));
    CHECK(muster_dist_rank(bench->dist) == rank, "rank");
    CHECK(muster_dist_size(bench->dist) == size, "size");
    for (int i = 0; i < 2; i++) {
        bench->shared[i] = muster_dist_buffer_new(bench->dist, COUNT_MAX * 8);
        bench->ordinary[i] = malloc(COUNT_MAX * 8);
        CHECK(bench->shared[i] && bench->ordinary[i], "%s", muster_dist_error(bench->dist));
    }
    bench->expected = malloc(COUNT_MAX * 8);
    for (uint32_t r = 0; r < size; r++)
        bench->inputs[r] = malloc(COUNT_MAX * 8);
    return 0;
}

static void bench_type(struct bench *bench, enum muster_type type, size_t count)
{
    bench->type = type;
    bench->width = muster_type_bytes(type);
    for (uint32_t r = 0; r < bench->size; r++)
        for (size_t i = 0; i < count; i++)
            put_value(bench->inputs[r], i, r, type);
}

static int bench_end(struct bench *bench)
{
    for (int i = 0; i < 2; i++) {
        muster_dist_buffer_free(bench->dist, bench->shared[i]);
        free(bench->ordinary[i]);
    }
    free(bench->expected);
    for (uint32_t r = 0; r < bench->size; r++)
        free(bench->inputs[r]);
    CHECK(muster_dist_close(bench->dist) == 0, "close");
    return 0;
}

/* Each with one kind of memory, in turn: which it is matters to neither types nor reductions. */
static int every_type(struct bench *bench)
{
    for (int type = 0; type < TYPES; type++) {
        bench_type(bench, (enum muster_type)type, counts[countof(counts) - 1]);
        for (int i = 0; i < (int)countof(counts); i++) {
            for (int op = 0; op < OPS; op++)
                if (try_reductions(bench, counts[i], (enum muster_op)op,
                                   (enum memory)((type + i + op) % N_MEMORIES)))
                    return 1;
            if (try_copies(bench, counts[i], (enum memory)((type + i) % N_MEMORIES)))
                return 1;
        }
    }
    return 0;
}

/* Several chunks of each operation, the last of which is not full. */
static int many_chunks(struct bench *bench)
{
    bench_type(bench, MUSTER_FLOAT32, COUNT_MAX);
    for (int memory = 0; memory < N_MEMORIES; memory++)
        if (try_reductions(bench, COUNT_MAX, MUSTER_SUM, (enum memory)memory) ||
            try_copies(bench, COUNT_MAX, (enum memory)memory))
            return 1;
    return 0;
}

static int every_operation(uint32_t rank, uint32_t size, const void *arg)
{
    struct bench bench;
    (void)arg;
    return bench_begin(&bench, muster_dist_open(NULL), rank, size) || every_type(&bench) ||
           bench_end(&bench);
}

static int large_operations(uint32_t rank, uint32_t size, const void *arg)
{
    struct bench bench;
    (void)arg;
    return bench_begin(&bench, muster_dist_open(NULL), rank, size) || many_chunks(&bench) ||
           bench_end(&bench);
}

static void test_operations(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < countof(sizes); i++)
        ranks_run(sizes[i], every_operation, NULL);
}

static void test_large(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4};
    for (size_t i = 0; i < countof(sizes); i++)
        ranks_run(sizes[i], large_operations, NULL);
}

/* ---- what values there are ---- */

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Each 16-bit float there is, and float32 values around each halfway point, through an all-reduce. */
static int half_values(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    uint16_t *data = malloc(65536 * sizeof(*data));
    (void)size;
    (void)arg;
    for (int type = MUSTER_BFLOAT16; type <= MUSTER_FLOAT16; type++) {
        bool is_brain = type == MUSTER_BFLOAT16;
        /* Rank 0 has each value, rank 1 one that is about half of its last place away. */
        for (uint32_t i = 0; i < 65536; i++)
            data[i] = rank == 0 ? (uint16_t)i : (uint16_t)(i * 40503u >> 3);
        CHECK(muster_dist_all_reduce(dist, data, 65536, (enum muster_type)type, MUSTER_SUM) == 0,
              "%s", muster_dist_error(dist));
        for (uint32_t i = 0; i < 65536; i++) {
            float a = (float)half_value((uint16_t)i, is_brain);
            float b = (float)half_value((uint16_t)(i * 40503u >> 3), is_brain);
            uint16_t expected = half_nearest(a + b, is_brain);
            bool is_nan = isnan(a + b) && isnan(half_value(data[i], is_brain));
            CHECK(is_nan || data[i] == expected, "%04x + %04x is %04x, expected %04x", i,
                  i * 40503u >> 3 & 0xffff, data[i], expected);
        }
    }
    free(data);
    return muster_dist_close(dist);
}

static void test_half_values(void **state)
{
    (void)state;
    ranks_run(2, half_values, NULL);
}

static int nan_values(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)arg;
    for (uint32_t at = 0; at < size; at++)
        for (int op = 0; op < OPS; op++) {
            float value = rank == at ? float_of(0x7fc00000) : (float)rank;
            int rc = muster_dist_all_reduce(dist, &value, 1, MUSTER_FLOAT32, (enum muster_op)op);
            CHECK(rc == 0 && isnan(value), "op %d: NaN of rank %u is lost", op, at);
        }
    return muster_dist_close(dist);
}

static void test_nan(void **state)
{
    (void)state;
    ranks_run(3, nan_values, NULL);
}

/* ---- started operations ---- */

enum {
    N_STARTED = 3000 /* more than may be under way */
};

static int many_started(struct muster_dist *dist)
{
    int32_t size = (int32_t)muster_dist_size(dist), rank = (int32_t)muster_dist_rank(dist);
    int32_t *values = calloc(N_STARTED, sizeof(*values));
    uint64_t ticket = 0, first = 0;
    for (int i = 0; i < N_STARTED; i++) {
        struct muster_dist_call call = {
            .kind = MUSTER_ALL_REDUCE, .type = MUSTER_INT32, .out = &values[i], .count = 1};
        values[i] = i * (rank + 1);
        CHECK(muster_dist_start(dist, &call, &ticket) == 0, "%s", muster_dist_error(dist));
        first = i == 0 ? ticket : first;
        CHECK(ticket == first + (uint64_t)i, "tickets are in order");
    }
    /* One that waits comes after those that were started. */
    int32_t last = 1;
    CHECK(muster_dist_all_reduce(dist, &last, 1, MUSTER_INT32, MUSTER_SUM) == 0, "last");
    CHECK(last == size && muster_dist_test(dist, ticket) == 1, "order");
    CHECK(muster_dist_wait(dist, ticket) == 0, "wait");
    for (int i = 0; i < N_STARTED; i++)
        CHECK(values[i] == i * (size * (size + 1) / 2), "value %d is %d", i, values[i]);
    free(values);
    return 0;
}

static int started(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)rank;
    (void)size;
    (void)arg;
    return many_started(dist) || muster_dist_close(dist);
}

static void test_started(void **state)
{
    (void)state;
    ranks_run(1, started, NULL);
    ranks_run(3, started, NULL);
}

/* ---- any order ---- */

enum {
    N_SLOTS = 6, /* operations that are under way at once */
    SLOT_BYTES = 1 << 20,
    N_RANDOM = 150
};

/* One operation of each kind, drawn by all ranks alike; the memory is drawn by each for itself. */
struct slot {
    int32_t *shared, *ordinary, *data;
    struct muster_dist_call call;
    uint64_t ticket, number;
};

static int32_t slot_value(uint64_t number, uint32_t rank, size_t i)
{
    return (int32_t)(number * 101 + rank * 1009 + i * 7);
}

static void slot_draw(struct slot *slot, uint64_t number, uint32_t rank, uint32_t size)
{
    static const size_t lens[] = {1, 100, 4000, 4097, 9000, 131072, 200000};
    static const enum muster_collective kinds[] = {MUSTER_ALL_REDUCE, MUSTER_ALL_REDUCE,
                                                   MUSTER_BROADCAST, MUSTER_ALL_GATHER};
    uint64_t drawn = mix64(number * 77 + size);
    size_t count = lens[drawn % countof(lens)] - (drawn >> 8 & 1);
    slot->number = number;
    slot->data = mix64(number * size + rank) & 1 ? slot->shared : slot->ordinary;
    slot->call = (struct muster_dist_call){.kind = kinds[drawn >> 16 & 3],
                                           .type = MUSTER_INT32,
                                           .root = (uint32_t)(drawn >> 24) % size,
                                           .out = slot->data,
                                           .count = count};
    if (slot->call.kind == MUSTER_ALL_GATHER) {
        slot->call.count = count / size;
        slot->call.in = slot->data + rank * slot->call.count;
    }
    for (size_t i = 0; i < count; i++)
        slot->data[i] = slot_value(number, rank, i);
}

static int slot_check(const struct slot *slot, uint32_t size)
{
    size_t count = slot->call.count,
           n = slot->call.kind == MUSTER_ALL_GATHER ? count * size : count;
    for (size_t i = 0; i < n; i++) {
        int32_t expected = 0;
        if (slot->call.kind == MUSTER_BROADCAST)
            expected = slot_value(slot->number, slot->call.root, i);
        else if (slot->call.kind == MUSTER_ALL_GATHER)
            expected = slot_value(slot->number, (uint32_t)(i / count), i);
        else
            for (uint32_t r = 0; r < size; r++)
                expected += slot_value(slot->number, r, i);
        CHECK(slot->data[i] == expected, "operation %lu of kind %d: value %zu of %zu is %d, not %d",
              (unsigned long)slot->number, slot->call.kind, i, n, slot->data[i], expected);
    }
    return 0;
}

static int any_order(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    struct slot slots[N_SLOTS] = {0};
    (void)arg;
    for (size_t i = 0; i < N_SLOTS; i++) {
        slots[i].shared = muster_dist_buffer_new(dist, SLOT_BYTES);
        slots[i].ordinary = malloc(SLOT_BYTES);
        CHECK(slots[i].shared && slots[i].ordinary, "%s", muster_dist_error(dist));
    }
    for (uint64_t number = 0; number < N_RANDOM + N_SLOTS; number++) {
        struct slot *slot = &slots[number % N_SLOTS];
        CHECK(muster_dist_wait(dist, slot->ticket) == 0, "%s", muster_dist_error(dist));
        if (number >= N_SLOTS && slot_check(slot, size))
            return 1;
        slot_draw(slot, number, rank, size);
        int rc = muster_dist_start(dist, &slot->call, &slot->ticket);
        if (mix64(number) % 8 == 0)
            rc = rc ? rc : muster_dist_barrier(dist);
        CHECK(rc == 0, "%s", muster_dist_error(dist));
    }
    int rc = muster_dist_close(dist); /* which finishes the last */
    for (size_t i = 0; i < N_SLOTS; i++)
        free(slots[i].ordinary);
    return rc;
}

static void test_any_order(void **state)
{
    (void)state;
    ranks_run(2, any_order, NULL);
    ranks_run(5, any_order, NULL);
}

/* Alone, there is no environment and no backend to ask. */
static void test_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"RANK",      "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "PMIX_RANK", "SLURM_STEP_ID",        "WORLD_SIZE"};
    for (size_t i = 0; i < countof(names); i++)
        unsetenv(names[i]);
    struct muster_dist *dist = muster_dist_open(NULL);
    float value = 3;
    assert_string_equal(muster_dist_backend(dist), "self");
    assert_int_equal(muster_dist_all_reduce(dist, &value, 1, MUSTER_FLOAT32, MUSTER_MEAN), 0);
    assert_true(value == 3);
    const struct muster_dist_call barrier = {.kind = MUSTER_BARRIER};
    assert_int_equal(muster_dist_start(dist, &barrier, NULL), 0);
    assert_int_equal(muster_dist_fail(dist, MUSTER_DIST_EDATA, "no more rows"), MUSTER_DIST_EDATA);
    assert_string_equal(muster_dist_error(dist), "rank 0: no more rows");
    assert_int_equal(muster_dist_barrier(dist), MUSTER_DIST_EDATA);
    assert_int_equal(muster_dist_close(dist), MUSTER_DIST_EDATA);
    dist = muster_dist_open(NULL);
    assert_int_equal(muster_dist_start(dist, NULL, NULL), MUSTER_DIST_EUSE);
    assert_int_equal(muster_dist_close(dist), MUSTER_DIST_EUSE);
    dist = muster_dist_open(NULL);
    assert_int_equal(muster_dist_test(dist, 0), 1);
    assert_int_equal(muster_dist_test(dist, 1), MUSTER_DIST_EUSE);
    assert_string_equal(muster_dist_error(dist), "rank 0: a ticket that was not given");
    assert_int_equal(muster_dist_close(dist), MUSTER_DIST_EUSE);
    dist = muster_dist_open(NULL);
    assert_int_equal(muster_dist_fail(dist, MUSTER_DIST_EFAIL, NULL), MUSTER_DIST_EFAIL);
    assert_string_equal(muster_dist_error(dist), "rank 0: it gives no reason");
    assert_int_equal(muster_dist_close(dist), MUSTER_DIST_EFAIL);
}

/* As a rank that something else has started: mpirun. */
static int run_as_rank(void)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    struct bench bench = {.dist = dist};
    uint32_t rank = muster_dist_rank(dist), size = muster_dist_size(dist);
    CHECK(strcmp(muster_dist_backend(dist), "mpi") == 0, "%s", muster_dist_error(dist));
    if (bench_begin(&bench, dist, rank, size) || every_type(&bench) || many_chunks(&bench) ||
        many_started(dist))
        return 1;
    return bench_end(&bench);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_half_values), cmocka_unit_test(test_nan),
        cmocka_unit_test(test_started),     cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_alone),
    };
    half_values_make();
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return run_as_rank();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
