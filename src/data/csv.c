/* SPDX-License-Identifier: Apache-2.0 */
#include "data/csv.h"

#include "base/xalloc.h"

void csv_row_release(struct csv_row *row)
{
    buf_release(&row->text);
    free(row->ends);
    *row = (struct csv_row)CSV_ROW_INIT;
}

struct str csv_field(const struct csv_row *row, size_t i)
{
    size_t begin = i > 0 ? row->ends[i - 1] : 0;
    return (struct str){buf_text(&row->text) + begin, row->ends[i] - begin};
}

static void field_end(struct csv_row *row)
{
    if (row->n_fields == row->cap) {
        row->cap = MAX(row->cap * 2, (size_t)16);
        row->ends = xrealloc(row->ends, row->cap * sizeof(*row->ends));
    }
    row->ends[row->n_fields++] = row->text.len;
}

void csv_row_add(struct csv_row *row, struct str field)
{
    buf_add_str(&row->text, field);
    field_end(row);
}

/* Called with *at behind the opening quote: adds the content, and moves *at behind the closing
 * quote. */
static int quoted_add(struct csv_row *row, const char **at, const char *end, struct err *err)
{
    for (;;) {
        const char *quote = *at < end ? memchr(*at, '"', (size_t)(end - *at)) : NULL;
        if (!quote)
            return fail(err, ERR_DATA, "a quote is not closed");
        buf_add(&row->text, *at, (size_t)(quote - *at));
        *at = quote + 1;
        if (*at == end || **at != '"')
            return 0;
        buf_add_char(&row->text, '"');
        (*at)++;
    }
}

static int cr_refuse(struct err *err)
{
    return fail(err, ERR_DATA,
                "a carriage return outside quotes; for some readers a row ends there (where all "
                "lines end in it, as on a classic Mac, tr '\\r' '\\n' makes them newlines)");
}

/* Reads a field that begins with a quote; *at moves behind the field. */
static int quoted_field(struct csv_row *row, const char **at, const char *end, char separator,
                        struct err *err)
{
    ++*at;
    int rc = quoted_add(row, at, end, err);
    if (rc)
        return rc;
    if (*at < end && **at == '\r')
        return cr_refuse(err);
    return *at < end && **at != separator
               ? fail(err, ERR_DATA,
                      "text follows a closing quote; a quote within a field is written twice")
               : 0;
}

int csv_parse(struct csv_row *row, struct str record, char separator, struct err *err)
{
    buf_reset(&row->text);
    buf_reserve(&row->text, record.len);
    row->n_fields = 0;
    bool has_lines = record.len > 0 && memchr(record.at, '\n', record.len);
    bool has_cr = record.len > 0 && memchr(record.at, '\r', record.len);
    const char *at = record.at, *end = record.at + record.len;
    for (;;) {
        if (at < end && *at == '"') {
            int rc = quoted_field(row, &at, end, separator, err);
            if (rc)
                return rc;
        } else {
            const char *stop = at < end ? memchr(at, separator, (size_t)(end - at)) : NULL;
            size_t len = (size_t)((stop ? stop : end) - at);
            if (has_lines && len > 0 && memchr(at, '"', len))
                return fail(err, ERR_DATA,
                            "a quote within an unquoted field; put the field in quotes "
                            "and write the quote twice");
            if (has_cr && len > 0 && memchr(at, '\r', len))
                return cr_refuse(err);
            buf_add(&row->text, at, len);
            at += len;
        }
        field_end(row);
        if (at >= end)
            return 0;
        at++;
    }
}

enum {
    CHECK_FIELD_BEGIN,
    CHECK_PLAIN,
    CHECK_QUOTED,
    CHECK_QUOTE_IN_QUOTED
};

static bool check_flaw(struct csv_check *check, uint64_t line, const char *flaw)
{
    check->flaw_line = line;
    check->flaw = flaw;
    return true;
}

/* Takes one byte that is outside quotes. */
static void check_plain(struct csv_check *check, char c)
{
    if (c == '"' && check->state == CHECK_FIELD_BEGIN) {
        check->state = CHECK_QUOTED;
        check->quote_line = check->line;
    } else {
        check->state = c == check->separator || c == '\n' ? CHECK_FIELD_BEGIN : CHECK_PLAIN;
    }
}

bool csv_check_feed(struct csv_check *check, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (check->state == CHECK_QUOTED) {
            if (c == '"')
                check->state = CHECK_QUOTE_IN_QUOTED;
        } else if (check->state == CHECK_QUOTE_IN_QUOTED) {
            if (c == '"')
                check->state = CHECK_QUOTED;
            else if (c == check->separator || c == '\n' || c == '\r')
                check_plain(check, c);
            else
                return check_flaw(check, check->line, "text follows a closing quote");
        } else if (c == '"' && check->state == CHECK_PLAIN) {
            return check_flaw(check, check->line, "a quote within an unquoted field");
        } else {
            check_plain(check, c);
        }
        check->line += c == '\n';
    }
    return false;
}

void csv_add_field(struct buf *out, struct str field, char separator)
{
    const char special[] = {separator, '"', '\n', '\r'};
    bool is_plain = true;
    for (size_t i = 0; i < sizeof(special); i++)
        is_plain = is_plain && (field.len == 0 || !memchr(field.at, special[i], field.len));
    if (is_plain) {
        buf_add_str(out, field);
        return;
    }
    buf_reserve(out, field.len + 2);
    buf_add_char(out, '"');
    for (size_t i = 0; i < field.len; i++) {
        if (field.at[i] == '"')
            buf_add_char(out, '"');
        buf_add_char(out, field.at[i]);
    }
    buf_add_char(out, '"');
}
