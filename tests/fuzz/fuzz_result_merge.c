/* SPDX-License-Identifier: Apache-2.0
 *
 * A ledger that says anything about a part that holds anything: the merge proves it, or refuses it
 * and puts nothing in place.
 *
 *   byte 0  output format, order, --join, partial    byte 1  number of items
 *   then    rows: 0 ends them; 1 an item set aside (1 byte); else a range (first, count, offset,
 *           bytes: 1 byte each; with the high bit of the row's byte, huge)
 *   then    the part
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "data/result_merge.h"
#include "fuzz.h"

enum {
    ROWS_MAX = 64
};

struct rows {
    struct result_range ranges[ROWS_MAX];
    uint64_t failed_items[ROWS_MAX];
    size_t n_ranges, n_failed_items, next_range, next_failed_item;
};

static int next_range(void *context, struct result_range *row, struct err *err)
{
    struct rows *rows = context;
    (void)err;
    if (rows->next_range == rows->n_ranges)
        return 0;
    *row = rows->ranges[rows->next_range++];
    return 1;
}

static int next_failed_item(void *context, uint64_t *item, struct err *err)
{
    struct rows *rows = context;
    (void)err;
    if (rows->next_failed_item == rows->n_failed_items)
        return 0;
    *item = rows->failed_items[rows->next_failed_item++];
    return 1;
}

static uint64_t number(struct str *input, bool is_huge)
{
    uint64_t value = fuzz_choice(input);
    return is_huge ? value << 56 | value : value;
}

static void rows_read(struct rows *rows, struct str *input, const char *part_path)
{
    unsigned kind;
    while ((kind = fuzz_choice(input)) != 0) {
        if (kind == 1 && rows->n_failed_items < ROWS_MAX) {
            rows->failed_items[rows->n_failed_items++] = number(input, false);
        } else if (kind > 1 && rows->n_ranges < ROWS_MAX) {
            struct result_range *row = &rows->ranges[rows->n_ranges++];
            row->part_path = part_path;
            row->first = number(input, kind & 128);
            row->count = number(input, kind & 64);
            row->offset = number(input, kind & 32);
            row->bytes = number(input, kind & 16);
        }
    }
}

static void check_output(const struct result_merge_opts *opts,
                         const struct result_merge_stats *stats)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct err err = {0};
    if (file_read(opts->out_path, 64 << 20, &text, &err))
        BUG("%s", err.text);
    ASSERT(text.len == stats->bytes_out);
    ASSERT(stats->n_results + stats->n_failed_items + stats->n_missing == opts->n_items);
    ASSERT(opts->partial_ok || stats->n_missing == 0);
    if (opts->results_are_json) /* who says so has seen to it */
        return;
    if (opts->format == OUT_JSON)
        ASSERT(json_is_value(buf_str(&text)));
    struct str rest = buf_str(&text), line;
    for (uint64_t i = 0; opts->format == OUT_JSONL && i < stats->n_results; i++)
        ASSERT(str_next(&rest, '\n', &line) && json_is_value(line));
}

static struct source *source_make(void)
{
    const char *paths[] = {fuzz_file("in.jsonl", STR("{\"a\":1}\n[2]\n\"x\"\n{\"a\":{}}\n"))};
    struct source *source = NULL;
    const struct source_opts opts = {.paths = paths, .n_paths = 1};
    int rc = source_open(&source, &opts, NULL);
    while (rc == 0 && !source_is_complete(source))
        rc = source_scan(source, 1 << 16, NULL);
    ASSERT(rc == 0 && source_known(source) == 4);
    return source;
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    struct rows rows = {0};
    unsigned choice = fuzz_choice(&input);
    uint64_t n_items = fuzz_choice(&input);
    cleanup_free char *part = xasprintf("%s/part", fuzz_folder());
    cleanup_free char *out = xasprintf("%s/out", fuzz_folder());
    rows_read(&rows, &input, part);
    fuzz_file("part", input);
    struct result_merge_opts opts = {
        .out_path = out,
        .format = (enum out_format)(OUT_JSONL + choice % 5),
        .results_are_json = choice & 128,
        .in_order = choice & 64,
        .partial_ok = choice & 32,
        .join = choice / 5 % 4 == 3,
        .n_items = n_items,
        .next_range = next_range,
        .next_failed_item = rows.n_failed_items > 0 ? next_failed_item : NULL,
        .context = &rows,
    };
    if (opts.join) {
        opts.source = source_make();
        opts.n_items = MIN(n_items, (uint64_t)4);
    }
    struct result_merge_stats stats;
    struct err err = {0};
    unlink(out);
    int rc = result_merge_write(&opts, &stats, &err);
    if (rc == 0)
        check_output(&opts, &stats);
    else if (path_exists(out) || !err.text[0])
        BUG("refused, with an output: %s", err.text);
    source_close(opts.source);
    return 0;
}
