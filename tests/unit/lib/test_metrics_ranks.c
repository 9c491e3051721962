/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of several ranks, which are threads here, become one; and what is refused.
 */
#include "metrics_kit.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "base/rng.h"

enum {
    RANKS_MAX = 8,
    SAMPLES = 2000
};

/* Ranks are threads; what they gather goes through this. */
struct meeting {
    pthread_barrier_t barrier;
    uint32_t n_ranks;
    unsigned char *board;
    int n_calls;
    int fails_at; /* that call, from 1, returns 7 */
};

struct rank {
    struct meeting *meeting;
    uint32_t number;
    struct muster_metrics *metrics;
    int rc, n_calls;
    pthread_t thread;
};

static int all_gather(void *context, const void *mine, size_t bytes, void *all)
{
    struct rank *rank = context;
    struct meeting *meeting = rank->meeting;
    rank->n_calls++;
    if (rank->number == 0) {
        meeting->board = realloc(meeting->board, bytes * meeting->n_ranks);
        meeting->n_calls++;
    }
    pthread_barrier_wait(&meeting->barrier);
    memcpy(meeting->board + rank->number * bytes, mine, bytes);
    pthread_barrier_wait(&meeting->barrier);
    memcpy(all, meeting->board, bytes * meeting->n_ranks);
    pthread_barrier_wait(&meeting->barrier);
    return rank->n_calls == meeting->fails_at ? 7 : 0;
}

static void *reduce_one(void *argument)
{
    struct rank *rank = argument;
    rank->rc = muster_metrics_reduce(rank->metrics, rank->meeting->n_ranks, all_gather, rank);
    return NULL;
}

static void reduce_ranks(struct meeting *meeting, struct rank *ranks)
{
    pthread_barrier_init(&meeting->barrier, NULL, meeting->n_ranks);
    for (uint32_t i = 0; i < meeting->n_ranks; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, reduce_one, &ranks[i]), 0);
    for (uint32_t i = 0; i < meeting->n_ranks; i++)
        pthread_join(ranks[i].thread, NULL);
    pthread_barrier_destroy(&meeting->barrier);
}

static void ranks_meet(struct meeting *meeting, struct rank *ranks, uint32_t n_ranks)
{
    *meeting = (struct meeting){.n_ranks = n_ranks};
    for (uint32_t i = 0; i < n_ranks; i++)
        ranks[i] = (struct rank){.meeting = meeting, .number = i, .metrics = muster_metrics_new()};
}

static void ranks_part(struct meeting *meeting, struct rank *ranks)
{
    for (uint32_t i = 0; i < meeting->n_ranks; i++)
        muster_metrics_free(ranks[i].metrics);
    free(meeting->board);
}

static void draw_samples(double (*samples)[2], struct rng *rng)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        uint64_t kind = rng_below(rng, 50);
        double value = (rng_unit(rng) - 0.5) * ldexp(1, (int)rng_below(rng, 80) - 40);
        static const double odd[] = {NAN, INFINITY, -0.0};
        samples[i][0] = kind < 3 ? odd[kind] : value;
        samples[i][1] = kind < 25 ? 1 : rng_unit(rng) * 100;
    }
}

