/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's beginning (byte-order mark, opening bracket, CSV header) and its end.
 */
#include <ctype.h>

#include "base/json_rough.h"
#include "base/name_index.h"
#include "base/xalloc.h"
#include "data/container.h"
#include "data/source_impl.h"

enum {
    HEADER_BYTES_MAX = 16 * 1024 * 1024,
    LOOK_BYTES = 4096
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Skips the byte-order mark, and refuses a file that is not text. */
static int first_bytes_take(const struct source *source, struct source_file *file, struct err *err)
{
    struct input *input = &file->input;
    char head[CONTAINER_HEAD_BYTES] = {0};
    size_t len = (size_t)MIN(input->text_bytes, sizeof(head));
    struct str text = {head, len};
    int rc = input_read(input, 0, head, len, err);
    /* A user who asked for lines gets lines, whatever the file contains. */
    if (rc == 0 && source->opts.format != FORMAT_LINES)
        rc = container_refuse(input->name, text, input->is_stream, err);
    if (rc)
        return rc;
    if (str_starts_with(text, STR("\xff\xfe")) || str_starts_with(text, STR("\xfe\xff")))
        return fail(err, ERR_DATA,
                    "%s is UTF-16; muster reads UTF-8: iconv -f UTF-16 -t UTF-8 makes it so",
                    input->name);
    file->begin_at = len - str_unmarked(text).len;
    file->begin_line = 1;
    return 0;
}

/* Finds the first byte from *at on that is not blank. *is_found: such a byte has been read. */
static int find_content(struct source_file *file, uint64_t *at, char *found, bool *is_found,
                        struct err *err)
{
    char piece[LOOK_BYTES];
    *is_found = false;
    while (*at < file->input.text_bytes) {
        size_t len = (size_t)MIN(file->input.text_bytes - *at, sizeof(piece));
        int rc = input_read(&file->input, *at, piece, len, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < len; i++, (*at)++) {
            if (is_blank(piece[i]))
                continue;
            *found = piece[i];
            *is_found = true;
            return 0;
        }
    }
    return 0;
}

static int json_begin(struct source_file *file, struct err *err)
{
    char first = 0;
    bool is_found;
    uint64_t at = file->begin_at;
    int rc = find_content(file, &at, &first, &is_found, err);
    if (rc || (!is_found && !file->input.is_whole))
        return rc;
    if (is_found && first != '[')
        return fail(err, ERR_DATA, "%s is not a JSON array: it begins with '%c'%s",
                    file->input.name, isprint((unsigned char)first) ? first : '?',
                    first == '{' ? "; if it has one value a line, say --format jsonl" : "");
    file->scan.is_first = true;
    /* A file of blanks only is empty: it has no items. */
    file->begin_at = is_found ? at + 1 : file->input.text_bytes;
    file->scan.depth = is_found ? 1 : 0;
    file->is_begun = true;
    return 0;
}

static int endless_refuse(const char *name, struct str begin, struct err *err)
{
    return fail(err, ERR_DATA, "%s: no end of the header within 16 MiB; %s", name,
                memchr(begin.at, '\r', begin.len)
                    ? "do its lines end in CR alone? tr '\\r' '\\n' makes them newlines"
                    : "is a quote not closed?");
}

/*
 * Reads the header's bytes, with the blank lines before the header and with its line end. *after is
 * 0 if the header is not complete yet.
 */
static int header_read(struct source *source, struct source_file *file, struct buf *out,
                       size_t *after, bool *has_end, struct err *err)
{
    struct input *input = &file->input;
    uint64_t left = input->text_bytes - file->begin_at;
    *after = 0;
    for (size_t want = LOOK_BYTES;; want *= 4) {
        size_t len = (size_t)MIN(left, want);
        buf_reset(out);
        buf_reserve(out, len);
        int rc = input_read(input, file->begin_at, out->at, len, err);
        if (rc)
            return rc;
        buf_extend(out, len);
        struct boundary_scan scan = boundary_scan_begin(FORMAT_CSV);
        struct boundary_tally tally = {.ends_max = 1};
        /* A NUL behind the header is left to the reader of the rows, which names its line. */
        size_t well = strnlen(out->at, len);
        bool is_all = well < len || len == left;
        (is_all ? boundary_scan_all : boundary_scan_blocks)(&scan, out->at, well, &tally);
        if (well < len && tally.n_ends == 0)
            return fail(err, ERR_DATA, "%s has a NUL byte in its header; is it text?", input->name);
        if (tally.n_ends > 0 || (len == left && input->is_whole)) {
            *has_end = tally.n_ends > 0;
            if (!*has_end && scan.inside)
                return head_blame_quotes(source, file, err);
            *after = *has_end ? tally.after_end : len;
            file->begin_line += tally.n_newlines;
            return 0;
        }
        if (len == left && left < HEADER_BYTES_MAX)
            return 0;
        if (want >= HEADER_BYTES_MAX)
            return endless_refuse(input->name, (struct str){out->at, len}, err);
    }
}

static int header_set(struct source *source, const char *name, struct err *err)
{
    const struct csv_row *header = &source->header;
    cleanup_name_index struct name_index columns = NAME_INDEX_INIT;
    if (!source->is_converted)
        return 0; /* only objects need the names, as their keys */
    source->key_ends = xcalloc(header->n_fields, sizeof(*source->key_ends));
    for (size_t i = 0; i < header->n_fields; i++) {
        struct str column = csv_field(header, i);
        size_t first = name_index_add(&columns, column);
        if (first != i)
            return fail(err, ERR_DATA, "%s: columns %zu and %zu are both called '%.*s'", name,
                        first + 1, i + 1, (int)MIN(column.len, (size_t)60), column.at);
        if (!utf8_is_valid(column))
            return fail(err, ERR_DATA, "%s: the name of column %zu is not UTF-8", name, i + 1);
        buf_add_json(&source->keys, column);
        buf_add_char(&source->keys, ':');
        source->key_ends[i] = source->keys.len;
    }
    return 0;
}

static int header_compare(const struct source *source, const struct csv_row *other,
                          const char *name, struct err *err)
{
    const struct csv_row *header = &source->header;
    const char *first = source->files[0].input.name;
    if (other->n_fields != header->n_fields)
        return fail(err, ERR_DATA, "%s has %zu columns, the files before it (%s) have %zu", name,
                    other->n_fields, first, header->n_fields);
    for (size_t i = 0; i < other->n_fields; i++) {
        struct str here = csv_field(other, i), there = csv_field(header, i);
        if (!str_equal(here, there))
            return fail(err, ERR_DATA, "%s: column %zu is '%.*s', expected '%.*s' as in %s", name,
                        i + 1, (int)MIN(here.len, (size_t)60), here.at,
                        (int)MIN(there.len, (size_t)60), there.at, first);
    }
    return 0;
}

/* Nothing but CRs before the end of the file is neither a header nor a row. */
static bool is_all_crs(struct str text)
{
    while (text.len > 0 && text.at[text.len - 1] == '\r')
        text.len--;
    return text.len == 0;
}

static int csv_begin(struct source *source, struct source_file *file, struct err *err)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    cleanup_csv_row struct csv_row row = CSV_ROW_INIT;
    size_t after;
    bool has_end = false;
    int rc = header_read(source, file, &bytes, &after, &has_end, err);
    if (rc || (after == 0 && !file->input.is_whole))
        return rc;
    uint64_t blank_lines;
    struct str text =
        record_trim(source, (struct str){bytes.at, after - has_end}, has_end, false, &blank_lines);
    file->begin_at += after;
    file->is_begun = true;
    if (is_all_crs(text))
        return 0; /* an empty file has no header and no items */
    file->has_header = true;
    rc = csv_parse(&row, text, source->separator, err);
    if (rc)
        return wrap(err, rc, "%s: header", file->input.name);
    if (source->header.n_fields > 0)
        return header_compare(source, &row, file->input.name, err);
    source->header = row;
    row = (struct csv_row)CSV_ROW_INIT;
    return header_set(source, file->input.name, err);
}

