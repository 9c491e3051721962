/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/fs.h"
#include "base/rng.h"
#include "data/boundaries/scan_isa.h"
#include "data/file_merge/file_merge_impl.h"
#include "unit/data/scratch.h"

enum {
    N_BLOCKS = 12,
    TEXT_BYTES = N_BLOCKS * SCAN_BLOCK_BYTES
};

/* What rows are, a byte at a time. */
struct naive {
    bool is_inside, may_open, was_close, was_cr, is_bad;
    size_t n_open;
};

static bool naive_byte(struct naive *n, char c, char separator)
{
    n->is_bad |=
        n->was_close && !n->is_inside && c != separator && c != '\n' && c != '\r' && c != '"';
    n->is_bad |= n->was_cr && c != '\n';
    n->is_bad |= c == '\0';
    bool was_close = n->was_close;
    n->was_close = n->was_cr = false;
    if (c == '"') {
        n->is_bad |= !n->is_inside && !n->may_open && !was_close;
        n->was_close = n->is_inside;
        n->is_inside = !n->is_inside;
    } else if (!n->is_inside) {
        n->n_open += c == separator;
        n->was_cr = c == '\r';
    }
    n->may_open = !n->is_inside && (c == separator || c == '\n') && c != '"';
    return c == '\n' && !n->is_inside;
}

static void naive_rows(struct rows *rows, const unsigned char *text)
{
    struct naive n = {.may_open = true};
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        bool had_cr = n.was_cr;
        if (!naive_byte(&n, (char)text[i], rows->separator))
            continue;
        size_t len = i - rows->row_at;
        bool is_blank = len == had_cr;
        if (!is_blank && (n.n_open != rows->n_separators || n.is_bad)) {
            rows->odd_end = i + 1;
            return;
        }
        rows->n_crlf += had_cr;
        rows->n_lf += !had_cr;
        rows->row_at = i + 1;
        if (!is_blank && rows->ends)
            rows->ends[rows->n_rows] = i + 1;
        rows->n_rows += !is_blank;
        n.n_open = 0;
        n.is_bad = is_blank && n.is_bad;
        if (!is_blank && rows->n_rows == rows->ends_max) {
            rows->is_full = true;
            return;
        }
    }
}

static void text_make(struct rng *rng, unsigned char *text)
{
    static const char *const pieces[] = {
        "a,b\n", "a,b\r\n", "\"x,\ny\",b\n", "\"a\"\"b\",\"\"\n", "\n", "\r\n", "a", ",",
        "\"",    "\r"};
    size_t at = 0;
    while (at < TEXT_BYTES) {
        size_t kind = rng_below(rng, rng_below(rng, 8) == 0 ? countof(pieces) : 6);
        for (const char *c = pieces[kind]; *c && at < TEXT_BYTES; c++)
            text[at++] = (unsigned char)*c;
    }
    if (rng_below(rng, 20) == 0)
        text[rng_below(rng, TEXT_BYTES)] = '\0';
}

static void kernels_find_rows_as_one_byte_at_a_time_does(void **state)
{
    (void)state;
    struct rng rng = {5};
    static unsigned char text[TEXT_BYTES];
    size_t n_rows = 0, n_odd = 0;
    for (int round = 0; round < 20000; round++) {
        size_t wanted_ends[TEXT_BYTES] = {0}, ends[TEXT_BYTES] = {0};
        struct rows first = {.separator = ',',
                             .n_separators = 1,
                             .ends_max = rng_below(&rng, 4) == 0 ? 1 + rng_below(&rng, 20) : 0};
        struct rows wanted = first;
        text_make(&rng, text);
        wanted.ends = wanted_ends;
        naive_rows(&wanted, text);
        n_rows += wanted.n_rows;
        n_odd += wanted.odd_end > 0;
        for (const struct scan_kernel *const *kernel = scan_table; *kernel; kernel++) {
            struct rows rows = first;
            rows.ends = ends;
            if (!(*kernel)->is_usable())
                continue;
            (*kernel)->rows(&rows, text, N_BLOCKS);
            bool is_same = rows.n_rows == wanted.n_rows && rows.row_at == wanted.row_at &&
                           rows.odd_end == wanted.odd_end && rows.n_crlf == wanted.n_crlf &&
                           rows.n_lf == wanted.n_lf && rows.is_full == wanted.is_full &&
                           memcmp(ends, wanted_ends, rows.n_rows * sizeof(*ends)) == 0;
            if (!is_same)
                fail_msg("round %d: kernel %s: %zu rows, odd end %zu; expected %zu and %zu", round,
                         (*kernel)->name, rows.n_rows, rows.odd_end, wanted.n_rows, wanted.odd_end);
        }
    }
    assert_true(n_rows > 100000 && n_odd > 1000);
}

static const char *ids_file(const char *name, uint64_t first, uint64_t n)
{
    cleanup_buf struct buf text = BUF_INIT;
    for (uint64_t i = first; i < first + n; i++)
        buf_addf(&text, i % 3 ? "{\"id\":\"q%lu\"}\n" : "{\"x\":1,\"id\":%lu}\n", i);
    return scratch_file(name, buf_str(&text));
}

