/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <fcntl.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "data/result_merge.h"
#include "scratch.h"

/* Rows and asides from tables. */
struct feed {
    const struct result_range *ranges;
    size_t n_ranges, next_range;
    const uint64_t *failed_items;
    size_t n_failed_items, next_failed_item;
};

static int feed_range(void *context, struct result_range *row, struct err *err)
{
    struct feed *feed = context;
    (void)err;
    if (feed->next_range == feed->n_ranges)
        return 0;
    *row = feed->ranges[feed->next_range++];
    row->part_path = scratch_path(row->part_path);
    return 1;
}

static int feed_aside(void *context, uint64_t *item, struct err *err)
{
    struct feed *feed = context;
    (void)err;
    if (feed->next_failed_item == feed->n_failed_items)
        return 0;
    *item = feed->failed_items[feed->next_failed_item++];
    return 1;
}

static int merge(struct feed feed, struct result_merge_opts opts, struct result_merge_stats *stats,
                 struct err *err)
{
    opts.next_range = feed_range;
    opts.next_failed_item = feed_aside;
    opts.context = &feed;
    return result_merge_write(&opts, stats, err);
}

static size_t n_files_beside(const char *name)
{
    cleanup_free char *beside = path_join(scratch_dir(), name);
    cleanup_free char *with_new = malloc(strlen(beside) + 8);
    snprintf(with_new, strlen(beside) + 8, "%s.new", beside);
    return path_exists(with_new);
}

static void expect_file(const char *name, const char *expected)
{
    struct buf text = BUF_INIT;
    struct err err = {0};
    if (file_read(scratch_path(name), 1 << 20, &text, &err))
        fail_msg("%s", err.text);
    assert_string_equal(buf_text(&text), expected);
    assert_int_equal(n_files_beside(name), 0);
    buf_release(&text);
}

static void ranges_of_several_parts_come_out_in_order(void **state)
{
    (void)state;
    scratch_file("p0", STR("zero\none\nfour\nignored tail"));
    scratch_file("p1", STR("xtwo\n\n"));
    static const struct result_range ranges[] = {
        {0, 2, "p0", 0, 9}, {2, 2, "p1", 1, 5}, {4, 1, "p0", 9, 5}};
    static const uint64_t failed_items[] = {5};
    struct result_merge_stats stats;
    struct err err = {0};
    int rc = merge((struct feed){ranges, 3, 0, failed_items, 1, 0},
                   (struct result_merge_opts){
                       .out_path = scratch_path("ordered.txt"), .in_order = true, .n_items = 6},
                   &stats, &err);
    if (rc)
        fail_msg("%s", err.text);
    expect_file("ordered.txt", "zero\none\ntwo\n\nfour\n");
    assert_int_equal(stats.n_results, 5);
    assert_int_equal(stats.n_failed_items, 1);
    assert_int_equal(stats.bytes_out, 19);
}

