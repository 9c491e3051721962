/* SPDX-License-Identifier: Apache-2.0 */
#include "base/share.h"
#include "base/xalloc.h"
#include "data/split/split_impl.h"

enum {
    LINE_END_MAX = 2
};

static int part_add(struct split *split, uint64_t first, uint64_t n_records, struct err *err)
{
    if (split->n_parts == SPLIT_PARTS_MAX)
        return fail(err, ERR_USAGE, "that would make more than %d parts", SPLIT_PARTS_MAX);
    if (split->n_parts == split->cap) {
        split->cap = MAX(split->cap * 2, (size_t)16);
        split->parts = xrealloc(split->parts, split->cap * sizeof(*split->parts));
    }
    split->parts[split->n_parts++] = (struct split_part){.first = first, .n_records = n_records};
    return 0;
}

static int plan_by_parts(struct split *split, struct err *err)
{
    uint64_t n_parts = split->opts.n_parts;
    int rc = 0;
    for (uint64_t i = 0; i < n_parts && rc == 0; i++) {
        struct share share = share_of(split->source->n_known, n_parts, i);
        rc = part_add(split, share.start, share.count, err);
    }
    return rc;
}

static int plan_by_records(struct split *split, struct err *err)
{
    uint64_t n_records = split->source->n_known;
    int rc = 0;
    for (uint64_t first = 0; first < n_records && rc == 0; first += split->opts.records_max)
        rc = part_add(split, first, MIN(split->opts.records_max, n_records - first), err);
    return rc;
}

/*
 * The last index entry of the file that is behind `item` and not beyond the offset `limit`; NULL:
 * no such entry.
 */
static const struct index_entry *index_before(const struct source *source,
                                              const struct source_file *file, uint64_t item,
                                              uint64_t limit)
{
    const struct sparse_index *index = &source->index;
    uint64_t end_item = file->first_item + file->n_items;
    const struct index_entry *found = NULL;
    size_t low = 0, high = index->n_entries;
    while (low < high) { /* finds the last entry that is at or before the item or within limit */
        size_t middle = low + (high - low) / 2;
        const struct index_entry *entry = &index->entries[middle];
        bool is_before = entry->item <= item || (entry->item < end_item && entry->offset <= limit);
        if (is_before && entry->item > item)
            found = entry;
        if (is_before)
            low = middle + 1;
        else
            high = middle;
    }
    return found;
}

/* Counts the records from c on that end at or before `limit`, and moves c behind them. */
static int records_within(struct split *split, struct cursor *c, uint64_t limit, uint64_t *n_out,
                          struct err *err)
{
    struct source *source = split->source;
    const struct source_file *file = &source->files[c->file];
    const struct index_entry *entry = index_before(source, file, c->item, limit);
    uint64_t begin = c->item, ends_max = UINT64_MAX;
    if (entry) {
        cursor_seek(c, c->file, entry->offset);
        c->item = entry->item;
    }
    while (c->item < file->first_item + file->n_items && c->offset < limit) {
        /* Only whole blocks are scanned, so up to the end of the block with the limit. */
        uint64_t look = MIN(limit, file->input.text_bytes) - c->offset + SCAN_BLOCK_BYTES;
        struct find find = {.ends_max = ends_max, .bytes_max = (size_t)look, .is_strict = true};
        int rc = cursor_find(source, c, &find, err);
        if (rc)
            return rc;
        /* A last line without a line end will get one. */
        uint64_t end = c->offset + find.tally.after_end + (find.has_end ? 0 : LINE_END_MAX);
        if (find.tally.n_ends > 0 && end <= limit)
            cursor_advance(c, &find.tally);
        else if (find.tally.n_ends > 1)
            ends_max = 1; /* the last of the records ends behind the limit: continue one by one */
        else
            break;
    }
    *n_out = c->item - begin;
    return 0;
}

static int record_skip(struct split *split, struct cursor *c, struct err *err)
{
    struct find find = {.ends_max = 1, .bytes_max = SIZE_MAX};
    int rc = cursor_find(split->source, c, &find, err);
    if (rc == 0)
        cursor_advance(c, &find.tally);
    return rc;
}

/* The bytes of each part that are not records. */
static uint64_t frame_bytes(const struct split *split)
{
    bool is_json = split->source->format == FORMAT_JSON;
    return split->head.len + split->lead.len + split->trail.len + (is_json ? strlen("]\n") : 0);
}

struct filling {
    uint64_t first, n_records, n_bytes;
};

static int filling_end(struct split *split, struct filling *filling, struct err *err)
{
    int rc = part_add(split, filling->first, filling->n_records, err);
    *filling = (struct filling){filling->first + filling->n_records, 0, frame_bytes(split)};
    return rc;
}

/* Assigns the records of one file to the current part and the parts after it. */
static int file_fill(struct split *split, size_t i, struct filling *filling, struct err *err)
{
    const struct source_file *file = &split->source->files[i];
    struct cursor *c = &split->look;
    int rc = 0;
    cursor_seek(c, i, file->begin_at);
    c->item = file->first_item;
    while (rc == 0 && c->item < file->first_item + file->n_items) {
        uint64_t begin = c->offset, count = 0;
        uint64_t room = split->opts.bytes_max - MIN(split->opts.bytes_max, filling->n_bytes);
        rc = records_within(split, c, begin + MIN(room, UINT64_MAX - begin), &count, err);
        if (rc == 0 && count == 0 && filling->n_records == 0) {
            rc = record_skip(split, c, err);
            count = 1;
        }
        filling->n_records += count;
        filling->n_bytes += c->offset - begin;
        if (rc == 0 && c->item < file->first_item + file->n_items)
            rc = filling_end(split, filling, err);
    }
    /* Room for the white space between the elements of two files, and for the end of a last line
     * without one. */
    filling->n_bytes += split->lead.len + LINE_END_MAX;
    return rc;
}

static int plan_by_bytes(struct split *split, struct err *err)
{
    struct filling filling = {.n_bytes = frame_bytes(split) + split_mark(split).len};
    int rc = 0;
    for (size_t i = 0; i < split->source->n_files && rc == 0; i++)
        rc = file_fill(split, i, &filling, err);
    return rc == 0 && filling.n_records > 0 ? filling_end(split, &filling, err) : rc;
}

int split_plan(struct split *split, struct err *err)
{
    int rc = split->opts.n_parts > 0       ? plan_by_parts(split, err)
             : split->opts.records_max > 0 ? plan_by_records(split, err)
                                           : plan_by_bytes(split, err);
    return rc == 0 && split->n_parts == 0 ? part_add(split, 0, 0, err) : rc;
}
