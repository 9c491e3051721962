/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the bytes of one part from the input to its file, a window at a time: reads the window,
 * counts and checks its records while it is in the cache, then writes it.
 */
#include "base/json_rough.h"
#include "base/xalloc.h"
#include "data/split/split_impl.h"

enum {
    BLANKS_MAX = 4096 /* most white space of an array's layout that is kept */
};

/* A stretch of one file: n_records records from `first` on, in the bytes [from, to). */
struct piece {
    size_t file;
    uint64_t first, n_records, from, to;
};

struct sink {
    struct outfile *file; /* NULL: nothing is written */
    uint64_t n_bytes;
    char last;
};

static int sink_put(struct sink *sink, struct str text, struct err *err)
{
    if (text.len == 0)
        return 0;
    sink->n_bytes += text.len;
    sink->last = text.at[text.len - 1];
    return sink->file ? outfile_write(sink->file, text, err) : 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* ---- what every part begins and ends with ---- */

/* Moves *from, towards `to`, behind the blanks that begin there; at most BLANKS_MAX of them are
 * added to `kept`. */
static int blanks_skip(struct input *input, uint64_t *from, uint64_t to, struct buf *kept,
                       struct err *err)
{
    char piece[BLANKS_MAX];
    while (*from < to) {
        size_t len = (size_t)MIN(to - *from, sizeof(piece)), n = 0;
        int rc = input_read(input, *from, piece, len, err);
        if (rc)
            return rc;
        while (n < len && is_blank(piece[n]))
            n++;
        if (kept && kept->len + n <= BLANKS_MAX)
            buf_add(kept, piece, n);
        *from += n;
        if (n < len)
            return 0;
    }
    return 0;
}

/* blanks_skip() backwards: moves *to down to behind the last byte that is not blank. */
static int blanks_cut(struct input *input, uint64_t from, uint64_t *to, struct err *err)
{
    char piece[BLANKS_MAX];
    while (from < *to) {
        size_t len = (size_t)MIN(*to - from, sizeof(piece)), n = len;
        int rc = input_read(input, *to - len, piece, len, err);
        if (rc)
            return rc;
        while (n > 0 && is_blank(piece[n - 1]))
            n--;
        *to -= len - n;
        if (n > 0)
            return 0;
    }
    return 0;
}

static int array_frame(struct split *split, struct err *err)
{
    buf_add_char(&split->head, '[');
    for (size_t i = 0; i < split->source->n_files; i++) {
        struct source_file *file = &split->source->files[i];
        if (file->n_items == 0)
            continue;
        uint64_t bracket_at = file->last_end_at - 1, from = file->begin_at, end = bracket_at;
        int rc = blanks_skip(&file->input, &from, bracket_at, &split->lead, err);
        if (rc == 0)
            rc = blanks_cut(&file->input, from, &end, err);
        return rc ? rc : blanks_skip(&file->input, &end, bracket_at, &split->trail, err);
    }
    return 0;
}

static int header_frame(struct split *split, struct err *err)
{
    for (size_t i = 0; i < split->source->n_files && split->head.len == 0; i++) {
        struct source_file *file = &split->source->files[i];
        if (!file->has_header)
            continue;
        size_t len = (size_t)file->begin_at;
        buf_reserve(&split->head, len + 1);
        int rc = input_read(&file->input, 0, split->head.at, len, err);
        if (rc)
            return rc;
        buf_extend(&split->head, len);
        if (split->head.at[len - 1] != '\n') {
            buf_add_char(&split->head, '\n');
            split->n_terminated++;
        }
    }
    return 0;
}

int split_frame(struct split *split, struct err *err)
{
    if (split->source->format == FORMAT_JSON)
        return array_frame(split, err);
    return split->source->separator ? header_frame(split, err) : 0;
}

/* ---- looking ---- */

static int row_fail(struct split *split, size_t file_index, uint64_t row_at, uint64_t line,
                    struct err *err, int rc)
{
    struct input *input = &split->source->files[file_index].input;
    line += ends_count(input, FORMAT_LINES, 0, row_at);
    return wrap(err, rc, "%s line %lu", input->name, line);
}

/*
 * True if the bytes behind the last row of a file are not a row: nothing, or only CRs of a line
 * end.
 */
static bool is_no_row(struct str record)
{
    size_t n_crs = 0;
    while (n_crs < record.len && record.at[n_crs] == '\r')
        n_crs++;
    return n_crs == record.len;
}

/*
 * Parses the row at row_at, because it is not plain; ERR_DATA if it is malformed. *next_at: where
 * the next row begins.
 */
static int row_look(struct split *split, size_t file, uint64_t row_at, uint64_t *next_at,
                    struct err *err)
{
    struct cursor *c = &split->look;
    struct str record;
    uint64_t line;
    cursor_seek(c, file, row_at);
    int rc = cursor_take(split->source, c, &record, &line, err);
    *next_at = c->offset;
    if (rc || is_no_row(record))
        return rc;
    split->n_rows++;
    rc = csv_parse(&split->row, record, split->source->separator, err);
    if (rc == 0 && split->row.n_fields != split->source->header.n_fields)
        rc = fail(err, ERR_DATA, "expected %zu fields as in the header, found %zu",
                  split->source->header.n_fields, split->row.n_fields);
    return rc ? row_fail(split, file, row_at, line, err, rc) : 0;
}

static void rows_restart(struct split *split, uint64_t offset)
{
    split->n_rows += split->rows.n_rows;
    split->rows_from = offset;
    split->rows = (struct rows){.separator = split->source->separator,
                                .n_separators = split->source->header.n_fields - 1};
}

/*
 * Checks the whole blocks of [at, at+len), the bytes of the file from `base` on. Skips blocks that
 * were checked before.
 */
static int rows_look(struct split *split, size_t file, uint64_t base, const char *at, size_t len,
                     struct err *err)
{
    for (;;) {
        uint64_t next_at = split->rows_from + split->rows.n_bytes;
        if (next_at >= base + len)
            return 0;
        size_t seen = (size_t)(next_at - base);
        rows_blocks(&split->rows, at + seen, len - seen);
        if (!rows_is_stopped(&split->rows))
            return 0;
        int rc = row_look(split, file, split->rows_from + split->rows.row_at, &next_at, err);
        if (rc)
            return rc;
        rows_restart(split, next_at);
    }
}

/*
 * Checks the end of a piece, less than a block, with the line end that a last line may lack.
 * Repeats this after each row that is not plain.
 */
static int rows_look_end(struct split *split, const struct piece *piece, struct err *err)
{
    int rc;
    do {
        char block[SCAN_BLOCK_BYTES];
        uint64_t next_at = split->rows_from + split->rows.n_bytes;
        size_t len = (size_t)(piece->to - next_at);
        ASSERT(len <= split->n_kept && len < sizeof(block));
        memset(block, '\r', sizeof(block));
        memcpy(block, split->window + split->n_kept - len, len);
        block[len] = '\n'; /* behind another newline it ends a blank line, which is no row */
        rc = rows_look(split, piece->file, next_at, block, sizeof(block), err);
    } while (rc == 0 && split->rows_from + split->rows.n_bytes < piece->to);
    return rc;
}

static int elements_look(struct split *split, const struct piece *piece, struct err *err)
{
    const struct source_file *file = &split->source->files[piece->file];
    cursor_seek(&split->look, piece->file, piece->from);
    for (uint64_t i = 0; i < piece->n_records; i++) {
        struct str record;
        uint64_t line;
        int rc = cursor_take(split->source, &split->look, &record, &line, err);
        if (rc)
            return rc;
        if (!json_is_value(record))
            return wrap(err, json_refuse(record, ERR_DATA, err), "%s element %lu", file->input.name,
                        piece->first + i - file->first_item + 1);
    }
    return 0;
}

/* ---- copying ---- */

static int changed(const struct split *split, const struct piece *piece, uint64_t n_found,
                   struct err *err)
{
    return fail(err, ERR_DATA,
                "%s changed while it was cut: bytes %lu to %lu had %lu records and now have %lu",
                split->source->files[piece->file].input.name, piece->from, piece->to,
                piece->n_records, n_found);
}

/*
 * Checks a window: `len` new bytes, which are at offset `at` of the file, behind the bytes that
 * were kept from the window before.
 */
static int rows_window(struct split *split, const struct piece *piece, uint64_t at, size_t len,
                       struct err *err)
{
    int rc =
        rows_look(split, piece->file, at - split->n_kept, split->window, split->n_kept + len, err);
    uint64_t seen_to = split->rows_from + split->rows.n_bytes, end = at + len;
    const char *text_end = split->window + split->n_kept + len;
    split->n_kept = seen_to < end ? (size_t)(end - seen_to) : 0;
    memmove(split->window, text_end - split->n_kept, split->n_kept);
    return rc;
}

/* Counts record ends in a piece of another format than CSV. */
struct counting {
    struct boundary_scan scan;
    struct boundary_tally tally;
};

static void counting_window(struct counting *counting, const char *at, size_t len)
{
    /* Only the last window has a partial block. */
    boundary_scan_all(&counting->scan, at, len, &counting->tally);
}

static uint64_t counted(const struct split *split, const struct piece *piece,
                        const struct counting *counting)
{
    const struct boundary_tally *tally = &counting->tally;
    enum record_format format = split->source->format;
    if (split->source->separator)
        return split->n_rows + split->rows.n_rows;
    bool is_open = format == FORMAT_LINES  ? tally->after_end < piece->to - piece->from
                   : format == FORMAT_JSON ? true /* there is no comma behind the last element */
                                           : counting->scan.has_content;
    return tally->n_ends + is_open;
}

/* Adds the line end that a last line lacks, of the same kind as the line end before it. */
static int line_terminate(struct split *split, const struct piece *piece, struct sink *sink,
                          struct err *err)
{
    struct source_file *file = &split->source->files[piece->file];
    uint64_t end = file->input.text_bytes;
    size_t len = (size_t)MIN(end, (uint64_t)WINDOW_BYTES);
    int rc = input_read(&file->input, end - len, split->window, len, err);
    if (rc)
        return rc;
    const char *newline = memrchr(split->window, '\n', len);
    bool is_crlf = newline && newline > split->window && newline[-1] == '\r';
    /*
     * In lines a CR at the very end is content. "\n" alone behind it would make it part of a line
     * end, so "\r\n" is added.
     */
    if (sink->last == '\r')
        is_crlf = split->source->format == FORMAT_LINES;
    split->n_terminated++;
    return sink_put(sink, is_crlf ? STR("\r\n") : STR("\n"), err);
}

static int piece_copy(struct split *split, const struct piece *piece, struct sink *sink,
                      struct err *err)
{
    struct input *input = &split->source->files[piece->file].input;
    struct counting counting = {.scan = boundary_scan_begin(split->source->format),
                                .tally = {.ends_max = UINT64_MAX}};
    int rc = split->source->format == FORMAT_JSON ? elements_look(split, piece, err) : 0;
    rows_restart(split, piece->from);
    split->n_rows = split->n_kept = 0;
    for (uint64_t at = piece->from; rc == 0 && at < piece->to;) {
        size_t len = (size_t)MIN(piece->to - at, split->source->window_bytes);
        char *text = split->window + split->n_kept;
        rc = stop_check(split->stop, err);
        if (rc == 0)
            rc = input_read(input, at, text, len, err);
        if (rc == 0)
            rc = sink_put(sink, (struct str){text, len}, err);
        if (rc == 0 && split->source->separator)
            rc = rows_window(split, piece, at, len, err);
        else if (rc == 0)
            counting_window(&counting, text, len);
        at += len;
    }
    if (rc == 0 && split->source->separator)
        rc = rows_look_end(split, piece, err);
    uint64_t n_found = counted(split, piece, &counting);
    if (rc == 0 && n_found != piece->n_records)
        rc = changed(split, piece, n_found, err);
    if (rc == 0 && split->source->format != FORMAT_JSON && sink->last != '\n')
        rc = line_terminate(split, piece, sink, err);
    return rc;
}

/* ---- a part ---- */

/* Finds the offset of a record in its file; the record is not the first of the file. */
static int offset_of(struct split *split, uint64_t item, uint64_t *out, struct err *err)
{
    struct cursor *c;
    int rc = cursor_at(split->source, item, &c, err);
    if (rc == 0)
        *out = c->offset;
    return rc;
}

static int piece_place(struct split *split, struct piece *piece, struct err *err)
{
    struct source_file *file = &split->source->files[piece->file];
    bool is_json = split->source->format == FORMAT_JSON;
    uint64_t end = piece->first + piece->n_records;
    int rc = 0;
    piece->from = file->begin_at;
    if (piece->first > file->first_item)
        rc = offset_of(split, piece->first, &piece->from, err);
    piece->to = is_json ? file->last_end_at : file->input.text_bytes;
    if (rc == 0 && end < file->first_item + file->n_items)
        rc = offset_of(split, end, &piece->to, err);
    if (rc || !is_json)
        return rc;
    piece->to--; /* excludes the comma or the bracket */
    rc = blanks_skip(&file->input, &piece->from, piece->to, NULL, err);
    return rc ? rc : blanks_cut(&file->input, piece->from, &piece->to, err);
}

struct str split_mark(const struct split *split)
{
    enum record_format format = split->source->format;
    bool has_mark =
        (format == FORMAT_LINES || format == FORMAT_JSONL) && split->source->files[0].begin_at > 0;
    return has_mark ? STR("\xef\xbb\xbf") : STR("");
}

static int pieces_copy(struct split *split, const struct split_part *part, struct sink *sink,
                       struct err *err)
{
    uint64_t end = part->first + part->n_records;
    bool is_json = split->source->format == FORMAT_JSON, is_first = true;
    int rc = 0;
    for (size_t i = 0; i < split->source->n_files && rc == 0; i++) {
        const struct source_file *file = &split->source->files[i];
        uint64_t first = MAX(part->first, file->first_item);
        uint64_t file_end = MIN(end, file->first_item + file->n_items);
        if (first >= file_end)
            continue;
        struct piece piece = {.file = i, .first = first, .n_records = file_end - first};
        rc = piece_place(split, &piece, err);
        if (rc == 0 && is_json && !is_first)
            rc = sink_put(sink, STR(","), err);
        if (rc == 0 && is_json)
            rc = sink_put(sink, buf_str(&split->lead), err);
        if (rc == 0)
            rc = piece_copy(split, &piece, sink, err);
        is_first = false;
    }
    if (rc == 0 && is_json && !is_first)
        rc = sink_put(sink, buf_str(&split->trail), err);
    return rc;
}

int split_copy(struct split *split, struct split_part *part, struct outfile *file, struct err *err)
{
    struct sink sink = {.file = file, .last = '\n'};
    int rc = part == split->parts ? sink_put(&sink, split_mark(split), err) : 0;
    if (rc == 0)
        rc = sink_put(&sink, buf_str(&split->head), err);
    if (rc == 0)
        rc = pieces_copy(split, part, &sink, err);
    if (rc == 0 && split->source->format == FORMAT_JSON)
        rc = sink_put(&sink, STR("]\n"), err);
    part->n_bytes = sink.n_bytes;
    return rc;
}
