/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes one result per call, in the format of the output.
 */
#include "base/json.h"
#include "base/xalloc.h"
#include "data/result_merge_impl.h"

bool record_out_is_verbatim(const struct record_out *out)
{
    if (out->opts->join)
        return false;
    return out->format == OUT_LINES || (out->format == OUT_JSONL && out->opts->results_are_json);
}

void record_out_begin(struct record_out *out)
{
    if (out->format == OUT_JSON)
        buf_add_char(&out->file->pending, '[');
    out->separator = out->format == OUT_CSV ? ',' : out->format == OUT_TSV ? '\t' : '\0';
}

void record_out_end(struct record_out *out)
{
    if (out->format == OUT_JSON)
        buf_add_text(&out->file->pending, out->n_records > 0 ? "\n]\n" : "]\n");
}

void record_out_release(struct record_out *out)
{
    name_index_release(&out->columns);
    free(out->cells);
    buf_release(&out->name);
    buf_release(&out->text);
    buf_release(&out->input);
    buf_release(&out->joined);
}

/*
 * JSON text may have a lone surrogate, half of a character, as an escape. UTF-8 cannot encode it.
 */
static int text_check(struct str raw, const struct buf *decoded, struct err *err)
{
    bool is_escaped = raw.len > 0 && memchr(raw.at, '\\', raw.len);
    if (!is_escaped || utf8_is_valid(buf_str(decoded)))
        return 0;
    return fail(
        err, ERR_DATA,
        "it has half of a character, a surrogate on its own as in \\ud800, which CSV cannot "
        "hold (-o with .jsonl keeps it)");
}

/* Adds a value as a field of CSV: strings without quotes, null as an empty field, nested values as
 * JSON text. */
static int cell_add(struct record_out *out, struct str value, struct err *err)
{
    int rc = 0;
    buf_reset(&out->text);
    enum json_kind kind = json_kind_of(value);
    if (kind == JSON_STRING && json_to_wide_text(value, &out->text))
        rc = text_check(value, &out->text, err);
    else if (kind != JSON_NULL)
        buf_add_str(&out->text, value);
    csv_add_field(&out->file->pending, buf_str(&out->text), out->separator);
    return rc;
}

/* `key` is a view from json_next(): its quotes are the bytes just outside of it. */
static bool decode_key(struct record_out *out, struct str key)
{
    buf_reset(&out->name);
    return json_to_wide_text((struct str){key.at - 1, key.len + 2}, &out->name);
}

/* Ends a row. One empty field is written as "", because readers skip a blank line. */
static void line_end(struct record_out *out, size_t begin)
{
    if (out->file->pending.len == begin)
        buf_add_text(&out->file->pending, "\"\"");
    buf_add_char(&out->file->pending, '\n');
}

/* Writes the names of the columns. No column can be added afterwards. */
static void header_put(struct record_out *out)
{
    size_t begin = out->file->pending.len;
    for (size_t i = 0; i < out->columns.len; i++) {
        if (i > 0)
            buf_add_char(&out->file->pending, out->separator);
        csv_add_field(&out->file->pending, name_index_get(&out->columns, i), out->separator);
    }
    out->cells = xcalloc(out->columns.len, sizeof(*out->cells));
    line_end(out, begin);
}

void record_out_columns(struct record_out *out, const struct csv_row *columns)
{
    if (!out->separator || out->cells || columns->n_fields == 0)
        return;
    for (size_t i = 0; i < columns->n_fields; i++)
        name_index_add(&out->columns, csv_field(columns, i));
    header_put(out);
}

static int columns_set(struct record_out *out, struct str object, struct err *err)
{
    struct name_index *columns = &out->columns;
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value)) {
        if (!decode_key(out, key))
            return fail(err, ERR_DATA, "a name that is no JSON string");
        int rc = text_check(key, &out->name, err);
        if (rc)
            return rc;
        if (name_index_add(columns, buf_str(&out->name)) != columns->len - 1)
            return fail(err, ERR_DATA, "it has '%s' twice", buf_text(&out->name));
    }
    if (columns->len == 0)
        return fail(err, ERR_DATA, "an object without members makes no CSV row");
    header_put(out);
    return 0;
}

/* Finds the column of a key. `guess` is the next column, which is usually the right one. */
static size_t column_find(struct record_out *out, struct str key, size_t guess)
{
    const struct name_index *columns = &out->columns;
    if (guess < columns->len && str_equal(name_index_get(columns, guess), key) &&
        !(key.len > 0 && memchr(key.at, '\\', key.len)))
        return guess;
    return decode_key(out, key) ? name_index_find(columns, buf_str(&out->name)) : NAME_NONE;
}

