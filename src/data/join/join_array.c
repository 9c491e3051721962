/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON arrays: each file is looked through once for its brackets and quotes, which bounds what an
 * element can be; then every element is checked and copied with the white space around it.
 */
#include "base/json.h"
#include "data/join/join_impl.h"

/* Brackets and quotes are as they should be, and nothing follows the array. */
static int structure_look(struct join_file *file, struct err *err)
{
    struct split split = file->head.split;
    cleanup_buf struct buf piece = BUF_INIT;
    uint64_t at = file->head.begin_at, end = file->head.input.text_bytes;
    const char *name = file->head.input.name;
    buf_reserve(&piece, WINDOW_BYTES);
    while (at < end && !split.flaws) {
        size_t len = (size_t)MIN(end - at, (uint64_t)WINDOW_BYTES);
        struct split_tally tally = {.ends_max = UINT64_MAX};
        int rc = input_read(&file->head.input, at, piece.at, len, err);
        if (rc)
            return rc;
        split_all(&split, piece.at, len, &tally);
        if (split.flaws)
            at += tally.n_bytes;
        else
            at += len;
    }
    if (split.flaws & SPLIT_EMPTY_ELEMENT)
        return fail(err, ERR_DATA, "%s, in the 64 bytes from byte %lu on: an element that is empty",
                    name, at);
    if (split.flaws)
        return fail(err, ERR_DATA,
                    "%s, in the 64 bytes from byte %lu on: something behind the ']' that closes "
                    "the array; if it has one value a line, say --format jsonl",
                    name, at);
    if (split.depth != 0)
        return fail(err, ERR_DATA, "%s is cut off: the array is not closed at byte %lu", name, end);
    return 0;
}

static int element_id(struct join *join, struct join_file *file, struct str element,
                      uint64_t offset, struct err *err)
{
    struct str id;
    if (!json_get(element, join->opts->id_field, &id))
        return join_fail(file, offset, err, "%s '%s'",
                         json_kind_of(element) == JSON_OBJECT ? "it has no"
                                                              : "not an object, so it has no",
                         join->opts->id_field);
    return id_add(join, file, id, offset + (uint64_t)(id.at - element.at), err);
}

/* White space behind an element waits: it belongs before what follows, be it comma or bracket. */
static void element_put(struct join *join, struct str text, struct str element)
{
    struct buf *pending = &join->out->pending;
    struct str before = {text.at, (size_t)(element.at - text.at)};
    if (join->n_records > 0)
        buf_add_char(pending, ',');
    if (before.len == 0 && join->blank_tail.len > 0)
        buf_add_char(pending, '\n');
    buf_add_str(pending, before);
    buf_add_str(pending, element);
    buf_reset(&join->blank_tail);
    const char *behind = element.at + element.len;
    buf_add(&join->blank_tail, behind, (size_t)(text.at + text.len - behind));
}

/* What stands between two separators, `text`, at an offset of the file. */
static int element_take(struct join *join, struct join_file *file, struct str text, uint64_t offset,
                        struct err *err)
{
    struct str element = str_trim(text);
    uint64_t at = offset + (uint64_t)(element.at - text.at);
    if (!json_is_value(element))
        return join_fail(file, at, err, "not a JSON value");
    int rc = join->ids ? element_id(join, file, element, at, err) : 0;
    if (rc == 0 && join->out) {
        element_put(join, text, element);
        rc = outfile_pump(join->out, err);
    }
    join->n_records++;
    file->n_records++;
    return rc;
}

/* The elements that end in the window; *is_closed behind the array's bracket. */
static int window_take(struct join *join, struct join_file *file, bool is_end, bool *is_closed,
                       size_t *n_done, struct err *err)
{
    const struct window *w = &join->window;
    while (*n_done < w->len && !*is_closed) {
        const char *at = w->at + *n_done;
        size_t len = w->len - *n_done;
        struct split split = split_begin(FORMAT_JSON);
        struct split_tally tally = {.ends_max = 1};
        split.is_first = true;
        (is_end ? split_all : split_blocks)(&split, at, len, &tally);
        if (tally.n_ends == 0) {
            *is_closed = is_end; /* nothing but the bracket: an array without elements */
            return 0;
        }
        struct str text = {at, tally.after_end - 1};
        int rc = element_take(join, file, text, w->base + *n_done, err);
        if (rc)
            return rc;
        *is_closed = at[tally.after_end - 1] == ']';
        *n_done += tally.after_end;
    }
    return 0;
}

int join_array(struct join *join, struct join_file *file, struct err *err)
{
    struct window *w = &join->window;
    bool is_end = false, is_closed = false;
    size_t done = w->len = 0;
    int rc = structure_look(file, err);
    w->base = file->head.begin_at;
    if (join->blank_tail.len == 0 && join->n_records > 0)
        buf_add_char(&join->blank_tail, '\n'); /* each file begins on a line of its own */
    while (rc == 0 && !is_closed && !is_end) {
        rc = window_slide(join, file, done, &is_end, err);
        done = 0;
        if (rc == 0)
            rc = window_take(join, file, is_end, &is_closed, &done, err);
        if (rc == 0 && done == 0 && !is_closed)
            rc = window_grow(join, file, err);
    }
    return rc;
}

void join_array_begin(struct join *join)
{
    buf_add_char(&join->out->pending, '[');
}

void join_array_end(struct join *join)
{
    struct buf *pending = &join->out->pending;
    if (join->blank_tail.len > 0)
        buf_add_str(pending, buf_str(&join->blank_tail));
    else if (join->n_records > 0)
        buf_add_char(pending, '\n');
    buf_add_text(pending, "]\n");
}
