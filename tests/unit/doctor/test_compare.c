/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between hosts, and what a host's doctor says, read back.
 */
#include "kit.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "doctor/compare.h"
#include "doctor/report.h"

enum {
    HOSTS_MAX = 6
};

static struct compared_host *hosts_new(size_t n_hosts)
{
    static const char *const names[HOSTS_MAX] = {"a", "b", "c", "d", "e", "f"};
    struct compared_host *hosts = xcalloc(n_hosts, sizeof(*hosts));
    for (size_t i = 0; i < n_hosts; i++)
        hosts[i].name = names[i];
    return hosts;
}

static void trait_set(struct compared_host *host, enum trait trait, const char *value)
{
    free(host->traits.at[trait]);
    host->traits.at[trait] = value ? xstrdup(value) : NULL;
}

/* Every finding but that of the round trip: "ok kernel: 6.1; warn …". */
static void expect_compared(const struct compared_host *hosts, size_t n_hosts, const char *wanted)
{
    struct findings findings = {0};
    cleanup_buf struct buf text = BUF_INIT;
    hosts_compare(hosts, n_hosts, &findings);
    for (size_t i = 0; i < findings.len; i++) {
        const struct finding *finding = &findings.at[i];
        bool is_ok = finding->level == FINDING_OK;
        if (strcmp(finding->subject, "round trip") == 0)
            continue;
        buf_addf(&text, "%s%s %s: %s", text.len ? "; " : "", finding_level_name(finding->level),
                 finding->subject, finding->found);
        if (is_ok != (finding->means[0] == '\0') || is_ok != (finding->cure[0] == '\0'))
            fail_msg("'%s' means '%s', cure '%s'", finding->found, finding->means, finding->cure);
    }
    findings_release(&findings);
    if (strcmp(buf_text(&text), wanted) != 0)
        fail_msg("expected \"%s\"\nfound    \"%s\"", wanted, buf_text(&text));
}

static void hosts_free(struct compared_host *hosts, size_t n_hosts)
{
    for (size_t i = 0; i < n_hosts; i++)
        traits_release(&hosts[i].traits);
    free(hosts);
}

static void what_is_alike_is_said_once_and_a_difference_names_its_hosts(void **state)
{
    (void)state;
    struct compared_host *hosts = hosts_new(3);
    for (size_t i = 0; i < 3; i++) {
        trait_set(&hosts[i], TRAIT_kernel, "6.1");
        trait_set(&hosts[i], TRAIT_vllm, "");
        trait_set(&hosts[i], TRAIT_driver, i == 1 ? "535.10" : "550.54");
    }
    expect_compared(hosts, 3,
                    "ok kernel: 6.1; warn driver: 550.54 on a, c; 535.10 on b; "
                    "ok clock: within 0 ms of this machine's");
    trait_set(&hosts[2], TRAIT_kernel, NULL);
    trait_set(&hosts[1], TRAIT_driver, "550.54");
    trait_set(&hosts[0], TRAIT_vllm, "0.6.3");
    expect_compared(hosts, 3,
                    "ok kernel: 6.1; ok driver: 550.54; "
                    "warn vllm: 0.6.3 on a; none on b, c; ok clock: within 0 ms of this machine's");
    trait_set(&hosts[0], TRAIT_kernel, "5.4");
    trait_set(&hosts[0], TRAIT_vllm, "");
    expect_compared(hosts, 3,
                    "warn kernel: 5.4 on a; 6.1 on b; not known on c; ok driver: 550.54; "
                    "ok clock: within 0 ms of this machine's");
    hosts_free(hosts, 3);
}

static void another_architecture_is_a_failure(void **state)
{
    (void)state;
    struct compared_host *hosts = hosts_new(2);
    trait_set(&hosts[0], TRAIT_machine, "aarch64");
    trait_set(&hosts[1], TRAIT_machine, "x86_64");
    expect_compared(hosts, 2,
                    "fail machine: aarch64 on a; x86_64 on b; ok clock: within 0 ms of this "
                    "machine's");
    hosts_free(hosts, 2);
}

static void amounts_may_differ_by_half(void **state)
{
    (void)state;
    struct compared_host *hosts = hosts_new(3);
    trait_set(&hosts[0], TRAIT_memory_free, "8589934592");
    trait_set(&hosts[1], TRAIT_memory_free, "4294967296");
    expect_compared(hosts, 3,
                    "ok memory_free: at least 4.0 GiB; ok clock: within 0 ms of this machine's");
    trait_set(&hosts[1], TRAIT_memory_free, "4294967295");
    expect_compared(hosts, 3,
                    "warn memory_free: 4.0 GiB on b, 8.0 GiB on a; ok clock: within 0 ms of this "
                    "machine's");
    hosts_free(hosts, 3);
}

