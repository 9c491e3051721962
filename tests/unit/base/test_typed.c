/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/cleanup.h"
#include "base/json_bytes.h"
#include "base/shell.h"

static void a_word_that_is_shown_can_be_typed(void **state)
{
    static const struct {
        const char *word, *typed;
    } cases[] = {
        {"20260131_090807-map", "20260131_090807-map"},
        {"two words", "'two words'"},
        {"it's", "'it'\\''s'"},
        {"gr\xc3\xbc\xc3\x9f", "'gr\xc3\xbc\xc3\x9f'"},
        {"\xff\xfe", "$'\\377\\376'"},
        {"a\nb", "$'a\\012b'"},
        {"\xff'\\7", "$'\\377\\'\\\\7'"},
        {"\xe2\x80\xae", "$'\\342\\200\\256'"}, /* it changes the direction of writing */
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_buf struct buf out = BUF_INIT;
        buf_add_typed_word(&out, cases[i].word);
        assert_string_equal(buf_text(&out), cases[i].typed);
    }
}

static void a_text_of_any_bytes_comes_back_from_json(void **state)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"plain \"q\"", "\"plain \\\"q\\\"\""},
        {"gr\xc3\xbc", "\"gr\xc3\xbc\""},
        {"a\xff", "{\"bytes\":\"61ff\"}"},
        {"", "\"\""},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_buf struct buf out = BUF_INIT, back = BUF_INIT;
        buf_add_json_bytes(&out, cases[i].text);
        assert_string_equal(buf_text(&out), cases[i].json);
        assert_true(json_to_bytes(buf_str(&out), &back));
        assert_string_equal(buf_text(&back), cases[i].text);
    }
    cleanup_buf struct buf none = BUF_INIT, back = BUF_INIT;
    buf_add_json_bytes(&none, NULL);
    assert_string_equal(buf_text(&none), "null");
    assert_false(json_to_bytes(STR("{\"bytes\":\"6\"}"), &back));
    assert_false(json_to_bytes(STR("7"), &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_that_is_shown_can_be_typed),
        cmocka_unit_test(a_text_of_any_bytes_comes_back_from_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
