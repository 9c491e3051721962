/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginnings of the files: which format each one has, and where its records begin.
 */
#include <stdarg.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "data/container.h"
#include "data/file_merge/file_merge_impl.h"

enum {
    SNIFF_BYTES = 64 * 1024
};

void file_merge_note(const struct file_merge *merge, const char *fmt, ...)
{
    if (!merge->has_notes || !merge->opts->note)
        return;
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    merge->opts->note(merge->opts->context, text);
}

static int stream_refuse(const char *name, struct err *err)
{
    return fail(err, ERR_USAGE, "%s is no file; files are read more than once: save it first",
                name);
}

/* FIFOs are refused, because opening one would wait for a writer. */
static int fifo_refuse(const char *path, struct err *err)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode) ? stream_refuse(path, err) : 0;
}

/* Reads a packed file to its end, which unpacks it into a spool. */
static int input_whole(struct input *input, struct err *err)
{
    if (input->is_stream)
        return stream_refuse(input->name, err);
    while (!input->is_whole) {
        int rc = input_fill(input, SIZE_MAX / 2, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int twice_refuse(const struct file_merge *merge, const struct input *input, struct err *err)
{
    for (size_t i = 0; i < merge->n_files; i++) {
        const struct input *other = &merge->files[i].head.input;
        bool is_same = other != input && other->st.st_ino == input->st.st_ino &&
                       other->st.st_dev == input->st.st_dev;
        if (is_same)
            return fail(err, ERR_USAGE, "%s and %s are one file; its records would be there twice",
                        other->name, input->name);
    }
    return 0;
}

/* Reads the file's first bytes into `head`; *out is a view of them without the white space around
 * them. */
static int head_text(struct file_merge_input *file, char head[SNIFF_BYTES], struct str *out,
                     struct err *err)
{
    size_t len = (size_t)MIN(file->head.input.text_bytes, (uint64_t)SNIFF_BYTES);
    int rc = input_read(&file->head.input, 0, head, len, err);
    *out = str_trim(str_unmarked((struct str){head, rc ? 0 : len}));
    return rc;
}

/*
 * Finds the format by the first bytes, where the name does not tell it; FORMAT_AUTO if the bytes do
 * not tell it either.
 */
static int format_sniff(struct file_merge_input *file, enum record_format *out, struct err *err)
{
    char head[SNIFF_BYTES];
    struct str text, first;
    *out = FORMAT_AUTO;
    int rc = head_text(file, head, &text, err);
    if (rc == 0)
        rc = container_refuse(file->head.input.name, text, false, err);
    if (rc)
        return rc;
    bool has_line = text.len > 0 && str_next(&text, '\n', &first);
    if (has_line && json_is_object(first))
        *out = FORMAT_JSONL;
    else if (has_line && (first.at[0] == '[' || first.at[0] == '{'))
        *out = FORMAT_JSON;
    return 0;
}

static int format_find(struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    const char *path = file->head.input.path;
    file->format = merge->opts->format;
    if (file->format == FORMAT_AUTO && record_format_is_named(path))
        file->format = record_format_of_path(path);
    if (file->format != FORMAT_AUTO || file->head.input.text_bytes == 0)
        return 0;
    int rc = format_sniff(file, &file->format, err);
    if (rc == 0 && file->format == FORMAT_AUTO)
        return fail(err, ERR_USAGE,
                    "%s: its name does not say what it holds; --format lines, jsonl, json, csv or "
                    "tsv does",
                    file->head.input.name);
    return rc;
}

static bool has_format(const struct file_merge_input *file)
{
    return file->format != FORMAT_AUTO;
}

/* All files must have one format, unless the output's format is given and they are converted to
 * it. */
static int formats_settle(struct file_merge *merge, struct err *err)
{
    const struct file_merge_input *first = NULL;
    for (size_t i = 0; i < merge->n_files && !first; i++)
        first = has_format(&merge->files[i]) ? &merge->files[i] : NULL;
    merge->format = first ? first->format : FORMAT_LINES;
    for (size_t i = 0; i < merge->n_files; i++) {
        struct file_merge_input *file = &merge->files[i];
        if (!has_format(file)) /* an empty file whose name tells no format */
            file->format = merge->format;
        if (file->format != merge->format && merge->opts->out_format == OUT_AUTO)
            return fail(err, ERR_USAGE,
                        "%s is %s, %s is %s; give --format-out, the format of the output, or "
                        "--format, if both have the same format",
                        first->head.input.name, record_format_name(merge->format),
                        file->head.input.name, record_format_name(file->format));
    }
    return 0;
}

static bool is_csv(enum record_format format)
{
    return format == FORMAT_CSV || format == FORMAT_TSV;
}

/* Is the value of the JSON file an object rather than an array? */
static int object_look(struct file_merge_input *file, bool *is_object, struct err *err)
{
    char head[SNIFF_BYTES];
    struct str text;
    int rc = head_text(file, head, &text, err);
    *is_object = text.len > 0 && text.at[0] == '{';
    return rc;
}

static int metadata_look(struct file_merge *merge, struct err *err)
{
    const struct file_merge_input *object = NULL, *other = NULL;
    for (size_t i = 0; i < merge->n_files; i++) {
        bool is_object = false;
        struct file_merge_input *file = &merge->files[i];
        int rc = file->format == FORMAT_JSON ? object_look(file, &is_object, err) : 0;
        if (rc)
            return rc;
        if (is_object)
            object = file;
        else if (file->head.input.text_bytes > 0)
            other = file;
    }
    if (object && other)
        return fail(err, ERR_USAGE,
                    "%s holds one object, %s does not; arrays and objects do not join (if the "
                    "objects stand one a line, say --format jsonl)",
                    object->head.input.name, other->head.input.name);
    merge->is_metadata = object != NULL;
    return 0;
}

/* ---- records ---- */

/* Reads the head as a source does: where the records begin, and the header. */
static int head_take(const struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    struct source source = {
        .opts.format = merge->opts->format, .format = file->format, .separator = file->separator};
    int rc = head_begin(&source, &file->head, err);
    if (rc == 0)
        rc = head_check_end(&source, &file->head, err);
    file->header = source.header;
    free(source.key_ends);
    buf_release(&source.keys);
    return rc;
}

static int heads_take(struct file_merge *merge, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < merge->n_files; i++) {
        struct file_merge_input *file = &merge->files[i];
        if (is_csv(file->format))
            file->separator = file->format == FORMAT_CSV ? ',' : '\t';
        rc = head_take(merge, file, err);
    }
    if (rc == 0 && is_csv(merge->format))
        rc = file_merge_columns(merge, err);
    return rc ? rc : file_merge_id_columns(merge, err);
}

int file_merge_open(struct file_merge *merge, const char *const *paths, size_t n_paths,
                    struct err *err)
{
    const struct source_opts opts = {.paths = paths, .n_paths = n_paths};
    uint64_t begins = 0;
    int rc = 0;
    if (n_paths == 0)
        return fail(err, ERR_USAGE, "no file is named");
    for (size_t i = 0; rc == 0 && i < n_paths; i++)
        rc = fifo_refuse(paths[i], err);
    merge->files = xcalloc(n_paths, sizeof(*merge->files));
    for (size_t i = 0; rc == 0 && i < n_paths; i++) {
        struct file_merge_input *file = &merge->files[i];
        rc = input_open(&file->head.input, &opts, i, &merge->ring, err);
        merge->n_files = i + 1;
        if (rc == 0)
            rc = input_whole(&file->head.input, err);
        if (rc == 0)
            rc = twice_refuse(merge, &file->head.input, err);
        if (rc == 0)
            rc = format_find(merge, file, err);
        file->begins = begins;
        begins += file->head.input.text_bytes;
    }
    merge->n_bytes = begins;
    if (rc == 0)
        rc = formats_settle(merge, err);
    if (rc == 0)
        rc = metadata_look(merge, err);
    if (rc == 0 && !merge->is_metadata)
        rc = heads_take(merge, err);
    return rc;
}

void file_merge_close(struct file_merge *merge)
{
    for (size_t i = 0; i < merge->n_files; i++) {
        input_close(&merge->files[i].head.input);
        csv_row_release(&merge->files[i].header);
        name_index_release(&merge->files[i].names);
        free(merge->files[i].field_of);
    }
    free(merge->files);
    window_free(merge);
    id_table_free(merge->ids);
    name_index_release(&merge->columns);
    buf_release(&merge->header);
    buf_release(&merge->blank_tail);
}