static void a_clock_is_off_only_beyond_what_the_round_trip_explains(void **state)
{
    (void)state;
    struct compared_host *hosts = hosts_new(2);
    hosts[0].clock_ahead_ms = -1400;
    hosts[0].round_trip_ms = 900;
    expect_compared(hosts, 2, "ok clock: within 1400 ms of this machine's");
    hosts[0].round_trip_ms = 700;
    expect_compared(hosts, 2, "warn clock: a is 1.4 s behind");
    hosts[1].clock_ahead_ms = INT64_MIN; /* whatever a host says */
    expect_compared(hosts, 2,
                    "warn clock: a is 1.4 s behind; warn clock: b is 106751991167 d 07 h behind");
    hosts_free(hosts, 2);
}

static void of_many_hosts_a_few_are_named(void **state)
{
    (void)state;
    struct compared_host *hosts = hosts_new(HOSTS_MAX);
    bool flags[HOSTS_MAX] = {true, true, true, true};
    cleanup_buf struct buf text = BUF_INIT;
    host_names_add(hosts, flags, HOSTS_MAX, &text);
    buf_add_char(&text, '|');
    flags[4] = flags[5] = true;
    host_names_add(hosts, flags, HOSTS_MAX, &text);
    assert_string_equal(buf_text(&text), "a, b, c, d|a, b, c and 3 others");
    hosts_free(hosts, HOSTS_MAX);
}

static void a_report_is_read_back_as_it_was_written(void **state)
{
    (void)state;
    static const char text[] =
        "{\"time\":\"t\",\"check\":\"shm\",\"level\":\"fail\",\"subject\":\"/dev/shm\","
        "\"found\":\"64 MiB\",\"means\":\"m\",\"cure\":\"c\"}\n"
        "{\"time\":\"t\",\"trait\":\"kernel\",\"value\":\"6.1\"}\n"
        "{\"time\":\"t\",\"trait\":\"of_tomorrow\",\"value\":\"1\"}\n";
    struct report report = {0};
    assert_int_equal(report_parse(str_of(text), &report, NULL), 0);
    assert_true(report.is_whole);
    assert_int_equal(report.findings.len, 1);
    assert_int_equal(report.findings.at[0].level, FINDING_FAIL);
    assert_string_equal(report.findings.at[0].check, "shm");
    assert_string_equal(report.findings.at[0].found, "64 MiB");
    assert_string_equal(report.traits.at[TRAIT_kernel], "6.1");
    assert_null(report.traits.at[TRAIT_muster]);
    report_release(&report);
}

static void a_line_that_is_neither_is_named(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "Welcome\n",
        "{}\n",
        "\n",
        "{\"check\":\"shm\"}\n",
        "{\"trait\":\"kernel\",\"value\":6}\n",
        "{\"check\":\"shm\",\"level\":\"bad\",\"subject\":\"\",\"found\":\"\",\"means\":\"\",\"cure\":\"\"}\n",
    };
    for (size_t i = 0; i < countof(lines); i++) {
        struct report report = {0};
        struct err err = {0};
        assert_int_equal(report_parse(str_of(lines[i]), &report, &err), ERR_DATA);
        assert_string_equal(err.text, "line 1 of its answer is no finding");
        assert_false(report.is_whole);
        report_release(&report);
    }
}

static void an_interpreter_tells_its_version_and_its_packages(void **state)
{
    (void)state;
    struct python_facts python;
    char *root = root_new();
    file_put(root, "/python",
             "#!/bin/sh\necho 3.9.1\necho /opt/python\necho 2.3.1\necho\necho 0.6\n");
    cleanup_free char *program = xasprintf("%s/python", root);
    assert_int_equal(chmod(program, 0700), 0);
    python_gather(program, &python);
    assert_string_equal(python.version, "3.9.1");
    assert_string_equal(python.path, "/opt/python");
    assert_string_equal(python.packages[PYTHON_PACKAGE_torch], "2.3.1");
    assert_string_equal(python.packages[PYTHON_PACKAGE_transformers], "");
    assert_string_equal(python.packages[PYTHON_PACKAGE_vllm], "0.6");
    assert_string_equal(python.packages[PYTHON_PACKAGE_numpy], "");
    python_gather("/nowhere/python", &python);
    assert_string_equal(python.version, "");
    root_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_alike_is_said_once_and_a_difference_names_its_hosts),
        cmocka_unit_test(another_architecture_is_a_failure),
        cmocka_unit_test(amounts_may_differ_by_half),
        cmocka_unit_test(a_clock_is_off_only_beyond_what_the_round_trip_explains),
        cmocka_unit_test(of_many_hosts_a_few_are_named),
        cmocka_unit_test(a_report_is_read_back_as_it_was_written),
        cmocka_unit_test(a_line_that_is_neither_is_named),
        cmocka_unit_test(an_interpreter_tells_its_version_and_its_packages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
