/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"
#include "map/lines.h"

/* The same, one byte at a time. */
static size_t naive_skip(struct str bytes, uint64_t want, uint64_t *found)
{
    size_t end = 0;
    *found = 0;
    for (size_t i = 0; i < bytes.len && *found < want; i++) {
        if (bytes.at[i] == '\n') {
            ++*found;
            end = i + 1;
        }
    }
    return end;
}

static void any_bytes_are_cut_where_a_naive_count_cuts_them(void **state)
{
    (void)state;
    struct rng rng = {.state = 7};
    char bytes[700];
    for (int round = 0; round < 20000; round++) {
        size_t len = rng_below(&rng, sizeof(bytes) + 1);
        uint64_t one_in = 1 + rng_below(&rng, 100), found, naive_found;
        for (size_t i = 0; i < len; i++)
            bytes[i] = rng_below(&rng, one_in) == 0 ? '\n' : 'x';
        uint64_t want = rng_below(&rng, 2) ? UINT64_MAX : 1 + rng_below(&rng, 20);
        struct str text = {bytes, len};
        size_t end = lines_skip(text, want, &found);
        size_t naive_end = naive_skip(text, want, &naive_found);
        if (end != naive_end || found != naive_found)
            fail_msg("round %d: len %zu, want %lu: %zu bytes with %lu lines, expected %zu with %lu",
                     round, len, want, end, found, naive_end, naive_found);
    }
}

static void lines_of_a_file_are_found_across_reads(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-lines-XXXXXX";
    int fd = mkstemp(path);
    uint64_t at = 0;
    assert_true(fd >= 0);
    unlink(path);
    for (int i = 0; i < 30000; i++)
        assert_int_equal(dprintf(fd, "%07d\n", i), 8);
    assert_int_equal(part_lines_skip(fd, 80, 200000, 20000, &at, NULL), 0);
    assert_int_equal(at, 160000);
    assert_int_equal(part_lines_skip(fd, 80, 200000, 0, &at, NULL), 0);
    assert_int_equal(at, 0);
    struct err err = {0};
    assert_int_equal(part_lines_skip(fd, 80, 800, 101, &at, &err), ERR_DATA);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_are_cut_where_a_naive_count_cuts_them),
        cmocka_unit_test(lines_of_a_file_are_found_across_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