static void what_is_not_there_exactly_once_is_named_and_nothing_is_written(void **state)
{
    (void)state;
    scratch_file("q", STR("a\nb\nc\nd\n"));
    static const struct {
        struct result_range ranges[3];
        uint64_t failed_items[2];
        size_t n_failed_items;
        bool in_order;
        const char *sentence;
    } cases[] = {
        {{{0, 2, "q", 0, 4}, {3, 1, "q", 6, 2}}, {0}, 0, true, "item 2 is missing"},
        {{{3, 1, "q", 6, 2}, {0, 2, "q", 0, 4}}, {0}, 0, false, "item 2 is missing"},
        {{{0, 2, "q", 0, 4}, {1, 3, "q", 2, 6}}, {0}, 0, true, "item 1 has two results"},
        {{{1, 3, "q", 2, 6}, {0, 2, "q", 0, 4}}, {0}, 0, false, "item 1 has two results"},
        {{{0, 3, "q", 0, 6}}, {0}, 0, true, "item 3 is missing"},
        {{{0, 4, "q", 0, 8}}, {2}, 1, true, "item 2 has a result and is also"},
        {{{0, 3, "q", 0, 6}}, {3, 3}, 2, true, "item 3 is among those set aside twice"},
        {{{0, 3, "q", 0, 6}}, {3, 4}, 2, true, "item 4 was set aside, but there are only 4"},
        {{{0, 5, "q", 0, 8}}, {0}, 0, true, "item 4 has a result, but there are only 4"},
        {{{0, 4, "q", 0, 6}}, {0}, 0, true, "expected 4 results (items 0 to 3), found 3"},
        {{{0, 3, "q", 0, 8}}, {3}, 1, true, "expected 3 results (items 0 to 2), found 4"},
        {{{0, 3, "q", 0, 7}}, {3}, 1, true, "found 3"},
        {{{0, 4, "q", 0, 9}}, {0}, 0, true, "q holds 8 bytes, its rows say at least 9"},
        {{{0, 4, "gone", 0, 8}}, {0}, 0, true, "gone: No such file"},
    };
    static const enum out_format formats[] = {OUT_LINES, OUT_JSON};
    for (size_t i = 0; i < countof(cases) * 2; i++) {
        struct err err = {0};
        size_t n_ranges = 0;
        while (n_ranges < 3 && cases[i / 2].ranges[n_ranges].count > 0)
            n_ranges++;
        int rc = merge((struct feed){cases[i / 2].ranges, n_ranges, 0, cases[i / 2].failed_items,
                                     cases[i / 2].n_failed_items, 0},
                       (struct result_merge_opts){.out_path = scratch_path("never"),
                                                  .format = formats[i % 2],
                                                  .in_order = cases[i / 2].in_order,
                                                  .n_items = 4},
                       NULL, &err);
        if (rc != ERR_DATA || !strstr(err.text, cases[i / 2].sentence))
            fail_msg("case %zu (%s): rc %d, %s", i / 2, cases[i / 2].sentence, rc, err.text);
        assert_false(path_exists(scratch_path("never")));
        assert_int_equal(n_files_beside("never"), 0);
    }
}

