/* SPDX-License-Identifier: Apache-2.0
 *
 * The C worker's interface, with both ends of the channel in one process: what muster says is
 * written before the call that reads it, and fits the socket's buffer.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "muster/worker.h"

struct link {
    int muster_fd;
    struct muster_worker *worker;
    char said[8192]; /* by the worker, since the last look */
};

static void link_open(struct link *link, size_t concurrency)
{
    int ends[2];
    char number[16];
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    snprintf(number, sizeof(number), "%d", ends[1]);
    setenv("MUSTER_CHANNEL", number, 1);
    link->muster_fd = ends[0];
    link->worker = muster_worker_open(&(struct muster_worker_opts){.concurrency = concurrency});
    assert_non_null(link->worker);
}

static void link_close(struct link *link)
{
    close(link->muster_fd);
    unsetenv("MUSTER_CHANNEL");
}

static void say(struct link *link, const char *text)
{
    assert_int_equal(send(link->muster_fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void say_item(struct link *link, uint64_t index)
{
    char line[128];
    snprintf(line, sizeof(line),
             "{\"item\":%" PRIu64 ",\"seed\":\"%016" PRIx64 "\",\"attempt\":1,\"data\":%" PRIu64
             "}\n",
             index, index, index * 10);
    say(link, line);
}

/* All that the worker has written by now. */
static const char *heard(struct link *link)
{
    ssize_t n = recv(link->muster_fd, link->said, sizeof(link->said) - 1, MSG_DONTWAIT);
    link->said[n > 0 ? n : 0] = '\0';
    return link->said;
}

static struct muster_text text_of(const char *text)
{
    return (struct muster_text){text, strlen(text)};
}

static void opening_announces_and_hides_the_channel_from_children(void **state)
{
    (void)state;
    struct link link;
    link_open(&link, 0);
    assert_string_equal(heard(&link), "{\"ready\":0}\n");
    assert_string_equal(getenv("MUSTER_CHANNEL"), "taken");
    struct muster_worker *second = muster_worker_open(NULL);
    struct muster_item item;
    assert_int_equal(muster_worker_next(second, &item), MUSTER_WORKER_EUSE);
    assert_non_null(strstr(muster_worker_error(second), "another process"));
    assert_int_equal(muster_worker_close(second), MUSTER_WORKER_EUSE);
    assert_int_equal(muster_worker_close(link.worker), 0);
    link_close(&link);
}

static void an_item_is_asked_for_taken_and_answered(void **state)
{
    (void)state;
    struct link link;
    struct muster_item item;
    const struct muster_metric metrics[] = {{"correct", 1}, {"loss", 0.5}};
    link_open(&link, 0);
    heard(&link);
    say_item(&link, 17);
    assert_int_equal(muster_worker_next(link.worker, &item), 1);
    assert_string_equal(heard(&link), "{\"ready\":1}\n");
    assert_true(item.index == 17 && item.seed == 17 && item.attempt == 1 && !item.is_bytes);
    assert_memory_equal(item.data.at, "170", 3);
    assert_int_equal(
        muster_item_done_metrics(link.worker, &item, text_of("{\"a\":\n1}"), metrics, 2), 0);
    say(&link, "{\"stop\":true}\n");
    assert_int_equal(muster_worker_next(link.worker, &item), 0);
    const char *said = heard(&link);
    assert_non_null(strstr(
        said, "{\"done\":17,\"result\":{\"a\": 1},\"metrics\":{\"correct\":1,\"loss\":0.5}}\n"));
    assert_int_equal(muster_worker_next(link.worker, &item), 0);
    assert_int_equal(muster_worker_close(link.worker), 0);
    link_close(&link);
}

static void text_becomes_a_json_string_and_failures_are_told(void **state)
{
    (void)state;
    struct link link;
    struct muster_item items[3];
    link_open(&link, 0);
    for (uint64_t i = 0; i < 3; i++)
        say_item(&link, i);
    assert_int_equal(muster_worker_batch(link.worker, items, 3), 3);
    assert_memory_equal(items[2].data.at, "20", 2);
    heard(&link);
    assert_int_equal(muster_item_done_text(link.worker, &items[2], text_of("a \"b\"\n")), 0);
    assert_int_equal(muster_item_fail(link.worker, &items[0], "no\tluck", true), 0);
    assert_int_equal(muster_item_fail(link.worker, &items[1], "", false), 0);
    assert_int_equal(muster_worker_close(link.worker), 0);
    assert_string_equal(heard(&link), "{\"done\":2,\"result\":\"a \\\"b\\\"\\n\"}\n"
                                      "{\"fail\":0,\"error\":\"no\\tluck\",\"retry\":true}\n"
                                      "{\"fail\":1,\"error\":\"\",\"retry\":false}\n");
    link_close(&link);
}

static void concurrency_asks_for_all_at_once_and_refills_in_blocks(void **state)
{
    (void)state;
    struct link link;
    struct muster_item items[8];
    link_open(&link, 8);
    heard(&link);
    for (uint64_t i = 0; i < 8; i++)
        say_item(&link, i);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(muster_worker_next(link.worker, &items[i]), 1);
    assert_string_equal(heard(&link), "{\"ready\":8}\n");
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(muster_item_done(link.worker, &items[i], text_of("1")), 0);
    say(&link, "{\"stop\":true}\n");
    assert_int_equal(muster_worker_next(link.worker, &items[0]), 0);
    assert_non_null(strstr(heard(&link), "{\"ready\":8}\n"));
    assert_int_equal(muster_worker_close(link.worker), 0);
    link_close(&link);
}

static void on_another_host_credits_leave_before_the_item_is_worked_on(void **state)
{
    (void)state;
    struct link link;
    struct muster_item item;
    setenv("MUSTER_ROUND_TRIP_MS", "100", 1);
    link_open(&link, 0);
    say_item(&link, 0);
    assert_int_equal(muster_worker_next(link.worker, &item), 1);
    assert_int_equal(muster_item_done(link.worker, &item, text_of("0")), 0);
    say_item(&link, 1);
    say_item(&link, 2);
    assert_int_equal(muster_worker_next(link.worker, &item), 1);
    assert_int_equal(muster_item_done(link.worker, &item, text_of("1")), 0);
    heard(&link);
    assert_int_equal(muster_worker_next(link.worker, &item), 1); /* it was received with item 1 */
    assert_non_null(strstr(heard(&link), "{\"ready\":3}\n"));
    assert_int_equal(muster_worker_close(link.worker), 0);
    unsetenv("MUSTER_ROUND_TRIP_MS");
    link_close(&link);
}

static void the_limit_is_musters_last_word_or_the_workers_own(void **state)
{
    (void)state;
    struct link link;
    struct muster_item items[8];
    link_open(&link, 0);
    assert_int_equal(muster_worker_limit(link.worker), 0);
    say(&link, "{\"batch\":2}\n");
    say_item(&link, 0);
    say_item(&link, 1);
    assert_int_equal(muster_worker_batch(link.worker, items, 8), 2);
    assert_int_equal(muster_worker_limit(link.worker), 2);
    heard(&link);
    assert_int_equal(muster_worker_oom(link.worker, 1), 0);
    assert_string_equal(heard(&link), "{\"oom\":true,\"batch\":1}\n");
    assert_int_equal(muster_worker_limit(link.worker), 1);
    muster_worker_close(link.worker);
    link_close(&link);
}

static void wrong_use_is_an_error_that_stays(void **state)
{
    (void)state;
    static const struct {
        const char *result, *words;
        double metric;
    } cases[] = {
        {"{\"a\":nan}", "result of item 0 is not JSON", 1},
        {"", "result of item 0 is not JSON", 1},
        {"1", "'m' is not finite", 1e308 * 10},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct link link;
        struct muster_item item;
        struct muster_metric metric = {"m", cases[i].metric};
        link_open(&link, 0);
        say_item(&link, 0);
        assert_int_equal(muster_worker_next(link.worker, &item), 1);
        assert_string_equal(muster_worker_error(link.worker), "");
        int rc = muster_item_done_metrics(link.worker, &item, text_of(cases[i].result), &metric, 1);
        if (rc != MUSTER_WORKER_EUSE || !strstr(muster_worker_error(link.worker), cases[i].words))
            fail_msg("result '%s': rc %d, %s", cases[i].result, rc,
                     muster_worker_error(link.worker));
        assert_int_equal(muster_item_done(link.worker, &item, text_of("1")), MUSTER_WORKER_EUSE);
        assert_int_equal(muster_worker_next(link.worker, &item), MUSTER_WORKER_EUSE);
        assert_int_equal(muster_worker_close(link.worker), MUSTER_WORKER_EUSE);
        link_close(&link);
    }
}

static void finishing_twice_is_noticed(void **state)
{
    (void)state;
    struct link link;
    struct muster_item item;
    link_open(&link, 0);
    say_item(&link, 5);
    assert_int_equal(muster_worker_next(link.worker, &item), 1);
    assert_int_equal(muster_item_done(link.worker, &item, text_of("1")), 0);
    assert_int_equal(muster_item_fail(link.worker, &item, "x", false), MUSTER_WORKER_EUSE);
    assert_non_null(strstr(muster_worker_error(link.worker), "item 5"));
    muster_worker_close(link.worker);
    link_close(&link);
}

static void muster_gone_is_an_error_and_no_signal(void **state)
{
    (void)state;
    struct link link;
    struct muster_item item;
    link_open(&link, 0);
    say_item(&link, 0);
    assert_int_equal(muster_worker_next(link.worker, &item), 1);
    close(link.muster_fd);
    link.muster_fd = -1;
    muster_item_done(link.worker, &item, text_of("1"));
    assert_int_equal(muster_worker_close(link.worker), MUSTER_WORKER_EIO);
    link_close(&link);
}

static void a_descriptor_that_does_not_block_is_waited_for(void **state)
{
    (void)state;
    struct link link;
    struct muster_item item;
    link_open(&link, 0);
    assert_return_code(fcntl(link.muster_fd, F_SETFL, O_NONBLOCK), 0);
    for (uint64_t i = 0; i < 100; i++) {
        say_item(&link, i);
        assert_int_equal(muster_worker_next(link.worker, &item), 1);
        assert_true(item.index == i);
        assert_int_equal(muster_item_done(link.worker, &item, item.data), 0);
    }
    muster_worker_close(link.worker);
    link_close(&link);
}

static void the_place_comes_from_the_environment(void **state)
{
    (void)state;
    struct muster_place place;
    muster_worker_place(&place);
    assert_string_equal(place.devices, "");
    assert_true(place.n_devices == 1 && place.n_workers == 1 && place.attempt == 1 &&
                place.batch == 0);
    setenv("MUSTER_DEVICE", "GPU-a,GPU-b,GPU-c", 1);
    setenv("MUSTER_DEVICE_INDEX", "4,5,6", 1);
    setenv("MUSTER_WORKER", "2", 1);
    setenv("MUSTER_SEED", "18446744073709551615", 1);
    muster_worker_place(&place);
    assert_string_equal(place.device_indices, "4,5,6");
    assert_true(place.n_devices == 3 && place.worker == 2 && place.seed == UINT64_MAX);
    unsetenv("MUSTER_DEVICE");
    unsetenv("MUSTER_DEVICE_INDEX");
    unsetenv("MUSTER_WORKER");
    unsetenv("MUSTER_SEED");
}

/* stdin and stdout of this process, put back afterwards. */
static void by_hand_the_seeds_are_musters_own(void **state)
{
    (void)state;
    struct muster_item items[4];
    int pipes[2], stdin_fd = dup(STDIN_FILENO);
    assert_return_code(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(write(pipes[1], "a\nb\nc", 5), 5);
    close(pipes[1]);
    dup2(pipes[0], STDIN_FILENO);
    close(pipes[0]);
    setenv("MUSTER_SEED", "7", 1);
    struct muster_worker *worker = muster_worker_open(NULL);
    assert_int_equal(muster_worker_batch(worker, items, 4), 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_true(items[i].index == i && items[i].seed == item_seed(7, i));
    assert_memory_equal(items[2].data.at, "\"c\"", 3);
    assert_int_equal(muster_worker_close(worker), 0);
    unsetenv("MUSTER_SEED");
    dup2(stdin_fd, STDIN_FILENO);
    close(stdin_fd);
}

static void without_a_worker_every_call_is_an_error(void **state)
{
    (void)state;
    struct muster_item item = {0};
    assert_int_equal(muster_worker_next(NULL, &item), MUSTER_WORKER_ENOMEM);
    assert_int_equal(muster_item_done(NULL, &item, text_of("1")), MUSTER_WORKER_ENOMEM);
    assert_int_equal(muster_item_done_text(NULL, &item, text_of("1")), MUSTER_WORKER_ENOMEM);
    assert_int_equal(muster_item_fail(NULL, &item, "x", true), MUSTER_WORKER_ENOMEM);
    assert_int_equal(muster_worker_loaded(NULL), MUSTER_WORKER_ENOMEM);
    assert_int_equal(muster_worker_limit(NULL), 0);
    assert_int_equal(muster_worker_close(NULL), MUSTER_WORKER_ENOMEM);
    assert_string_equal(muster_worker_error(NULL), "no memory for a worker");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_announces_and_hides_the_channel_from_children),
        cmocka_unit_test(an_item_is_asked_for_taken_and_answered),
        cmocka_unit_test(text_becomes_a_json_string_and_failures_are_told),
        cmocka_unit_test(concurrency_asks_for_all_at_once_and_refills_in_blocks),
        cmocka_unit_test(on_another_host_credits_leave_before_the_item_is_worked_on),
        cmocka_unit_test(the_limit_is_musters_last_word_or_the_workers_own),
        cmocka_unit_test(wrong_use_is_an_error_that_stays),
        cmocka_unit_test(finishing_twice_is_noticed),
        cmocka_unit_test(muster_gone_is_an_error_and_no_signal),
        cmocka_unit_test(a_descriptor_that_does_not_block_is_waited_for),
        cmocka_unit_test(the_place_comes_from_the_environment),
        cmocka_unit_test(by_hand_the_seeds_are_musters_own),
        cmocka_unit_test(without_a_worker_every_call_is_an_error),
    };
    for (const char *const *name =
             (const char *const[]){"MUSTER_CHANNEL", "MUSTER_DEVICE", "MUSTER_SEED", NULL};
         *name; name++)
        unsetenv(*name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
