/* SPDX-License-Identifier: Apache-2.0
 *
 * A link between two ends whose transports are buffers.
 */
#include "unit/test.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "node/link.h"

struct end {
    struct link link;
    struct buf sent; /* the transport has taken it */
    size_t takes;    /* so many bytes more */
    bool is_closed;
    unsigned n_frames, n_rooms;
    char last[16];
};

static ssize_t on_write(void *context, struct str bytes)
{
    struct end *end = context;
    size_t n = bytes.len < end->takes ? bytes.len : end->takes;
    if (end->is_closed)
        return -1;
    buf_add(&end->sent, bytes.at, n);
    end->takes -= n;
    return (ssize_t)n;
}

static void on_frame(void *context, const struct frame *frame)
{
    struct end *end = context;
    end->n_frames++;
    snprintf(end->last, sizeof(end->last), "%.*s", (int)frame->body.len, frame->body.at);
}

static void on_has_room(void *context)
{
    ((struct end *)context)->n_rooms++;
}

static const struct link_handlers handlers = {
    .write = on_write, .frame = on_frame, .has_room = on_has_room};

static void end_open(struct end *end)
{
    *end = (struct end){.takes = SIZE_MAX};
    link_begin(&end->link, &handlers, end, 8000, 1000);
}

static void end_close(struct end *end)
{
    link_release(&end->link);
    buf_release(&end->sent);
}

/* What one has sent arrives at the other. */
static void carry(struct end *from, struct end *to, uint64_t now_ms)
{
    link_flush(&from->link, now_ms);
    link_feed(&to->link, buf_str(&from->sent), now_ms);
    buf_reset(&from->sent);
}

static void data_send(struct end *end, struct str bytes)
{
    link_send(&end->link, &(struct frame){FRAME_DATA, 1, 0, bytes});
}

static void frames_arrive_and_a_ping_tells_the_round_trip(void **state)
{
    (void)state;
    struct end a, b;
    end_open(&a);
    end_open(&b);
    data_send(&a, STR("hello"));
    carry(&a, &b, 1000);
    assert_int_equal(b.n_frames, 1);
    assert_string_equal(b.last, "hello");
    link_ping(&a.link, 1000);
    carry(&a, &b, 1020); /* answers at once */
    carry(&b, &a, 1040);
    assert_int_equal(a.link.round_trip_ms, 40);
    assert_int_equal(a.n_frames + b.n_frames, 1); /* pings are the link's own */
    assert_false(link_is_broken(&a.link) || link_is_broken(&b.link));
    end_close(&a);
    end_close(&b);
}

static void bytes_are_counted_as_the_transport_takes_and_brings_them(void **state)
{
    (void)state;
    struct end a, b;
    end_open(&a);
    end_open(&b);
    a.takes = 10;
    data_send(&a, STR("hello"));
    link_flush(&a.link, 1000);
    assert_int_equal(a.link.n_bytes.sent, 10);
    a.takes = SIZE_MAX;
    carry(&a, &b, 1000);
    assert_true(a.link.n_bytes.sent > 10 && b.n_frames == 1);
    assert_int_equal(b.link.n_bytes.received, a.link.n_bytes.sent);
    assert_int_equal(a.link.n_bytes.received, 0);
    end_close(&a);
    end_close(&b);
}

static void data_waits_until_the_transport_has_taken_what_is_queued(void **state)
{
    (void)state;
    struct end a;
    char piece[4096] = {0};
    size_t n_sent = 0;
    end_open(&a);
    a.takes = 0;
    while (link_has_room(&a.link) && n_sent < 1000) {
        data_send(&a, (struct str){piece, sizeof(piece)});
        n_sent++;
    }
    assert_in_range(n_sent * sizeof(piece), LINK_QUEUE_BYTES - 2 * sizeof(piece), LINK_QUEUE_BYTES);
    link_flush(&a.link, 1001);
    assert_int_equal(a.n_rooms, 0);
    a.takes = SIZE_MAX;
    link_flush(&a.link, 1002);
    assert_int_equal(a.n_rooms, 1);
    assert_true(link_has_room(&a.link));
    end_close(&a);
}

static void an_end_pings_and_gives_a_silent_one_up(void **state)
{
    (void)state;
    struct end a, b;
    end_open(&a);
    end_open(&b);
    for (uint64_t now_ms = 1000; now_ms < 60000; now_ms += 100) {
        link_tick(&a.link, now_ms);
        link_tick(&b.link, now_ms);
        carry(&a, &b, now_ms);
        carry(&b, &a, now_ms);
    }
    assert_false(link_is_broken(&a.link) || link_is_broken(&b.link));
    link_tick(&a.link, 60000 + 7000);
    assert_false(link_is_broken(&a.link));
    link_tick(&a.link, 60000 + 9000);
    assert_true(link_is_broken(&a.link));
    assert_non_null(strstr(a.link.broken.text, "nothing was heard for 8"));
    end_close(&a);
    end_close(&b);
}

/* Its length was changed on the way: the other end's pings are taken for its body, and are no sign of life. */
static void a_frame_that_never_ends_is_silence_but_a_long_one_on_a_slow_link_is_not(void **state)
{
    (void)state;
    struct end a, b, c;
    char piece[WIRE_DATA_MAX_BYTES] = {0};
    end_open(&a);
    end_open(&b);
    end_open(&c);
    data_send(&a, (struct str){piece, sizeof(piece)});
    link_flush(&a.link, 1000);
    for (uint64_t now_ms = 1000; now_ms < 60000; now_ms += 1000) {
        size_t begin = (now_ms - 1000) / 1000 * 1024;
        size_t n_slow = begin < a.sent.len ? MIN(a.sent.len - begin, (size_t)1024) : 0;
        link_feed(&b.link, (struct str){a.sent.at + begin, n_slow}, now_ms);
        link_feed(&c.link, (struct str){a.sent.at + begin / 1024 * 24, 24}, now_ms);
        link_tick(&b.link, now_ms);
        link_tick(&c.link, now_ms);
        assert_int_equal(link_is_broken(&c.link), now_ms > 9000);
    }
    assert_false(link_is_broken(&b.link));
    end_close(&a);
    end_close(&b);
    end_close(&c);
}

static void what_is_wrong_breaks_it_once(void **state)
{
    (void)state;
    struct end a, b;
    end_open(&a);
    end_open(&b);
    data_send(&a, STR("one"));
    link_flush(&a.link, 1000);
    a.sent.at[a.sent.len - 1] ^= 1;
    carry(&a, &b, 1000);
    assert_int_equal(b.n_frames, 0);
    assert_int_equal(b.link.broken.code, ERR_DATA);
    data_send(&a, STR("two"));
    carry(&a, &b, 1000);
    assert_int_equal(b.n_frames, 0);
    a.is_closed = true;
    data_send(&a, STR("three"));
    link_flush(&a.link, 1000);
    assert_int_equal(a.link.broken.code, ERR_UNAVAILABLE);
    end_close(&a);
    end_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_and_a_ping_tells_the_round_trip),
        cmocka_unit_test(bytes_are_counted_as_the_transport_takes_and_brings_them),
        cmocka_unit_test(data_waits_until_the_transport_has_taken_what_is_queued),
        cmocka_unit_test(an_end_pings_and_gives_a_silent_one_up),
        cmocka_unit_test(a_frame_that_never_ends_is_silence_but_a_long_one_on_a_slow_link_is_not),
        cmocka_unit_test(what_is_wrong_breaks_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