static void each_form_of_output_is_what_its_readers_expect(void **state)
{
    (void)state;
    static const struct {
        struct str part;
        uint64_t n_items;
        bool is_json;
        const char *out, *expected;
    } cases[] = {
        {STR("a \"b\"\nc\n"), 2, false, "o.jsonl", "\"a \\\"b\\\"\"\n\"c\"\n"},
        {STR("a\n"), 1, false, "o.json", "[\n\"a\"\n]\n"},
        {STR("1\n{}\n"), 2, true, "o.json", "[\n1,\n{}\n]\n"},
        {STR(""), 0, true, "o.json", "[]\n"},
        {STR("{\"x\":1}\n"), 1, true, "o.txt", "{\"x\":1}\n"},
        {STR("{\"x\":1}\n"), 1, true, "o.jsonl", "{\"x\":1}\n"},
        {STR("{\"a\":\"x,y\",\"b\":1.50}\n{\"b\":null,\"\\u0061\":\"q\\\"\\n\"}\n"), 2, true,
         "o.csv", "a,b\n\"x,y\",1.50\n\"q\"\"\n\",\n"},
        {STR("{\"a\":[1,{\"b\":2}],\"c\":true}\n"), 1, true, "o.tsv",
         "a\tc\n\"[1,{\"\"b\"\":2}]\"\ttrue\n"},
        {STR("{\"a\":\"\"}\n"), 1, true, "o.csv", "a\n\"\"\n"},
        {STR("x\ny\n"), 2, false, "o.csv", "result\nx\ny\n"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        scratch_file("f", cases[i].part);
        const struct result_range range = {0, cases[i].n_items, "f", 0, cases[i].part.len};
        struct err err = {0};
        int rc = merge((struct feed){.ranges = &range, .n_ranges = cases[i].n_items > 0},
                       (struct result_merge_opts){.out_path = scratch_path(cases[i].out),
                                                  .in_order = true,
                                                  .n_items = cases[i].n_items,
                                                  .overwrite = true,
                                                  .results_are_json = cases[i].is_json},
                       NULL, &err);
        if (rc)
            fail_msg("case %zu: %s", i, err.text);
        expect_file(cases[i].out, cases[i].expected);
    }
}

static void results_that_do_not_fit_the_form_are_named(void **state)
{
    (void)state;
    static const struct {
        struct str part;
        bool is_json;
        const char *out, *sentence;
    } cases[] = {
        {STR("{\"a\":1}\n{\"b\":1}\n"), true, "n.csv", "item 1: it has 'b', which the first"},
        {STR("{\"a\":1,\"b\":2}\n{\"a\":1}\n"), true, "n.csv", "item 1: it lacks 'b'"},
        {STR("{\"a\":1}\n{\"a\":1,\"a\":2}\n"), true, "n.csv", "item 1: it has 'a' twice"},
        {STR("{\"a\":1,\"a\":2}\n{}\n"), true, "n.csv", "item 0: it has 'a' twice"},
        {STR("1\n{\n"), true, "n.json", "item 1: its result is not a JSON value"},
        {STR("x\n\xff\n"), false, "n.jsonl", "item 1: its result is not UTF-8"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        scratch_file("g", cases[i].part);
        const struct result_range range = {0, 2, "g", 0, cases[i].part.len};
        struct err err = {0};
        int rc = merge((struct feed){.ranges = &range, .n_ranges = 1},
                       (struct result_merge_opts){.out_path = scratch_path(cases[i].out),
                                                  .in_order = true,
                                                  .n_items = 2,
                                                  .results_are_json = cases[i].is_json},
                       NULL, &err);
        if (rc != ERR_DATA || !strstr(err.text, cases[i].sentence))
            fail_msg("case %zu: rc %d, %s", i, rc, err.text);
        assert_false(path_exists(scratch_path(cases[i].out)));
    }
}

static void inputs_and_results_are_joined(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        struct str text, part;
        bool is_json;
        const char *out, *expected;
    } cases[] = {
        {"i.jsonl", STR("{\"id\":7,\"t\":\"x\"}\n"), STR("{\"t\":\"y\",\"n\":1}\n"), true,
         "j.jsonl", "{\"id\":7,\"t\":\"y\",\"n\":1}\n"},
        {"i.jsonl", STR("{}\n"), STR("{}\n"), true, "j.jsonl", "{}\n"},
        {"i.jsonl", STR("{\"\\u0061\":1}\n"), STR("{\"a\":2}\n"), true, "j.jsonl", "{\"a\":2}\n"},
        {"i.txt", STR("line\n"), STR("{\"n\":1}\n"), true, "j.jsonl",
         "{\"input\":\"line\",\"result\":{\"n\":1}}\n"},
        {"i.csv", STR("a,b\n1,2\n"), STR("{\"c\":3}\n"), true, "j.csv", "a,b,c\n1,2,3\n"},
        {"i.txt", STR("line\n"), STR("text\n"), false, "j.txt",
         "{\"input\":\"line\",\"result\":\"text\"}\n"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *path = scratch_file(cases[i].in, cases[i].text);
        struct source *source = NULL;
        struct err err = {0};
        assert_int_equal(
            source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err), 0);
        assert_int_equal(source_scan(source, 1 << 20, &err), 0);
        scratch_file("h", cases[i].part);
        const struct result_range range = {0, 1, "h", 0, cases[i].part.len};
        int rc = merge((struct feed){.ranges = &range, .n_ranges = 1},
                       (struct result_merge_opts){.out_path = scratch_path(cases[i].out),
                                                  .in_order = true,
                                                  .n_items = 1,
                                                  .overwrite = true,
                                                  .join = true,
                                                  .source = source,
                                                  .results_are_json = cases[i].is_json},
                       NULL, &err);
        if (rc)
            fail_msg("case %zu: %s", i, err.text);
        expect_file(cases[i].out, cases[i].expected);
        source_close(source);
    }
}

static void an_input_that_is_no_text_cannot_be_joined(void **state)
{
    (void)state;
    const char *path = scratch_file("bytes.txt", STR("\xff\n"));
    scratch_file("h", STR("{}\n"));
    struct source *source = NULL;
    struct err err = {0};
    assert_int_equal(
        source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err), 0);
    assert_int_equal(source_scan(source, 1 << 20, &err), 0);
    static const struct result_range range = {0, 1, "h", 0, 3};
    int rc = merge((struct feed){.ranges = &range, .n_ranges = 1},
                   (struct result_merge_opts){.out_path = scratch_path("joined.jsonl"),
                                              .in_order = true,
                                              .n_items = 1,
                                              .join = true,
                                              .source = source,
                                              .results_are_json = true},
                   NULL, &err);
    assert_int_equal(rc, ERR_DATA);
    assert_string_equal(err.text, "item 0: its input is not UTF-8, which the joined JSON needs");
    source_close(source);
}

