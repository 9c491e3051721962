/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/line_copies.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    LINE_MAX_BYTES = 1 << 20 /* a longer line is copied in pieces */
};

static int text_take(struct line_copy *copy, struct buf *text, struct err *err)
{
    if (text->len == 0)
        return fail(err, ERR_USAGE, "an empty text is in every line; ,, is a comma within a text");
    env_list_add(&copy->texts, buf_steal(text));
    return 0;
}

int line_copy_parse(const char *filters, struct line_copy *copy, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    int rc = 0;
    if (!filters || !*filters)
        return 0;
    for (const char *c = filters; rc == 0 && *c; c++) {
        bool is_comma = c[0] == ',' && c[1] == ',';
        if (c[0] == ',' && !is_comma)
            rc = text_take(copy, &text, err);
        else
            buf_add_char(&text, *c);
        c += is_comma;
    }
    return rc ? rc : text_take(copy, &text, err);
}

static int copy_open(struct line_copy *copy, const char *folder, const char *name, struct err *err)
{
    if (copy->texts.len == 0)
        return 0;
    cleanup_free char *path = path_join(folder, name);
    return logfile_open(&copy->file, &(struct logfile_opts){.path = path, .cap_bytes = UINT64_MAX},
                        err);
}

static int copy_close(struct line_copy *copy)
{
    int failed = copy->file ? logfile_error(copy->file) : 0;
    if (copy->file)
        logfile_close(copy->file);
    copy->file = NULL;
    return failed;
}

int line_copies_open(struct line_copies *copies, const char *folder, uint32_t generation,
                     struct err *err)
{
    bool is_open = copies->out.file || copies->errors.file;
    if (is_open && copies->generation == generation)
        return 0;
    (void)copy_close(&copies->out);
    (void)copy_close(&copies->errors);
    copies->generation = generation;
    int rc = copy_open(&copies->out, folder, "filtered_stdout.log", err);
    return rc ? rc : copy_open(&copies->errors, folder, "filtered_stderr.log", err);
}

int line_copies_close(struct line_copies *copies)
{
    int out = copy_close(&copies->out), errors = copy_close(&copies->errors);
    env_list_release(&copies->out.texts);
    env_list_release(&copies->errors.texts);
    return out ? out : errors;
}

static bool is_wanted(const struct line_copy *copy, struct str line)
{
    bool any = false;
    for (size_t i = 0; i < copy->texts.len && !any; i++)
        any = memmem(line.at, line.len, copy->texts.at[i], strlen(copy->texts.at[i]));
    return any;
}

static void line_end(const struct line_copy *copy, struct buf *line, const char *before)
{
    if (is_wanted(copy, buf_str(line))) {
        buf_add_char(line, '\n');
        logfile_add(copy->file, str_of(before));
        logfile_add(copy->file, buf_str(line));
    }
    buf_reset(line);
}

void line_copy_add(struct line_copy *copy, struct buf *line, const char *before, struct str bytes,
                   bool is_end)
{
    struct str piece;
    if (!copy->file)
        return;
    while (bytes.len > 0) {
        bool is_whole = memchr(bytes.at, '\n', bytes.len);
        (void)str_next(&bytes, '\n', &piece);
        buf_add_str(line, piece);
        if (is_whole || line->len >= LINE_MAX_BYTES)
            line_end(copy, line, before);
    }
    if (is_end && line->len > 0)
        line_end(copy, line, before);
}
