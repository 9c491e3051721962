/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/json.h"
#include "data/file_merge/metadata.h"

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
    /* percentages stay percentages, by counts and without them */
    {"{\"num_questions\":4,\"correct\":1,\"accuracy\":25.0}",
     "{\"num_questions\":4,\"correct\":2,\"accuracy\":50}", "accuracy", "37.5"},
    {"{\"num_questions\":3,\"accuracy\":33.33}", "{\"num_questions\":3,\"accuracy\":66.67}",
     "accuracy", "50.0"},
    {"{\"num_questions\":4,\"accuracy\":50.0}", "{\"num_questions\":12,\"accuracy\":0}", "accuracy",
     "12.5"},
    /* one of each: counts know, else there is no mean; 1 of 200 is half a percent */
    {"{\"num_questions\":4,\"correct\":4,\"accuracy\":1}",
     "{\"num_questions\":4,\"correct\":2,\"accuracy\":50.0}", "accuracy", "0.75"},
    {"{\"num_questions\":4,\"accuracy\":1}", "{\"num_questions\":4,\"accuracy\":50.0}", "accuracy",
     "[1,50.0]"},
    {"{\"num_questions\":200,\"correct\":1,\"accuracy\":0.5}",
     "{\"num_questions\":200,\"correct\":199,\"accuracy\":99.5}", "accuracy", "50.0"},
    {"{\"num_questions\":4,\"accuracy\":250}", "{\"num_questions\":4,\"accuracy\":50.0}",
     "accuracy", "[250,50.0]"},
    {"{\"tp\":1,\"fp\":1,\"precision\":50}", "{\"tp\":1,\"fp\":0,\"precision\":100}", "precision",
     "66.66666666666667"},
    {"{\"fp\":1,\"tn\":3,\"false_positive_rate\":0.25}",
     "{\"fp\":1,\"tn\":1,\"false_positive_rate\":0.5}", "false_positive_rate",
     "0.3333333333333333"},
    {"{\"fn\":0,\"tp\":3,\"false_negative_rate\":0.0}",
     "{\"fn\":1,\"tp\":0,\"false_negative_rate\":1.0}", "false_negative_rate", "0.25"},
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
    {"{\"timestamp\":\"2026-01-31\"}", "{\"timestamp\":\"2026-01-31 09:08\"}", "timestamp",
     "\"2026-01-31 09:08\""},
    {"{\"timestamp\":\"2026/02/01\"}", "{\"timestamp\":\"2026\\/01\\/31\"}", "timestamp",
     "\"2026/02/01\""},
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

