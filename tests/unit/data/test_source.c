/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agree.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "data/source.h"
#include "data/source_impl.h"
#include "scratch.h"

/* Opens and scans to the end. */
static int scan_whole(struct source **source, const struct source_opts *opts, struct err *err)
{
    int rc = source_open(source, opts, err);
    while (rc == 0 && !source_is_complete(*source))
        rc = source_scan(*source, 1 << 20, err);
    return rc;
}

static struct source *open_one(const char *path, struct source_opts opts)
{
    struct source *source = NULL;
    struct err err = {0};
    opts.paths = &path;
    opts.n_paths = 1;
    if (scan_whole(&source, &opts, &err))
        fail_msg("%s: %s", path, err.text);
    return source;
}

static void expect_lines(struct source *source, const char *expected)
{
    struct err err = {0};
    struct buf out = BUF_INIT;
    uint64_t n_out = 0;
    if (source_lines(source, 0, source_known(source), SIZE_MAX, &out, &n_out, &err))
        fail_msg("lines: %s", err.text);
    assert_int_equal(n_out, source_known(source));
    assert_string_equal(buf_text(&out), expected);
    buf_release(&out);
}

static void each_format_gives_its_items(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct str text;
        bool is_raw;
        uint64_t n_items;
        const char *lines;
    } cases[] = {
        {"a.txt", STR("one\ntwo\n"), false, 2, "one\ntwo\n"},
        {"a.txt", STR("one\n\ntwo"), false, 3, "one\n\ntwo\n"},
        {"a.txt", STR("one\r\ntwo\r\n"), false, 2, "one\ntwo\n"},
        {"a.txt", STR("o\rne\r\r\n\r\n"), false, 2, "o\rne\r\n\n"},
        {"a.txt", STR("end\r"), false, 1, "end\r\n"},
        {"a.txt", STR("o\rne\r\r\n\r\nend\r"), true, 3, "o\rne\r\r\n\r\nend\r\n"},
        {"a.jsonl", STR("1\r\n2\r\n"), true, 2, "1\n2\n"},
        {"a.txt", STR(""), false, 0, ""},
        {"a.txt", STR("\n"), false, 1, "\n"},
        {"a.txt", STR("\xef\xbb\xbfone\n"), false, 1, "one\n"},
        {"a.txt", STR("\xef\xbb\xbf"), false, 0, ""},
        {"a.jsonl", STR("{\"a\":1}\n\n \t\r\n{\"a\":2}"), false, 2, "{\"a\":1}\n{\"a\":2}\n"},
        {"a.jsonl", STR("\n\n1\n"), false, 1, "1\n"},
        {"a.jsonl", STR("1\n   "), false, 1, "1\n"},
        {"a.ndjson", STR("\xef\xbb\xbf[1]\r\n"), false, 1, "[1]\n"},
        {"a.json", STR("[]"), false, 0, ""},
        {"a.json", STR(" \n"), false, 0, ""},
        {"a.json", STR(" [ 1 , \"a,]\\\"\" , {\n\"b\": [1,\n2]}, [] ] \n"), false, 4,
         "1\n\"a,]\\\"\"\n{\"b\":[1,2]}\n[]\n"},
        {"a.csv", STR("a,b\n1,2\n"), false, 1, "{\"a\":\"1\",\"b\":\"2\"}\n"},
        {"a.csv", STR("a,b\r\n\"x\r\ny\",\"say \"\"hi\"\"\"\r\n"), false, 1,
         "{\"a\":\"x\\r\\ny\",\"b\":\"say \\\"hi\\\"\"}\n"},
        {"a.csv", STR("a\n\n\"\"\n\r\nx"), false, 2, "{\"a\":\"\"}\n{\"a\":\"x\"}\n"},
        {"a.csv", STR("a,\"b c\"\n5\",6\"\n"), false, 1, "{\"a\":\"5\\\"\",\"b c\":\"6\\\"\"}\n"},
        {"a.csv", STR("a,b\n"), false, 0, ""},
        {"a.csv", STR("a,b\n1,2\n\"3\",4\n"), true, 2, "1,2\n\"3\",4\n"},
        {"a.tsv", STR("a\tb\n1,2\t3\n"), false, 1, "{\"a\":\"1,2\",\"b\":\"3\"}\n"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *path = scratch_file(cases[i].name, cases[i].text);
        struct source *source = open_one(path, (struct source_opts){.is_raw = cases[i].is_raw});
        if (source_known(source) != cases[i].n_items)
            fail_msg("case %zu: %lu items", i, source_known(source));
        expect_lines(source, cases[i].lines);
        source_close(source);
    }
}

