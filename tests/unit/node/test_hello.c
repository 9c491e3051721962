/* SPDX-License-Identifier: Apache-2.0
 *
 * The first words of a head and an agent, of the same muster and of others.
 */
#include "unit/test.h"

#include "base/cleanup.h"
#include "node/hello.h"
#include "node/wire.h"

static const struct hello_facts OWN = {
    .version = "1.2.3", .program = "0123456789abcdef", .silence_limit_ms = 30000};

static void a_hello_tells_the_version_the_machine_and_the_clock(void **state)
{
    (void)state;
    cleanup_buf struct buf bytes = BUF_INIT;
    struct wire_hello hello;
    hello_write(&bytes, &OWN);
    const struct hello_facts newer = {.version = "1.2.4", .program = ""};
    assert_int_equal(hello_read(buf_str(&bytes), &newer, &hello, NULL), 0);
    assert_string_equal(hello.version, "1.2.3"); /* another version of the same protocol will do */
    assert_string_equal(hello.program, OWN.program);
    assert_int_equal(hello.silence_limit_ms, 30000);
    assert_true(hello.machine[0] && hello.host[0] && hello.wall_ms > 1700000000000);
}

static void a_hello_tells_the_slurm_job(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t job;
    } cases[] = {{"7", 7}, {"4294967295", UINT32_MAX}, {"x", 0}, {"-1", 0}, {"", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        cleanup_buf struct buf bytes = BUF_INIT;
        struct wire_hello hello;
        setenv("SLURM_JOB_ID", cases[i].text, 1);
        hello_write(&bytes, &OWN);
        assert_int_equal(hello_read(buf_str(&bytes), &OWN, &hello, NULL), 0);
        assert_int_equal(hello.slurm_job, cases[i].job);
    }
    unsetenv("SLURM_JOB_ID");
}

static void another_protocol_is_refused_with_both_versions(void **state)
{
    (void)state;
    struct wire_hello other = {.protocol = WIRE_PROTOCOL + 1, .version = "2.0", .program = "cafe"};
    struct err err = {0};
    cleanup_buf struct buf bytes = BUF_INIT;
    struct wire_body body = wire_body_to(&bytes);
    wire_hello(&body, &other);
    buf_add_text(&bytes, "and what only that protocol has");
    assert_int_equal(hello_read(buf_str(&bytes), &OWN, &other, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "muster 2.0 (cafe) there speaks protocol "));
    assert_non_null(strstr(err.text, "muster 1.2.3 (0123456789abcdef) here protocol "));
    assert_non_null(
        strstr(err.text, "install the same version on both, or leave --agent-path out"));
}

static void what_is_no_hello_is_malformed(void **state)
{
    (void)state;
    cleanup_buf struct buf bytes = BUF_INIT;
    struct wire_hello hello;
    struct err err = {0};
    hello_write(&bytes, &OWN);
    for (size_t len = 0; len < bytes.len; len++) {
        int rc = hello_read((struct str){bytes.at, len}, &OWN, &hello, &err);
        assert_int_equal(rc, ERR_DATA);
    }
    buf_add_char(&bytes, 'x');
    assert_int_equal(hello_read(buf_str(&bytes), &OWN, &hello, &err), ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_tells_the_version_the_machine_and_the_clock),
        cmocka_unit_test(a_hello_tells_the_slurm_job),
        cmocka_unit_test(another_protocol_is_refused_with_both_versions),
        cmocka_unit_test(what_is_no_hello_is_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
