/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "map/template.h"

static const struct template_values values = {.of = {
                                                  [PLACE_START] = STR("25"),
                                                  [PLACE_COUNT] = STR("10"),
                                                  [PLACE_GPU] = STR("3"),
                                                  [PLACE_GPU_UUID] = STR("GPU-3"),
                                                  [PLACE_RUN] = STR("20260131_090807"),
                                                  [PLACE_RUN_DIR] = STR("/runs/[x]*"),
                                                  [PLACE_SUFFIX] = STR("gpu_3"),
                                              }};

static void words_in_braces_are_filled_in_and_all_else_is_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text, *filled;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"{start}", "25"},
        {"--from={start}:{count}", "--from=25:10"},
        {"{start}{count}", "2510"},
        {"prm/*_{run}_{suffix}.pt", "prm/*_20260131_090807_gpu_3.pt"},
        {"{gpu} {gpu_uuid}", "3 GPU-3"},
        /* doubled braces around a word */
        {"{{start}}", "{start}"},
        {"{{print}}", "{print}"},
        {"{{{start}}}", "{{start}}"},
        {"{{start}", "{25"},
        {"{start}}", "25}"},
        /* other people's braces */
        {"{print}", "{print}"},
        {"{print $1}", "{print $1}"},
        {"NR > {start} {print}", "NR > 25 {print}"},
        {"{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
        {"{\"n\":{count}}", "{\"n\":10}"},
        {"{{ x }}", "{{ x }}"},
        {"${start}", "${start}"},
        {"$ {start}", "$ 25"},
        {"${start}{start}", "${start}25"},
        {"{", "{"},
        {"{{", "{{"},
        {"}}", "}}"},
        {"{start", "{start"},
        {"{}", "{}"},
        {"{{}}", "{{}}"},
        {"{1}", "{1}"},
        {"{ start}", "{ start}"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_buf struct buf out = BUF_INIT;
        template_fill(str_of(cases[i].text), &values, &out);
        if (strcmp(buf_text(&out), cases[i].filled) != 0)
            fail_msg("'%s' became '%s', not '%s'", cases[i].text, buf_text(&out), cases[i].filled);
    }
}

static void what_is_filled_into_a_pattern_is_not_special(void **state)
{
    (void)state;
    cleanup_buf struct buf out = BUF_INIT;
    template_fill_glob(STR("{run_dir}/*_{suffix}.pt"), &values, &out);
    assert_string_equal(buf_text(&out), "/runs/\\[x\\]\\*/*_gpu_3.pt");
}

static void a_misspelt_placeholder_is_named_with_what_was_meant(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(template_check(STR("--data_start_idx={strat}"), &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "{strat}"));
    assert_non_null(strstr(err.text, "did you mean {start}?"));
    static const char *const refused[] = {"{Start}", "{inputs}", "{gpus}", "{run_dri}", "{shrad}"};
    for (size_t i = 0; i < countof(refused); i++)
        if (template_check(str_of(refused[i]), &err) == 0)
            fail_msg("'%s' was let through", refused[i]);
    static const char *const fine[] = {"{start}", "{{strat}}", "${strat}", "{print}", "{name}",
                                       "{x}",     "{NR}",      "{}",       "{",       "{ strat }"};
    for (size_t i = 0; i < countof(fine); i++)
        if (template_check(str_of(fine[i]), &err) != 0)
            fail_msg("'%s' was refused: %s", fine[i], err.text);
}

static void six_placeholders_make_a_shard_command_and_the_others_do_not(void **state)
{
    (void)state;
    static const char *const ones[] = {"{start}", "{count}",  "{end}",
                                       "{shard}", "a{input}", "--out={output}"};
    for (size_t i = 0; i < countof(ones); i++)
        if (!template_shard_word(template_uses(str_of(ones[i]))))
            fail_msg("'%s' made none", ones[i]);
    static const char *const none[] = {"{gpu}",     "{seed}",   "{suffix}", "{run}",
                                       "{{start}}", "${start}", "{print}",  "start"};
    for (size_t i = 0; i < countof(none); i++)
        if (template_shard_word(template_uses(str_of(none[i]))))
            fail_msg("'%s' made one", none[i]);
    const char *const words[] = {"run", "--gpu={gpu}", "{start}", "{start}", NULL};
    assert_int_equal(template_uses_all(words), 1u << PLACE_GPU | 1u << PLACE_START);
    assert_int_equal(template_uses_all(NULL), 0);
    assert_string_equal(template_shard_word(template_uses_all(words)), "start");
    assert_true(template_tells_apart(template_uses(STR("x_{suffix}.pt"))));
    assert_false(template_tells_apart(template_uses(STR("x_{run}_{gpu}.pt"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_in_braces_are_filled_in_and_all_else_is_left_alone),
        cmocka_unit_test(what_is_filled_into_a_pattern_is_not_special),
        cmocka_unit_test(a_misspelt_placeholder_is_named_with_what_was_meant),
        cmocka_unit_test(six_placeholders_make_a_shard_command_and_the_others_do_not),
    };
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
