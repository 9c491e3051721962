/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames however their bytes are cut, what is wrong with them, and what comes before them.
 */
#include "unit/test.h"

#include "base/cleanup.h"
#include "node/wire.h"
#include "node/wire_body.h"

static const struct frame frames[] = {
    {FRAME_HELLO, 0, WIRE_NO_WORKER, {"hello", 5}},
    {FRAME_PING, 0, WIRE_NO_WORKER, {"", 0}},
    {FRAME_DATA, STREAM_OUT, 7, {"a\0b\n", 4}},
    {FRAME_CREDIT, STREAM_OUT, 7, {"\1\0\0\0\0\0\0\0", 8}},
    {FRAME_GONE, 0, 7, {"", 0}},
};

static void frames_write(struct buf *out)
{
    struct wire_writer writer;
    wire_begin(&writer, out);
    for (size_t i = 0; i < countof(frames); i++)
        wire_add(&writer, out, &frames[i]);
}

static void same(const struct frame *a, const struct frame *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->stream, b->stream);
    assert_int_equal(a->worker, b->worker);
    assert_true(str_equal(a->body, b->body));
}

/* Feeds the bytes in pieces, and returns how many frames came, all like those above. */
static size_t frames_read(struct wire_reader *reader, struct str bytes, size_t piece,
                          struct err *err)
{
    size_t n = 0;
    enum wire_result result = WIRE_MORE;
    while (bytes.len > 0 && result != WIRE_BROKEN) {
        struct str part = {bytes.at, MIN(piece, bytes.len)};
        struct frame frame;
        wire_feed(reader, part);
        bytes = (struct str){bytes.at + part.len, bytes.len - part.len};
        while ((result = wire_next(reader, &frame, err)) == WIRE_FRAME)
            same(&frame, &frames[n++]);
    }
    return n;
}

static void frames_come_however_they_are_cut(void **state)
{
    (void)state;
    cleanup_buf struct buf bytes = BUF_INIT;
    buf_add_text(&bytes, "Welcome to node1\n\001muster-wir\nlast login: today\n");
    size_t n_noise = bytes.len;
    frames_write(&bytes);
    for (size_t piece = 1; piece <= bytes.len; piece++) {
        struct wire_reader reader = {0};
        struct err err = {0};
        assert_int_equal(frames_read(&reader, buf_str(&bytes), piece, &err), countof(frames));
        assert_int_equal(reader.n_noise_bytes, n_noise);
        assert_true(str_equal(buf_str(&reader.noise), (struct str){bytes.at, n_noise}));
        wire_reader_release(&reader);
    }
}

/* Every byte behind the preamble counts: one that is changed, left out or there twice is noticed. */
static void a_byte_that_is_wrong_breaks_the_stream(void **state)
{
    (void)state;
    cleanup_buf struct buf good = BUF_INIT;
    frames_write(&good);
    for (size_t at = sizeof(WIRE_PREAMBLE) - 1; at < good.len; at++)
        for (int way = 0; way < 3; way++) {
            cleanup_buf struct buf bytes = BUF_INIT;
            struct wire_reader reader = {0};
            struct err err = {0};
            buf_add(&bytes, good.at, at + (way != 1));
            if (way == 0)
                bytes.at[at] ^= 0x10;
            buf_add(&bytes, good.at + at + (way != 2), good.len - at - (way != 2));
            for (int i = 0; i < 4000; i++) /* which a length that is too large waits for */
                buf_add_text(&bytes, "................................");
            (void)frames_read(&reader, buf_str(&bytes), SIZE_MAX, &err); /* what comes is right */
            assert_true(reader.is_broken);
            assert_int_equal(err.code, ERR_DATA);
            wire_reader_release(&reader);
        }
}

static void a_frame_that_comes_twice_breaks_the_stream(void **state)
{
    (void)state;
    cleanup_buf struct buf bytes = BUF_INIT;
    struct wire_reader reader = {0};
    struct err err = {0};
    frames_write(&bytes);
    buf_add(&bytes, bytes.at + bytes.len - WIRE_HEADER_BYTES, WIRE_HEADER_BYTES);
    assert_int_equal(frames_read(&reader, buf_str(&bytes), SIZE_MAX, &err), countof(frames));
    assert_true(reader.is_broken);
    assert_non_null(strstr(err.text, "frame 5 has another checksum"));
    wire_reader_release(&reader);
}

