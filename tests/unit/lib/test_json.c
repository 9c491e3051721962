/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "text.h"

static struct muster_text text_of(const char *text)
{
    return (struct muster_text){text, strlen(text)};
}

/* The library has its own small JSON; muster's reader is what its results must satisfy. */
static void a_value_is_one_exactly_when_muster_takes_it(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{}",
        "[]",
        " {\"a\":[1,2,{\"b\":null}]} ",
        "true",
        "false",
        "null",
        "0",
        "-0.5e+3",
        "\"\\u00e9\"",
        "[[],{}]",
        "[1,[2,[3]],4]",
        "{\"a\":{},\"b\":[]}",
        "\"\xc3\xa9\"",
        "\"\xf0\x9f\x98\x80\"",
        "1E9",
        "{ \"a\" : [ ] , \"b\" : 1 }",
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        "-",
        "1e",
        "+1",
        ".5",
        "nan",
        "NaN",
        "Infinity",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12",
        "tru",
        "truex",
        "{}{}",
        "[1 2]",
        "{\"a\" 1}",
        "{\"a\":}",
        "{1:2}",
        "\"\xff\"",
        "\"\xc0\xaf\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82",
        "]",
        "{\"a\":1]",
        "[1}",
        ",",
        "[,1]",
        "\"",
        "\"\\",
        "\"a\\\"",
        "[",
        "[[]",
        "{\"a\"",
        "{\"a\":",
        "{,}",
        "[\"a\":1]",
        "'a'",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (mw_json_is_value(text_of(cases[i])) != json_is_value(str_of(cases[i])))
            fail_msg("%s: muster says %d", cases[i], json_is_value(str_of(cases[i])));
}

/* Bytes that are nearly JSON: a valid text with one byte changed, both readers must agree. */
static void both_readers_agree_on_damaged_text(void **state)
{
    (void)state;
    static const char seed_text[] =
        "{\"a\":[1,-2.5e3,\"x\\u00e9\\n\xc3\xa9\"],\"b\":{\"c\":null,\"d\":[true,false,{}]}}";
    struct rng rng = {1};
    char text[sizeof(seed_text)];
    for (int round = 0; round < 200000; round++) {
        memcpy(text, seed_text, sizeof(text));
        for (uint64_t n = 1 + rng_below(&rng, 2); n > 0; n--) {
            size_t at = rng_below(&rng, sizeof(text) - 1);
            text[at] = rng_below(&rng, 2) ? "{}[],:\"\\e0 -"[rng_below(&rng, 12)]
                                          : (char)rng_below(&rng, 256);
        }
        /* An exact copy, so that reading past the end is seen by the sanitizer. */
        char *copy = malloc(sizeof(text) - 1);
        memcpy(copy, text, sizeof(text) - 1);
        bool is_value = mw_json_is_value((struct muster_text){copy, sizeof(text) - 1});
        if (is_value != json_is_value((struct str){copy, sizeof(text) - 1}))
            fail_msg("round %d: %.*s: this library says %d", round, (int)sizeof(text) - 1, text,
                     is_value);
        free(copy);
    }
}

static void nesting_is_bounded_as_musters_is(void **state)
{
    (void)state;
    char text[2 * 513];
    memset(text, '[', 513);
    memset(text + 513, ']', 513);
    assert_true(mw_json_is_value((struct muster_text){text + 1, 2 * 512}));
    assert_false(mw_json_is_value((struct muster_text){text, 2 * 513}));
}

static void a_member_is_found_by_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *object, *name, *value;
    } cases[] = {
        {"{\"a\":1,\"b\":[1,{\"c\":2}]}", "b", "[1,{\"c\":2}]"},
        {" { \"a\" : \"x\" } ", "a", "\"x\""},
        {"{\"a\":1,\"a\":2}", "a", "1"},
        {"{\"a\":{\"b\":1}}", "b", NULL},
        {"{}", "a", NULL},
        {"[\"a\",1]", "a", NULL},
        {"{\"b\":tru,\"a\":1}", "a", NULL},
        {"", "a", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct muster_text value = {0};
        bool found = muster_json_member(text_of(cases[i].object), cases[i].name, &value);
        bool is_right = cases[i].value ? found && value.len == strlen(cases[i].value) &&
                                             memcmp(value.at, cases[i].value, value.len) == 0
                                       : !found;
        if (!is_right)
            fail_msg("member %s of %s: %.*s", cases[i].name, cases[i].object, (int)value.len,
                     value.at);
    }
}

static void members_are_walked_as_strictly_as_values(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":1,}", "{\"a\":1{\"b\":2}", "{,}", "{\"a\":1}}",
                                        "{\"a\":1 \"b\":2}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *at = texts[i], *end = at + strlen(at);
        struct muster_text key, value;
        bool ok = true;
        while (at)
            at = mw_json_member(at, end, &key, &value, &ok);
        if (ok)
            fail_msg("%s is taken for an object", texts[i]);
    }
}

