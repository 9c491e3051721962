/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "graph/remember.h"

static void put(struct stage_memos *memos, uint64_t signature, uint64_t ms)
{
    stage_memos_put(memos, &(struct stage_memo){signature, ms, UINT64_MAX});
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    cleanup_free struct stage_memos *memos = xcalloc(1, sizeof(*memos)),
                                    *again = xcalloc(1, sizeof(*again));
    cleanup_buf struct buf text = BUF_INIT;
    put(memos, UINT64_MAX, 1);
    put(memos, 7, 2);
    stage_memos_format(memos, &text);
    assert_true(stage_memos_parse(buf_str(&text), again));
    assert_int_equal(again->len, 2);
    assert_memory_equal(again->at, memos->at, 2 * sizeof(memos->at[0]));
}

static void the_newest_counts_and_the_oldest_is_dropped(void **state)
{
    (void)state;
    cleanup_free struct stage_memos *memos = xcalloc(1, sizeof(*memos)),
                                    *again = xcalloc(1, sizeof(*again));
    cleanup_buf struct buf text = BUF_INIT;
    for (uint64_t i = 1; i <= STAGE_MEMOS_MAX; i++)
        put(memos, i, i);
    put(memos, 1, 77); /* the oldest becomes the newest */
    assert_int_equal(memos->len, STAGE_MEMOS_MAX);
    assert_int_equal(stage_memos_find(memos, 1)->ms, 77);
    put(memos, UINT64_MAX, UINT64_MAX);
    assert_int_equal(memos->len, STAGE_MEMOS_MAX);
    assert_null(stage_memos_find(memos, 2));
    assert_non_null(stage_memos_find(memos, 1));
    stage_memos_format(memos, &text);
    assert_true(stage_memos_parse(buf_str(&text), again));
    assert_int_equal(again->len, STAGE_MEMOS_MAX);
    assert_true(text.len <= STAGE_MEMO_BYTES_MAX / 2);
}

/* One more than there is room for is no file of ours. */
static void too_many_are_refused(void **state)
{
    (void)state;
    cleanup_free struct stage_memos *memos = xcalloc(1, sizeof(*memos));
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "{\"version\":1,\"stages\":[");
    for (uint32_t i = 0; i <= STAGE_MEMOS_MAX; i++)
        buf_addf(&text, "%s{\"signature\":%u,\"ms\":1,\"mem_peak_bytes\":0}", i > 0 ? "," : "", i);
    buf_add_text(&text, "]}");
    assert_false(stage_memos_parse(buf_str(&text), memos));
    assert_int_equal(memos->len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(the_newest_counts_and_the_oldest_is_dropped),
        cmocka_unit_test(too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
