/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "bench/bench_impl.h"

static struct bench_counts counts_of(const char *text)
{
    struct bench_counts counts;
    assert_int_equal(bench_counts_parse(str_of(text), &counts, NULL), 0);
    return counts;
}

static void lists_of_numbers_read_back_as_they_are_typed(void **state)
{
    (void)state;
    const char *const good[] = {"1", "1,2,4", "8,4"};
    const char *const bad[] = {"", "0", "1,1", "a", "1,,2", "-1", "1;2", "2000000"};
    for (size_t i = 0; i < countof(good); i++) {
        struct buf out = BUF_INIT;
        struct bench_counts counts = counts_of(good[i]);
        bench_counts_format(&counts, &out);
        assert_string_equal(buf_text(&out), good[i]);
        buf_release(&out);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        struct bench_counts counts;
        struct err err = {0};
        if (bench_counts_parse(str_of(bad[i]), &counts, &err) != ERR_USAGE)
            fail_msg("'%s' is taken", bad[i]);
    }
}

/* The rows for n_devices, as "method devices batch;…"; or what is refused. */
static void rows_check(const struct bench_request *request, uint32_t n_devices,
                       const char *expected)
{
    struct benching b = {.request = request};
    struct buf out = BUF_INIT;
    struct err err = {0};
    int rc = methods_make(&b, &err);
    rc = rc ? rc : variants_make(&b, n_devices, &err);
    for (uint32_t i = 0; rc == 0 && i < b.n_variants; i++)
        buf_addf(&out, "%s %u %lu;", b.methods[b.variants[i].method].name, b.variants[i].n_devices,
                 b.variants[i].batch);
    if (rc)
        buf_add_text(&out, err.text);
    if (!strstr(buf_text(&out), expected))
        fail_msg("expected %s, found %s", expected, buf_text(&out));
    buf_release(&out);
    methods_release(&b);
}

static struct bench_request request_of(const char **methods, size_t n_methods)
{
    return (struct bench_request){.methods = {methods, n_methods}};
}

static void every_method_has_every_number_of_devices_and_every_batch(void **state)
{
    (void)state;
    const char *methods[] = {"a=x {batch}", "b @2=y", "c@1,3=z = {devices}"};
    const char *const words[] = {"w", "{gpu}", NULL};
    struct bench_request r = request_of(methods, 2);
    r.devices = counts_of("1,2");
    r.batches = counts_of("8,4");
    rows_check(&r, 2, "a 1 8;a 1 4;a 2 8;a 2 4;b 2 8;b 2 4;");
    r.batches = (struct bench_counts){0};
    rows_check(&r, 2, "{batch} needs --batch");
    r = request_of(methods + 1, 2);
    r.command = words;
    rows_check(&r, 3, "command 1 0;command 2 0;command 3 0;b 2 0;c 1 0;c 3 0;");
    rows_check(&r, 1, "2 devices are asked for, and there is 1");
}

static void without_numbers_they_are_doubled_up_to_all(void **state)
{
    (void)state;
    const char *methods[] = {"a=x"};
    const struct bench_request r = request_of(methods, 1);
    rows_check(&r, 1, "a 1 0;");
    rows_check(&r, 6, "a 1 0;a 2 0;a 4 0;a 6 0;");
    rows_check(&r, 8, "a 1 0;a 2 0;a 4 0;a 8 0;");
    rows_check(&r, 100, "a 32 0;a 64 0;");
}

static void what_is_no_method_is_refused_with_the_form(void **state)
{
    (void)state;
    static const struct {
        const char *method, *words;
    } cases[] = {
        {"sleep 1", "expected NAME=COMMAND"}, {"a=", "expected NAME=COMMAND"},
        {"=true", "it has no name"},          {"@2=true", "it has no name"},
        {"a@x=true", "--method 'a@x': "},     {"a={start}", "{batch}, {devices}, {gpu}"},
        {"a={device}", "{devices}"},          {"a=echo {{device}} ${device} {print $1}", "a 1 0;"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *methods[] = {cases[i].method};
        const struct bench_request r = request_of(methods, 1);
        rows_check(&r, 1, cases[i].words);
    }
    const char *twice[] = {"a=x", "a@2=y"};
    const struct bench_request r = request_of(twice, 2), none = {0};
    rows_check(&r, 2, "two methods are called 'a'");
    rows_check(&none, 2, "nothing to measure");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_numbers_read_back_as_they_are_typed),
        cmocka_unit_test(every_method_has_every_number_of_devices_and_every_batch),
        cmocka_unit_test(without_numbers_they_are_doubled_up_to_all),
        cmocka_unit_test(what_is_no_method_is_refused_with_the_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
