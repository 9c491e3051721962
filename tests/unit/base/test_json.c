/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/json.h"

static void values_are_recognised_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"{}", true},
        {"[]", true},
        {" {\"a\":[1,2,{\"b\":null}]} ", true},
        {"\"x\\u00e9\"", true},
        {"-0.5e+3", true},
        {"true", true},
        {"[[],{}]", true},
        {"[1,[2,[3]],4]", true},
        {"0", true},
        {"", false},
        {"{", false},
        {"[1,]", false},
        {"{\"a\":1,}", false},
        {"{a:1}", false},
        {"01", false},
        {"1.", false},
        {"\"\n\"", false},
        {"\"\\x\"", false},
        {"tru", false},
        {"{}{}", false},
        {"[1 2]", false},
        {"{\"a\" 1}", false},
        {"\"\xff\"", false},
        {"\"\xed\xa0\x80\"", false},
        {"nul", false},
        {"]", false},
        {"{\"a\":1]", false},
        {"[1}", false},
        {",", false},
        {"[,1]", false},
        {"-", false},
        {"1e", false},
    };
    for (size_t i = 0; i < countof(cases); i++)
        if (json_is_value(str_of(cases[i].text)) != cases[i].valid)
            fail_msg("%s should be %s", cases[i].text, cases[i].valid ? "valid" : "invalid");
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    struct buf deep = BUF_INIT;
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_add_char(&deep, '[');
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_add_char(&deep, ']');
    assert_true(json_is_value(buf_str(&deep)));
    struct buf deeper = BUF_INIT;
    buf_addf(&deeper, "[%s]", buf_text(&deep));
    assert_false(json_is_value(buf_str(&deeper)));
    buf_release(&deep);
    buf_release(&deeper);
}

static void members_are_walked_one_level_deep(void **state)
{
    (void)state;
    struct str object =
        STR(" { \"done\" : 17, \"result\": {\"a\": [1, \"}\"]}, \"k\\u0041\":\"v\" } ");
    struct str key, value;
    struct json_members walk = json_members(object);
    assert_true(json_next(&walk, &key, &value));
    assert_true(str_equal(key, STR("done")) && str_equal(value, STR("17")));
    assert_true(json_next(&walk, &key, &value));
    assert_true(str_equal(value, STR("{\"a\": [1, \"}\"]}")));
    assert_true(json_next(&walk, &key, &value));
    assert_true(str_equal(key, STR("k\\u0041")));
    assert_false(json_next(&walk, &key, &value));
    assert_false(walk.malformed);
    walk = json_members(STR("{\"a\":1"));
    assert_true(json_next(&walk, &key, &value));
    assert_false(json_next(&walk, &key, &value));
    assert_true(walk.malformed);
    walk = json_members(STR("{}"));
    assert_false(json_next(&walk, &key, &value));
    assert_false(walk.malformed);
}

static void what_follows_an_object_makes_it_malformed(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":1}{\"a\":2}", "{\"a\":1}x", "{} {}", "{\"a\":1} ]"};
    struct str key, value;
    for (size_t i = 0; i < countof(texts); i++) {
        struct json_members walk = json_members(str_of(texts[i]));
        while (json_next(&walk, &key, &value))
            assert_true(str_equal(key, STR("a")) && str_equal(value, STR("1")));
        if (!walk.malformed)
            fail_msg("%s is taken for an object", texts[i]);
    }
}

static void the_largest_number_is_read(void **state)
{
    (void)state;
    uint64_t number = 0;
    assert_true(json_to_u64(STR("18446744073709551615"), &number));
    assert_true(number == UINT64_MAX);
    assert_false(json_to_u64(STR("18446744073709551616"), &number));
}

static void strings_survive_a_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "plain", "tab\tquote\"back\\slash\n", "\x01\x1f",
                                        "h\xc3\xa9llo \xf0\x9f\x98\x80"};
    for (size_t i = 0; i < countof(texts); i++) {
        struct buf json = BUF_INIT, text = BUF_INIT;
        buf_add_json(&json, str_of(texts[i]));
        assert_true(json_is_value(buf_str(&json)));
        assert_true(json_to_text(buf_str(&json), &text));
        assert_string_equal(buf_text(&text), texts[i]);
        buf_release(&json);
        buf_release(&text);
    }
    struct buf text = BUF_INIT;
    assert_true(json_to_text(STR("\"\\ud83d\\ude00 \\ud800 \\/\""), &text));
    assert_string_equal(buf_text(&text), "\xf0\x9f\x98\x80 \xef\xbf\xbd /");
    buf_release(&text);
}

static void compacting_drops_only_insignificant_space(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    buf_add_json_compact(&out, STR("{ \"a b\\\" \" :\n [ 1,\t2 ] }"));
    assert_string_equal(buf_text(&out), "{\"a b\\\" \":[1,2]}");
    buf_reset(&out);
    buf_add_base64(&out, STR("\x00\xff\x10z"));
    assert_string_equal(buf_text(&out), "AP8Qeg==");
    buf_release(&out);
}

static void keys_are_what_they_say_however_they_are_escaped(void **state)
{
    (void)state;
    struct str value, first, second, other, object = STR("{\"\\u0061\":1,\"a\":2,\"\\\\u0061\":3}");
    struct json_members walk = json_members(object);
    assert_true(json_next(&walk, &first, &value) && json_next(&walk, &second, &value) &&
                json_next(&walk, &other, &value));
    assert_true(json_key_equal(first, STR("a")) && json_key_equal(second, STR("a")));
    assert_true(json_keys_equal(first, second) && json_keys_equal(second, first));
    assert_false(json_key_equal(first, STR("\\u0061")));
    assert_true(json_key_equal(other, STR("\\u0061")));
    assert_false(json_keys_equal(first, other) || json_keys_equal(other, second));
    assert_true(json_get(object, "a", &value) && str_equal(value, STR("1")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_recognised_strictly),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(members_are_walked_one_level_deep),
        cmocka_unit_test(keys_are_what_they_say_however_they_are_escaped),
        cmocka_unit_test(what_follows_an_object_makes_it_malformed),
        cmocka_unit_test(the_largest_number_is_read),
        cmocka_unit_test(strings_survive_a_round_trip),
        cmocka_unit_test(compacting_drops_only_insignificant_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
