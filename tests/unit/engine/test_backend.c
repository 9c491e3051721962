/* SPDX-License-Identifier: Apache-2.0
 *
 * Every backend does what the plain loops in float64 do: one table of operations, sizes and types.
 * The error is the norm of the difference by that of what is expected.
 */
#include "unit/test.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "num/backend.h"
#include "num/fast.h"
#include "unit/engine/emulated.h"
#include "unit/engine/guarded.h"
#include "unit/engine/trials.h"

static const double bounds[] = {[NUM_F32] = 2e-6, [NUM_F64] = 1e-13};

/* ||found - expected|| / ||expected||, infinite where one of them is not a number. */
static double error_of(const struct buf *found, const struct buf *expected)
{
    assert_int_equal(found->len, expected->len);
    const double *a = (const double *)(const void *)found->at;
    const double *b = (const double *)(const void *)expected->at;
    double difference = 0, norm_square = 0;
    for (size_t i = 0; i < found->len / sizeof(double); i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm_square += b[i] * b[i];
    }
    if (difference == 0)
        return 0;
    double error = sqrt(difference / norm_square);
    return isfinite(error) ? error : HUGE_VAL;
}

/* Nothing is written: there is nowhere to. Weights may be looked at. */
static void nothing_is_done_with_nothing(const struct num_backend *be)
{
    void *weights = NULL;
    assert_int_equal(be->allocate(be, 18 * sizeof(double), &weights, NULL), 0);
    be->fill_zero(be, weights, 18 * sizeof(double));
    for (enum num_dtype dtype = NUM_F32; dtype <= NUM_F64; dtype++) {
        be->gemm(be, &(struct num_gemm){dtype, .m = 0, .n = 3, .k = 2, .lda = 2, .ldb = 3});
        be->gemm(be, &(struct num_gemm){dtype, .m = 3, .n = 0, .k = 2, .lda = 2, .ldb = 3});
        be->rows(be, &(struct num_rows){dtype, .n = 0, .pieces = 1, .len = 4});
        be->rows(be, &(struct num_rows){dtype, .n = 3, .pieces = 1, .len = 0});
        be->dots(be, &(struct num_dots){dtype, .n = 0, .len = 3});
        be->drop(be, &(struct num_drop){dtype, .n = 0, .groups = 2, .len = 3});
        be->multiply(be, &(struct num_multiply){dtype, .n = 0});
        be->logistic(be, &(struct num_logistic){dtype, .n = 0});
        be->conv(be, &(struct num_conv){dtype, 0, 4, 4, 2, 3, 3, .weight = weights});
        be->conv_back(be, &(struct num_conv_back){dtype, 0, 4, 4, 2, 3, 3, .weight = weights});
        be->conv_norm(be, &(struct num_conv_norm){dtype, 0, 4, 9});
        be->add_where(be, &(struct num_add_where){dtype, 0, 5});
        be->norm(be, &(struct num_norm){dtype, 0, 2, 3});
        be->norm_stats(be, &(struct num_norm_stats){dtype, 3, 0, 3});
        be->norm_merge(be, &(struct num_norm_merge){dtype, 0, 0});
        be->adam(be, &(struct num_adam){dtype, 0, .step = 1});
        be->norm_back(be, &(struct num_norm_back){dtype, 0, 2, 3});
        be->norm_back_merge(be, &(struct num_norm_back_merge){dtype, 1, 0});
        be->best(be, &(struct num_best){dtype, 0, 3, 2});
        be->copy(be, weights, weights, 0);
    }
    be->round(be, &(struct num_round){NUM_BF16, 0, 7, NULL});
    be->release(be, NULL);
    be->release(be, weights);
    assert_int_equal(be->wait(be, NULL), 0);
}