static void noise_is_bounded(void **state)
{
    (void)state;
    struct wire_reader reader = {0};
    struct err err = {0};
    struct frame frame;
    cleanup_buf struct buf noise = BUF_INIT;
    for (int i = 0; i < 1000; i++)
        buf_add_text(&noise, "this is not muster, but a cat\n");
    enum wire_result result = WIRE_MORE;
    for (int i = 0; i < 40 && result == WIRE_MORE; i++) {
        wire_feed(&reader, buf_str(&noise));
        result = wire_next(&reader, &frame, &err);
    }
    assert_int_equal(result, WIRE_BROKEN);
    assert_non_null(strstr(err.text, "are not muster's"));
    assert_int_equal(reader.noise.len, WIRE_NOISE_KEPT_BYTES);
    wire_reader_release(&reader);
}

/* What a stream takes that anybody can open, where no login shell speaks first. */
static void a_strict_stream_takes_nothing_before_the_preamble(void **state)
{
    (void)state;
    cleanup_buf struct buf good = BUF_INIT;
    struct frame frame;
    frames_write(&good);
    for (size_t n_right = 0; n_right < sizeof(WIRE_PREAMBLE) - 1; n_right++) {
        cleanup_buf struct buf bytes = BUF_INIT;
        struct wire_reader reader = {.is_strict = true};
        struct err err = {0};
        buf_add(&bytes, good.at, n_right);
        wire_feed(&reader, buf_str(&bytes));
        assert_int_equal(wire_next(&reader, &frame, &err), WIRE_MORE);
        wire_feed(&reader, STR("?"));
        assert_int_equal(wire_next(&reader, &frame, &err), WIRE_BROKEN);
        wire_reader_release(&reader);
    }
    for (size_t piece = 1; piece <= good.len; piece++) {
        struct wire_reader reader = {.is_strict = true};
        struct err err = {0};
        assert_int_equal(frames_read(&reader, buf_str(&good), piece, &err), countof(frames));
        wire_reader_release(&reader);
    }
}

static void a_body_that_is_longer_than_its_reader_allows_breaks_the_stream(void **state)
{
    (void)state;
    cleanup_buf struct buf bytes = BUF_INIT;
    struct wire_reader reader = {.body_max = 7};
    struct err err = {0};
    frames_write(&bytes);                          /* the fourth has 8 bytes */
    bytes.len = bytes.len - 8 - WIRE_HEADER_BYTES; /* of which its header is enough */
    assert_int_equal(frames_read(&reader, buf_str(&bytes), SIZE_MAX, &err), 3);
    assert_true(reader.is_broken);
    assert_non_null(strstr(err.text, "frame 3 is longer than this end allows yet"));
    wire_reader_release(&reader);
}

static void bodies_come_back_as_they_were(void **state)
{
    (void)state;
    cleanup_buf struct buf bytes = BUF_INIT;
    const char *argv[] = {"cat", "\xff\xfe", "", NULL}, *changes[] = {"A=1", NULL};
    struct wire_spawn spawn = {.seat = 3,
                               .grace_ms = 10000,
                               .has_input = true,
                               .channel = CHANNEL_DESCRIPTOR,
                               .error_variable = "ERRORS",
                               .cpus = {NUMA_BINDING_EXCLUSIVE, true, 8},
                               .local_rank = 7,
                               .cwd = "/data/x",
                               .is_joined = true,
                               .n_joined = 2,
                               .joined = {4, 9},
                               .argv = argv,
                               .changes = changes};
    struct wire_body out = wire_body_to(&bytes);
    wire_spawn(&out, &spawn);
    struct wire_spawn back = {0};
    struct wire_body in = wire_body_of(buf_str(&bytes));
    wire_spawn(&in, &back);
    assert_true(wire_body_is_whole(&in));
    assert_int_equal(back.seat, 3);
    assert_int_equal(back.channel, CHANNEL_DESCRIPTOR);
    assert_true(back.has_input && !back.answers);
    assert_string_equal(back.error_variable, "ERRORS");
    assert_int_equal(back.cpus.binding, NUMA_BINDING_EXCLUSIVE);
    assert_int_equal(back.cpus.n_ranks, 8);
    assert_int_equal(back.local_rank, 7);
    assert_true(back.cpus.shares_threads);
    assert_string_equal(back.cwd, "/data/x");
    assert_true(back.is_joined && back.n_joined == 2 && back.joined[1] == 9);
    assert_string_equal(back.argv[1], "\xff\xfe");
    assert_string_equal(back.argv[2], "");
    assert_null(back.argv[3]);
    assert_string_equal(back.changes[0], "A=1");
    wire_spawn_release(&back);

    struct worker_exit exit = {.has_exited = true, .exit_signal = 9, .n_left_behind = 2},
                       gone = {0};
    buf_reset(&bytes);
    out = wire_body_to(&bytes);
    wire_exit(&out, &exit);
    in = wire_body_of(buf_str(&bytes));
    wire_exit(&in, &gone);
    assert_true(wire_body_is_whole(&in));
    assert_int_equal(gone.exit_signal, 9);
    assert_int_equal(gone.n_left_behind, 2);
}

