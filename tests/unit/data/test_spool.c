/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/rng.h"
#include "data/source.h"
#include "scratch.h"

static void gzip_add(struct buf *out, struct str text)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t bound = deflateBound(&z, text.len) + 64;
    buf_reserve(out, bound);
    z.next_in = (unsigned char *)(uintptr_t)text.at;
    z.avail_in = (unsigned)text.len;
    z.next_out = (unsigned char *)out->at + out->len;
    z.avail_out = (unsigned)bound;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len += bound - z.avail_out;
    deflateEnd(&z);
}

static void zstd_add(struct buf *out, struct str text)
{
    size_t bound = ZSTD_compressBound(text.len);
    buf_reserve(out, bound);
    out->len += ZSTD_compress(out->at + out->len, bound, text.at, text.len, 1);
}

static int scan_whole(struct source *source, struct err *err)
{
    int rc = 0;
    while (rc == 0 && !source_is_complete(source))
        rc = source_scan(source, 50000, err);
    return rc;
}

static void expect_text(struct source *source, struct str expected)
{
    struct buf out = BUF_INIT;
    struct err err = {0};
    uint64_t n_out;
    assert_int_equal(source_lines(source, 0, source_known(source), SIZE_MAX, &out, &n_out, &err),
                     0);
    assert_true(str_equal(buf_str(&out), expected));
    buf_release(&out);
}

static void packed_files_of_several_members_are_read_as_one(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    struct rng rng = {5};
    for (int i = 0; i < 60000; i++)
        buf_addf(&text, "{\"i\":%d,\"r\":%lu}\n", i, rng_next(&rng));
    static const struct {
        const char *name;
        void (*add)(struct buf *out, struct str text);
    } cases[] = {{"a.jsonl.gz", gzip_add}, {"a.jsonl.zst", zstd_add}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf packed = BUF_INIT;
        size_t half = text.len / 3;
        cases[i].add(&packed, (struct str){text.at, half});
        cases[i].add(&packed, (struct str){text.at, 0});
        cases[i].add(&packed, (struct str){text.at + half, text.len - half});
        const char *path = scratch_file(cases[i].name, buf_str(&packed));
        for (int with_spool = 0; with_spool < 3; with_spool++) { /* none, one, that one again */
            const struct source_opts opts = {
                .paths = &path,
                .n_paths = 1,
                .spool_dir = with_spool ? scratch_path(i ? "spool-zst" : "spool-gz") : NULL,
                .reuse_spool = with_spool == 2,
            };
            struct source *source = NULL;
            struct err err = {0};
            if (source_open(&source, &opts, &err) || scan_whole(source, &err))
                fail_msg("%s: %s", path, err.text);
            assert_int_equal(source_known(source), 60000);
            assert_int_equal(source_format(source), FORMAT_JSONL);
            expect_text(source, buf_str(&text));
            source_close(source);
        }
        /* Cut off anywhere, it must not pass for a whole one. */
        for (size_t cut = 1; cut < 40; cut += 3) {
            path = scratch_file(cases[i].name, (struct str){packed.at, packed.len - cut});
            struct source *source = NULL;
            struct err err = {0};
            int rc =
                source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err);
            if (rc == 0)
                rc = scan_whole(source, &err);
            if (rc != ERR_DATA || !strstr(err.text, "is cut off"))
                fail_msg("%s less %zu: rc %d, %s", path, cut, rc, err.text);
            source_close(source);
        }
        buf_release(&packed);
    }
    buf_release(&text);
}

static void what_is_not_packed_is_refused_at_open(void **state)
{
    (void)state;
    static const char *const names[] = {"plain.gz", "plain.zst"};
    for (size_t i = 0; i < countof(names); i++) {
        const char *path = scratch_file(names[i], STR("this is no archive, whatever its name\n"));
        struct source *source = NULL;
        struct err err = {0};
        assert_int_equal(
            source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err),
            ERR_DATA);
        assert_non_null(strstr(err.text, names[i]));
    }
    struct buf packed = BUF_INIT;
    gzip_add(&packed, STR("a\n"));
    buf_add(&packed, "\0\0\0", 3); /* padding is fine */
    const char *path = scratch_file("padded.gz", buf_str(&packed));
    struct source *source = NULL;
    struct err err = {0};
    assert_int_equal(
        source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err), 0);
    assert_int_equal(scan_whole(source, &err), 0);
    assert_int_equal(source_known(source), 1);
    source_close(source);
    buf_release(&packed);
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void a_pipe_is_read_as_far_as_it_goes_and_never_waited_for(void **state)
{
    (void)state;
    const char *path = scratch_path("pipe.txt");
    assert_int_equal(mkfifo(path, 0600), 0);
    cleanup_fd int keep = open(path, O_RDWR | O_CLOEXEC);
    int writer = open(path, O_WRONLY | O_CLOEXEC);
    struct source_opts opts = {
        .paths = &path, .n_paths = 1, .spool_dir = scratch_path("spool-pipe")};
    struct source *source = NULL;
    struct err err = {0};
    assert_int_equal(source_open(&source, &opts, &err), 0);
    assert_true(source_wait_fd(source) >= 0);
    assert_int_equal(source_scan(source, 1000, &err), 0); /* nothing there: returns */
    assert_int_equal(source_known(source), 0);
    put(writer, "one\ntw");
    assert_int_equal(source_scan(source, 1000, &err), 0);
    assert_int_equal(source_known(source), 1);
    assert_int_equal(source_bytes_total(source), 0);
    put(writer, "o\nthree");
    assert_int_equal(source_scan(source, 1000, &err), 0);
    assert_int_equal(source_known(source), 2);
    expect_text(source, STR("one\ntwo\n"));
    source_close(source);

    /* An end that never came cannot be resumed; one that came can. */
    opts.reuse_spool = true;
    assert_int_equal(source_open(&source, &opts, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "its rest is lost"));
    opts.reuse_spool = false;
    assert_int_equal(source_open(&source, &opts, &err), 0);
    put(writer, "alpha\nbeta");
    fd_close(&writer);
    fd_close(&keep);
    assert_int_equal(scan_whole(source, &err), 0);
    assert_int_equal(source_wait_fd(source), -1);
    expect_text(source, STR("alpha\nbeta\n"));
    source_close(source);
}

