/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the committed ranges, proves that every item occurs once, and streams their bytes.
 */
#include "data/result_merge.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "data/boundaries/boundary_scan.h"
#include "data/result_merge_impl.h"

struct span {
    uint64_t first, end;
};

struct result_merge {
    const struct result_merge_opts *opts;
    struct result_merge_stats *stats;
    struct outfile file;
    struct part_cache parts;
    struct record_out out;
    /*
     * Every item below next_item has been proven to occur once. If the ranges come in the order in
     * which they were committed, all are proven at the end.
     */
    uint64_t next_item;
    uint64_t aside;
    bool has_aside; /* `aside` was read and is not part of the proof yet */
    struct span *spans;
    size_t n_spans, spans_cap;
};

static int failed_item_read(struct result_merge *merge, struct err *err)
{
    uint64_t last = merge->aside;
    bool is_first = merge->stats->n_failed_items == 0;
    int got = merge->opts->next_failed_item
                  ? merge->opts->next_failed_item(merge->opts->context, &merge->aside, err)
                  : 0;
    if (got < 0)
        return got;
    merge->has_aside = got == 1;
    if (got && !is_first && merge->aside <= last)
        return fail(err, ERR_DATA, "item %lu is among those set aside twice", merge->aside);
    merge->stats->n_failed_items += got == 1;
    return 0;
}

static int missing(struct result_merge *merge, uint64_t first, uint64_t end, struct err *err)
{
    if (first == end)
        return 0;
    merge->stats->n_missing += end - first;
    return merge->opts->partial_ok
               ? 0
               : fail(err, ERR_DATA, "item %lu is missing: it has no result and was not set aside",
                      first);
}

/* Proves that all items from next_item up to `end` were set aside. */
static int gap_prove(struct result_merge *merge, uint64_t end, struct err *err)
{
    int rc = 0;
    while (rc == 0 && merge->has_aside && merge->aside < end) {
        if (merge->aside < merge->next_item)
            return fail(err, ERR_DATA, "item %lu has a result and is also among those set aside",
                        merge->aside);
        rc = missing(merge, merge->next_item, merge->aside, err);
        merge->next_item = merge->aside + 1;
        if (rc == 0)
            rc = failed_item_read(merge, err);
    }
    if (rc == 0 && merge->next_item < end)
        rc = missing(merge, merge->next_item, end, err);
    merge->next_item = MAX(merge->next_item, end);
    return rc;
}

/* Checks that the range is within the input, before its items are read. */
static int span_check(const struct result_merge *merge, struct span span, struct err *err)
{
    if (span.end > merge->opts->n_items || span.end < span.first)
        return fail(err, ERR_DATA, "item %lu has a result, but there are only %lu items",
                    MAX(span.first, merge->opts->n_items), merge->opts->n_items);
    return 0;
}

static int span_prove(struct result_merge *merge, struct span span, struct err *err)
{
    if (span.first < merge->next_item)
        return fail(err, ERR_DATA, "item %lu has two results", span.first);
    int rc = gap_prove(merge, span.first, err);
    if (rc == 0 && merge->has_aside && merge->aside < span.end)
        return fail(err, ERR_DATA, "item %lu has a result and is also among those set aside",
                    merge->aside);
    merge->next_item = span.end;
    return rc;
}

