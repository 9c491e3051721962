/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes and rows on their way to the disk.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/xalloc.h"
#include "map/ledger.h"

struct place {
    char dir[64];
    uv_loop_t loop;
    struct store *store;
    struct ledger *ledger;
    struct err failure;
    bool is_crowded;
    int n_crowded, n_committing;
};

static void on_failure(void *context, const struct err *err)
{
    ((struct place *)context)->failure = *err;
}

static void place_open_as(struct place *place, uint64_t interval_ms, bool is_prompt)
{
    *place = (struct place){.dir = "/tmp/muster-ledger-XXXXXX"};
    struct err err = {0};
    assert_non_null(mkdtemp(place->dir));
    uv_loop_init(&place->loop);
    if (store_open(&place->store, place->dir, STORE_CREATE, &err) != 0)
        fail_msg("%s", err.text);
    place->ledger = ledger_new(&(struct ledger_opts){.store = place->store,
                                                     .loop = &place->loop,
                                                     .interval_ms = interval_ms,
                                                     .is_prompt = is_prompt,
                                                     .failed = on_failure,
                                                     .context = place});
}

static void place_open(struct place *place)
{
    place_open_as(place, 5, false);
}

static void place_close(struct place *place)
{
    ledger_free(place->ledger);
    uv_run(&place->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&place->loop), 0);
    store_close(place->store);
    assert_int_equal(remove_tree(place->dir, NULL), 0);
}

static bool result_add(struct place *place, struct part *part, uint64_t item,
                       const char *metrics_json)
{
    char line[32];
    struct metrics metrics = {0};
    int len = snprintf(line, sizeof(line), "%lu\n", item);
    if (metrics_json)
        metrics_add(&metrics, str_of(metrics_json));
    uint64_t offset = part_append(part, (struct str){line, (size_t)len});
    return ledger_range(place->ledger, part,
                        &(struct range_row){.first = item,
                                            .count = 1,
                                            .part = part->number,
                                            .offset = offset,
                                            .bytes = (uint64_t)len},
                        &metrics);
}

static void neighbours_become_one_row_and_their_metrics_one_sum(void **state)
{
    (void)state;
    struct place place;
    struct part *part;
    struct row_reader *reader;
    struct range_row row;
    place_open(&place);
    assert_int_equal(part_open(place.ledger, 1, &part, NULL), 0);
    for (uint64_t item = 0; item < 100; item++)
        result_add(&place, part, item, "{\"seen\":1,\"correct\":true}");
    result_add(&place, part, 200, NULL);
    part_close(part);
    assert_int_equal(ledger_finish(place.ledger, false, NULL), 0);
    assert_int_equal(range_reader_open(&reader, place.store, RANGES_BY_ITEM, NULL), 0);
    assert_int_equal(range_reader_next(reader, &row, NULL), 1);
    assert_int_equal(row.first, 0);
    assert_int_equal(row.count, 100);
    assert_string_equal(row.metrics, "{\"seen\":100,\"correct\":100}");
    assert_int_equal(range_reader_next(reader, &row, NULL), 1);
    assert_int_equal(row.first, 200);
    assert_int_equal(range_reader_next(reader, &row, NULL), 0);
    row_reader_close(reader);
    place_close(&place);
}

static void a_sum_that_overflows_stays_where_it_was(void **state)
{
    (void)state;
    struct metrics sums = {0}, more = {0};
    cleanup_buf struct buf text = BUF_INIT;
    assert_true(metrics_add(&sums, STR("{\"loss\":1e308,\"seen\":1}")));
    assert_false(metrics_add(&sums, STR("{\"loss\":1e308,\"seen\":1}")));
    assert_true(metrics_add(&more, STR("{\"loss\":1e308}")));
    assert_false(metrics_sum(&sums, &more));
    metrics_format(&sums, &text);
    assert_string_equal(buf_text(&text), "{\"loss\":1e+308,\"seen\":2}");
}