static void strings_are_decoded_and_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"\"\"", ""},
        {"\"plain\"", "plain"},
        {"\"tab\\tquote\\\"back\\\\slash\\n\\r\\b\\f\"", "tab\tquote\"back\\slash\n\r\b\f"},
        {"\"\\u0001\\u001f\"", "\x01\x1f"},
        {"\"h\xc3\xa9llo \xf0\x9f\x98\x80\"", "h\xc3\xa9llo \xf0\x9f\x98\x80"},
    };
    char out[128];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(muster_json_decode(text_of(cases[i].json), out, sizeof(out)),
                         strlen(cases[i].text));
        assert_string_equal(out, cases[i].text);
        assert_int_equal(muster_json_quote(text_of(cases[i].text), out, sizeof(out)),
                         strlen(cases[i].json));
        assert_string_equal(out, cases[i].json);
    }
    assert_int_equal(muster_json_decode(text_of("\"\\ud83d\\ude00 \\ud800 \\/\\ud800\\u0041\""),
                                        out, sizeof(out)),
                     14);
    assert_string_equal(out, "\xf0\x9f\x98\x80 \xef\xbf\xbd /\xef\xbf\xbd"
                             "A");
    muster_json_quote(text_of("a\xff"
                              "b"),
                      out, sizeof(out));
    assert_string_equal(out, "\"a\xef\xbf\xbd"
                             "b\"");
}

static void output_is_cut_as_snprintf_cuts(void **state)
{
    (void)state;
    char out[4] = "xyz";
    assert_int_equal(muster_json_decode(text_of("\"abcdef\""), out, sizeof(out)), 6);
    assert_string_equal(out, "abc");
    assert_int_equal(muster_json_quote(text_of("abcdef"), out, sizeof(out)), 8);
    assert_string_equal(out, "\"ab");
    assert_int_equal(muster_json_quote(text_of("abc"), NULL, 0), 5);
    assert_true(muster_json_decode(text_of("17"), out, sizeof(out)) == SIZE_MAX);
    assert_string_equal(out, "");
    assert_true(muster_json_decode(text_of("\"a"), out, sizeof(out)) == SIZE_MAX);
}

static void a_long_text_is_quoted_whole(void **state)
{
    (void)state;
    enum {
        LEN = 100000
    };
    static char text[LEN];
    struct mw_buf buf = {0};
    memset(text, 1, sizeof(text));
    assert_true(mw_buf_add_json(&buf, (struct muster_text){text, LEN}));
    assert_int_equal(buf.len, 6 * LEN + 2);
    assert_true(mw_json_is_value((struct muster_text){buf.at, buf.len}));
    mw_buf_release(&buf);
}

static void numbers_and_bytes_are_read_strictly(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_true(mw_json_u64(text_of("18446744073709551615"), &value) && value == UINT64_MAX);
    assert_false(mw_json_u64(text_of("18446744073709551616"), &value));
    assert_false(mw_json_u64(text_of("-1"), &value));
    assert_false(mw_json_u64(text_of(""), &value));
    static const char *const bad[] = {"A", "AP8", "AP=8", "AP8Q====", "AP_8", "AP8\n", "A==="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char bytes[16];
        size_t len = strlen(bad[i]);
        memcpy(bytes, bad[i], len + 1);
        if (mw_base64_decode(bytes, &len))
            fail_msg("%s is no base64", bad[i]);
    }
}

static void base64_comes_back_as_muster_wrote_it(void **state)
{
    (void)state;
    struct rng rng = {7};
    for (size_t len = 0; len < 100; len++) {
        char bytes[100];
        struct buf text = BUF_INIT;
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)rng_next(&rng);
        buf_add_base64(&text, (struct str){bytes, len});
        char back[160];
        size_t back_len = buf_str(&text).len;
        memcpy(back, buf_text(&text), back_len);
        if (!mw_base64_decode(back, &back_len) || back_len != len || memcmp(back, bytes, len) != 0)
            fail_msg("%zu bytes came back as %zu", len, back_len);
        buf_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_one_exactly_when_muster_takes_it),
        cmocka_unit_test(both_readers_agree_on_damaged_text),
        cmocka_unit_test(nesting_is_bounded_as_musters_is),
        cmocka_unit_test(a_member_is_found_by_its_name),
        cmocka_unit_test(members_are_walked_as_strictly_as_values),
        cmocka_unit_test(strings_are_decoded_and_quoted),
        cmocka_unit_test(output_is_cut_as_snprintf_cuts),
        cmocka_unit_test(a_long_text_is_quoted_whole),
        cmocka_unit_test(numbers_and_bytes_are_read_strictly),
        cmocka_unit_test(base64_comes_back_as_muster_wrote_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
