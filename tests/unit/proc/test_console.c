/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/console_text.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "proc/logfile.h"

static void collect(void *context, struct str lines)
{
    buf_add_str(context, lines);
}

static struct console *console_into(struct buf *out, unsigned lines_per_s)
{
    return console_new(
        &(struct console_opts){.emit = collect, .context = out, .lines_per_s = lines_per_s});
}

/* Feed `bytes` to stream 0 in pieces of `step` and compare what comes out. */
static void check_stream(const char *bytes, size_t step, const char *expected)
{
    struct buf out = BUF_INIT;
    struct console *console = console_into(&out, 1000);
    struct str rest = str_of(bytes);
    while (rest.len > 0) {
        size_t len = MIN(step, rest.len);
        console_add(console, 0, "[gpu 0] ", (struct str){rest.at, len}, 5000);
        rest.at += len;
        rest.len -= len;
    }
    console_flush(console, 5000, true);
    if (strcmp(buf_text(&out), expected) != 0)
        fail_msg("\"%s\" in steps of %zu gave \"%s\", expected \"%s\"", bytes, step, buf_text(&out),
                 expected);
    console_free(console);
    buf_release(&out);
}

static void lines_are_prefixed_and_bars_folded_however_they_arrive(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *expected;
    } cases[] = {
        {"", ""},
        {"a\n", "[gpu 0] a\n"},
        {"a\nb\n", "[gpu 0] a\n[gpu 0] b\n"},
        {"unfinished", "[gpu 0] unfinished\n"},
        {"\n", "[gpu 0]\n"},
        {"dos\r\nline\r\n", "[gpu 0] dos\n[gpu 0] line\n"},
        {"\r 10%\r 50%\r100%\n", "[gpu 0] 100%\n"},
        {"10%\r50%\r100%\r\n", "[gpu 0] 100%\n"},
        {"10%\r50%\r", "[gpu 0] 50%\n"},
        {"10%\r\r\r50%\n", "[gpu 0] 50%\n"},
        {"bar\r   \r\nnext\n", "[gpu 0] next\n"},
        {"\x1b[31mred\x1b[0m\n", "[gpu 0] \x1b[31mred\x1b[0m\n"},
        {"\x1b[1;31mleft open\n", "[gpu 0] \x1b[1;31mleft open\x1b[0m\n"},
        {"h\xc3\xa9llo \xf0\x9f\x98\x80\n", "[gpu 0] h\xc3\xa9llo \xf0\x9f\x98\x80\n"},
    };
    for (size_t i = 0; i < countof(cases); i++)
        for (size_t step = 1; step <= 16; step++)
            check_stream(cases[i].bytes, step, cases[i].expected);
}

static void nothing_that_a_worker_prints_reaches_the_terminal_but_text_and_colours(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text, *plain;
    } cases[] = {
        {"a\tb", "a\tb", NULL},
        {"bell\a back\b null\x7f", "bell back null", NULL},
        {"\x1b[2Jclear", "clear", NULL},
        {"\x1b[10;5Hmove\x1b[?25l", "move", NULL},
        {"\x1b]0;title\atext", "text", NULL},
        {"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", NULL},
        {"\x1bP payload \x1b\\text", "text", NULL},
        {"\x1b]never ends", "", NULL},
        {"\x1b"
         "cfull reset",
         "full reset", NULL},
        {"\x1b(Bcharset", "charset", NULL},
        {"\x1b", "", NULL},
        {"\x1b[", "", NULL},
        {"\x1b[38;5;196mx\x1b[m", "\x1b[38;5;196mx\x1b[m", "x"},
        {"\x1b[38:2::1:2:3mx", "\x1b[38:2::1:2:3mx\x1b[0m", "x"},
        {"\x1b[>4;2mx", "x", NULL}, /* xterm's modifyOtherKeys ends in m, and is no colour */
        {"\x1b[31\nm", "m", NULL},
        {"\xff\xfe", "\\xff\\xfe", NULL},
        {"\xc2\x9b"
         "2J",
         "2J", NULL},
        {"\xc0\xaf", "\\xc0\\xaf", NULL},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80", NULL},
        {"\xe2\x82", "\\xe2\\x82", NULL},
        {"a\xe2\x80\xae-\xe2\x81\xa6", "a\\u202e-\\u2066", NULL}, /* turn the text */
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf colours = BUF_INIT, plain = BUF_INIT;
        console_text_add(&colours, str_of(cases[i].bytes), true);
        console_text_add(&plain, str_of(cases[i].bytes), false);
        const char *expected = cases[i].plain ? cases[i].plain : cases[i].text;
        if (strcmp(buf_text(&colours), cases[i].text) != 0 ||
            strcmp(buf_text(&plain), expected) != 0)
            fail_msg("case %zu: \"%s\" and \"%s\"", i, buf_text(&colours), buf_text(&plain));
        buf_release(&colours);
        buf_release(&plain);
    }
}

