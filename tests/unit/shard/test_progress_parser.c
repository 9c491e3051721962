/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "shard/progress_parser.h"

static struct progress_parser fed(uint64_t n_items, const char *text)
{
    struct progress_parser progress_parser = {.n_items = n_items};
    cleanup_buf struct buf rest = BUF_INIT;
    progress_parser_feed(&progress_parser, str_of(text), &rest);
    progress_parser_end(&progress_parser, &rest);
    return progress_parser;
}

static void progress_is_read_wherever_it_stands(void **state)
{
    (void)state;
    static const struct {
        uint64_t n_items;
        const char *text;
        uint64_t items_done, correct, seen;
    } cases[] = {
        {100, "[PROGRESS:5/100|acc:0.8500|correct:4/5]\n", 5, 4, 5},
        {100, "INFO - [PROGRESS:5/100|acc:0.8|correct:4/5] and on\n", 5, 4, 5},
        {100, "[PROGRESS:5/100]\n", 5, 0, 0},
        {100, "[PROGRESS:5/100|acc:0.85|correct:4/5]", 5, 4, 5},
        {100, "[PROGRESS:1/100]\n[PROGRESS:2/100]\n", 2, 0, 0},
        {100, "[PROGRESS:10/50]\n", 20, 0, 0},            /* batches of two */
        {100, "[PROGRESS:5/100|correct:6/5]\n", 5, 0, 0}, /* more than all */
        {100, "[PROGRESS:101/100]\n", 0, 0, 0},
        {100, "[PROGRESS:5/0]\n", 0, 0, 0},
        {100, "[PROGRESS:5/100\n", 0, 0, 0}, /* cut off */
        {100, "[PROGRESS:99999999999999999999/100]\n", 0, 0, 0},
        {100, " 45%|####5     | 45/100 [00:10<00:12, 4.41it/s]\r", 45, 0, 0},
        {100, "eval:  50%|#####     | 50/100 [00:10<00:12, 4.41it/s]\n", 50, 0, 0},
        {100, "  0%|          | 0/100 [00:00<?, ?it/s]\r  1%|          | 1/100 [00:00<?, ?it/s]\r",
         1, 0, 0},
        {100, "Loading weights: 100%|####| 47/47 [00:00<00:00, 900it/s]\r", 0, 0, 0},
        {100, "Fetching 4 files: 100%|####| 4/4 [00:01<00:00]\r  4%|  | 4/100 [00:01<?]\r", 4, 0,
         0},
        {100, "  4%|    | 4/100 [00:01<?]\r 50%|##  | 16/32 [00:01<00:00]\r", 4, 0, 0},
        {100, "100%|####| 100/100 [00:01<00:00]\n  1%|    | 1/100 [00:01<?]\r", 1, 0, 0},
        {100, "  1%|    | 20/2048 [00:01<?]\r", 0, 0, 0}, /* tokens, perhaps */
        {100, "[PROGRESS:5/100]\n 90%|####| 90/100 [00:01<00:00]\r", 5, 0, 0},
        {100, " 45%|####5| 1.2k/2.0k [00:10<00:12]\r", 0, 0, 0},
        {1200, " 45%|####5| 540/1.20k [00:10<00:12, 45.0it/s]\r", 0, 0, 0}, /* unit_scale */
        {100, "45it [00:10, 4.41it/s]\r", 0, 0, 0},
        {100, " 45%|####5     | [00:10<00:12]\r", 0, 0, 0},
        {100, "100%|##| 8/8 [00:01]\r  2%|  | 2/100 [00:09]\r 50%|# | 4/8 [00:01]\r", 2, 0, 0},
        {100, "see page 45/100 [of it]\n", 0, 0, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct progress_parser progress_parser = fed(cases[i].n_items, cases[i].text);
        if (progress_parser_items_done(&progress_parser) != cases[i].items_done ||
            progress_parser.correct != cases[i].correct || progress_parser.seen != cases[i].seen)
            fail_msg("'%s': %lu done, %lu of %lu correct", cases[i].text,
                     progress_parser_items_done(&progress_parser), progress_parser.correct,
                     progress_parser.seen);
    }
}

static void batches_count_where_their_size_is_known(void **state)
{
    (void)state;
    struct progress_parser progress_parser = {.n_items = 99, .n_batches = 25};
    cleanup_buf struct buf rest = BUF_INIT;
    progress_parser_feed(&progress_parser, STR("100%|#####| 47/47 [00:01<00:00]\r"), &rest);
    assert_int_equal(progress_parser_items_done(&progress_parser), 0);
    progress_parser_feed(&progress_parser, STR(" 20%|##   | 5/25 [00:01<00:04, 4it/s]\r"), &rest);
    assert_int_equal(progress_parser_items_done(&progress_parser), 19);
    progress_parser_feed(&progress_parser, STR("100%|#####| 25/25 [00:05<00:00, 4it/s]\r"), &rest);
    assert_int_equal(progress_parser_items_done(&progress_parser), 99);
}

static void all_but_markers_is_shown_however_it_is_cut(void **state)
{
    (void)state;
    static const char text[] = "one\n[PROGRESS:1/9|acc:1.0|correct:1/1]\ntwo\r"
                               " 45%|####5| 4/9 [00:10<00:12]\r\n\n[PROGRESS:2/9]\nthree";
    static const char shown[] = "one\ntwo\r 45%|####5| 4/9 [00:10<00:12]\r\n\nthree";
    for (size_t cut = 1; cut < sizeof(text); cut++) {
        struct progress_parser progress_parser = {.n_items = 9};
        cleanup_buf struct buf rest = BUF_INIT;
        for (size_t at = 0; at < sizeof(text) - 1; at += cut)
            progress_parser_feed(&progress_parser,
                                 (struct str){text + at, MIN(cut, sizeof(text) - 1 - at)}, &rest);
        progress_parser_end(&progress_parser, &rest);
        assert_string_equal(buf_text(&rest), shown);
        assert_int_equal(progress_parser.done, 2);
        assert_int_equal(progress_parser.correct, 1);
    }
}

static void a_line_that_is_too_long_passes_through(void **state)
{
    (void)state;
    struct progress_parser progress_parser = {.n_items = 9};
    cleanup_buf struct buf text = BUF_INIT, rest = BUF_INIT;
    for (int i = 0; i < 500; i++)
        buf_add_text(&text, "0123456789");
    buf_add_text(&text, "[PROGRESS:1/9]\n[PROGRESS:2/9]\n");
    for (size_t at = 0; at < text.len; at += 7)
        progress_parser_feed(&progress_parser,
                             (struct str){text.at + at, MIN((size_t)7, text.len - at)}, &rest);
    assert_int_equal(rest.len, 5000 + strlen("[PROGRESS:1/9]\n"));
    assert_int_equal(progress_parser.done, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_read_wherever_it_stands),
        cmocka_unit_test(batches_count_where_their_size_is_known),
        cmocka_unit_test(all_but_markers_is_shown_however_it_is_cut),
        cmocka_unit_test(a_line_that_is_too_long_passes_through),
    };
    return cmocka_run_group_tests_name("marker", tests, NULL, NULL);
}
