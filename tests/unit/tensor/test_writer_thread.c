/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <unistd.h>

#include "tensor/writer_thread.h"

enum {
    N_PIECES = 2000
};

struct taker {
    struct buf taken;
    size_t n_pieces, n_before_failure;
    unsigned pause_us;
};

static int take(void *context, struct str bytes, struct err *err)
{
    struct taker *taker = context;
    if (taker->n_pieces++ == taker->n_before_failure)
        return fail(err, ERR_STOPPED, "full");
    if (taker->pause_us > 0)
        usleep(taker->pause_us);
    buf_add_str(&taker->taken, bytes);
    return 0;
}

/* 0, or what writer_thread_write() returned. All pieces are in one buffer, whose bytes change. */
static int numbers_write(struct writer_thread *writer, struct buf *expected, struct err *err)
{
    struct buf piece = BUF_INIT;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < N_PIECES; i++) {
        buf_reset(&piece);
        for (unsigned k = 0; k <= i % 7; k++)
            buf_addf(&piece, "%u,", i);
        rc = writer_thread_write(writer, buf_str(&piece), err);
        if (rc == 0)
            buf_add_str(expected, buf_str(&piece));
    }
    buf_release(&piece);
    return rc;
}

static void bytes_keep_their_order(void **state)
{
    (void)state;
    for (unsigned pause_us = 0; pause_us <= 50; pause_us += 50) {
        struct taker taker = {.n_before_failure = SIZE_MAX, .pause_us = pause_us};
        struct buf expected = BUF_INIT;
        struct writer_thread *writer = writer_thread_open(take, &taker);
        assert_int_equal(numbers_write(writer, &expected, NULL), 0);
        assert_int_equal(writer_thread_close(writer, NULL), 0);
        assert_string_equal(buf_text(&taker.taken), buf_text(&expected));
        buf_release(&taker.taken);
        buf_release(&expected);
    }
}

/* Nothing is written after it. */
static void a_failure_ends_it_and_is_told(void **state)
{
    (void)state;
    for (size_t n = 0; n < 10; n++) {
        struct taker taker = {.n_before_failure = n};
        struct buf expected = BUF_INIT;
        struct err err = {0};
        struct writer_thread *writer = writer_thread_open(take, &taker);
        assert_int_equal(numbers_write(writer, &expected, &err), ERR_STOPPED);
        assert_string_equal(err.text, "full");
        err = (struct err){0};
        assert_int_equal(writer_thread_close(writer, &err), ERR_STOPPED);
        assert_string_equal(err.text, "full");
        assert_int_equal(taker.n_pieces, n + 1);
        assert_true(expected.len >= taker.taken.len);
        assert_memory_equal(buf_text(&expected), buf_text(&taker.taken), taker.taken.len);
        buf_release(&taker.taken);
        buf_release(&expected);
    }
}

static void a_failure_of_the_last_bytes_is_told_at_the_end(void **state)
{
    struct taker taker = {.n_before_failure = 0, .pause_us = 0};
    struct err err = {0};
    struct writer_thread *writer = writer_thread_open(take, &taker);
    (void)state;
    assert_int_equal(writer_thread_write(writer, STR("last"), &err), 0);
    assert_int_equal(writer_thread_close(writer, &err), ERR_STOPPED);
    assert_string_equal(err.text, "full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_keep_their_order),
        cmocka_unit_test(a_failure_ends_it_and_is_told),
        cmocka_unit_test(a_failure_of_the_last_bytes_is_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
