/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV and TSV. Plain rows are copied in whole windows; with other columns, other line ends or an id
 * each row is cut into fields, whose text stays as it was written.
 */
#include "base/xalloc.h"
#include "data/file_merge/file_merge_impl.h"

enum {
    ENDS_MAX = 4096
};

/* What a pass does with the rows of one file. */
struct row_pass {
    struct file_merge *merge;
    struct file_merge_input *file;
    bool is_each; /* rows are taken one by one */
    size_t *ends; /* [ENDS_MAX], if is_each */
    struct str *fields;
    size_t n_fields;
    struct csv_row scratch;
};

static uint64_t offset_of(const struct file_merge *merge, const char *at)
{
    return merge->window.base + (uint64_t)(at - merge->window.at);
}

/* The length of the field at the beginning of text, with its quotes. */
static size_t field_len(struct str text, char separator)
{
    size_t i = 0;
    if (text.len > 0 && text.at[0] == '"') {
        for (i = 1; i < text.len; i++) {
            const char *quote = memchr(text.at + i, '"', text.len - i);
            i = quote ? (size_t)(quote - text.at) + 1 : text.len;
            if (i >= text.len || text.at[i] != '"')
                break;
        }
        return MIN(i, text.len);
    }
    const char *end = text.len > 0 ? memchr(text.at, separator, text.len) : NULL;
    return end ? (size_t)(end - text.at) : text.len;
}

static void fields_cut(struct row_pass *pass, struct str row)
{
    for (size_t i = 0; i < pass->n_fields; i++) {
        size_t len = field_len(row, pass->file->separator);
        pass->fields[i] = (struct str){row.at, len};
        len += len < row.len; /* the separator */
        row = (struct str){row.at + len, row.len - len};
    }
}

static void row_put(struct row_pass *pass, struct str row)
{
    struct file_merge *merge = pass->merge;
    struct buf *pending = &merge->out->pending;
    const size_t *field_of = pass->file->field_of;
    size_t begin = pending->len;
    if (!field_of)
        buf_add_str(pending, row);
    for (size_t i = 0; field_of && i < merge->columns.len; i++) {
        if (i > 0)
            buf_add_char(pending, pass->file->separator);
        if (field_of[i] != NAME_NONE)
            buf_add_str(pending, pass->fields[field_of[i]]);
    }
    if (pending->len == begin) /* an empty row would be a blank line, which readers skip */
        buf_add_text(pending, "\"\"");
    buf_add_text(pending, merge->line_end);
}

/* Takes one row, given without its LF. */
static int row_take(struct row_pass *pass, struct str row, struct err *err)
{
    struct file_merge *merge = pass->merge;
    int rc = 0;
    if (row.len > 0 && row.at[row.len - 1] == '\r')
        row.len--;
    if (row.len == 0)
        return 0;
    if (pass->file->field_of || merge->ids)
        fields_cut(pass, row);
    if (merge->ids) {
        struct str id = pass->fields[pass->file->id_field];
        rc = id_add(merge, pass->file, id, offset_of(merge, id.at), err);
    }
    if (rc == 0 && merge->out) {
        row_put(pass, row);
        rc = outfile_pump(merge->out, err);
    }
    return rc;
}

/*
 * Checks a row that is not plain. Quotes within an unquoted field are kept as they are, as Python
 * does.
 */
static int odd_look(struct row_pass *pass, struct str row, struct err *err)
{
    struct file_merge *merge = pass->merge;
    struct err why = {0};
    uint64_t offset = offset_of(merge, row.at);
    if (row.len > 0 && row.at[row.len - 1] == '\r')
        row.len--;
    if (memchr(row.at, '\0', row.len))
        return file_merge_fail(pass->file, offset, err, "a NUL byte, which text has not");
    if (csv_parse(&pass->scratch, row, pass->file->separator, &why) != 0)
        return file_merge_fail(pass->file, offset, err, "%s", why.text);
    if (pass->scratch.n_fields != pass->n_fields)
        return file_merge_fail(pass->file, offset, err,
                               "expected %zu fields as in the header, found %zu", pass->n_fields,
                               pass->scratch.n_fields);
    return 0;
}

static int rows_each(struct row_pass *pass, const char *at, const struct rows *rows,
                     struct err *err)
{
    size_t begin = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < rows->n_rows; i++) {
        /* There may be blank lines before a row. */
        while (at[begin] == '\n' || (at[begin] == '\r' && at[begin + 1] == '\n'))
            begin += at[begin] == '\r' ? 2 : 1;
        rc = row_take(pass, (struct str){at + begin, rows->ends[i] - 1 - begin}, err);
        begin = rows->ends[i];
    }
    return rc;
}