/* {a, b, rules with a blank between, what it becomes, or what the error says} */
static const char *const ruled[][4] = {
    {"{\"m\":{\"n\":1},\"x\":0}", "{\"m\":{\"n\":2},\"x\":1}", "m.n=sum x=drop",
     "{\"m\":{\"n\":3}}"},
    {"{\"n\":1}", "{\"n\":2.5}", "n=sum", "{\"n\":3.5}"},
    {"{\"n\":9223372036854775807}", "{\"n\":1}", "n=sum", "more than 64 bits"},
    {"{\"n\":1e308}", "{\"n\":1e308}", "n=sum", "'n' adds up to more than a float holds"},
    {"{\"h\":{\"a\":-1e308}}", "{\"h\":{\"a\":-1e308}}", "h=sum-by-key", "more than a float holds"},
    {"{\"n\":1e300,\"m\":1e-300}", "{\"n\":1e300,\"m\":1e-300}", "+r=n/m",
     "more than a float holds"},
    {"{\"n\":1}", "{\"n\":\"1\"}", "n=sum", "'n' is no number in b"},
    {"{\"l\":[1, 1.50]}", "{\"l\":[ ]}", "l=concat", "{\"l\":[1,1.50]}"},
    {"{\"l\":[]}", "{\"l\":[[2],\"]\"]}", "l=concat", "{\"l\":[[2],\"]\"]}"},
    {"{\"l\":[1]}", "{\"l\":{}}", "l=concat", "'l' is no array in b"},
    {"{\"l\":[1]}", "{}", "l=concat", "'l' is in a, and missing in b"},
    {"{}", "{\"l\":[1]}", "l=first", "'l' is in b, and missing in a"},
    {"{\"t\":[1]}", "{\"t\":[2]}", "t=cat0", "cat0 is about tensors"},
    {"{\"h\":{\"a\":1,\"b\":2.50}}", "{\"h\":{\"c\":12345678901234567890.5,\"a\":4}}",
     "h=sum-by-key", "{\"h\":{\"a\":5,\"b\":2.50,\"c\":12345678901234567890.5}}"},
    {"{\"h\":{\"a\":1}}", "{\"h\":[]}", "h=sum-by-key", "'h' is no object in b"},
    {"{\"s\":1}", "{\"s\":2}", "s=same", "'s' differs between a and b"},
    {"{\"s\":[1,2]}", "{\"s\":[1, 2]}", "s=same", "{\"s\":[1,2]}"},
    {"{\"s\":12345678901234567890123}", "{\"s\":2}", "s=first", "{\"s\":12345678901234567890123}"},
    {"{\"s\":2}", "{\"s\":10}", "s=max", "{\"s\":10}"},
    {"{\"s\":\"2\"}", "{\"s\":\"10\"}", "s=max", "{\"s\":\"2\"}"},
    {"{\"s\":9007199254740993}", "{\"s\":9007199254740992}", "s=max", "{\"s\":9007199254740993}"},
    {"{\"s\":9007199254740992.0}", "{\"s\":9007199254740993}", "s=max", "{\"s\":9007199254740993}"},
    {"{\"s\":18446744073709551616}", "{\"s\":18446744073709551617}", "s=max",
     "{\"s\":18446744073709551617}"},
    {"{\"s\":1e400}", "{\"s\":1}", "s=max", "neither a number"},
    {"{\"s\":1}", "{}", "s=collect", "{\"s\":[1,null]}"},
    {"{\"s\":1}", "{\"s\":1}", "s=collect", "{\"s\":[1,1]}"},
    {"{\"u\":{\"a\":1,\"c\":7}}", "{\"u\":{\"b\":2,\"c\":7}}", "u=union",
     "{\"u\":{\"a\":1,\"c\":7,\"b\":2}}"},
    {"{\"u\":{\"a\":1}}", "{\"u\":{\"a\":2}}", "u=union",
     "'u.a' is in a and in b, and not the same"},
    {"{\"u\":{\"a\":1}}", "{\"u\":{\"a\":2,\"b\":3}}", "u=union u.a=sum",
     "{\"u\":{\"a\":3,\"b\":3}}"},
    {"{\"u\":{\"a\":1}}", "{\"u\":{\"b\":2}}", "u=deep", "'u.a' is in a, and missing in b"},
    {"{\"u\":{\"n_items\":1}}", "{\"u\":{\"n_items\":2}}", "u=deep", "{\"u\":{\"n_items\":3}}"},
    {"{\"u\":1}", "{\"u\":1}", "u=deep", "'u' is no object in a"},
    {"{\"n\":\"x_gpu_1\"}", "{\"n\":\"x_gpu_2\"}", "n=merged", "{\"n\":\"x_merged\"}"},
    {"{\"n\":\"x_gpu_1\"}", "{\"n\":\"y_gpu_2\"}", "n=merged", "'n' is not the name of one job"},
    {"{\"a\":1,\"b\":4}", "{\"a\":2,\"b\":8}", "a=sum b=sum +r=a/b",
     "{\"a\":3,\"b\":12,\"r\":0.25}"},
    {"{\"r\":1,\"total\":0,\"n_items\":0}", "{\"r\":1,\"total\":0,\"n_items\":0}",
     "r=total/n_items", "{\"r\":null,\"total\":0,\"n_items\":0}"},
    {"{\"a\":1}", "{\"a\":1}", "+r=a/b", "no numbers 'a' and 'b'"},
    {"{\"a\":1}", "{\"a\":1}", "+a=count", "has a key 'a' already"},
    {"{\"m\":{\"a\":1}}", "{\"m\":{\"a\":1}}", "+m.n=count +m.all=collect",
     "{\"m\":{\"a\":1,\"n\":2,\"all\":[{\"a\":1},{\"a\":1}]}}"},
    {"{\"a\":1}", "{\"a\":1}", "b=first", "the rule for 'b' fits nothing"},
    {"{\"a\":1}", "{\"a\":1}", "gpu_metadata=first", "the rule for 'gpu_metadata' fits nothing"},
    {"{\"a\\u002e\":1}", "{\"a.\":2}", "a.=sum", "{\"a\\u002e\":3}"},
    {"{\"a\":1}", "{\"b\":2}", ".=union", "{\"a\":1,\"b\":2}"},
    {"{\"a\":1}", "{\"a\":1,\"b\":2}", ".=deep", "'b' is in b, and missing in a"},
    {"{\"a\":1,\"data_file\":\"f\"}", "{\"a\":1,\"data_file\":\"f\"}", ".=deep",
     "{\"a\":1,\"data_file\":\"f\"}"},
    {"{\"a\":1}", "{\"b\":2}", ".=collect", "[{\"a\":1},{\"b\":2}]"},
    {"{\"a\":1}", "{\"b\":2}", ".=drop", "drop everything"},
    {"{\"num_questions\":2,\"questions\":[1]}", "{\"num_questions\":1,\"questions\":[1]}",
     "questions=concat", "a: 'num_questions' says 2, and 'questions' holds 1"},
    {"{\"num_questions\":2,\"questions\":[1]}", "{\"num_questions\":1,\"questions\":[1]}",
     "questions=concat num_questions=sum", "{\"num_questions\":3,\"questions\":[1,1]}"},
};