int head_begin(struct source *source, struct source_file *file, struct err *err)
{
    /* Three bytes are enough to recognise a byte-order mark. */
    if (file->input.text_bytes < 3 && !file->input.is_whole)
        return 0;
    int rc = first_bytes_take(source, file, err);
    if (rc)
        return rc;
    file->scan = boundary_scan_begin(source->format);
    if (source->format == FORMAT_JSON)
        rc = json_begin(file, err);
    else if (source->separator)
        rc = csv_begin(source, file, err);
    else
        file->is_begun = true;
    file->scan_at = file->last_end_at = file->begin_at;
    return rc;
}

int head_check_last(struct source *source, struct source_file *file, uint64_t from, struct err *err)
{
    cleanup_buf struct buf record = BUF_INIT;
    size_t len = (size_t)(file->input.text_bytes - from);
    (void)source;
    buf_reserve(&record, len);
    int rc = input_read(&file->input, from, record.at, len, err);
    if (rc)
        return rc;
    struct str text = str_trim((struct str){record.at, len});
    if (text.len == 0 || json_is_value(text))
        return 0;
    uint64_t at = from + (uint64_t)(text.at - record.at);
    if (json_is_whole_but_flawed(text))
        return wrap(err, json_refuse(text, ERR_DATA, err), "%s: the last record, at byte %lu",
                    file->input.name, at);
    cleanup_buf struct buf cure = BUF_INIT;
    if (!file->input.is_stream && file->input.packed_read == 0)
        buf_addf(&cure, ": truncate -s %lu %s", at, file->input.name);
    return fail(
        err, ERR_DATA,
        "%s: the last record, at byte %lu, is cut off: it has no newline and is no JSON value; "
        "finish it, or remove it%s",
        file->input.name, at, buf_text(&cure));
}