/* Random bytes, as likely as not special ones: the output never holds a control but tab and SGR. */
static void random_bytes_come_out_harmless(void **state)
{
    (void)state;
    static const char special[] = "\x1b[]P;m0129?\a\\\r\xc2\x9b\xe2\x82\xff\b";
    struct rng rng = {.state = 7};
    for (int round = 0; round < 20000; round++) {
        char bytes[24];
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = rng_below(&rng, 2) ? special[rng_below(&rng, sizeof(special) - 1)]
                                          : (char)rng_next(&rng);
        struct buf out = BUF_INIT;
        console_text_add(&out, (struct str){bytes, sizeof(bytes)}, false);
        for (size_t i = 0; i < out.len; i++)
            if (((unsigned char)out.at[i] < 0x20 && out.at[i] != '\t') || out.at[i] == 0x7f)
                fail_msg("round %d: control %02x", round, (unsigned)out.at[i]);
        buf_release(&out);
    }
}

static void lines_that_workers_print_alike_are_folded(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    struct console *console = console_into(&out, 0);
    for (uint32_t i = 0; i < 8; i++) {
        char *prefix = xasprintf("[gpu %u] ", i);
        console_add(console, i, prefix, STR("loading model\nready\n"), 5000 + i);
        free(prefix);
    }
    console_add(console, 3, "[gpu 3] ", STR("only here\n"), 5010);
    assert_int_equal(console_flush(console, 5010, false), 190);
    assert_string_equal(buf_text(&out), "");
    assert_true(console_flush(console, 5210, false) == UINT64_MAX);
    assert_string_equal(buf_text(&out),
                        "[gpu 0-7] loading model (x8)\n[gpu 0-7] ready (x8)\n[gpu 3] only here\n");
    console_free(console);
    buf_release(&out);
}

static void folding_keeps_each_workers_own_order(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    struct console *console = console_into(&out, 0);
    console_add(console, 0, "[gpu 0] ", STR("x\n"), 5000);
    console_add(console, 1, "[w] ", STR("y\nx\n"), 5000);
    console_add(console, 2, "[gpu 2] ", STR("x\nx\n"), 5000);
    console_flush(console, 5000, true);
    assert_string_equal(buf_text(&out), "[gpu 0,2] x (x2)\n[w] y\n[2 workers] x (x2)\n");
    console_free(console);
    buf_release(&out);
}

static void a_flood_is_counted_and_its_last_line_known(void **state)
{
    (void)state;
    struct buf out = BUF_INIT, flood = BUF_INIT;
    struct console *console = console_into(&out, 2);
    for (int i = 0; i < 1207; i++)
        buf_addf(&flood, "line %d\n", i);
    buf_add_text(&flood, "par");
    console_name_file(console, 0, "gpu_0_stderr.log");
    console_add(console, 0, "[gpu 0] ", buf_str(&flood), 5000);
    assert_string_equal(console_last(console, 0), "line 1206");
    assert_int_equal(console_flush(console, 5000, false), 1000);
    assert_string_equal(buf_text(&out), "[gpu 0] line 0\n[gpu 0] line 1\n");
    buf_reset(&out);
    console_add(console, 0, "[gpu 0] ", STR("tial\n"), 6000);
    console_flush(console, 6000, false);
    assert_string_equal(buf_text(&out),
                        "[gpu 0] 1,205 lines more in gpu_0_stderr.log\n[gpu 0] partial\n");
    assert_string_equal(console_last(console, 0), "partial");
    assert_string_equal(console_last(console, 9), "");
    console_free(console);
    buf_release(&out);
    buf_release(&flood);
}

static void the_progress_display_sees_the_last_state_of_a_bar(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    struct console *console = console_into(&out, 0);
    console_add(console, 0, "", STR("\r 10%\r 2"), 5000);
    assert_string_equal(console_last(console, 0), " 10%");
    console_add(console, 0, "", STR("0%\r \x1b[32m30%\x1b[0m"), 5000);
    assert_string_equal(console_last(console, 0), " 20%");
    console_add(console, 0, "", STR("\n"), 5000);
    assert_string_equal(console_last(console, 0), " 30%");
    console_free(console);
    buf_release(&out);
}

static void a_long_line_is_cut_between_characters(void **state)
{
    (void)state;
    struct buf out = BUF_INIT, line = BUF_INIT, expected = BUF_INIT;
    struct console *console = console_into(&out, 0);
    buf_add_text(&line, "a");
    for (int i = 0; i < 4000; i++)
        buf_add_text(&line, "\xc3\xa9");
    buf_add_text(&line, "\nnext\n");
    console_add(console, 0, "", buf_str(&line), 5000);
    console_flush(console, 5000, true);
    buf_add(&expected, line.at, 4095);
    buf_add_text(&expected, "…\nnext\n");
    assert_string_equal(buf_text(&out), buf_text(&expected));
    console_free(console);
    buf_release(&out);
    buf_release(&line);
    buf_release(&expected);
}

static void an_ended_stream_gives_its_unfinished_line_and_is_forgotten(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    struct console *console = console_into(&out, 0);
    console_add(console, 4, "[gpu 4] ", STR("Killed"), 5000);
    console_end(console, 4, 5001);
    assert_string_equal(console_last(console, 4), "");
    console_flush(console, 5001, false);
    assert_string_equal(buf_text(&out), "[gpu 4] Killed\n");
    console_free(console);
    buf_release(&out);
}

