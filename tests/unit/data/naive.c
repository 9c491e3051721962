/* SPDX-License-Identifier: Apache-2.0 */
#include "naive.h"

#include "base/json.h"
#include "base/xalloc.h"

static void naive_add(struct naive *naive, struct str record)
{
    if (naive->n_items + 2 > naive->cap) {
        naive->cap = 2 * naive->n_items + 16;
        naive->begins = xrealloc(naive->begins, naive->cap * sizeof(*naive->begins));
    }
    naive->begins[naive->n_items++] = naive->lines.len;
    buf_add_str(&naive->lines, record);
    buf_add_char(&naive->lines, '\n');
    naive->begins[naive->n_items] = naive->lines.len;
}

static bool is_blank(struct str line, const char *blanks)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.at[i] == '\0' || !strchr(blanks, line.at[i]))
            return false;
    return true;
}

static void line_add(struct naive *naive, struct str line, bool has_end, enum record_format format)
{
    if (line.len > 0 && line.at[line.len - 1] == '\r' && (has_end || format != FORMAT_LINES))
        line.len--;
    if (format == FORMAT_JSONL && is_blank(line, " \t\r"))
        return;
    if (format == FORMAT_JSONL && !has_end && !json_is_value(line))
        naive->is_malformed = true;
    if (format >= FORMAT_CSV && is_blank(line, "\r"))
        return;
    naive->has_lines |= line.len > 0 && memchr(line.at, '\n', line.len);
    naive_add(naive, line);
}

static void lines_split(struct naive *naive, struct str text, enum record_format format)
{
    bool inside = false, is_csv = format == FORMAT_CSV || format == FORMAT_TSV;
    size_t begin = 0;
    for (size_t i = 0; i < text.len; i++) {
        inside ^= is_csv && text.at[i] == '"';
        if (is_csv && text.at[i] == '\0')
            naive->is_malformed = true;
        if (text.at[i] == '\n' && !inside) {
            line_add(naive, (struct str){text.at + begin, i - begin}, true, format);
            begin = i + 1;
        }
    }
    naive->is_malformed |= inside;
    if (begin < text.len)
        line_add(naive, (struct str){text.at + begin, text.len - begin}, false, format);
}

static void element_add(struct naive *naive, struct str element)
{
    cleanup_buf struct buf line = BUF_INIT;
    struct str value = str_trim(element);
    if (memchr(value.at, '\n', value.len) || memchr(value.at, '\r', value.len))
        buf_add_json_compact(&line, value);
    else
        buf_add_str(&line, value);
    naive_add(naive, buf_str(&line));
}

/* By the strict parser: value, comma, value … so that only well-formed arrays have items. */
static void array_split(struct naive *naive, struct str text)
{
    struct str whole = str_trim(text);
    if (whole.len == 0)
        return;
    if (whole.at[0] != '[' || !json_is_value(whole)) {
        naive->is_malformed = true;
        return;
    }
    struct str rest = {whole.at + 1, whole.len - 1};
    for (;;) {
        size_t begin, len = json_value(rest, &begin);
        if (len == 0)
            return;
        element_add(naive, (struct str){rest.at + begin, len});
        rest.at += begin + len;
        rest.len -= begin + len;
        rest = (struct str){rest.at, rest.len};
        while (*rest.at != ',' && *rest.at != ']')
            rest.at++, rest.len--;
        rest.at++, rest.len--;
    }
}

void naive_split(struct naive *naive, struct str text, enum record_format format)
{
    *naive = (struct naive){.lines = BUF_INIT};
    if (str_starts_with(text, STR("\xff\xfe")) || str_starts_with(text, STR("\xfe\xff")))
        naive->is_malformed = true; /* UTF-16 */
    if (str_starts_with(text, STR("\xef\xbb\xbf")))
        text = (struct str){text.at + 3, text.len - 3};
    if (format == FORMAT_JSON)
        array_split(naive, text);
    else
        lines_split(naive, text, format);
}

void naive_release(struct naive *naive)
{
    buf_release(&naive->lines);
    free(naive->begins);
}
