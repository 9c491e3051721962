/* SPDX-License-Identifier: Apache-2.0
 *
 * A file between a sender and a receiver that hand each other their messages, and lose their link.
 */
#include "unit/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/file_flow.h"
#include "node/wire_body.h"

enum {
    FILE_BYTES = 5 * 1000 * 1000 + 7
};

struct ends {
    uv_loop_t loop;
    char *folder, *from, *to;
    struct file_trace trace;
    struct file_sender *sender;
    struct file_receiver *receiver;
    struct buf queued; /* bodies of credits, which come back later */
    uint64_t n_sent, n_outstanding, n_outstanding_max;
    uint64_t cut_at; /* the link is lost after so many bytes; 0: never */
    uint64_t spoil_at;
    bool has_room, is_cut, has_sent, has_received;
    struct err received;
};

static void sender_send(void *context, enum frame_type type, struct str body)
{
    struct ends *e = context;
    struct wire_body in = wire_body_of(body);
    struct wire_file_end end = {0};
    if (e->is_cut)
        return;
    if (type == FRAME_FILE_END) {
        wire_file_end(&in, &end);
        assert_true(wire_body_is_whole(&in));
        assert_true(file_receiver_end(e->receiver, end.n_bytes, end.hash));
        return;
    }
    assert_int_equal(type, FRAME_FILE_DATA);
    cleanup_buf struct buf copy = BUF_INIT;
    buf_add_str(&copy, body);
    if (e->spoil_at > 0 && e->n_sent >= e->spoil_at)
        copy.at[0] ^= 1;
    e->spoil_at = e->n_sent >= e->spoil_at ? 0 : e->spoil_at;
    e->n_sent += body.len;
    e->n_outstanding += body.len;
    e->n_outstanding_max = MAX(e->n_outstanding_max, e->n_outstanding);
    assert_true(file_receiver_take(e->receiver, buf_str(&copy)));
    e->is_cut = e->cut_at > 0 && e->n_sent >= e->cut_at;
}

static bool sender_has_room(void *context)
{
    struct ends *e = context;
    e->has_room = !e->has_room; /* the link is full every second time */
    return e->has_room;
}

static void sender_ended(void *context, const struct err *why)
{
    struct ends *e = context;
    assert_int_equal(why->code, 0);
    e->has_sent = true;
}

static void receiver_send(void *context, enum frame_type type, struct str body)
{
    struct ends *e = context;
    assert_int_equal(type, FRAME_FILE_CREDIT);
    buf_add_str(&e->queued, body);
}

static void receiver_ended(void *context, const struct err *why)
{
    struct ends *e = context;
    assert_false(e->has_received);
    e->has_received = true;
    e->received = *why;
}

static const struct file_flow_handlers sender_handlers = {
    .send = sender_send, .has_room = sender_has_room, .ended = sender_ended};
static const struct file_flow_handlers receiver_handlers = {.send = receiver_send,
                                                            .ended = receiver_ended};

static int ends_make(void **state)
{
    char folder[] = "/tmp/muster-flow-XXXXXX";
    struct ends *e = xcalloc(1, sizeof(*e));
    cleanup_buf struct buf content = BUF_INIT;
    int fd;
    assert_non_null(mkdtemp(folder));
    e->folder = xstrdup(folder);
    e->from = path_join(folder, "from");
    e->to = path_join(folder, "deep/er/to");
    for (unsigned i = 0; content.len < FILE_BYTES; i++)
        buf_addf(&content, "%u\n", i);
    content.len = FILE_BYTES;
    assert_int_equal(file_replace_fast(e->from, buf_str(&content), NULL), 0);
    assert_int_equal(file_trace_open(e->from, &e->trace, &fd, NULL), 0);
    close(fd);
    assert_int_equal(uv_loop_init(&e->loop), 0);
    e->receiver = file_receiver_new(&e->loop, e->to, FILE_ANY_BYTES, true, &receiver_handlers, e);
    *state = e;
    return 0;
}

static int ends_drop(void **state)
{
    struct ends *e = *state;
    file_sender_free(e->sender);
    file_receiver_free(e->receiver);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&e->loop), 0);
    int rc = remove_tree(e->folder, NULL);
    buf_release(&e->queued);
    free(e->trace.path);
    free(e->folder);
    free(e->from);
    free(e->to);
    free(e);
    return rc;
}

static void sender_begin(struct ends *e, uint64_t from)
{
    int fd;
    assert_int_equal(left_file_open(&e->trace, &fd, NULL), 0);
    e->is_cut = false;
    e->sender = file_sender_new(&e->loop, fd, &e->trace, from, &sender_handlers, e);
    file_sender_pump(e->sender);
}

static void credits_give(struct ends *e)
{
    uint64_t n_bytes;
    while (e->queued.len > 0 && !e->is_cut) {
        struct wire_body body = wire_body_of((struct str){e->queued.at, 8});
        wire_u64(&body, &n_bytes);
        buf_consume(&e->queued, 8);
        e->n_outstanding -= n_bytes;
        assert_true(file_sender_grant(e->sender, n_bytes));
    }
}