static void newlines_are_counted_right_at_any_offset(void **state)
{
    (void)state;
    struct rng rng = {.state = 3};
    char bytes[64];
    for (int round = 0; round < 2000; round++) {
        size_t begin = rng_below(&rng, 8), end = begin + rng_below(&rng, sizeof(bytes) - 8),
               expected = 0;
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] =
                rng_below(&rng, 2) ? '\n' : (char)(rng_below(&rng, 2) ? rng_next(&rng) : '\n' + 1);
        for (size_t i = begin; i < end; i++)
            expected += bytes[i] == '\n';
        assert_int_equal(count_newlines((struct str){bytes + begin, end - begin}), expected);
    }
}

struct cut_row {
    const char *text;
    size_t max;
    const char *shown;
};

static void expect_cut(void (*add)(struct buf *, struct str, size_t), const struct cut_row *rows,
                       size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        cleanup_buf struct buf out = BUF_INIT;
        add(&out, str_of(rows[i].text), rows[i].max);
        assert_string_equal(buf_text(&out), rows[i].shown);
    }
}

static void words_that_are_too_long_end_with_a_word_and_a_sign(void **state)
{
    static const struct cut_row rows[] = {
        {"", 10, ""},
        {"all of it", 9, "all of it"},
        {"one two three four", 14, "one two ..."},
        {"/a/path/without/a/space", 10, "/a/path..."},
        {"x /a/path/without/a/space", 10, "x /a/pa..."},
        {"\u00e4\u00e4\u00e4\u00e4\u00e4", 8, "\u00e4\u00e4..."},
    };
    (void)state;
    expect_cut(console_words_add, rows, countof(rows));
}

static void names_that_are_too_wide_keep_their_beginning_and_their_end(void **state)
{
    static const struct cut_row rows[] = {
        {"", 10, ""},
        {"ten of ten", 10, "ten of ten"},
        {"http://a/class/cat", 12, "http...s/cat"},
        {"\u0434\u0434\u0434\u0434\u0434", 5, "\u0434\u0434\u0434\u0434\u0434"},
        {"\u0430\u0431\u0432\u0433\u0434\u0435", 5, "\u0430...\u0435"},
        {"\u65e5\u672c\u8a9e", 6, "\u65e5\u672c\u8a9e"},
        {"\u65e5\u672c\u8a9e\u6587", 7, "\u65e5...\u6587"},
        {"\u65e5\u672c\u8a9e\u6587", 6, "...\u6587"},
        {"abcdef", 3, "..."},
        {"abcdef", 0, "..."},
    };
    (void)state;
    expect_cut(console_middle_add, rows, countof(rows));
}

static void a_name_takes_columns_and_not_bytes(void **state)
{
    static const struct {
        const char *text;
        size_t width;
    } rows[] = {
        {"", 0},
        {"\u00e4b\u65e5", 4},
        {"a\u0308b", 2},                       /* a letter and its mark */
        {"\u30ab\u3099", 2},                   /* the same in Japanese */
        {"\u1112\u1161\u11ab", 2},             /* the parts of a Korean syllable */
        {"\ud55c\uff21\uff76", 5},             /* a syllable, a fullwidth A, a halfwidth ka */
        {"\U00020000\U0001f600\U0001d538", 5}, /* above U+FFFF: Chinese, a face, a letter */
        {"\U0001fa90\U0001f7e2\U00017000", 6}, /* a planet, a circle, a letter of Tangut */
        {"\xff\xe6\x97", 3},                   /* no UTF-8: a column each */
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        cleanup_buf struct buf out = BUF_INIT;
        assert_int_equal(console_text_width(str_of(rows[i].text)), rows[i].width);
        console_padded_add(&out, str_of(rows[i].text), 7);
        assert_int_equal(out.len, strlen(rows[i].text) + 7 - rows[i].width);
        console_padded_add(&out, STR("wider"), 2);
        assert_true(str_ends_with(buf_str(&out), STR(" wider")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_prefixed_and_bars_folded_however_they_arrive),
        cmocka_unit_test(nothing_that_a_worker_prints_reaches_the_terminal_but_text_and_colours),
        cmocka_unit_test(random_bytes_come_out_harmless),
        cmocka_unit_test(lines_that_workers_print_alike_are_folded),
        cmocka_unit_test(folding_keeps_each_workers_own_order),
        cmocka_unit_test(a_flood_is_counted_and_its_last_line_known),
        cmocka_unit_test(the_progress_display_sees_the_last_state_of_a_bar),
        cmocka_unit_test(a_long_line_is_cut_between_characters),
        cmocka_unit_test(words_that_are_too_long_end_with_a_word_and_a_sign),
        cmocka_unit_test(names_that_are_too_wide_keep_their_beginning_and_their_end),
        cmocka_unit_test(a_name_takes_columns_and_not_bytes),
        cmocka_unit_test(an_ended_stream_gives_its_unfinished_line_and_is_forgotten),
        cmocka_unit_test(newlines_are_counted_right_at_any_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
