/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/share.h"

static void shares_are_even_in_order_and_without_gaps(void **state)
{
    (void)state;
    for (uint64_t total = 0; total < 60; total++) {
        for (uint64_t n = 1; n < 20; n++) {
            uint64_t next = 0, last = UINT64_MAX;
            for (uint64_t i = 0; i < n; i++) {
                struct share share = share_of(total, n, i);
                assert_int_equal(share.start, next);
                assert_true(share.count == total / n || share.count == total / n + 1);
                assert_true(share.count <= last); /* the remainder goes to the first */
                next += share.count;
                last = share.count;
            }
            assert_int_equal(next, total);
        }
    }
}

static void the_largest_numbers_do_not_overflow(void **state)
{
    (void)state;
    struct share last = share_of(UINT64_MAX, 7, 6);
    assert_true(last.start + last.count == UINT64_MAX);
    struct share first = share_of(11, 2, 0);
    assert_int_equal(first.count, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_even_in_order_and_without_gaps),
        cmocka_unit_test(the_largest_numbers_do_not_overflow),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
