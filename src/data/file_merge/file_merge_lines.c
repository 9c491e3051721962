/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and JSONL: counted in whole windows and copied as they are, unless line ends differ from
 * the first file's or each record must be checked.
 */
#include "base/json.h"
#include "base/xalloc.h"
#include "data/file_merge/file_merge_impl.h"

int window_slide(struct file_merge *merge, struct file_merge_input *file, size_t done, bool *is_end,
                 struct err *err)
{
    struct window *w = &merge->window;
    struct input *input = &file->head.input;
    if (!w->at) {
        w->cap = FILE_MERGE_WINDOW_BYTES;
        w->at = xmalloc(w->cap + SCAN_BLOCK_BYTES);
    }
    ASSERT(done <= w->len);
    if (done > 0)
        memmove(w->at, w->at + done, w->len - done);
    w->len -= done;
    w->base += done;
    uint64_t left = input->text_bytes - w->base - w->len;
    size_t more = (size_t)MIN(left, (uint64_t)(w->cap - w->len));
    int rc = stop_check(merge->opts->stop, err);
    if (rc == 0)
        rc = input_read(input, w->base + w->len, w->at + w->len, more, err);
    w->len += more;
    *is_end = more == left;
    return rc;
}

/*
 * Checks the whole file before a long record gets memory: a quote that is never closed would make
 * one record of the rest of the file.
 */
static int whole_look(const struct file_merge_input *file, struct err *err)
{
    struct source *source;
    const struct source_opts opts = {
        .paths = &file->head.input.path, .n_paths = 1, .format = file->format};
    int rc = source_open(&source, &opts, err);
    if (rc == 0)
        rc = source_scan_all(source, err);
    source_close(source);
    return rc;
}

int window_grow(struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    struct window *w = &merge->window;
    int rc = w->cap == FILE_MERGE_RECORD_BYTES ? whole_look(file, err) : 0;
    if (rc == 0) {
        w->cap *= 2;
        w->at = xrealloc(w->at, w->cap + SCAN_BLOCK_BYTES);
    }
    return rc;
}

void window_free(struct file_merge *merge)
{
    free(merge->window.at);
    merge->window = (struct window){0};
}

void window_terminate(struct file_merge *merge, const struct file_merge_input *file)
{
    struct window *w = &merge->window;
    if (w->len == 0 || w->at[w->len - 1] == '\n')
        return;
    w->at[w->len++] = '\n'; /* the window has room for a block more */
    file_merge_note(merge, "%s had no newline at its end; it is added", file->head.input.name);
}

static int line_fail(struct file_merge *merge, struct file_merge_input *file, struct str line,
                     struct err *err)
{
    uint64_t offset = merge->window.base + (uint64_t)(line.at - merge->window.at);
    return file_merge_not_json(file, offset, line, err);
}

/* Adds the id of the line. This parses all of the line, so a malformed one is ERR_DATA. */
static int line_id(struct file_merge *merge, struct file_merge_input *file, struct str line,
                   struct err *err)
{
    struct json_members walk = json_members(line);
    struct str key, value, found = {NULL, 0}, wanted = str_of(merge->opts->id_field);
    uint64_t offset = merge->window.base + (uint64_t)(line.at - merge->window.at);
    while (json_next(&walk, &key, &value))
        if (!found.at && json_key_equal(key, wanted))
            found = value;
    if (walk.malformed)
        return json_is_value(line)
                   ? file_merge_fail(file, offset, err, "not an object, so it has no '%s'",
                                     merge->opts->id_field)
                   : line_fail(merge, file, line, err);
    if (!found.at)
        return file_merge_fail(file, offset, err, "it has no '%s'", merge->opts->id_field);
    return id_add(merge, file, found, offset + (uint64_t)(found.at - line.at), err);
}