/* More seats than a worker can have, or some for one that has its own. */
static void seats_that_are_joined_are_few_and_said_to_be(void **state)
{
    (void)state;
    static const struct {
        bool is_joined;
        uint32_t n_joined;
        bool is_well;
    } cases[] = {{false, 0, true},
                 {false, 1, false},
                 {true, 0, true},
                 {true, SEAT_DEVICES_MAX, true},
                 {true, SEAT_DEVICES_MAX + 1, false}};
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_buf struct buf bytes = BUF_INIT;
        const char *argv[] = {"cat", NULL}, *changes[] = {NULL};
        uint32_t n_written = MIN(cases[i].n_joined, (uint32_t)SEAT_DEVICES_MAX);
        struct wire_spawn spawn = {.is_joined = cases[i].is_joined,
                                   .n_joined = n_written,
                                   .argv = argv,
                                   .changes = changes},
                          back = {0};
        struct wire_body out = wire_body_to(&bytes);
        wire_spawn(&out, &spawn);
        if (cases[i].n_joined >
            n_written) { /* the count stands before the seats and two short lists */
            size_t at = bytes.len - n_written * 4 - (4 + 4 + 3) - 4 - 4;
            assert_int_equal((uint8_t)bytes.at[at], n_written);
            bytes.at[at]++;
        }
        struct wire_body in = wire_body_of(buf_str(&bytes));
        wire_spawn(&in, &back);
        assert_int_equal(wire_body_is_whole(&in), cases[i].is_well);
        wire_spawn_release(&back);
    }
}

/* A seat on a device that is not there, or on none. */
static void a_seat_lies_on_devices_that_are_there(void **state)
{
    (void)state;
    for (size_t position = 0; position < 2; position++)
        for (size_t n = 0; n < 2; n++) {
            cleanup_buf struct buf bytes = BUF_INIT;
            struct device device = {.kind = DEVICE_CUDA, .name = "H100"};
            struct seat seat = {.n_devices = n, .devices = {position}, .label = "gpu_0"};
            struct wire_taken taken = {&device, &seat, 1, 1, NULL}, back = {0};
            struct wire_body out = wire_body_to(&bytes), in;
            wire_taken(&out, &taken);
            in = wire_body_of(buf_str(&bytes));
            wire_taken(&in, &back);
            assert_int_equal(wire_body_is_whole(&in), n == 1 && position == 0);
            wire_taken_release(&back);
        }
}

static void a_host_without_devices_has_a_seat_without(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        cleanup_buf struct buf bytes = BUF_INIT;
        struct seat seat = {.n_devices = n, .label = "none"};
        struct wire_taken taken = {NULL, &seat, 0, 1, NULL}, back = {0};
        struct wire_body out = wire_body_to(&bytes), in;
        wire_taken(&out, &taken);
        in = wire_body_of(buf_str(&bytes));
        wire_taken(&in, &back);
        assert_int_equal(wire_body_is_whole(&in), n == 0);
        wire_taken_release(&back);
    }
}