static void malformed_input_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct str text;
        const char *sentence; /* a part of it */
    } cases[] = {
        {"bad.txt", STR("\xff\xfeo\0"), "is UTF-16"},
        {"bad.jsonl", STR("{\"a\":1}\n{\"a\":"), "the last record, at byte 8, is cut off"},
        {"bad.json", STR("{\"a\":1}"), "is not a JSON array: it begins with '{'"},
        {"bad.json", STR("[1,2"), "is cut off or not an array: its last byte, at 3,"},
        {"bad.json", STR("[1,,2]"), "an element that is empty"},
        {"bad.json", STR("[1,2,]"), "an element that is empty"},
        {"bad.json", STR("[,]"), "an element that is empty"},
        {"bad.json", STR("[1] [2]"), "something behind the ']'"},
        {"bad.json", STR("[\"]"), "the array is not closed"},
        {"bad.csv", STR("a,a\n1,2\n"), "columns 1 and 2 are both called 'a'"},
        {"bad.csv", STR("a\0,b\n1,2\n"), "NUL byte in its header"},
        {"bad.csv", STR("a,b\n1,\0\n"), "a NUL byte"},
        {"bad.csv", STR("a,b\n1,2\n3,5\" disk\n4,5\n"), "line 3: a quote within an unquoted field"},
        {"bad.csv", STR("a,b\n1,2\n3,\"x\n4,5\n"),
         "line 3: a quote that is opened here is never closed"},
        {"bad.csv", STR("\"a,b\n1,2\n"), "line 1: a quote that is opened here is never closed"},
        {"bad.csv", STR("1\"9\n\n\n"), "line 1: a quote within an unquoted field"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct source *source = NULL;
        struct err err = {0};
        const char *path = scratch_file(cases[i].name, cases[i].text);
        int rc = scan_whole(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err);
        if (rc != ERR_DATA || err.code != ERR_DATA || !strstr(err.text, cases[i].sentence) ||
            !strstr(err.text, cases[i].name))
            fail_msg("case %zu (%s): rc %d, %s", i, cases[i].sentence, rc, err.text);
        source_close(source);
    }
}

static void an_item_that_is_wrong_is_named_when_it_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct str text;
        bool is_raw;
        uint64_t item;
        const char *sentence;
    } cases[] = {
        {"w.csv", STR("a,b\n\"x\ny\",2\n3\n"), false, 1, "w.csv line 4: expected 2 fields"},
        {"w.csv", STR("a,b\n1,5\" disk\n2,6\" disk\n"), false, 0,
         "w.csv line 2: a quote within an"},
        {"w.csv", STR("a,b\n\n1,\"2\"x\n"), false, 0, "w.csv line 3: text follows a closing quote"},
        {"w.csv", STR("a,b\n1,\xff\n"), false, 0, "w.csv line 2: not UTF-8"},
        {"w.csv", STR("a,b\n\"x\ny\",2\n"), true, 0, "w.csv line 2: a record of several lines"},
        {"w.json", STR("[1,\nfoo,3]"), false, 1, "w.json element 2: not a JSON value"},
        {"w.jsonl", STR("1\n\n{\n3\n"), false, 1, "w.jsonl line 3: not a JSON value"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *path = scratch_file(cases[i].name, cases[i].text);
        struct source *source = open_one(path, (struct source_opts){.is_raw = cases[i].is_raw});
        struct buf out = BUF_INIT;
        struct err err = {0};
        const char *key;
        int rc = source_item_json(source, cases[i].item, &out, &key, &err);
        int expected = strstr(cases[i].sentence, "quote") ? ERR_DATA : ERR_RECORD;
        if (rc != expected || !strstr(err.text, cases[i].sentence))
            fail_msg("case %zu (%s): rc %d, %s", i, cases[i].sentence, rc, err.text);
        buf_release(&out);
        source_close(source);
    }
}

static void items_become_json_for_the_channel(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct str text;
        const char *key, *json;
    } cases[] = {
        {"j.txt", STR("say \"hi\"\n"), "data", "\"say \\\"hi\\\"\""},
        {"j.txt", STR("\xff\x00\n"), "data_b64", "\"/wA=\""},
        {"j.jsonl", STR(" {\"a\": 1}  \r\n"), "data", "{\"a\": 1}"},
        {"j.csv", STR("a,\"b\"\"c\"\n1,2\n"), "data", "{\"a\":\"1\",\"b\\\"c\":\"2\"}"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct source *source =
            open_one(scratch_file(cases[i].name, cases[i].text), (struct source_opts){0});
        struct buf out = BUF_INIT;
        struct err err = {0};
        const char *key = NULL;
        if (source_item_json(source, 0, &out, &key, &err))
            fail_msg("%s", err.text);
        assert_string_equal(key, cases[i].key);
        assert_string_equal(buf_text(&out), cases[i].json);
        buf_release(&out);
        source_close(source);
    }
}

