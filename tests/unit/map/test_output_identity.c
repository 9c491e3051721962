/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file is the run's own output, whenever muster is killed.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "map/output_identity.h"

static int begin(void **state)
{
    static char folder[] = "/tmp/muster-identity-XXXXXX";
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int end(void **state)
{
    return unlink("out") + unlink("output.id") + chdir("/") + rmdir(*state);
}

/* A complete output that has no name of its own yet. */
static void output_make(const char *beside, const char *text)
{
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL, 0600);
    struct err err = {0};
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(output_identity_note(".", 0, "out", fd, &err), 0);
    close(fd);
}

static void an_output_is_known_in_place_and_until_another_one_of_the_run_replaces_it(void **state)
{
    (void)state;
    output_make("first.new", "1");
    assert_false(output_identity_is(".", 0, "out"));
    assert_int_equal(rename("first.new", "out"), 0);
    assert_true(output_identity_is(".", 0, "out"));
    for (int kills = 0; kills < 3; kills++) { /* between note and rename, again and again */
        output_make("second.new", "22");
        assert_true(output_identity_is(".", 0, "out"));
        assert_int_equal(unlink("second.new"), 0);
    }
    output_make("second.new", "22");
    assert_int_equal(rename("second.new", "out"), 0);
    assert_true(output_identity_is(".", 0, "out"));
    assert_false(output_identity_is(".", 1, "out"));
}

static void
a_file_of_somebody_else_is_none_of_the_run_though_it_was_there_when_one_was_made(void **state)
{
    (void)state;
    assert_int_equal(unlink("out"), 0);
    assert_int_equal(close(open("out", O_WRONLY | O_CREAT | O_EXCL, 0600)), 0);
    assert_false(output_identity_is(".", 0, "out"));
    output_make("third.new", "333");
    assert_false(output_identity_is(".", 0, "out"));
    assert_int_equal(unlink("third.new"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_output_is_known_in_place_and_until_another_one_of_the_run_replaces_it),
        cmocka_unit_test(
            a_file_of_somebody_else_is_none_of_the_run_though_it_was_there_when_one_was_made),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
