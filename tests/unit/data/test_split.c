/* SPDX-License-Identifier: Apache-2.0
 *
 * What the size of a window must not change; and which records go where. Whole files are compared
 * with what Python reads of them in tests/python/test_split.py.
 */
#include "unit/test.h"

#include <unistd.h>

#include "base/fs.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "data/split/split_impl.h"
#include "scratch.h"

enum {
    N_PARTS = 3
};

static const char *const extensions[] = {"txt", "jsonl", "json", "csv"};

static void rows_make(struct rng *rng, struct buf *out)
{
    static const char *const rows[] = {
        "1,\"a\nb \"\"c\"\"\",x\n",
        "plain,text of some length,that goes on and on and on\r\n",
        ",,\n",
        "\n\r\n",
        "\"\",\"\"\"\",5\n",
        "5\" x 6\",b,c\n",
    };
    buf_add_text(out, rng_below(rng, 2) ? "a,b,c\n" : "\xef\xbb\xbf\"a\n,\",b,c\r\n");
    for (uint64_t n = rng_below(rng, 60); n > 0; n--)
        buf_add_text(out, rows[rng_below(rng, countof(rows))]);
    if (rng_below(rng, 3) == 0)
        buf_add_text(out, "the,last,\"one\"");
}

static void array_make(struct rng *rng, struct buf *out)
{
    static const char *const values[] = {"{\"a\": [1, \"],[\", {}]}", "null", "\"\\\"\\\\\"",
                                         "[\n  1,\n  2\n]", "  -1.5e3  "};
    buf_add_text(out, rng_below(rng, 2) ? "[\n" : " [");
    for (uint64_t n = rng_below(rng, 40); n > 0; n--) {
        buf_add_text(out, values[rng_below(rng, countof(values))]);
        buf_add_text(out, n > 1 ? ",\n" : "\n");
    }
    buf_add_text(out, "]\n");
}

static void lines_make(struct rng *rng, struct buf *out)
{
    static const char *const lines[] = {"{\"a\":1}\n", "\n", "17\r\n", "\"a b c d e f g h i\"\n"};
    for (uint64_t n = rng_below(rng, 80); n > 0; n--)
        buf_add_text(out, lines[rng_below(rng, countof(lines))]);
    if (rng_below(rng, 2))
        buf_add_text(out, "null");
}

/* Now and then with a byte that does not belong where it is. */
static void text_make(struct rng *rng, enum record_format format, struct buf *out)
{
    static const char odd[] = "\",\n[]x\0\r";
    if (format == FORMAT_CSV)
        rows_make(rng, out);
    else if (format == FORMAT_JSON)
        array_make(rng, out);
    else
        lines_make(rng, out);
    if (out->len > 0 && rng_below(rng, 3) == 0)
        out->at[rng_below(rng, out->len)] = odd[rng_below(rng, sizeof(odd) - 1)];
}

static char **names_new(const char *extension, size_t n_parts)
{
    char **names = xcalloc(n_parts, sizeof(*names));
    for (size_t i = 0; i < n_parts; i++)
        names[i] = xasprintf("%s/part-%zu.%s", scratch_dir(), i, extension);
    return names;
}

/* All that a split gives: its status and words, or its parts one behind the other. */
static void split_into(const char *path, const char *extension, struct split_opts opts,
                       size_t window_bytes, struct buf *out)
{
    struct split *split = NULL;
    struct err err = {0};
    size_t n_parts = 0;
    opts.paths = &path;
    opts.n_paths = 1;
    int rc = split_open_tuned(&split, &opts, window_bytes, &err);
    const struct split_part *parts = rc == 0 ? split_parts(split, &n_parts) : NULL;
    char **names = names_new(extension, n_parts);
    if (rc == 0) {
        const struct split_target target = {.names = (const char *const *)names,
                                            .folder = scratch_dir()};
        rc = split_write(split, &target, &err);
    }
    buf_addf(out, "%d %s\n", rc, err.text);
    for (size_t i = 0; i < n_parts; i++) {
        if (rc == 0) {
            buf_addf(out, "-- %zu: %lu from %lu\n", i, parts[i].n_records, parts[i].first);
            size_t before = out->len;
            assert_int_equal(file_read(names[i], SIZE_MAX, out, &err), 0);
            assert_int_equal(out->len - before, parts[i].n_bytes);
        }
        assert_int_equal(unlink(names[i]) == 0, rc == 0);
        free(names[i]);
    }
    free(names);
    split_close(split);
}