static void a_sum_without_all_that_was_reported_is_told(void **state)
{
    (void)state;
    struct place place;
    struct part *part;
    place_open(&place);
    assert_int_equal(part_open(place.ledger, 1, &part, NULL), 0);
    assert_true(result_add(&place, part, 0, "{\"huge\":1e308,\"seen\":1}"));
    assert_false(result_add(&place, part, 2, "{\"huge\":1e308,\"seen\":1}"));
    assert_true(result_add(&place, part, 4, "{\"seen\":1}"));
    for (int i = 2; i < METRICS_MAX; i++) {
        char metrics[32];
        snprintf(metrics, sizeof(metrics), "{\"m%d\":1}", i);
        assert_true(result_add(&place, part, 4 + 2 * (uint64_t)i, metrics));
    }
    assert_false(result_add(&place, part, 100, "{\"one more\":1}"));
    part_close(part);
    assert_int_equal(ledger_finish(place.ledger, false, NULL), 0);
    place_close(&place);
}

static void an_accuracy_needs_both_sums(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool is_known;
    } cases[] = {{"{}", false},
                 {"{\"seen\":4}", false},
                 {"{\"correct\":4}", false},
                 {"{\"seen\":0,\"correct\":0}", false},
                 {"{\"seen\":4,\"correct\":-1}", false},
                 {"{\"seen\":4,\"correct\":0}", true},
                 {"{\"correct\":2.5,\"other\":1,\"seen\":4}", true}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct metrics sums = {0};
        double correct = -7, seen = -7;
        assert_true(metrics_add(&sums, str_of(cases[i].json)));
        assert_int_equal(metrics_judged(&sums, &correct, &seen), cases[i].is_known);
    }
}

static void a_sum_is_printed_with_all_digits_of_a_count(void **state)
{
    (void)state;
    static const struct {
        double sum;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "0"},
                 {-3, "-3"},
                 {12345678901, "12345678901"},
                 {-12345678901, "-12345678901"},
                 {9007199254740991, "9007199254740991"},
                 {9007199254740992, "9.007199255e+15"},
                 {0.1 + 0.2, "0.3"},
                 {2.5, "2.5"},
                 {1e308, "1e+308"}};
    for (size_t i = 0; i < countof(cases); i++) {
        char text[METRIC_TEXT_BYTES];
        metric_format(text, cases[i].sum);
        assert_string_equal(text, cases[i].text);
    }
}

/* Seen by another reader, within a minute: whoever waits for the interval would wait for an hour. */
static bool is_committed(struct place *place, uint64_t n_items)
{
    struct store *reader;
    struct store_totals totals = {0};
    assert_int_equal(store_open(&reader, place->dir, STORE_READ, NULL), 0);
    for (int i = 0; i < 6000 && totals.items_done < n_items; i++) {
        uv_run(&place->loop, UV_RUN_NOWAIT);
        usleep(10000);
        assert_int_equal(store_totals(reader, &totals, NULL), 0);
    }
    store_close(reader);
    return totals.items_done == n_items;
}

static void on_awake(uv_timer_t *timer)
{
    (void)timer;
}

static void a_result_that_took_minutes_waits_for_no_interval(void **state)
{
    (void)state;
    struct place place;
    struct part *part;
    uv_timer_t awake; /* a loop with nothing to wait for does not run */
    place_open_as(&place, 3600000, true);
    uv_timer_init(&place.loop, &awake);
    uv_timer_start(&awake, on_awake, 3600000, 0);
    ledger_event(place.ledger, "spawn", "{}"); /* the timer runs already */
    assert_int_equal(part_open(place.ledger, 1, &part, NULL), 0);
    for (uint64_t item = 0; item < 3; item++) {
        result_add(&place, part, item, NULL);
        assert_true(is_committed(&place, item + 1));
    }
    part_close(part);
    assert_int_equal(ledger_finish(place.ledger, false, NULL), 0);
    uv_close((uv_handle_t *)&awake, NULL);
    place_close(&place);
}

