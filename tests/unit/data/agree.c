/* SPDX-License-Identifier: Apache-2.0 */
#include "agree.h"

#include "base/rng.h"
#include "data/container.h"
#include "data/source_impl.h"
#include "naive.h"

static struct str naive_item(const struct naive *naive, uint64_t item)
{
    return (struct str){naive->lines.at + naive->begins[item],
                        naive->begins[item + 1] - naive->begins[item] - 1};
}

static void expect_equal(struct str found, struct str expected, const char *what, uint64_t item)
{
    if (!str_equal(found, expected))
        BUG("%s at item %lu: found \"%.*s\", expected \"%.*s\"", what, item,
            (int)MIN(found.len, 200ul), found.at, (int)MIN(expected.len, 200ul), expected.at);
}

static int scan_all(struct source *source, struct rng *rng, struct err *err)
{
    while (!source_is_complete(source)) {
        uint64_t before = source_known(source);
        int rc = source_scan(source, 1 + rng_below(rng, 5000), err);
        if (rc)
            return rc;
        ASSERT(source_known(source) >= before);
    }
    return 0;
}

/* Several readers at random places, each going on where it was. */
static void compare_lines(struct source *source, const struct naive *naive, struct rng *rng)
{
    uint64_t at[5] = {0};
    cleanup_buf struct buf out = BUF_INIT;
    for (int step = 0; step < 60 && naive->n_items > 0; step++) {
        uint64_t *first = &at[rng_below(rng, countof(at))];
        if (*first == naive->n_items || rng_below(rng, 4) == 0)
            *first = rng_below(rng, naive->n_items);
        uint64_t count = 1 + rng_below(rng, naive->n_items - *first), n_out = 0;
        size_t bytes_max = rng_below(rng, 2) ? SIZE_MAX : (size_t)rng_below(rng, 3000);
        struct err err = {0};
        buf_reset(&out);
        if (source_lines(source, *first, count, bytes_max, &out, &n_out, &err))
            BUG("lines from %lu: %s", *first, err.text);
        ASSERT(n_out >= 1 && n_out <= count);
        ASSERT(bytes_max < SIZE_MAX || n_out == count);
        size_t begin = naive->begins[*first];
        struct str expected = {naive->lines.at + begin, naive->begins[*first + n_out] - begin};
        expect_equal(buf_str(&out), expected, "source_lines", *first);
        *first += n_out;
    }
}

static void compare_items(struct source *source, const struct naive *naive, struct rng *rng)
{
    cleanup_buf struct buf out = BUF_INIT;
    for (int step = 0; step < 60 && naive->n_items > 0; step++) {
        uint64_t item = rng_below(rng, naive->n_items);
        struct err err = {0};
        buf_reset(&out);
        if (source_item(source, item, &out, &err))
            BUG("item %lu: %s", item, err.text);
        expect_equal(buf_str(&out), naive_item(naive, item), "source_item", item);
    }
}

/* Malformed text must be refused, in whole or at the item; well-formed text must not. */
static bool is_refused(int rc, const struct naive *naive, const struct err *err)
{
    if (rc && !naive->is_malformed)
        BUG("refused: %s", err->text);
    return rc != 0;
}

static bool has_bad_item(struct source *source)
{
    cleanup_buf struct buf out = BUF_INIT;
    for (uint64_t i = 0; i < source_known(source); i++) {
        buf_reset(&out);
        if (source_item(source, i, &out, NULL))
            return true;
    }
    return false;
}

static void compare(struct source *source, const struct naive *naive, enum record_format format,
                    struct rng *rng)
{
    bool is_csv = format == FORMAT_CSV || format == FORMAT_TSV;
    if (naive->is_malformed) {
        if (!has_bad_item(source))
            BUG("malformed %s was accepted, items %lu", record_format_name(format),
                source_known(source));
        return;
    }
    if (source_known(source) != naive->n_items)
        BUG("found %lu items, expected %lu", source_known(source), naive->n_items);
    if (is_csv && naive->has_lines) /* raw rows of several lines are refused */
        return;
    compare_lines(source, naive, rng);
    compare_items(source, naive, rng);
}

void agree_check(const char *path, struct str text, enum record_format format, size_t window_bytes,
                 uint64_t seed)
{
    struct rng rng = {seed};
    struct naive naive;
    naive_split(&naive, text, format);
    struct str head = {text.at, MIN(text.len, CONTAINER_HEAD_BYTES)};
    naive.is_malformed |= format != FORMAT_LINES && container_refuse(path, head, false, NULL) != 0;
    bool is_csv = format == FORMAT_CSV || format == FORMAT_TSV;
    if (is_csv && naive.n_items > 0) { /* the header is no item */
        for (uint64_t i = 0; i < naive.n_items; i++)
            naive.begins[i] = naive.begins[i + 1];
        naive.n_items--;
    }
    const struct source_opts opts = {
        .paths = &path, .n_paths = 1, .format = format, .is_raw = is_csv || format == FORMAT_JSONL};
    struct source *source = NULL;
    struct err err = {0};
    int rc = source_open(&source, &opts, &err);
    /*
     * A header that does not parse or has a name twice is refused: no business of the splitter's.
     */
    if (rc && is_csv) {
        naive_release(&naive);
        return;
    }
    if (!is_refused(rc, &naive, &err)) {
        if (window_bytes > 0)
            source_tune(source, window_bytes, window_bytes);
        if (!is_refused(scan_all(source, &rng, &err), &naive, &err))
            compare(source, &naive, format, &rng);
    }
    source_close(source);
    naive_release(&naive);
}