static void windows_of_any_size_give_the_same(void **state)
{
    (void)state;
    static const size_t windows[] = {64, 128, 320, WINDOW_BYTES};
    struct rng rng = {3};
    unsigned n_good = 0, n_bad = 0;
    for (int round = 0; round < 120; round++) {
        enum record_format format = (enum record_format)(FORMAT_LINES + round % 4);
        const char *extension = extensions[round % 4];
        cleanup_buf struct buf text = BUF_INIT, wanted = BUF_INIT;
        text_make(&rng, format, &text);
        char name[32];
        snprintf(name, sizeof(name), "in.%s", extension);
        const char *path = scratch_file(name, buf_str(&text));
        const struct split_opts opts =
            round % 8 < 4 ? (struct split_opts){.n_parts = N_PARTS}
                          : (struct split_opts){.bytes_max = 40 + rng_below(&rng, 400)};
        split_into(path, extension, opts, windows[0], &wanted);
        *(str_starts_with(buf_str(&wanted), STR("0 ")) ? &n_good : &n_bad) += 1;
        for (size_t i = 1; i < countof(windows); i++) {
            cleanup_buf struct buf found = BUF_INIT;
            split_into(path, extension, opts, windows[i], &found);
            if (!str_equal(buf_str(&found), buf_str(&wanted)))
                fail_msg("round %d, %s: window of %zu gives\n%s\nwindow of 64\n%s", round,
                         extension, windows[i], buf_text(&found), buf_text(&wanted));
        }
    }
    assert_true(n_good > 60 && n_bad > 10);
}

struct plan_case {
    struct split_opts opts;
    uint64_t wanted[8]; /* records of the parts; ends at the number of parts */
    size_t n_parts;
};

static void records_go_where_they_should(void **state)
{
    (void)state;
    /* Ten lines of two bytes, and one of 21. */
    const char *path =
        scratch_file("plan.txt", STR("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n01234567890123456789\n"));
    static const struct plan_case cases[] = {
        {{.n_parts = 1}, {11}, 1},
        {{.n_parts = 4}, {3, 3, 3, 2}, 4},
        {{.records_max = 4}, {4, 4, 3}, 3},
        {{.records_max = 11}, {11}, 1},
        {{.records_max = 100}, {11}, 1},
        {{.bytes_max = 41}, {11}, 1},
        {{.bytes_max = 40}, {10, 1}, 2},
        {{.bytes_max = 7}, {3, 3, 3, 1, 1}, 5},
        {{.bytes_max = UINT64_MAX}, {11}, 1},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct split_opts opts = cases[i].opts;
        struct split *split = NULL;
        struct err err = {0};
        size_t n_parts;
        uint64_t first = 0;
        opts.paths = &path;
        opts.n_paths = 1;
        assert_int_equal(split_open(&split, &opts, &err), 0);
        const struct split_part *parts = split_parts(split, &n_parts);
        assert_int_equal(n_parts, cases[i].n_parts);
        for (size_t k = 0; k < n_parts; k++) {
            assert_int_equal(parts[k].first, first);
            assert_int_equal(parts[k].n_records, cases[i].wanted[k]);
            first += parts[k].n_records;
        }
        split_close(split);
    }
}

static void names_are_as_wide_as_they_must_be(void **state)
{
    (void)state;
    static const struct {
        const char *input, *output;
        size_t number, n_parts;
        const char *wanted; /* NULL: refused */
    } cases[] = {
        {"in.csv", NULL, 7, 8, "in.part_07.csv"},
        {"a.b/in.tar.csv.gz", NULL, 0, 100, "a.b/in.tar.part_00.csv"},
        {"in", NULL, 100, 101, "in.part_100"},
        {"/in.txt", NULL, 0, 1, "/in.part_00.txt"},
        {"a{n}.csv", NULL, 1, 2, "a{n}.part_01.csv"},
        {"x/in.csv", "y/", 1, 2, "y/in.part_01.csv"},
        {"in.csv", "y-{n}of{parts}", 1, 2, "y-01of02"},
        {"in.csv", "{parts}/{n}", 1, 2, "02/01"},
        {"in.csv", "{n}/y", 1, 2, NULL},
        {"in.csv", "{n}{n}", 1, 2, NULL},
        {"in.csv", "no-such-folder", 1, 2, NULL},
        {"-", NULL, 1, 2, NULL},
        {"-", "y/", 1, 2, "y/part_01"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const struct split_opts opts = {.paths = &cases[i].input, .n_paths = 1};
        struct split_names names;
        struct err err = {0};
        int rc = split_names_init(&names, cases[i].output, &opts, 2, &err);
        assert_int_equal(rc, cases[i].wanted ? 0 : ERR_USAGE);
        if (rc == 0) {
            char *name = split_name_new(&names, cases[i].number, cases[i].n_parts);
            assert_string_equal(name, cases[i].wanted);
            free(name);
        }
        split_names_release(&names);
    }
}

static int scratch_end(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_of_any_size_give_the_same),
        cmocka_unit_test(records_go_where_they_should),
        cmocka_unit_test(names_are_as_wide_as_they_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_end);
}