/* All through a table that knows so much of the hashes. */
static int ids_merge(const char *const *paths, uint64_t hash_mask, struct err *err)
{
    struct file_merge_stats stats = {0};
    const struct file_merge_opts opts = {.id_field = "id", .expect = UINT64_MAX};
    struct file_merge merge = {.opts = &opts, .stats = &stats};
    int rc = file_merge_open(&merge, paths, 2, err);
    merge.ids = id_table_new(hash_mask);
    for (size_t i = 0; rc == 0 && i < 2; i++)
        rc = (merge.format == FORMAT_CSV ? file_merge_rows
                                         : file_merge_lines)(&merge, &merge.files[i], err);
    if (rc == 0)
        rc = ids_settle(&merge, err);
    file_merge_close(&merge);
    return rc;
}

static void hashes_that_collide_are_no_duplicates(void **state)
{
    (void)state;
    struct err err = {0};
    const char *paths[] = {ids_file("a.jsonl", 0, 300), ids_file("b.jsonl", 300, 300)};
    assert_int_equal(ids_merge(paths, 3, &err), 0);
    const char *again[] = {ids_file("c.jsonl", 0, 300), ids_file("d.jsonl", 299, 2)};
    assert_int_equal(ids_merge(again, 3, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "d.jsonl line 1: its 'id' is \"q299\", as that of "));
    assert_non_null(strstr(err.text, "c.jsonl line 300"));
}

/* A file of one id: a quote, so many x, and the rest. */
static const char *long_id_file(const char *name, size_t n_x, const char *rest)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "id\n\"");
    for (size_t i = 0; i < n_x; i++)
        buf_add_char(&text, 'x');
    buf_addf(&text, "%s\"\n", rest);
    return scratch_file(name, buf_str(&text));
}

/* What is read of an id again ends with any of its bytes, its quotes among them. */
static void long_ids_differ_by_what_stands_behind_a_quote(void **state)
{
    (void)state;
    for (size_t n_x = 500; n_x < 520; n_x++) {
        struct err err = {0};
        const char *paths[] = {long_id_file("x.csv", n_x, "\"\"a"),
                               long_id_file("y.csv", n_x, "\"\"b")};
        if (ids_merge(paths, 0, &err))
            fail_msg("%zu: %s", n_x, err.text);
        const char *again[] = {paths[0], long_id_file("z.csv", n_x, "\"\"a")};
        assert_int_equal(ids_merge(again, 0, &err), ERR_DATA);
    }
}

static void records_of_one_file_are_counted(void **state)
{
    (void)state;
    struct err err = {0};
    uint64_t n = 0;
    assert_int_equal(file_merge_count(scratch_file("n.csv", STR("a,b\n1,\"x\ny\"\n\n2,z")),
                                      FORMAT_AUTO, NULL, &n, &err),
                     0);
    assert_int_equal(n, 2);
    assert_int_equal(
        file_merge_count(scratch_file("n.json", STR("[1,[2,3],{}]")), FORMAT_AUTO, NULL, &n, &err),
        0);
    assert_int_equal(n, 3);
    assert_int_equal(
        file_merge_count(scratch_file("n.txt", STR("\n\nx")), FORMAT_AUTO, NULL, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_int_equal(
        file_merge_count(scratch_file("m.csv", STR("a,b\n1\n")), FORMAT_AUTO, NULL, &n, &err),
        ERR_DATA);
    assert_non_null(strstr(err.text, "m.csv line 2"));
}

static void an_output_that_fails_is_not_there(void **state)
{
    (void)state;
    struct err err = {0};
    struct file_merge_stats stats = {0};
    const struct file_merge_opts opts = {.expect = 7};
    const char *paths[] = {scratch_file("p.txt", STR("x\n"))};
    const char *out = scratch_path("out.txt");
    assert_int_equal(file_merge_write(&opts, paths, 1, out, &stats, &err), ERR_FAILED);
    assert_false(path_exists(out));
    assert_int_equal(stats.n_records, 1);
}

/* A program that is not done with its file: it writes on when the merge has looked. */
static void write_on(void *context, const char *text)
{
    (void)context, (void)text;
    scratch_file("growing.jsonl", STR("{\"a\":1}\n{\"a\":2}\n"));
}

static void a_file_that_grows_while_it_is_converted_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct file_merge_stats stats = {0};
    const struct file_merge_opts opts = {.expect = UINT64_MAX, .note = write_on};
    const char *paths[] = {scratch_file("growing.jsonl", STR("{\"a\":1}"))};
    const char *out = scratch_path("grown.json");
    assert_int_equal(file_merge_write(&opts, paths, 1, out, &stats, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "had 1 records when it was looked at, and now has 2"));
    assert_false(path_exists(out));
}

static int cleanup(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_find_rows_as_one_byte_at_a_time_does),
        cmocka_unit_test(hashes_that_collide_are_no_duplicates),
        cmocka_unit_test(long_ids_differ_by_what_stands_behind_a_quote),
        cmocka_unit_test(records_of_one_file_are_counted),
        cmocka_unit_test(an_output_that_fails_is_not_there),
        cmocka_unit_test(a_file_that_grows_while_it_is_converted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