static void backend_conforms(const struct num_backend *be)
{
    struct num_backend ref;
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    for (size_t o = 0; o < countof(operations); o++)
        for (size_t s = 0; s < countof(operations[o].sizes) && operations[o].sizes[s].a; s++)
            for (unsigned variant = 0; variant < 4; variant++)
                for (enum num_dtype dtype = NUM_F32; dtype <= NUM_F64; dtype++) {
                    struct trial found = trial_of(&operations[o], s, variant, be, dtype);
                    struct trial expected = trial_of(&operations[o], s, variant, &ref, NUM_F64);
                    double error = error_of(&found.out, &expected.out);
                    bool has_slack = dtype == NUM_F32 && operations[o].slack > 0;
                    if (!(error <= bounds[dtype] * (has_slack ? operations[o].slack : 1)))
                        fail_msg("%s of %s, sizes %zu (seed %#zx), variant %u, %s: error %g",
                                 operations[o].name, be->name, s, TRIAL_SEED + s, variant,
                                 dtype == NUM_F64 ? "float64" : "float32", error);
                    buf_release(&found.out);
                    buf_release(&expected.out);
                }
    nothing_is_done_with_nothing(be);
    num_close(&ref);
}

static void plain_loops_conform(void **state)
{
    (void)state;
    struct num_backend ref;
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    backend_conforms(&ref);
    num_close(&ref);
}

static void openblas_conforms_where_it_is(void **state)
{
    (void)state;
    struct num_backend blas;
    if (num_open(&blas, "blas", NULL) != 0) {
        print_message("# skipped: no OpenBLAS\n");
        return;
    }
    print_message("# %s\n", blas.description);
    backend_conforms(&blas);
    num_close(&blas);
}

static void the_kernels_conform_on_the_host_in_any_order_of_threads(void **state)
{
    (void)state;
    for (enum emulated_order order = EMULATED_FORWARDS; order <= EMULATED_MIXED; order++) {
        struct num_backend be;
        emulated_open(&be, order);
        backend_conforms(&be);
        num_close(&be);
    }
}

/* A phase in which a thread read what another one wrote would show. */
static void the_order_of_threads_changes_no_bit(void **state)
{
    (void)state;
    struct num_backend be[3];
    for (enum emulated_order order = EMULATED_FORWARDS; order <= EMULATED_MIXED; order++)
        emulated_open(&be[order], order);
    for (size_t o = 0; o < countof(operations); o++)
        for (size_t s = 0; s < countof(operations[o].sizes) && operations[o].sizes[s].a; s++)
            for (unsigned variant = 0; variant < 4; variant++) {
                struct trial first = trial_of(&operations[o], s, variant, &be[0], NUM_F32);
                for (size_t i = 1; i < countof(be); i++) {
                    struct trial other = trial_of(&operations[o], s, variant, &be[i], NUM_F32);
                    assert_int_equal(first.out.len, other.out.len);
                    if (memcmp(first.out.at, other.out.at, first.out.len) != 0)
                        fail_msg("%s, sizes %zu, variant %u", operations[o].name, s, variant);
                    buf_release(&other.out);
                }
                buf_release(&first.out);
            }
    for (size_t i = 0; i < countof(be); i++)
        num_close(&be[i]);
}

/* The trials themselves keep to a device's memory: what they show of cuda is not their own doing. */
static void the_trials_keep_to_a_devices_memory(void **state)
{
    (void)state;
    struct num_backend emulated, guarded;
    emulated_open(&emulated, EMULATED_FORWARDS);
    guarded_open(&guarded, &emulated, &(struct guarded_opts){0});
    backend_conforms(&guarded);
    num_close(&guarded);
}

static void cuda_conforms_where_a_device_is(void **state)
{
    (void)state;
    struct num_backend cuda;
    struct err err = {0};
    if (num_open_any(&cuda, "cuda", &err) != 0) {
        assert_int_equal(err.code, ERR_UNAVAILABLE);
        print_message("# skipped: %s\n", err.text);
        return;
    }
    print_message("# %s\n", cuda.description);
    backend_conforms(&cuda);
    num_close(&cuda);
}

/* What looks into arrays itself would look into a device's. */
static void a_device_is_not_opened_for_who_expects_the_hosts_memory(void **state)
{
    (void)state;
    struct num_backend be;
    struct err err = {0};
    assert_int_equal(num_open(&be, "cuda", &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "blas or ref"));
    assert_int_equal(num_open_any(&be, NULL, &err), 0);
    assert_false(be.is_device);
    num_close(&be);
}

static const struct num_fast *under_test;

#define OF_TABLE(name, fits)                                                               \
    static void name##_of_table(const struct num_backend *be, const struct num_##name *op) \
    {                                                                                      \
        if (op->dtype == NUM_F32 && (fits))                                                \
            under_test->name(op);                                                          \
        else                                                                               \
            ((const struct num_backend *)be->library)->name(be, op);                       \
    }