static int cells_fill(struct record_out *out, struct str object, struct err *err)
{
    struct json_members walk = json_members(object);
    struct str key, value;
    size_t n_found = 0, n_columns = out->columns.len;
    ASSERT(out->cells); /* allocated together with the columns */
    memset(out->cells, 0, n_columns * sizeof(*out->cells));
    while (json_next(&walk, &key, &value)) {
        size_t column = column_find(out, key, n_found);
        if (column == NAME_NONE)
            return fail(err, ERR_DATA,
                        "it has '%.*s', which the first result has not; a CSV file has the "
                        "same columns in every row (-o with .jsonl has no such limit)",
                        (int)MIN(key.len, 60ul), key.at);
        if (out->cells[column].at)
            return fail(err, ERR_DATA, "it has '%.*s' twice", (int)MIN(key.len, 60ul), key.at);
        out->cells[column] = value;
        n_found++;
    }
    for (size_t i = 0; i < n_columns; i++) {
        struct str name = name_index_get(&out->columns, i);
        if (!out->cells[i].at && out->fills_columns)
            out->cells[i] = STR("null");
        if (!out->cells[i].at)
            return fail(err, ERR_DATA,
                        "it lacks '%.*s', which the first result has; a CSV file has the "
                        "same columns in every row (-o with .jsonl has no such limit)",
                        (int)MIN(name.len, 60ul), name.at);
    }
    return 0;
}

static int row_add(struct record_out *out, struct str value, struct err *err)
{
    cleanup_buf struct buf wrapped = BUF_INIT;
    if (json_kind_of(value) != JSON_OBJECT) { /* a bare value is a row with one column */
        buf_add_text(&wrapped, "{\"result\":");
        buf_add_str(&wrapped, value);
        buf_add_char(&wrapped, '}');
        value = buf_str(&wrapped);
    }
    int rc = out->cells ? 0 : columns_set(out, value, err);
    if (rc == 0)
        rc = cells_fill(out, value, err);
    if (rc)
        return rc;
    size_t begin = out->file->pending.len;
    for (size_t i = 0; rc == 0 && i < out->columns.len; i++) {
        if (i > 0)
            buf_add_char(&out->file->pending, out->separator);
        rc = cell_add(out, out->cells[i], err);
    }
    line_end(out, begin);
    return rc;
}

static int text_refuse(struct err *err)
{
    return fail(err, ERR_DATA,
                "its result is not UTF-8, which JSON and CSV need (--format-out lines writes it as "
                "it is)");
}

/*
 * Makes a JSON value of the result: a JSON result is checked and taken as it is, a text becomes a
 * string.
 */
static int value_make(struct record_out *out, struct str line, struct buf *scratch,
                      struct str *value, struct err *err)
{
    if (out->opts->results_are_json) {
        if (!json_is_value(line))
            return fail(err, ERR_DATA, "its result is not a JSON value: %.*s",
                        (int)MIN(line.len, 80ul), line.at);
        *value = str_trim(line);
        return 0;
    }
    if (!utf8_is_valid(line))
        return text_refuse(err);
    buf_add_json(scratch, line);
    *value = buf_str(scratch);
    return 0;
}

static int value_join(struct record_out *out, uint64_t item, struct str *value, struct err *err)
{
    const char *key;
    buf_reset(&out->input);
    buf_reset(&out->joined);
    int rc = source_item_json(out->opts->source, item, &out->input, &key, err);
    if (rc == 0 && strcmp(key, "data") != 0)
        rc = fail(err, ERR_DATA, "its input is not UTF-8, which the joined JSON needs");
    if (rc == 0)
        rc = join_records(buf_str(&out->input), *value, &out->joined, err);
    *value = buf_str(&out->joined);
    return rc;
}

static void json_begin(struct record_out *out)
{
    if (out->format == OUT_JSON)
        buf_add_text(&out->file->pending, out->n_records > 0 ? ",\n" : "\n");
}

static void json_add(struct record_out *out, struct str value)
{
    json_begin(out);
    buf_add_str(&out->file->pending, value);
}

/* Writes straight into the output, without another copy: a line may be so long that memory holds
 * only one or two copies. */
static int text_add(struct record_out *out, struct str line, struct err *err)
{
    if (!utf8_is_valid(line))
        return text_refuse(err);
    json_begin(out);
    buf_add_json(&out->file->pending, line);
    return 0;
}

static int value_add(struct record_out *out, uint64_t item, struct str line, struct err *err)
{
    cleanup_buf struct buf scratch = BUF_INIT;
    struct str value = {0};
    int rc = value_make(out, line, &scratch, &value, err);
    if (rc == 0 && out->opts->join)
        rc = value_join(out, item, &value, err);
    if (rc == 0 && out->separator)
        rc = row_add(out, value, err);
    else if (rc == 0)
        json_add(out, value);
    return rc;
}

int record_out_add(struct record_out *out, uint64_t item, struct str line, struct err *err)
{
    bool is_text = !out->opts->results_are_json && !out->opts->join && !out->separator;
    int rc = is_text ? text_add(out, line, err) : value_add(out, item, line, err);
    if (rc)
        return wrap(err, rc, "item %lu", item);
    if (!out->separator && out->format != OUT_JSON)
        buf_add_char(&out->file->pending, '\n');
    out->n_records++;
    return outfile_pump(out->file, err);
}
