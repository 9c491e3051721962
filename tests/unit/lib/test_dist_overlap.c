/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations whose in and out have memory in common: each form in place that is allowed, in ordinary
 * memory and the library's, and each overlap that is refused, on all ranks. As a rank that mpirun has
 * started: with the argument `rank`, the allowed ones.
 */
#include "lib/ranks.h"

#include "base/attr.h"
#include "muster/dist.h"

enum {
    COUNT_MAX = 40000,
    N_REPEATS = 5 /* of what would be a race */
};

static const size_t counts[] = {1, 1000, COUNT_MAX};

enum memory {
    ORDINARY,
    LIBRARY,
    MIXED, /* odd ranks have the library's */
    N_MEMORIES
};

/* How in is given. */
enum form {
    AS_NULL,
    AS_OUT,
    AS_PART, /* all-gather: in is the own part of out; reduce-scatter: out is that of in */
    N_FORMS
};

struct bench {
    struct muster_dist *dist;
    uint32_t rank, size;
    float *shared, *ordinary, *data;
    const char *what;
};

static const char *const form_names[] = {"in is NULL", "in is out", "in the own part"};

/* Whole numbers: sums are exact. */
static float value_of(uint32_t rank, size_t i)
{
    return (float)((size_t)rank * 1000 + i % 997);
}

static float sum_of(const struct bench *bench, size_t i)
{
    float sum = 0;
    for (uint32_t r = 0; r < bench->size; r++)
        sum += value_of(r, i);
    return sum;
}

static int call_do(const struct bench *bench, const struct muster_dist_call *call)
{
    uint64_t ticket;
    int rc = muster_dist_start(bench->dist, call, &ticket);
    rc = rc ? rc : muster_dist_wait(bench->dist, ticket);
    CHECK(rc == 0, "rank %u: %s: %s", bench->rank, bench->what, muster_dist_error(bench->dist));
    return 0;
}

static int gather(const struct bench *bench, size_t count, enum form form)
{
    float *part = bench->data + bench->rank * count;
    for (size_t i = 0; i < count * bench->size; i++)
        bench->data[i] = -1;
    for (size_t i = 0; i < count; i++)
        part[i] = value_of(bench->rank, i);
    const struct muster_dist_call call = {.kind = MUSTER_ALL_GATHER,
                                          .in = form == AS_NULL ? NULL : part,
                                          .out = bench->data,
                                          .count = count};
    if (call_do(bench, &call))
        return 1;
    for (size_t i = 0; i < count * bench->size; i++)
        CHECK(bench->data[i] == value_of((uint32_t)(i / count), i % count),
              "rank %u: all-gather of %zu, %s: value %zu is %g", bench->rank, count, bench->what, i,
              (double)bench->data[i]);
    return 0;
}

static int scatter(const struct bench *bench, size_t count, enum form form)
{
    float *out = form == AS_PART ? bench->data + bench->rank * count : bench->data;
    for (size_t i = 0; i < count * bench->size; i++)
        bench->data[i] = value_of(bench->rank, i);
    const struct muster_dist_call call = {.kind = MUSTER_REDUCE_SCATTER,
                                          .in = form == AS_NULL ? NULL : bench->data,
                                          .out = out,
                                          .count = count};
    if (call_do(bench, &call))
        return 1;
    for (size_t i = 0; i < count; i++)
        CHECK(out[i] == sum_of(bench, bench->rank * count + i),
              "rank %u: reduce-scatter of %zu, %s: value %zu is %g", bench->rank, count,
              bench->what, i, (double)out[i]);
    return 0;
}

/* All-reduce and broadcast, whose in and out are as long. */
static int others(const struct bench *bench, size_t count, enum form form)
{
    uint32_t root = bench->size - 1;
    struct muster_dist_call call = {.kind = MUSTER_ALL_REDUCE,
                                    .root = bench->rank, /* it has none, so none is compared */
                                    .in = form == AS_NULL ? NULL : bench->data,
                                    .out = bench->data,
                                    .count = count};
    for (size_t i = 0; i < count; i++)
        bench->data[i] = value_of(bench->rank, i);
    if (call_do(bench, &call))
        return 1;
    for (size_t i = 0; i < count; i++)
        CHECK(bench->data[i] == sum_of(bench, i), "rank %u: all-reduce of %zu, %s: value %zu is %g",
              bench->rank, count, bench->what, i, (double)bench->data[i]);
    for (size_t i = 0; i < count; i++)
        bench->data[i] = value_of(bench->rank, i);
    call.kind = MUSTER_BROADCAST;
    call.root = root;
    call.op = (enum muster_op)(bench->rank % (MUSTER_MAX + 1));
    if (call_do(bench, &call))
        return 1;
    for (size_t i = 0; i < count; i++)
        CHECK(bench->data[i] == value_of(root, i), "rank %u: broadcast of %zu, %s: value %zu is %g",
              bench->rank, count, bench->what, i, (double)bench->data[i]);
    return 0;
}

