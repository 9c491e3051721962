/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON arrays. A first scan of each file checks its brackets and quotes, so that an unclosed one
 * does not make one element of the rest of the file. Then every element is checked and copied with
 * the white space around it.
 */
#include "base/json.h"
#include "data/file_merge/file_merge_impl.h"

/* ERR_DATA unless the array is closed, has no empty element, and ends the file. */
static int structure_look(struct file_merge_input *file, struct err *err)
{
    struct boundary_scan scan = file->head.scan;
    cleanup_buf struct buf piece = BUF_INIT;
    uint64_t at = file->head.begin_at, end = file->head.input.text_bytes;
    const char *name = file->head.input.name;
    buf_reserve(&piece, WINDOW_BYTES);
    while (at < end && !scan.flaws) {
        size_t len = (size_t)MIN(end - at, (uint64_t)WINDOW_BYTES);
        struct boundary_tally tally = {.ends_max = UINT64_MAX};
        int rc = input_read(&file->head.input, at, piece.at, len, err);
        if (rc)
            return rc;
        boundary_scan_all(&scan, piece.at, len, &tally);
        if (scan.flaws)
            at += tally.n_bytes;
        else
            at += len;
    }
    if (scan.flaws & SCAN_EMPTY_ELEMENT)
        return fail(err, ERR_DATA, "%s, in the 64 bytes from byte %lu on: an element that is empty",
                    name, at);
    if (scan.flaws)
        return fail(err, ERR_DATA,
                    "%s, in the 64 bytes from byte %lu on: something behind the ']' that closes "
                    "the array; if it has one value a line, say --format jsonl",
                    name, at);
    if (scan.depth != 0)
        return fail(err, ERR_DATA, "%s is cut off: the array is not closed at byte %lu", name, end);
    return 0;
}

static int element_id(struct file_merge *merge, struct file_merge_input *file, struct str element,
                      uint64_t offset, struct err *err)
{
    struct str id;
    if (!json_get(element, merge->opts->id_field, &id))
        return file_merge_fail(file, offset, err, "%s '%s'",
                               json_kind_of(element) == JSON_OBJECT ? "it has no"
                                                                    : "not an object, so it has no",
                               merge->opts->id_field);
    return id_add(merge, file, id, offset + (uint64_t)(id.at - element.at), err);
}

/*
 * White space behind an element is held back: it is written before the comma or bracket that
 * follows.
 */
static void element_put(struct file_merge *merge, struct str text, struct str element)
{
    struct buf *pending = &merge->out->pending;
    struct str before = {text.at, (size_t)(element.at - text.at)};
    if (merge->n_records > 0)
        buf_add_char(pending, ',');
    if (before.len == 0 && merge->blank_tail.len > 0)
        buf_add_char(pending, '\n');
    buf_add_str(pending, before);
    buf_add_str(pending, element);
    buf_reset(&merge->blank_tail);
    const char *behind = element.at + element.len;
    buf_add(&merge->blank_tail, behind, (size_t)(text.at + text.len - behind));
}

/*
 * Takes the element in `text`, the bytes between two separators. `text` is at `offset` of the file.
 */
static int element_take(struct file_merge *merge, struct file_merge_input *file, struct str text,
                        uint64_t offset, struct err *err)
{
    struct str element = str_trim(text);
    uint64_t at = offset + (uint64_t)(element.at - text.at);
    if (!json_is_value(element))
        return file_merge_not_json(file, at, element, err);
    int rc = merge->ids ? element_id(merge, file, element, at, err) : 0;
    if (rc == 0 && merge->out) {
        element_put(merge, text, element);
        rc = outfile_pump(merge->out, err);
    }
    merge->n_records++;
    file->n_records++;
    return rc;
}

/* Takes the elements that end in the window; *is_closed: the array's closing bracket was passed. */
static int window_take(struct file_merge *merge, struct file_merge_input *file, bool is_end,
                       bool *is_closed, size_t *n_done, struct err *err)
{
    const struct window *w = &merge->window;
    while (*n_done < w->len && !*is_closed) {
        const char *at = w->at + *n_done;
        size_t len = w->len - *n_done;
        struct boundary_scan scan = boundary_scan_begin(FORMAT_JSON);
        struct boundary_tally tally = {.ends_max = 1};
        scan.is_first = true;
        (is_end ? boundary_scan_all : boundary_scan_blocks)(&scan, at, len, &tally);
        if (tally.n_ends == 0) {
            *is_closed = is_end; /* only the closing bracket is left: an array without elements */
            return 0;
        }
        struct str text = {at, tally.after_end - 1};
        int rc = element_take(merge, file, text, w->base + *n_done, err);
        if (rc)
            return rc;
        *is_closed = at[tally.after_end - 1] == ']';
        *n_done += tally.after_end;
    }
    return 0;
}

int file_merge_array(struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    struct window *w = &merge->window;
    bool is_end = false, is_closed = false;
    size_t done = w->len = 0;
    int rc = structure_look(file, err);
    w->base = file->head.begin_at;
    if (merge->blank_tail.len == 0 && merge->n_records > 0)
        buf_add_char(&merge->blank_tail, '\n'); /* each file begins on a line of its own */
    while (rc == 0 && !is_closed && !is_end) {
        rc = window_slide(merge, file, done, &is_end, err);
        done = 0;
        if (rc == 0)
            rc = window_take(merge, file, is_end, &is_closed, &done, err);
        if (rc == 0 && done == 0 && !is_closed)
            rc = window_grow(merge, file, err);
    }
    return rc;
}

void file_merge_array_begin(struct file_merge *merge)
{
    buf_add_char(&merge->out->pending, '[');
}

void file_merge_array_end(struct file_merge *merge)
{
    struct buf *pending = &merge->out->pending;
    if (merge->blank_tail.len > 0)
        buf_add_str(pending, buf_str(&merge->blank_tail));
    else if (merge->n_records > 0)
        buf_add_char(pending, '\n');
    buf_add_text(pending, "]\n");
}
