/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "cli/spread_answer.h"
#include "cli/spread_plan.h"

/* ---- the plan ---- */

static const struct plan_case {
    struct spread_sizes sizes;
    size_t n_tests;
    enum spread_form form;
    size_t n_blocks, n_items;
} cases[] = {
    {{.n_train = 12, .top_k = 3, .tests_max = 4096}, 3, SPREAD_TOPS, 1, 1},
    {{.n_train = 5216, .top_k = 10, .tests_max = 4096}, 661, SPREAD_TOPS, 1, 21},
    {{.n_train = 5216, .top_k = 200, .tests_max = 4096}, 661, SPREAD_TOPS, 1, 7},
    {{.n_train = 1000, .top_k = 10, .tests_max = 65536}, 20000, SPREAD_TOPS, 6, 24},
    {{.n_train = 62489, .top_k = 10, .tests_max = 4096}, 100, SPREAD_TOPS, 1, 31},
    {{.n_train = 62489, .top_k = 10, .tests_max = 60}, 100, SPREAD_TOPS, 2, 70},
    {{.n_train = 62489, .tests_max = 4096}, 100, SPREAD_ROWS, 1, 31},
    {{.n_train = 62489, .top_k = 10, .tests_max = 4096, .is_matrix = true},
     100,
     SPREAD_ROWS,
     1,
     31},
    {{.n_train = 62489, .tests_max = 1}, 0, SPREAD_ROWS, 1, 62}, /* on themselves */
    {{.n_train = 1000000, .top_k = 2048, .tests_max = 4096}, 1000, SPREAD_TOPS, 2, 224},
    {{.n_train = 1000000, .top_k = 2049, .tests_max = 4096}, 1000, SPREAD_ROWS, 1, 84},
    {{.n_train = 100000000, .top_k = 1, .tests_max = 4096}, 5000, SPREAD_TOPS, 2, 512},
};

static void blocks_are_whole(const struct spread_plan *plan, size_t n_tests, size_t n_train)
{
    size_t test = 0, item = 0;
    uint64_t value = 0;
    for (size_t b = 0; b < plan->n_blocks; b++) {
        const struct spread_block *block = &plan->blocks[b];
        assert_int_equal(block->first_test, test);
        assert_int_equal(block->first_item, item);
        assert_int_equal(block->n_subset, n_train);
        for (size_t at = 0; at < n_train; item++) {
            struct spread_item piece = spread_plan_item(plan, item);
            assert_ptr_equal(piece.block, block);
            assert_int_equal(piece.begin, at);
            assert_true(piece.n > 0 && (piece.n % 256 == 0 || at + piece.n == n_train));
            assert_int_equal(spread_item_value(&piece, 0), value + at);
            at += piece.n;
        }
        test += block->n_tests;
        value += (uint64_t)MAX(block->n_tests, (size_t)1) * n_train;
    }
    assert_int_equal(test, n_tests);
    assert_int_equal(item, plan->n_items);
    assert_int_equal(value, plan->n_values);
}

static void every_pair_is_in_one_item(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct tracin_test *tests = xcalloc(cases[i].n_tests + 1, sizeof(*tests));
        struct spread_plan plan;
        spread_plan_init(&plan, &cases[i].sizes, tests, cases[i].n_tests);
        if (plan.form != cases[i].form || plan.n_blocks != cases[i].n_blocks ||
            plan.n_items != cases[i].n_items)
            fail_msg("case %zu: form %d, %zu blocks, %zu items", i, (int)plan.form, plan.n_blocks,
                     plan.n_items);
        blocks_are_whole(&plan, cases[i].n_tests, cases[i].sizes.n_train);
        spread_plan_release(&plan);
        free(tests);
    }
}

static void test_triples_are_a_small_part_of_an_item(void **state)
{
    (void)state;
    for (size_t n_tests = 1; n_tests <= 4096; n_tests = n_tests * 3 / 2 + 1) {
        const struct spread_sizes sizes = {.n_train = 1 << 20, .top_k = 1, .tests_max = 4096};
        struct tracin_test *tests = xcalloc(n_tests, sizeof(*tests));
        struct spread_plan plan;
        spread_plan_init(&plan, &sizes, tests, n_tests);
        double range = (double)plan.train_per_item, n = (double)n_tests;
        double share = n / (n + range + range * n / 600);
        if (share > 0.04)
            fail_msg("%zu tests: %g of an item of %g", n_tests, share, range);
        spread_plan_release(&plan);
        free(tests);
    }
}

static const struct triple train[] = {{2, 1, 0}, {0, 1, 5}, {2, 0, 1},
                                      {0, 1, 1}, {0, 0, 9}, {2, 1, 0}};