static int forms(const struct bench *bench, size_t count)
{
    struct bench now = *bench;
    for (int form = 0; form < N_FORMS; form++) {
        now.what = form_names[form];
        /* An all-gather's in is out on rank 0 alone. */
        if (form != AS_OUT && gather(&now, count, (enum form)form))
            return 1;
        if (scatter(&now, count, (enum form)form))
            return 1;
        if (form != AS_PART && others(&now, count, (enum form)form))
            return 1;
    }
    return 0;
}

static int every_form(struct muster_dist *dist)
{
    struct bench bench = {
        .dist = dist, .rank = muster_dist_rank(dist), .size = muster_dist_size(dist)};
    static float ordinary[COUNT_MAX * RANKS_MAX];
    bench.shared = muster_dist_buffer_new(dist, sizeof(ordinary));
    bench.ordinary = ordinary;
    CHECK(bench.shared && bench.size <= RANKS_MAX, "%s", muster_dist_error(dist));
    for (int memory = 0; memory < N_MEMORIES; memory++) {
        bool is_shared = memory == LIBRARY || (memory == MIXED && bench.rank % 2 == 1);
        bench.data = is_shared ? bench.shared : bench.ordinary;
        for (size_t i = 0; i < countof(counts); i++)
            for (int n = 0; n < N_REPEATS; n++)
                if (forms(&bench, counts[i]))
                    return 1;
    }
    muster_dist_buffer_free(dist, bench.shared);
    return 0;
}

static int in_place(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)rank;
    (void)size;
    (void)arg;
    return every_form(dist) || muster_dist_close(dist);
}

static void test_in_place(void **state)
{
    static const uint32_t sizes[] = {1, 2, 4};
    (void)state;
    for (size_t i = 0; i < countof(sizes); i++)
        ranks_run(sizes[i], in_place, NULL);
}

/* ---- what is refused ---- */

/* On rank 1 of 3, with 100 values; where in and out begin is counted in values. */
struct bad_case {
    enum muster_collective kind;
    size_t in, out;
    const char *said;
};

static const struct bad_case bad_cases[] = {
    {MUSTER_ALL_GATHER, 0, 0, "all-gather: in overlaps out, and is not this rank's part of it"},
    {MUSTER_ALL_GATHER, 101, 0, "all-gather: in overlaps out, and is not this rank's part of it"},
    {MUSTER_ALL_GATHER, 0, 99, "all-gather: in overlaps out, and is not this rank's part of it"},
    {MUSTER_REDUCE_SCATTER, 0, 99, "reduce-scatter: out overlaps in, and is neither the beginning"},
    {MUSTER_REDUCE_SCATTER, 99, 0, "reduce-scatter: out overlaps in, and is neither the beginning"},
    {MUSTER_ALL_REDUCE, 0, 1, "all-reduce: in and out overlap, and are not the same"},
    {MUSTER_BROADCAST, 99, 0, "broadcast: in and out overlap, and are not the same"},
};

static int refused(uint32_t rank, uint32_t size, const void *arg)
{
    const struct bad_case *bad = arg;
    struct muster_dist *dist = muster_dist_open(NULL);
    static float data[1000];
    const struct muster_dist_call call = {
        .kind = bad->kind, .in = data + bad->in, .out = data + bad->out, .count = 100};
    char text[200];
    (void)size;
    snprintf(text, sizeof(text), "rank 1: %s", bad->said);
    int rc = muster_dist_barrier(dist);
    CHECK(rc == 0, "%s", muster_dist_error(dist));
    rc = rank == 1 ? muster_dist_start(dist, &call, NULL) : muster_dist_barrier(dist);
    CHECK(rc == MUSTER_DIST_EUSE && strstr(muster_dist_error(dist), text), "rank %u: code %d: '%s'",
          rank, rc, muster_dist_error(dist));
    return muster_dist_close(dist) == rc ? 0 : 1;
}

/* What only touches is apart. */
static int apart(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    static float data[1000];
    (void)rank;
    (void)arg;
    int rc = muster_dist_all_gather(dist, data, data + 100, 100, MUSTER_FLOAT32);
    rc = rc ? rc
            : muster_dist_all_gather(dist, data + (size_t)100 * size, data, 100, MUSTER_FLOAT32);
    rc = rc ? rc
            : muster_dist_reduce_scatter(dist, data, data + (size_t)100 * size, 100, MUSTER_FLOAT32,
                                         MUSTER_SUM);
    /* Of no values there is nothing to overlap. */
    rc = rc ? rc : muster_dist_all_gather(dist, data + 1, data, 0, MUSTER_FLOAT32);
    CHECK(rc == 0, "%s", muster_dist_error(dist));
    return muster_dist_close(dist);
}

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(bad_cases); i++)
        ranks_run(3, refused, &bad_cases[i]);
    ranks_run(3, apart, NULL);
}

/* As a rank that something else has started: mpirun. */
static int run_as_rank(void)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    CHECK(strcmp(muster_dist_backend(dist), "mpi") == 0, "%s", muster_dist_error(dist));
    return every_form(dist) || muster_dist_close(dist);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_refused),
    };
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return run_as_rank();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