static void rules_go_before_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(ruled); i++) {
        cleanup_buf struct buf out = BUF_INIT, compact = BUF_INIT;
        struct merge_rules rules = {0};
        struct err err = {0};
        struct str rest = str_of(ruled[i][2]), rule;
        bool is_root = str_starts_with(rest, STR(".="));
        while (str_next(&rest, ' ', &rule))
            assert_int_equal(merge_rule_add(&rules, rule, &err), 0);
        if (!is_root) {
            assert_int_equal(merge_rule_add(&rules, STR("num_gpus=drop"), &err), 0);
            assert_int_equal(merge_rule_add(&rules, STR("gpu_metadata=drop"), &err), 0);
        }
        const struct metadata_opts opts = {.rules = &rules};
        const struct metadata_part parts[] = {{"a", str_of(ruled[i][0])},
                                              {"b", str_of(ruled[i][1])}};
        int rc = metadata_merge(&opts, parts, 2, &out, &err);
        buf_add_json_compact(&compact, buf_str(&out));
        const char *found = rc ? err.text : buf_text(&compact);
        if (rc ? !strstr(found, ruled[i][3]) : strcmp(found, ruled[i][3]) != 0)
            fail_msg("%s %s %s\ngives %s\nnot   %s", ruled[i][0], ruled[i][1], ruled[i][2], found,
                     ruled[i][3]);
        merge_rules_release(&rules);
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

/* A member a record, as results by id have it. Comparing each with each took a minute. */
static void time_follows_the_number_of_members(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND();
    SKIP_UNDER_ASAN();
    enum {
        N_MEMBERS = 200000
    };
    cleanup_buf struct buf out = BUF_INIT, a = BUF_INIT, b = BUF_INIT;
    struct str value;
    for (int i = 0; i < N_MEMBERS; i++) {
        buf_addf(&a, "%s\"left_%d\":%d", i > 0 ? "," : "{", i, i);
        buf_addf(&b, "%s\"\\u0072ight_%d\":%d", i > 0 ? "," : "{", i, i);
    }
    buf_add_text(&a, ",\"right_7\":0}");
    buf_add_char(&b, '}');
    uint64_t begin_ms = clock_now_ms();
    merged(buf_text(&a), buf_text(&b), &out);
    assert_true(clock_now_ms() - begin_ms < 20000);
    assert_true(json_get(buf_str(&out), "right_7", &value) && str_starts_with(value, STR("[")));
    assert_true(json_get(buf_str(&out), "right_199999", &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_accuracy_is_cut_off),
        cmocka_unit_test(members_become_what_their_names_say),
        cmocka_unit_test(rules_go_before_names),
        cmocka_unit_test(values_are_indented_as_python_does),
        cmocka_unit_test(time_follows_the_number_of_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