static void order_is(const struct spread_plan *plan, const struct tracin_test *tests,
                     const uint32_t *expected, size_t n)
{
    uint32_t *order = spread_order_new(plan, plan->blocks, tests, train, countof(train));
    assert_int_equal(plan->blocks[0].n_subset, n);
    assert_memory_equal(order, expected, n * sizeof(*order));
    free(order);
}

static void triples_of_one_head_and_relation_are_neighbours(void **state)
{
    (void)state;
    static const uint32_t near_first[] = {0, 3}, near_second[] = {2, 3}, all[] = {4, 1, 3, 2, 0, 5},
                          near_any[] = {3, 2, 0}, as_they_come[] = {0, 1, 2, 3, 4, 5};
    struct tracin_test tests[] = {{.train_indices = near_first, .n_train_indices = 2},
                                  {.train_indices = near_second, .n_train_indices = 2}};
    struct spread_sizes sizes = {.n_train = countof(train), .tests_max = 9};
    struct spread_plan plan;
    spread_plan_init(&plan, &sizes, tests, 2);
    order_is(&plan, tests, near_any, countof(near_any));
    assert_true(spread_is_wanted(&tests[1], 2) && !spread_is_wanted(&tests[1], 0));
    spread_plan_release(&plan);

    tests[1] = (struct tracin_test){.train_indices = NULL};
    spread_plan_init(&plan, &sizes, tests, 2);
    order_is(&plan, tests, all, countof(all));
    assert_true(spread_is_wanted(&tests[1], 5));
    spread_plan_release(&plan);

    sizes.is_matrix = true;
    spread_plan_init(&plan, &sizes, tests, 1);
    order_is(&plan, tests, as_they_come, countof(as_they_come));
    spread_plan_release(&plan);
}

/* ---- answers ---- */

static const struct tracin_influence best[] = {
    {7, 0.1}, {0, -0.0}, {UINT32_MAX, 5e-324}, {1, -1e308}};

static void answer_make(struct spread_answer *answer, struct buf *text)
{
    const double selves[] = {1.0 / 3, -0.0};
    *answer = (struct spread_answer){.item = 3, .worker = 1, .life = 9, .load_ms = 812};
    buf_add(&answer->selves, selves, sizeof(selves));
    spread_tops_add(&answer->tops, best, countof(best));
    spread_tops_add(&answer->tops, best, 0);
    spread_answer_format(answer, text);
}

static void an_answer_is_the_same_bits_on_both_sides(void **state)
{
    (void)state;
    struct spread_answer sent, read = {0};
    struct buf text = BUF_INIT;
    size_t n;
    answer_make(&sent, &text);
    assert_int_equal(spread_answer_parse(&read, buf_str(&text), NULL), 0);
    assert_true(read.item == 3 && read.worker == 1 && read.life == 9 && read.load_ms == 812);
    assert_true(spread_answer_self(&read, 0) == 1.0 / 3 && signbit(spread_answer_self(&read, 1)));
    struct spread_tops walk = {buf_str(&read.tops)};
    assert_true(spread_tops_count(&walk, &n) && n == countof(best));
    for (size_t i = 0; i < n; i++) {
        struct tracin_influence next;
        assert_true(spread_tops_next(&walk, &next) && next.train_index == best[i].train_index);
        assert_memory_equal(&next.value, &best[i].value, sizeof(next.value));
    }
    assert_true(spread_tops_count(&walk, &n) && n == 0);
    assert_false(spread_tops_count(&walk, &n));
    spread_answer_release(&sent);
    spread_answer_release(&read);
    buf_release(&text);
}

static void what_is_cut_off_or_changed_is_no_answer(void **state)
{
    (void)state;
    struct spread_answer sent, read = {0};
    struct buf text = BUF_INIT;
    answer_make(&sent, &text);
    for (size_t len = 0; len < text.len; len++)
        assert_int_equal(spread_answer_parse(&read, (struct str){text.at, len}, NULL), ERR_DATA);
    char *digits = strstr(text.at, "\"selves\":\"") + strlen("\"selves\":\"");
    *digits = 'x';
    struct err err = {0};
    assert_int_equal(spread_answer_parse(&read, buf_str(&text), &err), ERR_DATA);
    assert_non_null(strstr(err.text, "expected a worker's answer, found '{\"item\":3"));
    assert_int_equal(spread_answer_parse(&read, STR("{\"item\":-1}"), NULL), ERR_DATA);
    spread_answer_release(&sent);
    spread_answer_release(&read);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_in_one_item),
        cmocka_unit_test(test_triples_are_a_small_part_of_an_item),
        cmocka_unit_test(triples_of_one_head_and_relation_are_neighbours),
        cmocka_unit_test(an_answer_is_the_same_bits_on_both_sides),
        cmocka_unit_test(what_is_cut_off_or_changed_is_no_answer),
    };
    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