/* Keeps a range for the proof at the end; a range that adjoins the last one extends it. */
static void span_keep(struct result_merge *merge, struct span span)
{
    struct span *last = merge->n_spans > 0 ? &merge->spans[merge->n_spans - 1] : NULL;
    if (last && last->end == span.first) {
        last->end = span.end;
        return;
    }
    if (merge->n_spans == merge->spans_cap) {
        merge->spans_cap = MAX(merge->spans_cap * 2, (size_t)1024);
        merge->spans = xrealloc(merge->spans, merge->spans_cap * sizeof(*merge->spans));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    merge->spans[merge->n_spans++] = span;
}

static int span_compare(const void *a, const void *b)
{
    const struct span *left = a, *right = b;
    return (left->first > right->first) - (left->first < right->first);
}

static int spans_prove(struct result_merge *merge, struct err *err)
{
    if (merge->n_spans > 0)
        qsort(merge->spans, merge->n_spans, sizeof(*merge->spans), span_compare);
    for (size_t i = 0; i < merge->n_spans; i++) {
        int rc = span_prove(merge, merge->spans[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int lines_differ(const struct result_range *row, uint64_t n_lines, struct err *err)
{
    return fail(err, ERR_DATA,
                "%s, bytes %lu to %lu: expected %lu results (items %lu to %lu), found %lu",
                row->part_path, row->offset, row->offset + row->bytes, row->count, row->first,
                row->first + row->count - 1, n_lines);
}

/* Copies a range byte for byte, and counts its lines. */
static int range_copy(struct result_merge *merge, const struct result_range *row,
                      struct part_reader *part, struct err *err)
{
    uint64_t at = row->offset, end = row->offset + row->bytes, n_lines = 0;
    char last = '\n';
    while (at < end) {
        struct str view;
        int rc = part_reader_view(part, at, end, 1, &view, err);
        if (rc)
            return rc;
        struct boundary_scan scan = boundary_scan_begin(FORMAT_LINES);
        struct boundary_tally tally = {.ends_max = UINT64_MAX};
        boundary_scan_all(&scan, view.at, view.len, &tally);
        n_lines += tally.n_ends;
        last = view.at[view.len - 1];
        rc = outfile_write(&merge->file, view, err);
        if (rc)
            return rc;
        at += view.len;
    }
    return n_lines == row->count && last == '\n' ? 0 : lines_differ(row, n_lines, err);
}

/* Converts a range line by line; a line may be longer than the window. */
static int range_convert(struct result_merge *merge, const struct result_range *row,
                         struct part_reader *part, struct err *err)
{
    uint64_t at = row->offset, end = row->offset + row->bytes, n_lines = 0;
    size_t want = 1;
    while (at < end) {
        struct str view;
        int rc = part_reader_view(part, at, end, want, &view, err);
        if (rc)
            return rc;
        const char *newline = memchr(view.at, '\n', view.len);
        if (!newline && at + view.len == end)
            return lines_differ(row, n_lines, err);
        want = newline ? 1 : (size_t)MIN(view.len * 2, end - at);
        if (!newline)
            continue;
        view.len = (size_t)(newline - view.at);
        if (n_lines == row->count)
            return lines_differ(row, n_lines + 1, err);
        rc = record_out_add(&merge->out, row->first + n_lines, view, err);
        if (rc)
            return rc;
        n_lines++;
        at += view.len + 1;
    }
    return n_lines == row->count ? 0 : lines_differ(row, n_lines, err);
}

static int range_write(struct result_merge *merge, const struct result_range *row, struct err *err)
{
    struct span span = {row->first, row->first + row->count};
    int rc = span_check(merge, span, err);
    if (rc == 0 && merge->opts->in_order)
        rc = span_prove(merge, span, err);
    else if (rc == 0)
        span_keep(merge, span);
    struct part_reader *part;
    if (rc == 0)
        rc = part_cache_get(&merge->parts, row->part_path, &part, err);
    if (rc == 0)
        rc = record_out_is_verbatim(&merge->out) ? range_copy(merge, row, part, err)
                                                 : range_convert(merge, row, part, err);
    merge->stats->n_results += row->count;
    return rc;
}

/* The columns of an output that has no record: a join has the input's columns. */
static const struct csv_row *columns_known(const struct result_merge_opts *opts)
{
    static const struct csv_row none;
    return opts->join ? source_columns(opts->source) : &none;
}

static int ranges_write(struct result_merge *merge, struct err *err)
{
    struct result_range row = {0};
    int rc = failed_item_read(merge, err);
    record_out_begin(&merge->out);
    while (rc == 0) {
        int got = merge->opts->next_range(merge->opts->context, &row, err);
        if (got <= 0) {
            rc = got;
            break;
        }
        rc = range_write(merge, &row, err);
    }
    if (rc == 0)
        rc = spans_prove(merge, err);
    if (rc == 0)
        rc = gap_prove(merge, merge->opts->n_items, err);
    if (rc == 0 && merge->has_aside)
        rc = fail(err, ERR_DATA, "item %lu was set aside, but there are only %lu items",
                  merge->aside, merge->opts->n_items);
    if (rc == 0) {
        record_out_columns(&merge->out, columns_known(merge->opts));
        record_out_end(&merge->out);
    }
    return rc;
}

int result_merge_write(const struct result_merge_opts *opts, struct result_merge_stats *stats,
                       struct err *err)
{
    struct result_merge_stats unwanted = {0};
    struct result_merge merge = {
        .opts = opts, .stats = stats ? stats : &unwanted, .file = OUTFILE_INIT};
    *merge.stats = (struct result_merge_stats){0};
    ASSERT(!opts->join || opts->source);
    merge.out = (struct record_out){.opts = opts, .file = &merge.file, .format = opts->format};
    if (opts->format == OUT_AUTO)
        merge.out.format = out_format_of_path(opts->out_path);
    int rc = outfile_open(&merge.file, opts->out_path, opts->overwrite, err);
    if (rc == 0)
        rc = ranges_write(&merge, err);
    if (rc == 0)
        rc = outfile_sync(&merge.file, err);
    if (rc == 0 && opts->placing)
        rc = opts->placing(opts->context, merge.file.fd, err);
    if (rc == 0)
        rc = outfile_commit(&merge.file, err);
    merge.stats->bytes_out = merge.file.bytes;
    outfile_close(&merge.file);
    record_out_release(&merge.out);
    part_cache_release(&merge.parts);
    free(merge.spans);
    return rc;
}