/*
 * Finds the rows from the beginning of `text` on; at the end of the file also the rows in its last,
 * partial block.
 */
static struct rows rows_look(const struct row_pass *pass, struct str text, bool is_end)
{
    struct rows rows = {.separator = pass->file->separator,
                        .n_separators = pass->n_fields - 1,
                        .ends = pass->is_each ? pass->ends : NULL,
                        .ends_max = pass->is_each ? ENDS_MAX : 0};
    size_t tail = text.len % SCAN_BLOCK_BYTES;
    rows_blocks(&rows, text.at, text.len);
    if (is_end && tail > 0 && !rows_is_stopped(&rows)) {
        char block[SCAN_BLOCK_BYTES];
        memset(block, '\r', sizeof(block)); /* CRs end no row */
        memcpy(block, text.at + text.len - tail, tail);
        rows_blocks(&rows, block, sizeof(block));
    }
    return rows;
}

static bool has_other_ends(const struct file_merge *merge, const struct rows *rows)
{
    return (merge->line_end[0] == '\r' ? rows->n_lf : rows->n_crlf) > 0;
}

/*
 * Takes one stretch of rows from the beginning of `text` on. *n_done is the number of its bytes; 0
 * if no row ends in `text`.
 */
static int stretch_take(struct row_pass *pass, struct str text, bool is_end, size_t *n_done,
                        struct err *err)
{
    struct file_merge *merge = pass->merge;
    struct rows rows = rows_look(pass, text, is_end);
    int rc = 0;
    if (!pass->is_each && has_other_ends(merge, &rows)) {
        pass->is_each = true;
        rows = rows_look(pass, text, is_end);
    }
    if (pass->is_each)
        rc = rows_each(pass, text.at, &rows, err);
    else if (merge->out)
        rc = outfile_write(merge->out, (struct str){text.at, rows.row_at}, err);
    pass->file->n_records += rows.n_rows;
    *n_done = rows.row_at;
    if (rc || rows.odd_end == 0)
        return rc;
    struct str odd = {text.at + rows.row_at, rows.odd_end - 1 - rows.row_at};
    rc = odd_look(pass, odd, err);
    pass->file->n_records++;
    *n_done = rows.odd_end;
    return rc ? rc : row_take(pass, odd, err);
}

/* Takes all rows that end in the window. */
static int window_take(struct row_pass *pass, bool is_end, size_t *n_done, struct err *err)
{
    const struct window *w = &pass->merge->window;
    for (size_t n_taken = 1; n_taken > 0 && *n_done < w->len; *n_done += n_taken) {
        struct str rest = {w->at + *n_done, w->len - *n_done};
        int rc = stretch_take(pass, rest, is_end, &n_taken, err);
        if (rc)
            return rc;
    }
    return 0;
}

/*
 * Checks the end of a file behind its last complete row, where only a quote that was never closed
 * is an error.
 */
static int rest_look(struct row_pass *pass, size_t done, struct err *err)
{
    const struct window *w = &pass->merge->window;
    struct source source = {.separator = pass->file->separator};
    if (done == w->len || !memchr(w->at + done, '"', w->len - done))
        return 0;
    return head_blame_quotes(&source, &pass->file->head, err);
}

static int rows_walk(struct row_pass *pass, struct err *err)
{
    struct file_merge *merge = pass->merge;
    struct window *w = &merge->window;
    bool is_end = false;
    size_t done = w->len = 0;
    w->base = pass->file->head.begin_at;
    while (!is_end) {
        int rc = window_slide(merge, pass->file, done, &is_end, err);
        if (rc)
            return rc;
        if (is_end)
            window_terminate(merge, pass->file);
        done = 0;
        rc = window_take(pass, is_end, &done, err);
        if (rc == 0 && is_end)
            rc = rest_look(pass, done, err);
        if (rc == 0 && done == 0 && !is_end)
            rc = window_grow(merge, pass->file, err);
        if (rc)
            return rc;
    }
    return 0;
}

int file_merge_rows(struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    struct row_pass pass = {.merge = merge, .file = file, .n_fields = file->header.n_fields};
    if (pass.n_fields == 0) /* an empty file, or only blank lines */
        return 0;
    if (!merge->line_end)
        merge->line_end = "\n";
    pass.is_each = file->field_of || merge->ids;
    pass.ends = xcalloc(ENDS_MAX, sizeof(*pass.ends));
    pass.fields = xcalloc(pass.n_fields, sizeof(*pass.fields));
    pass.scratch = (struct csv_row)CSV_ROW_INIT;
    int rc = rows_walk(&pass, err);
    free(pass.ends);
    free(pass.fields);
    csv_row_release(&pass.scratch);
    return rc;
}