static void several_files_are_one_sequence_and_places_name_the_file(void **state)
{
    (void)state;
    const char *paths[] = {scratch_file("one.txt", STR("a\nb")), scratch_file("two.txt", STR("")),
                           scratch_file("three.txt", STR("c\nd\n"))};
    struct source *source = NULL;
    struct err err = {0};
    assert_int_equal(scan_whole(&source, &(struct source_opts){.paths = paths, .n_paths = 3}, &err),
                     0);
    assert_int_equal(source_known(source), 4);
    expect_lines(source, "a\nb\nc\nd\n");
    static const char *const seats[] = {"one.txt line 1", "one.txt line 2", "three.txt line 1",
                                        "three.txt line 2"};
    for (size_t i = 0; i < countof(seats); i++) {
        struct buf place = BUF_INIT;
        source_position(source, 3 - i, &place);
        assert_non_null(strstr(buf_text(&place), seats[3 - i]));
        buf_release(&place);
    }
    source_close(source);
}

static void csv_files_must_have_the_same_header(void **state)
{
    (void)state;
    const char *paths[] = {scratch_file("h1.csv", STR("a,b\n1,2\n")),
                           scratch_file("h2.csv", STR("\"a\",b\n3,4\n")),
                           scratch_file("h3.csv", STR("a,c\n5,6\n"))};
    struct source *source = NULL;
    struct err err = {0};
    assert_int_equal(scan_whole(&source, &(struct source_opts){.paths = paths, .n_paths = 2}, &err),
                     0);
    assert_int_equal(source_known(source), 2);
    source_close(source);
    assert_int_equal(
        source_open(&source, &(struct source_opts){.paths = paths, .n_paths = 3}, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "column 2 is 'c', expected 'b'"));
}

static void a_limit_ends_the_sequence(void **state)
{
    (void)state;
    const char *path = scratch_file("limit.jsonl", STR("1\n2\n3\n{\"cut"));
    static const struct {
        uint64_t limit, n_items;
    } cases[] = {{1, 1}, {2, 2}, {3, 3}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct source *source = open_one(path, (struct source_opts){.limit = cases[i].limit});
        assert_int_equal(source_known(source), cases[i].n_items);
        source_close(source);
    }
    path = scratch_file("limit.txt", STR("1\n2\n3\n"));
    for (uint64_t limit = 0; limit <= 5; limit++) {
        struct source *source = open_one(path, (struct source_opts){.limit = limit});
        assert_int_equal(source_known(source), limit == 0 ? 3 : MIN(limit, 3ul));
        source_close(source);
    }
}