OF_TABLE(conv, op->height * op->width <= CONV_FAST_IMAGE_MAX)
OF_TABLE(conv_back, op->height * op->width <= CONV_FAST_IMAGE_MAX)
OF_TABLE(bce, true)
OF_TABLE(adam, true)
OF_TABLE(norm, true)
OF_TABLE(norm_stats, true)
OF_TABLE(norm_back, true)

static void each_instruction_set_conforms(void **state)
{
    (void)state;
    const struct {
        const char *name;
        const struct num_fast *fast;
        bool is_here;
    } sets[] = {
        {"any", &num_fast_any, true},
#if defined(__x86_64__)
        {"avx2", &num_fast_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
        {"avx512", &num_fast_avx512, __builtin_cpu_supports("avx512f")},
#endif
    };
    struct num_backend ref, be;
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    for (size_t i = 0; i < countof(sets); i++) {
        if (!sets[i].is_here)
            continue;
        be = ref;
        be.name = sets[i].name;
        be.library = &ref;
        be.conv = conv_of_table;
        be.conv_back = conv_back_of_table;
        be.bce = bce_of_table;
        be.adam = adam_of_table;
        be.norm = norm_of_table;
        be.norm_stats = norm_stats_of_table;
        be.norm_back = norm_back_of_table;
        under_test = sets[i].fast;
        backend_conforms(&be);
    }
    num_close(&ref);
}

/* Nor does it decide what the others are rounded to. */
static void what_is_not_finite_goes_through_a_product_that_rounds(void **state)
{
    (void)state;
    struct num_backend backends[2];
    const float a[] = {NAN, 1, (float)INFINITY, 1, 0, 0x1p-20f}, b[] = {0x1p-9f, 1};
    assert_int_equal(num_open(&backends[0], "ref", NULL), 0);
    emulated_open(&backends[1], EMULATED_MIXED);
    for (size_t i = 0; i < countof(backends); i++) {
        float c[3] = {0};
        struct num_gemm op = {NUM_F32, .m = 3, .n = 1, .k = 2, .lda = 2, .ldb = 1, .ldc = 1};
        op.alpha = 1;
        op.a = a;
        op.b = b;
        op.c = c;
        op.rounds = true;
        for (op.format = NUM_BF16; op.format <= NUM_FP16; op.format++) {
            backends[i].gemm(&backends[i], &op);
            assert_true(isnan(c[0]) && isinf(c[1]) && c[2] == 0x1p-20f);
        }
        num_close(&backends[i]);
    }
}

static void an_unknown_backend_is_refused_by_name(void **state)
{
    (void)state;
    struct num_backend be;
    struct err err = {0};
    assert_int_equal(num_open(&be, "cuda9", &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "'cuda9'"));
}

/* A triple that the model is sure of has a slope below the rounding of 1: it must not become 0. */
static void the_slope_of_a_large_score_is_not_lost(void **state)
{
    (void)state;
    struct num_backend ref;
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    float score[] = {30, -200, 200, 0}, slope[4], loss[4];
    ref.logistic(&ref, &(struct num_logistic){NUM_F32, 4, 1, 1, score, loss, slope});
    assert_true(fabs((double)slope[0] / -exp(-30) - 1) < 1e-6);
    assert_true(slope[1] == -1 && loss[1] == 200);
    assert_true(isfinite(slope[2]) && loss[2] >= 0);
    assert_true(slope[3] == -0.5f);
    num_close(&ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_loops_conform),
        cmocka_unit_test(openblas_conforms_where_it_is),
        cmocka_unit_test(the_kernels_conform_on_the_host_in_any_order_of_threads),
        cmocka_unit_test(the_order_of_threads_changes_no_bit),
        cmocka_unit_test(the_trials_keep_to_a_devices_memory),
        cmocka_unit_test(cuda_conforms_where_a_device_is),
        cmocka_unit_test(a_device_is_not_opened_for_who_expects_the_hosts_memory),
        cmocka_unit_test(each_instruction_set_conforms),
        cmocka_unit_test(what_is_not_finite_goes_through_a_product_that_rounds),
        cmocka_unit_test(an_unknown_backend_is_refused_by_name),
        cmocka_unit_test(the_slope_of_a_large_score_is_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