static void an_output_that_exists_is_kept_unless_told_otherwise(void **state)
{
    (void)state;
    scratch_file("kept.txt", STR("old\n"));
    scratch_file("k", STR("new\n"));
    static const struct result_range range = {0, 1, "k", 0, 4};
    struct result_merge_opts opts = {
        .out_path = scratch_path("kept.txt"), .in_order = true, .n_items = 1};
    struct err err = {0};
    assert_int_equal(merge((struct feed){.ranges = &range, .n_ranges = 1}, opts, NULL, &err),
                     ERR_USAGE);
    assert_non_null(strstr(err.text, "--force"));
    expect_file("kept.txt", "old\n");
    opts.overwrite = true;
    opts.n_items = 2; /* a merge that fails leaves it as well */
    assert_int_equal(merge((struct feed){.ranges = &range, .n_ranges = 1}, opts, NULL, &err),
                     ERR_DATA);
    expect_file("kept.txt", "old\n");
    opts.partial_ok = true;
    struct result_merge_stats stats;
    assert_int_equal(merge((struct feed){.ranges = &range, .n_ranges = 1}, opts, &stats, &err), 0);
    expect_file("kept.txt", "new\n");
    assert_int_equal(stats.n_missing, 1);
}

static void a_full_disk_stops_the_merge_so_that_it_can_be_resumed(void **state)
{
    (void)state;
    scratch_file("k", STR("new\n"));
    static const struct result_range range = {0, 1, "k", 0, 4};
    struct err err = {0};
    int rc =
        merge((struct feed){.ranges = &range, .n_ranges = 1},
              (struct result_merge_opts){.out_path = "/dev/full", .in_order = true, .n_items = 1},
              NULL, &err);
    assert_int_equal(rc, ERR_STOPPED);
    assert_int_equal(err.code, ERR_STOPPED);
    assert_string_equal(err.text, "/dev/full: write: No space left on device");
}

static void large_parts_and_long_lines_pass_through_every_form(void **state)
{
    (void)state;
    struct buf part = BUF_INIT;
    for (int i = 0; i < 20000; i++)
        buf_addf(&part, "\"%d%*s\"\n", i, i % 100, "");
    buf_addf(&part, "\"%*s\"\n", 1 << 20, "x");
    scratch_file("large", buf_str(&part));
    /* Cut into ranges of a thousand lines, the last longer than the window. */
    struct result_range ranges[32];
    size_t n_ranges = 0;
    uint64_t offset = 0, item = 0;
    for (const char *at = part.at; at < part.at + part.len; n_ranges++) {
        struct result_range *range = &ranges[n_ranges];
        *range = (struct result_range){.first = item, .part_path = "large", .offset = offset};
        for (; range->count < 1000 && at < part.at + part.len; range->count++) {
            const char *end = strchr(at, '\n') + 1;
            range->bytes += (uint64_t)(end - at);
            at = end;
        }
        item += range->count;
        offset += range->bytes;
    }
    for (int is_array = 0; is_array < 2; is_array++) {
        struct err err = {0};
        enum out_format format = is_array ? OUT_JSON : OUT_LINES;
        int rc = merge((struct feed){.ranges = ranges, .n_ranges = n_ranges},
                       (struct result_merge_opts){.out_path = scratch_path("large.out"),
                                                  .format = format,
                                                  .in_order = true,
                                                  .n_items = 20001,
                                                  .overwrite = true,
                                                  .results_are_json = true},
                       NULL, &err);
        if (rc)
            fail_msg("%s", err.text);
        struct buf text = BUF_INIT;
        assert_int_equal(file_read(scratch_path("large.out"), 64 << 20, &text, &err), 0);
        if (!is_array)
            assert_true(str_equal(buf_str(&text), buf_str(&part)));
        assert_int_equal(text.len, part.len + (is_array ? 20001 + 3 : 0)); /* "[", commas, "]" */
        buf_release(&text);
    }
    buf_release(&part);
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_several_parts_come_out_in_order),
        cmocka_unit_test(what_is_not_there_exactly_once_is_named_and_nothing_is_written),
        cmocka_unit_test(each_form_of_output_is_what_its_readers_expect),
        cmocka_unit_test(results_that_do_not_fit_the_form_are_named),
        cmocka_unit_test(inputs_and_results_are_joined),
        cmocka_unit_test(an_input_that_is_no_text_cannot_be_joined),
        cmocka_unit_test(an_output_that_exists_is_kept_unless_told_otherwise),
        cmocka_unit_test(a_full_disk_stops_the_merge_so_that_it_can_be_resumed),
        cmocka_unit_test(large_parts_and_long_lines_pass_through_every_form),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