static void wrong_use_is_refused_before_anything_is_read(void **state)
{
    (void)state;
    const char *twice[] = {"-", "-"}, *mixed[] = {"a.csv", "b.json"};
    const char *missing = scratch_path("missing.txt"), *folder = scratch_dir();
    const struct {
        struct source_opts opts;
        const char *sentence;
    } cases[] = {
        {{.n_paths = 0}, "no input"},
        {{.paths = twice, .n_paths = 2}, "2 times"},
        {{.paths = mixed, .n_paths = 2}, "say which with --format"},
        {{.paths = &missing, .n_paths = 1}, "No such file"},
        {{.paths = &folder, .n_paths = 1}, "is a folder"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct source *source = NULL;
        struct err err = {0};
        int rc = source_open(&source, &cases[i].opts, &err);
        if (rc != ERR_USAGE || source || !strstr(err.text, cases[i].sentence))
            fail_msg("case %zu: rc %d, %s", i, rc, err.text);
    }
}

static void weights_are_bytes_or_a_field(void **state)
{
    (void)state;
    struct source *source =
        open_one(scratch_file("w1.jsonl", STR("{\"n\":2.5}\n{\"n\":\"x\"}\n{}\n")),
                 (struct source_opts){.weight_field = "n"});
    double weight = 0;
    struct err err = {0};
    assert_int_equal(source_weight(source, 0, &weight, &err), 0);
    assert_true(weight > 2.49 && weight < 2.51);
    assert_int_equal(source_weight(source, 1, &weight, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "w1.jsonl line 2: expected a number"));
    assert_int_equal(source_weight(source, 2, &weight, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "line 3: no field 'n'"));
    source_close(source);
    source =
        open_one(scratch_file("w2.csv", STR("n\n7\n")), (struct source_opts){.weight_field = "n"});
    assert_int_equal(source_weight(source, 0, &weight, &err), 0);
    assert_true(weight > 6.9 && weight < 7.1);
    source_close(source);
    source = open_one(scratch_file("w3.txt", STR("four\n")), (struct source_opts){0});
    assert_int_equal(source_weight(source, 0, &weight, &err), 0);
    assert_true(weight > 3.9 && weight < 4.1);
    source_close(source);
}

static void a_file_that_shrinks_is_named(void **state)
{
    (void)state;
    const char *path = scratch_file("shrinks.txt", STR("one\ntwo\nthree\n"));
    struct source *source = open_one(path, (struct source_opts){0});
    scratch_file("shrinks.txt", STR("one\n"));
    struct buf out = BUF_INIT;
    struct err err = {0};
    assert_int_equal(source_item(source, 2, &out, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "shrinks.txt has shrunk from 14 to 4 bytes"));
    buf_release(&out);
    source_close(source);
}

/* Text of pieces that are hard on the splitter: quotes, escapes, blank lines, CRs, long runs. */
static void random_text(struct buf *out, struct rng *rng, enum record_format format, size_t len)
{
    static const char *const pieces[FORMAT_TSV + 1][12] = {
        [FORMAT_LINES] = {"a", "bc ", "\n", "\n\n", "\r\n", "\r", "\"",
                          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        [FORMAT_JSONL] = {"1\n", "{\"a\":1}\n", "\n", " \n", "\t\r\n", "\"x y\"\r\n", " 5 \n",
                          "[1,2]\n"},
        [FORMAT_CSV] = {"a", ",", "\n", "\"\n\"", "\"\"\"\"", "\r\n", "\"\r\n,\"",
                        "bbbbbbbbbbbbbbbbbbbbbb"},
        [FORMAT_TSV] = {"a", "\t", "\n", "\"\n\"", "\"\"", "\r\n", "b", "c d"},
    };
    if (format == FORMAT_CSV || format == FORMAT_TSV)
        buf_add_text(out, "head\n");
    while (out->len < len)
        buf_add_text(out, pieces[format][rng_below(rng, 8)]);
}

static void random_array(struct buf *out, struct rng *rng, size_t len)
{
    static const char *const values[] = {"1",
                                         "\"\"",
                                         "\"\\\\\"",
                                         "\"\\\\\\\"]\"",
                                         "{\"a\":[1,{}]}",
                                         "[]",
                                         "[[\",\"],\n[2]]",
                                         " null ",
                                         "\"\\\"\\\\,[\"",
                                         "{\"k\" :\r\n true}"};
    const char *separator = "[";
    while (out->len < len) {
        buf_addf(out, "%s%s", separator, values[rng_below(rng, countof(values))]);
        separator = rng_below(rng, 2) ? "," : " ,\n";
    }
    buf_add_text(out, "]");
}

static void every_way_of_reading_agrees_with_the_naive_splitter(void **state)
{
    (void)state;
    static const size_t windows[] = {0, 64, 128, 4096};
    struct rng rng = {20240817};
    struct buf text = BUF_INIT;
    for (int round = 0; round < 600; round++) {
        enum record_format format = (enum record_format)(FORMAT_LINES + rng_below(&rng, 5));
        bool is_large = round % 100 == 0;
        size_t len = (size_t)rng_below(&rng, is_large ? 1500000 : 3000);
        size_t window_bytes = windows[is_large ? 0 : rng_below(&rng, countof(windows))];
        buf_reset(&text);
        if (format == FORMAT_JSON)
            random_array(&text, &rng, len);
        else
            random_text(&text, &rng, format, len);
        const char *path = scratch_file("random", buf_str(&text));
        agree_check(path, buf_str(&text), format, window_bytes, rng_next(&rng));
    }
    buf_release(&text);
}

static void a_record_may_be_larger_than_every_buffer(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    size_t long_bytes = 20u << 20;
    buf_add_text(&text, "short\n");
    buf_reserve(&text, long_bytes);
    memset(text.at + text.len, 'x', long_bytes);
    text.len += long_bytes;
    buf_add_text(&text, "\nlast\n");
    struct source *source =
        open_one(scratch_file("long.txt", buf_str(&text)), (struct source_opts){0});
    assert_int_equal(source_known(source), 3);
    struct buf out = BUF_INIT;
    struct err err = {0};
    uint64_t n_out;
    assert_int_equal(source_lines(source, 0, 3, SIZE_MAX, &out, &n_out, &err), 0);
    assert_true(str_equal(buf_str(&out), buf_str(&text)));
    buf_reset(&out);
    assert_int_equal(source_item(source, 1, &out, &err), 0);
    assert_int_equal(out.len, long_bytes);
    buf_reset(&out);
    assert_int_equal(source_lines(source, 0, 3, 100, &out, &n_out, &err), 0);
    assert_true(n_out == 1 && out.len == 6);
    buf_release(&out);
    buf_release(&text);
    source_close(source);
}

static void who_read_on_in_turn_find_their_places_without_a_walk(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    for (int i = 0; i < 300000; i++)
        buf_addf(&text, "%06d\n", i);
    const char *path = scratch_file("turns.txt", buf_str(&text));
    struct source *source = NULL;
    struct err err = {0};
    assert_int_equal(
        source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err), 0);
    source_tune(source, WINDOW_BYTES, 1 << 30); /* the index knows next to nothing */
    assert_int_equal(source_scan_all(source, &err), 0);
    struct buf out = BUF_INIT;
    for (uint64_t turn = 0; turn < 20; turn++)
        for (uint64_t reader = 0; reader < N_PLACES / 2; reader++) {
            uint64_t first = 10 + reader * 9000 + turn * 50, n_out;
            buf_reset(&out);
            assert_int_equal(source_lines(source, first, 50, SIZE_MAX, &out, &n_out, &err), 0);
            assert_true(n_out == 50 && out.len == 350);
            assert_memory_equal(out.at, text.at + 7 * first, 350);
            /* From the file's beginning it would have come through windows before this one. */
            assert_true(turn == 0 || source->cursors[0].base == 7 * first);
        }
    buf_release(&out), buf_release(&text);
    source_close(source);
}

static void the_index_stays_bounded_and_finds_every_item(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    for (int i = 0; i < 600000; i++)
        buf_addf(&text, "%d\n", i);
    const char *path = scratch_file("many.txt", buf_str(&text));
    struct source *source = NULL;
    struct err err = {0};
    assert_int_equal(
        source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err), 0);
    source_tune(source, 64, 64); /* an entry a block, were there room */
    while (!source_is_complete(source))
        assert_int_equal(source_scan(source, 100000, &err), 0);
    const struct sparse_index *index = &source->index;
    assert_true(index->n_entries <= INDEX_ENTRIES && index->n_entries >= INDEX_ENTRIES / 4);
    for (size_t i = 1; i < index->n_entries; i++) { /* evenly spread: thinned out, not cut off */
        const struct index_entry *entry = &index->entries[i];
        assert_true(entry->item > entry[-1].item && entry->item - entry[-1].item < 1024);
    }
    struct rng rng = {7};
    struct buf out = BUF_INIT, expected = BUF_INIT;
    for (int i = 0; i < 2000; i++) {
        uint64_t item = rng_below(&rng, 600000);
        buf_reset(&out), buf_reset(&expected);
        assert_int_equal(source_item(source, item, &out, &err), 0);
        buf_addf(&expected, "%lu", item);
        assert_string_equal(buf_text(&out), buf_text(&expected));
    }
    buf_release(&out), buf_release(&expected), buf_release(&text);
    source_close(source);
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
        cmocka_unit_test(each_format_gives_its_items),
        cmocka_unit_test(malformed_input_is_refused_with_its_place),
        cmocka_unit_test(an_item_that_is_wrong_is_named_when_it_is_read),
        cmocka_unit_test(items_become_json_for_the_channel),
        cmocka_unit_test(several_files_are_one_sequence_and_places_name_the_file),
        cmocka_unit_test(csv_files_must_have_the_same_header),
        cmocka_unit_test(a_limit_ends_the_sequence),
        cmocka_unit_test(wrong_use_is_refused_before_anything_is_read),
        cmocka_unit_test(weights_are_bytes_or_a_field),
        cmocka_unit_test(a_file_that_shrinks_is_named),
        cmocka_unit_test(every_way_of_reading_agrees_with_the_naive_splitter),
        cmocka_unit_test(a_record_may_be_larger_than_every_buffer),
        cmocka_unit_test(the_index_stays_bounded_and_finds_every_item),
        cmocka_unit_test(who_read_on_in_turn_find_their_places_without_a_walk),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