/* Deals samples out to random ranks in a random order. */
static void deal(struct rank *ranks, uint32_t n_ranks, double (*samples)[2], struct rng *rng)
{
    size_t order[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++)
        order[i] = i;
    for (size_t i = SAMPLES; i > 1; i--) {
        size_t other = rng_below(rng, i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        uint32_t rank = (uint32_t)rng_below(rng, n_ranks);
        const double *sample = samples[order[i]];
        for (int metric = 0; metric < 2; metric++)
            assert_int_equal(
                muster_metrics_put(ranks[rank].metrics, metric, sample[metric], sample[1]), 0);
    }
}

static void all_figures_have_the_same_bits_on_any_number_of_ranks(void **state)
{
    (void)state;
    static double samples[SAMPLES][2];
    static const uint32_t worlds[] = {1, 2, 3, 4, 8};
    struct rng rng = {.state = 11};
    for (int trial = 0; trial < 6; trial++) {
        struct muster_metric_result expected[2];
        unsigned char *bytes = NULL;
        draw_samples(samples, &rng);
        for (size_t world = 0; world < 5; world++) {
            struct meeting meeting;
            struct rank ranks[RANKS_MAX];
            ranks_meet(&meeting, ranks, worlds[world]);
            for (uint32_t i = 0; i < worlds[world]; i++) {
                assert_int_equal(muster_metrics_define(ranks[i].metrics, "loss", &everything), 0);
                assert_int_equal(muster_metrics_define(ranks[i].metrics, "tokens", NULL), 1);
            }
            deal(ranks, worlds[world], samples, &rng);
            reduce_ranks(&meeting, ranks);
            assert_int_equal(meeting.n_calls, worlds[world] == 1 ? 0 : 2);
            size_t n = muster_metrics_bytes(ranks[0].metrics);
            for (uint32_t i = 0; i < worlds[world]; i++) {
                struct muster_metric_result found[2];
                unsigned char *mine = malloc(n);
                assert_int_equal(ranks[i].rc, 0);
                memset(found, 0, sizeof(found));
                found[0] = result_of(ranks[i].metrics, 0);
                found[1] = result_of(ranks[i].metrics, 1);
                assert_int_equal(muster_metrics_save(ranks[i].metrics, mine), 0);
                if (bytes) {
                    assert_memory_equal(found, expected, sizeof(found));
                    assert_memory_equal(mine, bytes, n);
                    free(mine);
                } else {
                    memcpy(expected, found, sizeof(found));
                    bytes = mine;
                }
            }
            ranks_part(&meeting, ranks);
        }
        assert_true(expected[0].count > SAMPLES * 9 / 10 && expected[0].n_nan > 0);
        free(bytes);
    }
}

static void each_reduction_is_an_interval_of_its_own(void **state)
{
    (void)state;
    struct meeting meeting;
    struct rank ranks[2];
    ranks_meet(&meeting, ranks, 2);
    for (int i = 0; i < 2; i++) {
        muster_metrics_define(ranks[i].metrics, "loss", NULL);
        muster_metrics_put(ranks[i].metrics, 0, i + 1, 1);
    }
    reduce_ranks(&meeting, ranks);
    assert_same_bits(result_of(ranks[0].metrics, 0).sum, 3, "of both");
    assert_int_equal(meeting.n_calls, 2);
    /* One rank puts nothing: it adds nothing, and not what it had got before. */
    muster_metrics_put(ranks[0].metrics, 0, 5, 1);
    assert_same_bits(result_of(ranks[0].metrics, 0).sum, 5, "of one");
    reduce_ranks(&meeting, ranks);
    assert_same_bits(result_of(ranks[1].metrics, 0).sum, 5, "of both");
    assert_same_bits(result_of(ranks[0].metrics, 0).min, 5, "the least of both");
    assert_int_equal(result_of(ranks[1].metrics, 0).count, 1);
    /* The definitions were compared at the first one. */
    assert_int_equal(meeting.n_calls, 3);
    muster_metrics_reset(ranks[0].metrics);
    assert_int_equal(result_of(ranks[0].metrics, 0).count, 0);
    ranks_part(&meeting, ranks);
}

static void a_reduction_of_one_rank_is_an_interval_too(void **state)
{
    (void)state;
    struct muster_metrics *metrics = one_metric(NULL);
    for (int i = 1; i < 4; i++) {
        muster_metrics_put(metrics, 0, i, 1);
        assert_int_equal(muster_metrics_reduce(metrics, 1, NULL, NULL), 0);
        assert_same_bits(result_of(metrics, 0).sum, i, "sum");
    }
    /* What is merged next as well. */
    struct muster_metrics *other = one_metric(NULL);
    size_t n = muster_metrics_bytes(other);
    unsigned char *bytes = malloc(n);
    muster_metrics_put(other, 0, 7, 1);
    assert_int_equal(muster_metrics_save(other, bytes), 0);
    assert_int_equal(muster_metrics_merge(metrics, bytes, n), 0);
    assert_same_bits(result_of(metrics, 0).sum, 7, "merged");
    free(bytes);
    muster_metrics_free(other);
    muster_metrics_free(metrics);
}

/* n_metrics of each rank, named m0, m1, …; one of rank 2 is another. */
static void define_with_one_other(struct rank *ranks, int n_metrics, int other, const char *name,
                                  const struct muster_metric_opts *opts)
{
    for (int rank = 0; rank < 3; rank++)
        for (int i = 0; i < n_metrics; i++) {
            char plain[64];
            snprintf(plain, sizeof(plain), "m%d%s", i,
                     n_metrics > 10 ? ", which has a long name" : "");
            bool is_other = rank == 2 && i == other;
            if (is_other && !name)
                continue;
            assert_true(muster_metrics_define(ranks[rank].metrics, is_other ? name : plain,
                                              is_other ? opts : NULL) >= 0);
        }
}

static void ranks_that_have_other_metrics_say_which(void **state)
{
    (void)state;
    static const struct muster_metric_opts bins = {.n_bins = 3, .high = 1},
                                           variance = {.has_variance = true};
    static const struct {
        int n_metrics, other;
        const char *name;
        const struct muster_metric_opts *opts;
        const char *message;
    } cases[] = {
        {3, 1, "accuracy", NULL, "metric 1 of rank 0 is 'm1', that of rank 2 is 'accuracy'"},
        {3, 2, "m2", &variance, "metric 2 of rank 0 is 'm2', that of rank 2 is 'm2' variance"},
        {3, 0, "m0", &bins,
         "metric 0 of rank 0 is 'm0', that of rank 2 is 'm0' histogram(3 bins, 0 to 1)"},
        {3, 2, NULL, NULL, "metric 2 of rank 0 is 'm2', that of rank 2 is nothing"},
        {3, 0, NULL, NULL, "metric 0 of rank 0 is 'm0', that of rank 2 is 'm1'"},
        {300, 299, "m299", &variance,
         "rank 2 has defined other metrics than rank 0 behind the first 138"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct meeting meeting;
        struct rank ranks[3];
        ranks_meet(&meeting, ranks, 3);
        define_with_one_other(ranks, cases[i].n_metrics, cases[i].other, cases[i].name,
                              cases[i].opts);
        reduce_ranks(&meeting, ranks);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(ranks[rank].rc, MUSTER_METRICS_ELAYOUT);
            assert_string_equal(muster_metrics_error(ranks[rank].metrics), cases[i].message);
        }
        assert_int_equal(meeting.n_calls, 1);
        ranks_part(&meeting, ranks);
    }
}

static void a_gather_that_fails_is_told_with_its_number(void **state)
{
    (void)state;
    for (int call = 1; call <= 2; call++) {
        struct meeting meeting;
        struct rank ranks[2];
        ranks_meet(&meeting, ranks, 2);
        meeting.fails_at = call;
        for (int i = 0; i < 2; i++)
            muster_metrics_define(ranks[i].metrics, "loss", NULL);
        reduce_ranks(&meeting, ranks);
        assert_int_equal(ranks[1].rc, MUSTER_METRICS_EGATHER);
        assert_string_equal(muster_metrics_error(ranks[1].metrics),
                            "the metrics of 2 ranks cannot be gathered: the call returned 7");
        assert_int_equal(muster_metrics_put(ranks[1].metrics, 0, 1, 1), MUSTER_METRICS_EGATHER);
        assert_int_equal(meeting.n_calls, call);
        ranks_part(&meeting, ranks);
    }
}

static void a_saved_set_goes_on(void **state)
{
    (void)state;
    struct muster_metrics *whole = one_metric(&everything), *part = one_metric(&everything);
    struct muster_metrics *back = one_metric(&everything);
    size_t n = muster_metrics_bytes(part);
    unsigned char *bytes = malloc(n), *expected = malloc(n);
    for (int i = 0; i < 100; i++) {
        muster_metrics_put(whole, 0, i / 7.0, 1);
        muster_metrics_put(part, 0, i / 7.0, 1);
        if (i != 60)
            continue;
        assert_int_equal(muster_metrics_save(part, bytes), 0);
        assert_int_equal(muster_metrics_merge(back, bytes, n), 0);
        muster_metrics_reset(part);
    }
    assert_int_equal(muster_metrics_save(part, bytes), 0);
    assert_int_equal(muster_metrics_merge(back, bytes, n), 0);
    muster_metrics_save(back, bytes);
    muster_metrics_save(whole, expected);
    assert_memory_equal(bytes, expected, n);
    /* Little-endian words: the hash, then the count. */
    assert_int_equal(bytes[8], 100);
    assert_int_equal(bytes[15], 0);
    struct muster_metrics *other = one_metric(NULL);
    assert_int_equal(muster_metrics_merge(other, bytes, n), MUSTER_METRICS_ELAYOUT);
    assert_int_equal(muster_metrics_merge(back, bytes, n - 8), MUSTER_METRICS_ELAYOUT);
    bytes[0] ^= 1;
    assert_int_equal(muster_metrics_merge(whole, bytes, n), MUSTER_METRICS_ELAYOUT);
    muster_metrics_free(whole);
    muster_metrics_free(part);
    muster_metrics_free(back);
    muster_metrics_free(other);
    free(bytes);
    free(expected);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    static const struct muster_metric_opts upside_down = {.n_bins = 3, .low = 1, .high = 1},
                                           too_wide = {.n_bins = 3,
                                                       .low = -DBL_MAX,
                                                       .high = DBL_MAX},
                                           too_many = {.n_bins = UINT32_MAX, .high = 1};
    static const struct {
        const char *name;
        const struct muster_metric_opts *opts;
        const char *message;
    } cases[] = {
        {"loss", NULL, "metric 'loss' is defined twice"},
        {"", NULL, "metric '' has a name that is not of 1 to 63 characters"},
        {"a\nb", NULL, "metric 'a\nb' has a name with a control character"},
        {"h", &upside_down, "metric 'h' has a histogram whose low is not below its high"},
        {"h", &too_wide, "metric 'h' has a histogram whose low is not below its high"},
        {"h", &too_many, "metric 'h' has a histogram of more than 2^20 bins"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct muster_metrics *metrics = one_metric(NULL);
        assert_int_equal(muster_metrics_define(metrics, cases[i].name, cases[i].opts),
                         MUSTER_METRICS_EUSE);
        assert_string_equal(muster_metrics_error(metrics), cases[i].message);
        assert_int_equal(muster_metrics_put(metrics, 0, 1, 1), MUSTER_METRICS_EUSE);
        muster_metrics_free(metrics);
    }
    static const double weights[] = {-1, NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        struct muster_metrics *metrics = one_metric(NULL);
        assert_int_equal(muster_metrics_put(metrics, 0, 1, weights[i]), MUSTER_METRICS_EUSE);
        muster_metrics_free(metrics);
    }
    struct muster_metrics *metrics = one_metric(NULL);
    assert_int_equal(muster_metrics_put(metrics, 0, 1, 0), 0);
    assert_int_equal(muster_metrics_define(metrics, "late", NULL), MUSTER_METRICS_EUSE);
    assert_string_equal(muster_metrics_error(metrics),
                        "metric 'late' is defined after the first value");
    muster_metrics_free(metrics);
    metrics = one_metric(NULL);
    assert_int_equal(muster_metrics_put(metrics, 1, 1, 1), MUSTER_METRICS_EUSE);
    assert_string_equal(muster_metrics_error(metrics), "there is no metric 1");
    muster_metrics_free(metrics);
    metrics = one_metric(NULL);
    assert_int_equal(muster_metrics_reduce(metrics, 2, NULL, NULL), MUSTER_METRICS_EUSE);
    muster_metrics_free(metrics);
    assert_int_equal(muster_metrics_put(NULL, 0, 1, 1), MUSTER_METRICS_ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_figures_have_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(each_reduction_is_an_interval_of_its_own),
        cmocka_unit_test(a_reduction_of_one_rank_is_an_interval_too),
        cmocka_unit_test(ranks_that_have_other_metrics_say_which),
        cmocka_unit_test(a_gather_that_fails_is_told_with_its_number),
        cmocka_unit_test(a_saved_set_goes_on),
        cmocka_unit_test(what_cannot_be_is_said),
    };
    return cmocka_run_group_tests_name("metrics of ranks", tests, NULL, NULL);
}
