/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/json.h"
#include "data/join/metadata.h"

static void merged(const char *a, const char *b, struct buf *out)
{
    const struct metadata_opts opts = {0};
    const struct metadata_part parts[] = {{"a", str_of(a)}, {"b", str_of(b)}};
    struct err err = {0};
    buf_reset(out);
    if (metadata_merge(&opts, parts, 2, out, &err))
        fail_msg("%s", err.text);
}

/* A part's accuracy stands for a whole number of questions, and none is lost. */
static void no_accuracy_is_cut_off(void **state)
{
    (void)state;
    cleanup_buf struct buf out = BUF_INIT, part = BUF_INIT;
    for (int n = 1; n <= 200; n++) {
        for (int k = 0; k <= n; k++) {
            struct str value;
            double found;
            buf_reset(&part);
            buf_addf(&part, "{\"num_questions\":%d,\"accuracy\":", n);
            buf_add_json_double(&part, (double)k / n);
            buf_add_char(&part, '}');
            merged(buf_text(&part), "{\"num_questions\":0,\"accuracy\":0.0}", &out);
            assert_true(json_get(buf_str(&out), "accuracy", &value) &&
                        json_to_double(value, &found));
            assert_true(found == (double)k / n);
        }
    }
}

/* {a, b, member, what it becomes} */
static const char *const cases[][4] = {
    /* rounded to four digits, they still stand for 29 of 50 and 1 of 3 */
    {"{\"num_questions\":50,\"accuracy\":0.5800}", "{\"num_questions\":3,\"accuracy\":0.3333}",
     "accuracy", "0.5660377358490566"},
    {"{\"num_questions\":50,\"correct\":29,\"accuracy\":0.1}",
     "{\"num_questions\":22,\"correct\":15,\"accuracy\":1}", "accuracy", "0.6111111111111112"},
    {"{\"accuracy\":0.5}", "{\"accuracy\":0.5}", "accuracy", "0.5"},
    {"{\"accuracy\":0.5}", "{\"accuracy\":0.25}", "accuracy", "[0.5,0.25]"},
    {"{\"total\":0,\"accuracy\":0.0}", "{\"total\":0,\"accuracy\":0.0}", "accuracy", "0.0"},
    {"{\"max_samples\":100}", "{\"max_samples\":100}", "max_samples", "100"},
    {"{\"max_samples\":100}", "{\"max_samples\":50}", "max_samples", "[100,50]"},
    {"{\"word_count\":-3}", "{\"word_count\":5}", "word_count", "2"},
    {"{\"total_time\":1.5}", "{\"total_time\":2}", "total_time", "[1.5,2]"},
    {"{\"config\":{\"total\":3}}", "{\"config\":{\"total\":3}}", "config", "{\"total\":3}"},
    {"{\"stats\":{\"total\":3}}", "{\"stats\":{\"total\":3,\"x\":null}}", "stats",
     "{\"total\":6,\"x\":[null,null]}"},
    {"{\"stats\":{\"total\":3}}", "{\"stats\":4}", "stats", "[{\"total\":3},4]"},
    {"{\"x\":[1, 2]}", "{\"x\":[1,2]}", "x", "[1,2]"},
    {"{\"x\":0.10}", "{\"x\":0.10}", "x", "0.10"},
    {"{\"timestamp\":\"2025-12-26T12:00:05\"}", "{\"timestamp\":\"2025-12-26T11:59:59\"}",
     "timestamp", "\"2025-12-26T12:00:05\""},
    {"{\"timestamp\":5}", "{\"timestamp\":6}", "timestamp", "[5,6]"},
    {"{\"batch_name\":\"x_gpu_1\"}", "{\"batch_name\":\"x_gpu_12\"}", "batch_name", "\"x_merged\""},
    {"{\"batch_name\":\"x_gpu_1\"}", "{\"batch_name\":\"y_gpu_1\"}", "batch_name",
     "[\"x_gpu_1\",\"y_gpu_1\"]"},
    {"{\"batch_name\":\"gsm8k_20251226\"}", "{\"batch_name\":\"gsm8k_20251226\"}", "batch_name",
     "\"gsm8k_20251226_merged\""},
};

static void members_become_what_their_names_say(void **state)
{
    (void)state;
    cleanup_buf struct buf out = BUF_INIT, compact = BUF_INIT;
    for (size_t i = 0; i < countof(cases); i++) {
        struct str value;
        merged(cases[i][0], cases[i][1], &out);
        buf_reset(&compact);
        if (!json_get(buf_str(&out), cases[i][2], &value))
            fail_msg("case %zu: no '%s' in %s", i, cases[i][2], buf_text(&out));
        buf_add_json_compact(&compact, value);
        assert_string_equal(buf_text(&compact), cases[i][3]);
    }
}

static void values_are_indented_as_python_does(void **state)
{
    (void)state;
    cleanup_buf struct buf out = BUF_INIT;
    buf_add_json_indented(&out, STR("{\"a\":[1,{\"b\\\"]\":{}}],\"c\":[]}"), 0);
    assert_string_equal(
        buf_text(&out),
        "{\n  \"a\": [\n    1,\n    {\n      \"b\\\"]\": {}\n    }\n  ],\n  \"c\": []\n}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_accuracy_is_cut_off),
        cmocka_unit_test(members_become_what_their_names_say),
        cmocka_unit_test(values_are_indented_as_python_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