static int line_look(struct file_merge *merge, struct file_merge_input *file, struct str line,
                     struct err *err)
{
    if (file->format != FORMAT_JSONL || str_trim(line).len == 0)
        return 0;
    if (merge->ids)
        return line_id(merge, file, line, err);
    return json_is_value(line) ? 0 : line_fail(merge, file, line, err);
}

static int line_put(struct file_merge *merge, struct str line, struct err *err)
{
    if (!merge->out)
        return 0;
    while (str_ends_with(line, STR("\r"))) /* Windows turns a written CR LF into CR CR LF */
        line.len--;
    buf_add_str(&merge->out->pending, line);
    buf_add_text(&merge->out->pending, merge->line_end);
    return outfile_pump(merge->out, err);
}

/* Checks or writes the lines of [0, len) of the window, which are whole lines, one by one. */
static int lines_each(struct file_merge *merge, struct file_merge_input *file, size_t len,
                      bool is_verbatim, struct err *err)
{
    struct str rest = {merge->window.at, len}, line;
    int rc = 0;
    while (rc == 0 && rest.len > 0 && str_next(&rest, '\n', &line)) {
        rc = line_look(merge, file, line, err);
        if (rc == 0 && !is_verbatim)
            rc = line_put(merge, line, err);
    }
    return rc;
}

/* Checks the last line that is not blank: a file that was cut off ends with half a value. */
static int last_line_look(struct file_merge *merge, struct file_merge_input *file, size_t len,
                          struct err *err)
{
    const char *begin = merge->window.at;
    struct str text = str_trim((struct str){begin, len});
    const char *before = text.len > 0 ? memrchr(text.at, '\n', text.len) : NULL;
    if (before)
        text = (struct str){before + 1, (size_t)(text.at + text.len - before - 1)};
    return text.len == 0 || json_is_value(text) ? 0 : line_fail(merge, file, text, err);
}

/* The first line end in all files becomes the output's. */
static void line_end_find(struct file_merge *merge, size_t len)
{
    const char *at = merge->window.at, *newline = memchr(at, '\n', len);
    if (!merge->line_end)
        merge->line_end = newline > at && newline[-1] == '\r' ? "\r\n" : "\n";
}

/* Takes [0, len) of the window, which must be whole lines. */
static int lines_take(struct file_merge *merge, struct file_merge_input *file, size_t len,
                      struct err *err)
{
    struct boundary_scan scan = boundary_scan_begin(file->format);
    struct boundary_tally tally = {.ends_max = UINT64_MAX};
    line_end_find(merge, len);
    boundary_scan_all(&scan, merge->window.at, len, &tally);
    file->n_records += tally.n_ends;
    if (merge->ids) /* the number in all files, estimated from the first window */
        id_table_expect(merge->ids, merge->n_bytes / len * tally.n_ends);
    bool is_verbatim = !tally.has_cr && merge->line_end[0] == '\n';
    bool is_looked_at = file->format == FORMAT_JSONL && (merge->opts->is_checked || merge->ids);
    int rc = 0;
    if (!is_verbatim || is_looked_at)
        rc = lines_each(merge, file, len, is_verbatim, err);
    else if (file->format == FORMAT_JSONL)
        rc = last_line_look(merge, file, len, err);
    if (rc == 0 && is_verbatim && merge->out)
        rc = outfile_write(merge->out, (struct str){merge->window.at, len}, err);
    return rc;
}

int file_merge_lines(struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    struct window *w = &merge->window;
    bool is_end = false;
    size_t done = w->len = 0;
    int rc = 0;
    w->base = file->head.begin_at;
    while (rc == 0 && !is_end) {
        rc = window_slide(merge, file, done, &is_end, err);
        if (rc)
            return rc;
        if (is_end)
            window_terminate(merge, file);
        const char *newline = w->len > 0 ? memrchr(w->at, '\n', w->len) : NULL;
        done = newline ? (size_t)(newline - w->at) + 1 : 0;
        if (done > 0)
            rc = lines_take(merge, file, done, err);
        else if (!is_end)
            rc = window_grow(merge, file, err);
    }
    return rc;
}
