/* SPDX-License-Identifier: Apache-2.0
 *
 * How often the store waits for the disk. The syncs of libc are replaced by ones that count.
 */
#include "unit/test.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "store/store.h"
#include "temp.h"

static unsigned n_syncs;

int fsync(int fd)
{
    n_syncs++;
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    n_syncs++;
    return (int)syscall(SYS_fdatasync, fd);
}

static struct store *create(const char *dir)
{
    struct store *store = NULL;
    struct err err = {0};
    if (store_open(&store, dir, STORE_CREATE, &err) != 0)
        fail_msg("open %s: %s", dir, err.text);
    n_syncs = 0;
    return store;
}

static void commit(struct store *store, uint64_t first, bool is_held)
{
    const struct range_row row = {.first = first, .count = 10, .part = 1, .bytes = 100};
    const struct store_batch batch = {.ranges = &row, .n_ranges = 1, .is_held = is_held};
    assert_int_equal(store_commit(store, &batch, NULL), 0);
}

static void a_short_run_whose_output_is_in_place_does_not_wait_for_its_record(void **state)
{
    cleanup_free char *dir = path_join(*state, "short");
    struct store *store = create(dir);
    commit(store, 0, true);
    assert_int_equal(store_commit_held(store, false, NULL), 0);
    assert_int_equal(n_syncs, 0);
    store_close(store);
    assert_int_equal(store_open(&store, dir, STORE_READ, NULL), 0);
    struct store_totals totals;
    assert_int_equal(store_totals(store, &totals, NULL), 0);
    assert_int_equal(totals.items_done, 10);
    store_close(store);
}

static void results_that_are_nowhere_else_are_on_disk_when_a_held_batch_is_committed(void **state)
{
    cleanup_free char *dir = path_join(*state, "kept");
    struct store *store = create(dir);
    commit(store, 0, true);
    assert_int_equal(n_syncs, 0);
    assert_int_equal(store_commit_held(store, true, NULL), 0);
    assert_true(n_syncs >= 3); /* the database file, the folder, the WAL */
    store_close(store);
}

static void the_last_batch_of_a_run_with_committed_results_is_durable(void **state)
{
    cleanup_free char *dir = path_join(*state, "long");
    struct store *store = create(dir);
    commit(store, 0, false);
    assert_true(n_syncs > 0);
    n_syncs = 0;
    commit(store, 10, true);
    assert_int_equal(store_commit_held(store, false, NULL), 0);
    assert_true(n_syncs > 0);
    store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_short_run_whose_output_is_in_place_does_not_wait_for_its_record),
        TEST(results_that_are_nowhere_else_are_on_disk_when_a_held_batch_is_committed),
        TEST(the_last_batch_of_a_run_with_committed_results_is_durable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