static void stdin_can_be_resumed_from_its_spool(void **state)
{
    (void)state;
    int pair[2], saved = dup(0);
    assert_int_equal(pipe(pair), 0);
    dup2(pair[0], 0);
    put(pair[1], "a,b\n1,2\n3,4\n");
    close(pair[0]), close(pair[1]);
    const char *path = "-";
    struct source_opts opts = {.paths = &path,
                               .n_paths = 1,
                               .format = FORMAT_CSV,
                               .spool_dir = scratch_path("spool-stdin")};
    struct err err = {0};
    for (int again = 0; again < 2; again++) {
        struct source *source = NULL;
        opts.reuse_spool = again;
        if (source_open(&source, &opts, &err) || scan_whole(source, &err))
            fail_msg("%s", err.text);
        expect_text(source, STR("{\"a\":\"1\",\"b\":\"2\"}\n{\"a\":\"3\",\"b\":\"4\"}\n"));
        struct buf place = BUF_INIT;
        source_position(source, 1, &place);
        assert_string_equal(buf_text(&place), "stdin line 3");
        buf_release(&place);
        source_close(source);
    }
    assert_int_equal(fcntl(0, F_GETFL) & O_NONBLOCK, 0);
    dup2(saved, 0);
    close(saved);
}

static void a_limit_makes_the_spool_whole(void **state)
{
    (void)state;
    struct buf packed = BUF_INIT;
    gzip_add(&packed, STR("a\nb\nc\n"));
    const char *path = scratch_file("limit.gz", buf_str(&packed));
    struct source_opts opts = {
        .paths = &path, .n_paths = 1, .limit = 2, .spool_dir = scratch_path("spool-limit")};
    for (int again = 0; again < 2; again++) {
        struct source *source = NULL;
        struct err err = {0};
        opts.reuse_spool = again;
        if (source_open(&source, &opts, &err) || scan_whole(source, &err))
            fail_msg("%s", err.text);
        expect_text(source, STR("a\nb\n"));
        source_close(source);
    }
    buf_release(&packed);
}

static void a_changed_input_is_told_from_the_one_the_run_began_with(void **state)
{
    (void)state;
    struct buf large = BUF_INIT, id = BUF_INIT;
    for (int i = 0; i < 400000; i++)
        buf_addf(&large, "%08d\n", i);
    static const struct {
        bool is_large;
        struct str now; /* for the small file; empty: large with one byte changed at `at` */
        size_t at;
        const char *sentence; /* NULL: still the same */
    } cases[] = {
        {false, STR("one\ntwo\n"), 0, NULL},
        {false, STR("one\ntwo\n3\n"), 0, "has grown from 8 to 10 bytes since the run began"},
        {false, STR("one\n"), 0, "has shrunk from 8 to 4 bytes since the run began"},
        {false, STR("one\ntwx\n"), 0, "other content"},
        {true, STR(""), 0, "other content"},
        {true, STR(""), 100000, "was written to since the run began"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *path =
            scratch_file("same.txt", cases[i].is_large ? buf_str(&large) : STR("one\ntwo\n"));
        struct source *source = NULL;
        struct err err = {0};
        buf_reset(&id);
        assert_int_equal(
            source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, &err), 0);
        source_identity(source, &id);
        assert_int_equal(source_verify(source, buf_str(&id), &err), 0);
        if (cases[i].is_large) {
            large.at[cases[i].at] = 'x';
            scratch_file("same.txt", buf_str(&large));
            large.at[cases[i].at] = '0';
            struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
            utimensat(AT_FDCWD, path, times, 0);
        } else {
            scratch_file("same.txt", cases[i].now);
        }
        int rc = source_verify(source, buf_str(&id), &err);
        if (cases[i].sentence ? rc != ERR_USAGE || !strstr(err.text, cases[i].sentence) : rc != 0)
            fail_msg("case %zu: rc %d, %s", i, rc, err.text);
        source_close(source);
    }
    buf_release(&large), buf_release(&id);
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_files_of_several_members_are_read_as_one),
        cmocka_unit_test(what_is_not_packed_is_refused_at_open),
        cmocka_unit_test(a_pipe_is_read_as_far_as_it_goes_and_never_waited_for),
        cmocka_unit_test(stdin_can_be_resumed_from_its_spool),
        cmocka_unit_test(a_limit_makes_the_spool_whole),
        cmocka_unit_test(a_changed_input_is_told_from_the_one_the_run_began_with),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