/* Finds where the last line begins, reading backwards. */
static int last_line_find(struct source_file *file, uint64_t *from, struct err *err)
{
    cleanup_buf struct buf piece = BUF_INIT;
    uint64_t end = file->input.text_bytes;
    buf_reserve(&piece, WINDOW_BYTES);
    for (size_t want = LOOK_BYTES; end > file->begin_at; want = WINDOW_BYTES) {
        size_t len = (size_t)MIN(end - file->begin_at, want);
        int rc = input_read(&file->input, end - len, piece.at, len, err);
        if (rc)
            return rc;
        const char *newline = memrchr(piece.at, '\n', len);
        if (newline) {
            *from = end - len + (uint64_t)(newline - piece.at) + 1;
            return 0;
        }
        end -= len;
    }
    *from = file->begin_at;
    return 0;
}

static int array_check_end(struct source_file *file, struct err *err)
{
    char piece[LOOK_BYTES];
    uint64_t end = file->input.text_bytes;
    while (end > file->begin_at) {
        size_t len = (size_t)MIN(end - file->begin_at, sizeof(piece));
        int rc = input_read(&file->input, end - len, piece, len, err);
        if (rc)
            return rc;
        while (len > 0 && is_blank(piece[len - 1]))
            len--, end--;
        if (len == 0)
            continue;
        if (piece[len - 1] == ']')
            return 0;
        break;
    }
    if (file->scan.depth == 0)
        return 0;
    return fail(err, ERR_DATA, "%s is cut off or not an array: its last byte, at %lu, is no ']'",
                file->input.name, end > 0 ? end - 1 : 0);
}

int head_check_end(struct source *source, struct source_file *file, struct err *err)
{
    if (source->format == FORMAT_JSON)
        return array_check_end(file, err);
    /* With a limit the end of the file is not checked: another process may still be writing it. */
    if (source->format != FORMAT_JSONL || source->opts.limit > 0)
        return 0;
    uint64_t from;
    int rc = last_line_find(file, &from, err);
    return rc || from == file->input.text_bytes ? rc : head_check_last(source, file, from, err);
}

int head_blame_quotes(struct source *source, struct source_file *file, struct err *err)
{
    cleanup_buf struct buf piece = BUF_INIT;
    struct csv_check check = {.separator = source->separator, .line = file->begin_line};
    buf_reserve(&piece, WINDOW_BYTES);
    bool has_flaw = false;
    for (uint64_t at = file->begin_at; at < file->input.text_bytes && !has_flaw;) {
        size_t len = (size_t)MIN(file->input.text_bytes - at, (uint64_t)WINDOW_BYTES);
        int rc = input_read(&file->input, at, piece.at, len, err);
        if (rc)
            return rc;
        has_flaw = csv_check_feed(&check, (struct str){piece.at, len});
        at += len;
    }
    return fail(err, ERR_DATA,
                "%s line %lu: %s; a field with a quote is put in quotes and the quote "
                "written twice",
                file->input.name, has_flaw ? check.flaw_line : check.quote_line,
                has_flaw ? check.flaw : "a quote that is opened here is never closed");
}