static void names_of_devices_are_printable_and_their_uuids_stay_below_a_folder(void **state)
{
    (void)state;
    static const struct {
        const char *uuid, *clean;
    } cases[] = {
        {"GPU-4f2a9c31-0a", "GPU-4f2a9c31-0a"},
        {"MIG-GPU-4f2a9c31/7/0", "MIG-GPU-4f2a9c31/7/0"},
        {"0000:3b:00.0", "0000:3b:00.0"},
        {"../../etc/x", ".-/.-/etc/x"},
        {"...", ".-."},
        {"/etc/x", "-etc/x"},
        {"a b\033[2J\n\xc2\x9b;`", "a-b--2J-----"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device device = {.name = "H200\033[2J\n\xe2\x80\xae"};
        struct wire_taken taken = {&device, NULL, 1, 0, NULL};
        snprintf(device.uuid, sizeof(device.uuid), "%s", cases[i].uuid);
        wire_taken_clean(&taken);
        assert_string_equal(device.uuid, cases[i].clean);
        assert_string_equal(device.name, "H200\\u001b[2J\\n\\u202e");
    }
}

static void a_name_stays_within_its_array_when_it_is_cleaned(void **state)
{
    (void)state;
    struct device device = {0};
    struct wire_taken taken = {&device, NULL, 1, 0, NULL};
    memset(device.name, '\033', sizeof(device.name) - 1);
    wire_taken_clean(&taken);
    assert_int_equal(strlen(device.name), (sizeof(device.name) - 1) / 6 * 6 + 3);
    assert_int_equal(strncmp(device.name, "\\u001b\\u001b", 12), 0);
}

static void an_exit_that_cannot_be_is_malformed(void **state)
{
    (void)state;
    static const struct worker_exit exits[] = {
        {.has_exited = true, .exit_code = 255, .exit_signal = 64},
        {.has_exited = true, .exit_code = 256},
        {.has_exited = true, .exit_code = -1},
        {.has_exited = true, .exit_signal = 65},
        {.has_exited = true, .exit_signal = -9},
        {.n_left_behind = -1},
        {.stuck_pid = -1},
    };
    for (size_t i = 0; i < countof(exits); i++) {
        cleanup_buf struct buf bytes = BUF_INIT;
        struct worker_exit exit = exits[i], back = {0};
        struct wire_body out = wire_body_to(&bytes), in;
        wire_exit(&out, &exit);
        in = wire_body_of(buf_str(&bytes));
        wire_exit(&in, &back);
        assert_int_equal(wire_body_is_whole(&in), i == 0);
    }
}

static bool taken_is_whole(struct seat *seats, uint32_t n_seats)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    struct device devices[3] = {
        {.kind = DEVICE_CUDA}, {.kind = DEVICE_CUDA}, {.kind = DEVICE_CUDA}};
    struct wire_taken taken = {devices, seats, 3, n_seats, NULL}, back = {0};
    struct wire_body out = wire_body_to(&bytes), in;
    wire_taken(&out, &taken);
    in = wire_body_of(buf_str(&bytes));
    wire_taken(&in, &back);
    bool is_whole = wire_body_is_whole(&in);
    wire_taken_release(&back);
    return is_whole;
}

static void each_device_belongs_to_one_set_and_has_a_seat(void **state)
{
    (void)state;
    struct seat shared[] = {{.n_devices = 2, .devices = {2, 0}},
                            {.n_devices = 2, .devices = {2, 0}},
                            {.n_devices = 1, .devices = {1}}};
    assert_true(taken_is_whole(shared, 3));
    assert_false(taken_is_whole(shared, 2)); /* nobody has device 1 */
    struct seat crossed[] = {{.n_devices = 2, .devices = {0, 1}},
                             {.n_devices = 2, .devices = {1, 0}},
                             {.n_devices = 1, .devices = {2}}};
    assert_false(taken_is_whole(crossed, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_however_they_are_cut),
        cmocka_unit_test(a_byte_that_is_wrong_breaks_the_stream),
        cmocka_unit_test(a_frame_that_comes_twice_breaks_the_stream),
        cmocka_unit_test(noise_is_bounded),
        cmocka_unit_test(a_strict_stream_takes_nothing_before_the_preamble),
        cmocka_unit_test(a_body_that_is_longer_than_its_reader_allows_breaks_the_stream),
        cmocka_unit_test(bodies_come_back_as_they_were),
        cmocka_unit_test(seats_that_are_joined_are_few_and_said_to_be),
        cmocka_unit_test(a_seat_lies_on_devices_that_are_there),
        cmocka_unit_test(a_host_without_devices_has_a_seat_without),
        cmocka_unit_test(names_of_devices_are_printable_and_their_uuids_stay_below_a_folder),
        cmocka_unit_test(a_name_stays_within_its_array_when_it_is_cleaned),
        cmocka_unit_test(an_exit_that_cannot_be_is_malformed),
        cmocka_unit_test(each_device_belongs_to_one_set_and_has_a_seat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