static void run(struct ends *e)
{
    for (unsigned i = 0; i < 100000 && !e->has_received && !e->is_cut; i++) {
        uv_run(&e->loop, UV_RUN_NOWAIT);
        credits_give(e);
        if (!e->has_sent)
            file_sender_pump(e->sender);
        usleep(100);
    }
}

static void check_same(const struct ends *e)
{
    cleanup_buf struct buf a = BUF_INIT, b = BUF_INIT;
    assert_int_equal(file_read(e->from, FILE_BYTES, &a, NULL), 0);
    assert_int_equal(file_read(e->to, FILE_BYTES, &b, NULL), 0);
    assert_true(str_equal(buf_str(&a), buf_str(&b)));
}

static void it_comes_whole_and_no_more_than_a_window_is_on_its_way(void **state)
{
    struct ends *e = *state;
    sender_begin(e, 0);
    run(e);
    assert_true(e->has_received && e->received.code == 0);
    assert_int_equal(e->n_sent, FILE_BYTES);
    assert_true(e->n_outstanding_max <= FILE_WINDOW_BYTES);
    check_same(e);
}

static void a_lost_link_costs_the_rest_only(void **state)
{
    struct ends *e = *state;
    e->cut_at = 2 * 1000 * 1000;
    sender_begin(e, 0);
    run(e);
    assert_true(e->is_cut && !e->has_received);
    assert_false(path_exists(e->to));
    uint64_t n_before = e->n_sent;
    file_sender_free(e->sender);
    buf_reset(&e->queued);
    e->cut_at = e->n_outstanding = 0;
    assert_int_equal(file_receiver_resume(e->receiver), n_before);
    sender_begin(e, n_before);
    run(e);
    assert_true(e->has_received && e->received.code == 0);
    assert_int_equal(e->n_sent, FILE_BYTES);
    check_same(e);
}

static void bytes_that_were_changed_are_refused(void **state)
{
    struct ends *e = *state;
    e->spoil_at = 3 * 1000 * 1000;
    sender_begin(e, 0);
    run(e);
    assert_true(e->has_received);
    assert_int_equal(e->received.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(e->received.text, "did not arrive as it was sent"));
    assert_false(path_exists(e->to));
}

static void more_than_was_granted_is_refused(void **state)
{
    struct ends *e = *state;
    static char bytes[FILE_WINDOW_BYTES];
    assert_true(file_receiver_take(e->receiver, (struct str){bytes, FILE_WINDOW_BYTES - 1}));
    assert_false(file_receiver_take(e->receiver, (struct str){bytes, 2}));
    assert_false(file_receiver_end(e->receiver, 1, 1));
    assert_true(file_receiver_end(e->receiver, FILE_WINDOW_BYTES - 1, 1));
    assert_false(file_receiver_end(e->receiver, FILE_WINDOW_BYTES - 1, 1));
    assert_false(file_receiver_take(e->receiver, (struct str){bytes, 1}));
    sender_begin(e, 0);
    e->is_cut = true;
    assert_false(file_sender_grant(e->sender, UINT64_MAX));
}

static void another_size_than_was_found_is_refused(void **state)
{
    struct ends *e = *state;
    file_receiver_free(e->receiver);
    e->receiver = file_receiver_new(&e->loop, e->to, 3, true, &receiver_handlers, e);
    assert_false(file_receiver_take(e->receiver, STR("four")));
    assert_true(file_receiver_take(e->receiver, STR("tw")));
    assert_false(file_receiver_end(e->receiver, 2, 1));
    assert_false(file_receiver_end(e->receiver, 3, 1));
    assert_false(file_receiver_take(e->receiver, STR("tw")));
    assert_true(file_receiver_take(e->receiver, STR("o")));
    assert_true(file_receiver_end(e->receiver, 3, 1));
}

static void a_file_that_changes_is_not_sent_to_its_end(void **state)
{
    struct ends *e = *state;
    struct file_trace now = {0};
    struct err err = {0};
    int fd;
    cleanup_free char *link = path_join(e->folder, "link"), *pipe = path_join(e->folder, "pipe");
    assert_int_equal(truncate(e->from, 100), 0);
    assert_int_equal(left_file_open(&e->trace, &fd, &err), ERR_UNAVAILABLE);
    assert_int_equal(symlink(e->from, link), 0);
    assert_int_equal(file_trace_open(link, &now, &fd, &err), ERR_DATA);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(file_trace_open(pipe, &now, &fd, &err), ERR_DATA);
}

static void an_empty_file_comes_too(void **state)
{
    struct ends *e = *state;
    int fd;
    free(e->trace.path);
    assert_int_equal(truncate(e->from, 0), 0);
    assert_int_equal(file_trace_open(e->from, &e->trace, &fd, NULL), 0);
    close(fd);
    sender_begin(e, 0);
    run(e);
    assert_true(e->has_received && e->received.code == 0);
    check_same(e);
}

#define SCENE(f) cmocka_unit_test_setup_teardown(f, ends_make, ends_drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(it_comes_whole_and_no_more_than_a_window_is_on_its_way),
        SCENE(a_lost_link_costs_the_rest_only),
        SCENE(bytes_that_were_changed_are_refused),
        SCENE(more_than_was_granted_is_refused),
        SCENE(another_size_than_was_found_is_refused),
        SCENE(a_file_that_changes_is_not_sent_to_its_end),
        SCENE(an_empty_file_comes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