static void a_held_commit_is_read_here_and_gone_without_a_settlement(void **state)
{
    (void)state;
    struct place place;
    struct part *part;
    struct store *other;
    struct item_span *done;
    size_t n_done;
    place_open(&place);
    assert_int_equal(part_open(place.ledger, 1, &part, NULL), 0);
    result_add(&place, part, 0, NULL);
    part_close(part);
    assert_int_equal(ledger_finish(place.ledger, true, NULL), 0);
    assert_int_equal(store_done(place.store, &done, &n_done, NULL), 0);
    assert_int_equal(n_done, 1);
    free(done);
    assert_int_equal(store_open(&other, place.dir, STORE_READ, NULL), 0);
    assert_int_equal(store_done(other, &done, &n_done, NULL), 0);
    assert_int_equal(n_done, 0);
    free(done);
    store_close(other);
    assert_int_equal(ledger_settle(place.ledger, true, NULL), 0);
    assert_int_equal(store_open(&other, place.dir, STORE_READ, NULL), 0);
    assert_int_equal(store_done(other, &done, &n_done, NULL), 0);
    assert_int_equal(n_done, 1);
    free(done);
    store_close(other);
    place_close(&place);
}

static void a_full_disk_is_told_once_and_nothing_is_committed_after_it(void **state)
{
    (void)state;
    struct place place;
    struct part *part;
    struct rlimit before;
    struct item_span *done;
    size_t n_done;
    place_open(&place);
    assert_int_equal(part_open(place.ledger, 1, &part, NULL), 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, before.rlim_max});
    for (uint64_t item = 0; item < 200000; item++)
        result_add(&place, part, item, NULL);
    part_close(part);
    int rc = ledger_finish(place.ledger, false, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_not_equal(rc, 0);
    assert_int_not_equal(place.failure.code, 0);
    assert_int_equal(store_done(place.store, &done, &n_done, NULL), 0);
    assert_int_equal(n_done, 0);
    free(done);
    place_close(&place);
}

static void on_crowded(void *context, bool is_crowded)
{
    struct place *place = context;
    place->is_crowded = is_crowded;
    place->n_crowded += is_crowded;
}

/* Items that do not follow each other: a row each. */
static void rows_add(struct place *place, struct part *part, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        result_add(place, part, 2 * (first + i), NULL);
}

static void more_rows_than_memory_is_for_are_told_until_the_disk_has_them(void **state)
{
    (void)state;
    struct place place;
    struct part *part;
    place_open(&place);
    ledger_free(place.ledger);
    place.ledger = ledger_new(&(struct ledger_opts){.store = place.store,
                                                    .loop = &place.loop,
                                                    .interval_ms = 60000,
                                                    .waiting_max_bytes = 10000,
                                                    .failed = on_failure,
                                                    .crowded = on_crowded,
                                                    .context = &place});
    assert_int_equal(part_open(place.ledger, 1, &part, NULL), 0);
    rows_add(&place, part, 0, 1000); /* no commit is on its way: one begins before its time */
    assert_false(place.is_crowded);
    while (place.n_committing == 0) {
        uv_run(&place.loop, UV_RUN_NOWAIT);
        place.n_committing = uv_loop_alive(&place.loop);
    }
    rows_add(&place, part, 1000, 1000);
    assert_true(place.is_crowded);
    rows_add(&place, part, 2000, 10);
    assert_int_equal(place.n_crowded, 1);
    uv_run(&place.loop, UV_RUN_DEFAULT);
    assert_false(place.is_crowded);
    part_close(part);
    assert_int_equal(ledger_finish(place.ledger, false, NULL), 0);
    struct store_totals totals;
    assert_int_equal(store_totals(place.store, &totals, NULL), 0);
    assert_int_equal(totals.ranges, 2010);
    assert_int_equal(place.failure.code, 0);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_become_one_row_and_their_metrics_one_sum),
        cmocka_unit_test(a_sum_that_overflows_stays_where_it_was),
        cmocka_unit_test(a_sum_without_all_that_was_reported_is_told),
        cmocka_unit_test(an_accuracy_needs_both_sums),
        cmocka_unit_test(a_sum_is_printed_with_all_digits_of_a_count),
        cmocka_unit_test(a_result_that_took_minutes_waits_for_no_interval),
        cmocka_unit_test(a_held_commit_is_read_here_and_gone_without_a_settlement),
        cmocka_unit_test(more_rows_than_memory_is_for_are_told_until_the_disk_has_them),
        cmocka_unit_test(a_full_disk_is_told_once_and_nothing_is_committed_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
