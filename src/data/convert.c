/* SPDX-License-Identifier: Apache-2.0
 *
 * From a record's bytes to the item: lines stay as they are, JSONL and array elements are checked,
 * CSV rows become objects. Wrong quotes in a CSV row end the run, because where the rows after it
 * begin would be a guess.
 */
#include "base/json_rough.h"
#include "data/source_impl.h"

/* Cuts off the first line if it is blank: any CRs (for JSONL spaces and tabs too) and the LF. */
static bool blank_line_cut(struct str *record, const char *blanks)
{
    size_t i = 0;
    while (i < record->len && strchr(blanks, record->at[i]) && record->at[i] != '\0')
        i++;
    if (i == record->len || record->at[i] != '\n')
        return false;
    record->at += i + 1;
    record->len -= i + 1;
    return true;
}

struct str record_trim(const struct source *source, struct str record, bool has_end, bool keeps_cr,
                       uint64_t *n_lines_before)
{
    *n_lines_before = 0;
    if (source->format == FORMAT_JSON)
        return str_trim(record);
    if (source->format != FORMAT_LINES)
        while (blank_line_cut(&record, source->separator ? "\r" : " \t\r"))
            ++*n_lines_before;
    /* A CR before the LF belongs to the line end; before the end of a text file it is content. */
    if (!keeps_cr && record.len > 0 && record.at[record.len - 1] == '\r' &&
        (has_end || source->format != FORMAT_LINES))
        record.len--;
    return record;
}

bool line_is_malformed(const struct source *source, struct str line)
{
    return source->format == FORMAT_JSONL && !source->opts.is_raw && !json_is_value(line);
}

static int element_convert(const struct source *source, struct str record, struct buf *out,
                           struct err *err)
{
    if (!json_is_value(record))
        return json_refuse(record, ERR_RECORD, err);
    bool has_lines = memchr(record.at, '\n', record.len) || memchr(record.at, '\r', record.len);
    if (has_lines && source->opts.is_raw)
        return fail(err, ERR_RECORD,
                    "an element of several lines cannot be passed on as it stands; "
                    "drop --raw");
    if (has_lines)
        buf_add_json_compact(out, record);
    else
        buf_add_str(out, record);
    return 0;
}

static int row_convert(struct source *source, struct str record, struct buf *out, struct err *err)
{
    struct csv_row *row = &source->row;
    int rc = csv_parse(row, record, source->separator, err);
    if (rc)
        return rc;
    if (row->n_fields != source->header.n_fields)
        return fail(err, ERR_RECORD, "expected %zu fields as in the header, found %zu",
                    source->header.n_fields, row->n_fields);
    if (!utf8_is_valid(buf_str(&row->text)))
        return fail(err, ERR_RECORD,
                    "not UTF-8; iconv converts it, --raw passes it on as it stands");
    size_t key_begin = 0;
    buf_reserve(out, row->text.len + source->keys.len + 4 * row->n_fields + 2);
    for (size_t i = 0; i < row->n_fields; i++) {
        buf_add_char(out, i == 0 ? '{' : ',');
        buf_add(out, source->keys.at + key_begin, source->key_ends[i] - key_begin);
        key_begin = source->key_ends[i];
        buf_add_json(out, csv_field(row, i));
    }
    buf_add_char(out, '}');
    return 0;
}

int record_convert(struct source *source, struct str record, struct buf *out, struct err *err)
{
    if (source->format == FORMAT_JSON)
        return element_convert(source, record, out, err);
    if (source->is_converted)
        return row_convert(source, record, out, err);
    if (source->separator && memchr(record.at, '\n', record.len))
        return fail(err, ERR_RECORD,
                    "a record of several lines cannot be passed on as it stands; drop "
                    "--raw, and it becomes a JSON object");
    if (line_is_malformed(source, record))
        return json_refuse(record, ERR_RECORD, err);
    buf_add_str(out, record);
    return 0;
}

void place_add(const struct source *source, const struct source_file *file, uint64_t item,
               uint64_t line, struct buf *out)
{
    if (source->format == FORMAT_JSON)
        buf_addf(out, "%s element %lu", file->input.name, item - file->first_item + 1);
    else
        buf_addf(out, "%s line %lu", file->input.name, line);
}
