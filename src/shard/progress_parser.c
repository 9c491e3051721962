/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/progress_parser.h"

#include "base/parse.h"

/* ---- words ---- */

static bool skip(struct str *text, struct str word)
{
    if (!str_starts_with(*text, word))
        return false;
    text->at += word.len;
    text->len -= word.len;
    return true;
}

static bool number(struct str *text, uint64_t *out)
{
    size_t len = 0;
    while (len < text->len && text->at[len] >= '0' && text->at[len] <= '9')
        len++;
    if (u64_parse((struct str){text->at, len}, 0, UINT64_MAX, out, NULL) != 0)
        return false;
    text->at += len;
    text->len -= len;
    return true;
}

/* Moves past the next `word`. Returns false if there is none. */
static bool find(struct str *text, struct str word)
{
    const char *at = text->len > 0 ? memmem(text->at, text->len, word.at, word.len) : NULL;
    if (!at)
        return false;
    text->len -= (size_t)(at - text->at) + word.len;
    text->at = at + word.len;
    return true;
}

/* Reads "5/100". Returns false if the first number is above the second. */
static bool fraction(struct str *text, uint64_t *part, uint64_t *whole)
{
    return number(text, part) && skip(text, STR("/")) && number(text, whole) && *part <= *whole;
}

/* ---- what a line says ---- */

/* `[PROGRESS:5/100|acc:0.8500|correct:85/100]`; all after the first numbers may be missing. */
static bool marker_read(struct progress_parser *progress_parser, struct str line)
{
    uint64_t done, total, correct, seen;
    const char *end;
    if (!find(&line, STR("[PROGRESS:")) || !fraction(&line, &done, &total) || total == 0 ||
        line.len == 0 || !(end = memchr(line.at, ']', line.len)))
        return false;
    progress_parser->is_marked = true;
    progress_parser->done = done;
    progress_parser->total = total;
    line.len = (size_t)(end - line.at);
    if (find(&line, STR("|correct:")) && fraction(&line, &correct, &seen)) {
        progress_parser->correct = correct;
        progress_parser->seen = seen;
    }
    return true;
}

/* ` 45%|####5     | 45/100 [00:10<00:12, 4.41it/s]` */
static void bar_read(struct progress_parser *progress_parser, struct str line)
{
    uint64_t done, total;
    if (progress_parser->is_marked || !find(&line, STR("%|")) || !find(&line, STR("| ")) ||
        !fraction(&line, &done, &total) || !skip(&line, STR(" [")))
        return;
    if (total == 0 || (total != progress_parser->n_items && total != progress_parser->n_batches))
        return; /* this bar counts something else */
    progress_parser->done = done;
    progress_parser->total = total;
}

/* Takes a complete line, or a complete state of a bar. */
static void line_end(struct progress_parser *progress_parser, char end, struct buf *rest)
{
    struct str line = {progress_parser->line, progress_parser->len};
    bool is_marker = !progress_parser->is_long && marker_read(progress_parser, line);
    if (!is_marker && !progress_parser->is_long)
        bar_read(progress_parser, line);
    if (!is_marker) {
        buf_add_str(rest, line);
        buf_add_char(rest, end);
    }
    progress_parser->len = 0;
    progress_parser->is_long = false;
}

static void line_add(struct progress_parser *progress_parser, struct str piece, struct buf *rest)
{
    if (!progress_parser->is_long && piece.len <= MARKER_LINE_MAX - progress_parser->len) {
        memcpy(progress_parser->line + progress_parser->len, piece.at, piece.len);
        progress_parser->len += piece.len;
        return;
    }
    buf_add(rest, progress_parser->line, progress_parser->len);
    buf_add_str(rest, piece);
    progress_parser->len = 0;
    progress_parser->is_long = true;
}

void progress_parser_feed(struct progress_parser *progress_parser, struct str bytes,
                          struct buf *rest)
{
    while (bytes.len > 0) {
        size_t len = 0;
        while (len < bytes.len && bytes.at[len] != '\n' && bytes.at[len] != '\r')
            len++;
        if (len > 0)
            line_add(progress_parser, (struct str){bytes.at, len}, rest);
        if (len == bytes.len)
            return;
        line_end(progress_parser, bytes.at[len], rest);
        bytes.at += len + 1;
        bytes.len -= len + 1;
    }
}

void progress_parser_end(struct progress_parser *progress_parser, struct buf *rest)
{
    struct str line = {progress_parser->line, progress_parser->len};
    if (progress_parser->len == 0 || marker_read(progress_parser, line)) {
        progress_parser->len = 0;
        return;
    }
    bar_read(progress_parser, line);
    buf_add_str(rest, line);
    progress_parser->len = 0;
}

uint64_t progress_parser_items_done(const struct progress_parser *progress_parser)
{
    if (progress_parser->total == 0)
        return 0;
    if (progress_parser->total == progress_parser->n_items)
        return progress_parser->done;
    double part = (double)progress_parser->done / (double)progress_parser->total;
    return MIN((uint64_t)(part * (double)progress_parser->n_items), progress_parser->n_items);
}
