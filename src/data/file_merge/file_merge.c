/* SPDX-License-Identifier: Apache-2.0
 *
 * The options, the passes over the files, and the output of a merge.
 */
#include "data/file_merge/file_merge.h"

#include "base/fs.h"
#include "base/xalloc.h"
#include "data/file_merge/file_merge_impl.h"
#include "data/format.h"
#include "rule/names.h"

static enum out_format out_of_record(enum record_format format)
{
    switch (format) {
    case FORMAT_AUTO:
    case FORMAT_LINES:
        return OUT_LINES;
    case FORMAT_JSONL:
        return OUT_JSONL;
    case FORMAT_JSON:
        return OUT_JSON;
    case FORMAT_CSV:
        return OUT_CSV;
    case FORMAT_TSV:
        return OUT_TSV;
    }
    BUG("format %d", format);
}

/* The format of the first file that has another one than `format`; if there is none, `format`. */
static enum record_format other_format(const struct file_merge *merge, enum record_format format)
{
    for (size_t i = 0; i < merge->n_files; i++)
        if (merge->files[i].format != format)
            return merge->files[i].format;
    return format;
}

/*
 * An output named .csv is CSV whatever the files' format is. If the name of the output tells no
 * format, the output gets the files' format.
 */
static int out_format_settle(struct file_merge *merge, const char *output, struct err *err)
{
    enum out_format own = out_of_record(merge->format), format = merge->opts->out_format;
    int rc = out_packing_refuse(output, err);
    if (rc == 0 && format == OUT_AUTO)
        rc = out_format_check_path(output, err);
    if (rc)
        return rc;
    if (format == OUT_AUTO)
        format = out_format_of_path(output);
    if (merge->opts->out_format == OUT_AUTO && format == OUT_LINES)
        format = own;
    enum record_format other = other_format(merge, FORMAT_LINES);
    if (format == OUT_LINES && other != FORMAT_LINES)
        return fail(
            err, ERR_USAGE,
            "records of %s cannot be written as lines; give --format-out jsonl, json, csv or tsv",
            record_format_name(other));
    if (merge->is_metadata && format != OUT_JSON)
        return fail(
            err, ERR_USAGE,
            "files of one JSON object each are merged into one such file, so the output is json; "
            "if they have one value a line, give --format jsonl");
    merge->stats->out_format = format;
    return 0;
}

/* The output must not be one of the input files, under whatever name. */
static int output_refuse(const struct file_merge *merge, const char *output, struct err *err)
{
    struct stat st;
    if (folder_exists(output) || str_ends_with(str_of(output), STR("/")))
        return fail(err, ERR_USAGE, "%s is a folder; name the file in it that the records go to",
                    output);
    if (output_is_direct(output) || stat(output, &st) != 0)
        return 0;
    for (size_t i = 0; i < merge->n_files; i++) {
        const struct input *input = &merge->files[i].head.input;
        if (input->st.st_ino == st.st_ino && input->st.st_dev == st.st_dev)
            return fail(err, ERR_USAGE, "%s is the output and one of the files too; leave it out",
                        input->name);
    }
    return output_check_free(output, merge->opts->force, err);
}

static int file_pass(struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    file->n_records = 0;
    switch (file->format) {
    case FORMAT_LINES:
    case FORMAT_JSONL:
        return file_merge_lines(merge, file, err);
    case FORMAT_JSON:
        return file_merge_array(merge, file, err);
    case FORMAT_CSV:
    case FORMAT_TSV:
        return file_merge_rows(merge, file, err);
    case FORMAT_AUTO:
        break;
    }
    BUG("format %d", file->format);
}

static void pass_begin(struct file_merge *merge)
{
    merge->n_records = 0;
    buf_reset(&merge->blank_tail);
    if (merge->out && merge->format == FORMAT_JSON)
        file_merge_array_begin(merge);
    if (!merge->out || merge->header.len == 0)
        return;
    if (!merge->line_end)
        merge->line_end = "\n";
    buf_add_str(&merge->out->pending, buf_str(&merge->header));
    buf_add_text(&merge->out->pending, merge->line_end);
}

static int files_pass(struct file_merge *merge, struct err *err)
{
    int rc = 0;
    pass_begin(merge);
    for (size_t i = 0; rc == 0 && i < merge->n_files; i++) {
        struct file_merge_input *file = &merge->files[i];
        rc = file_pass(merge, file, err);
        if (rc == 0 && file->n_records == 0)
            file_merge_note(merge, "%s has no records", file->head.input.name);
    }
    if (rc == 0 && merge->ids)
        rc = ids_settle(merge, err);
    if (rc == 0 && merge->out && merge->format == FORMAT_JSON)
        file_merge_array_end(merge);
    return rc;
}

/* One pass through all files: they are checked, counted, and written if there is an output. */
static int pass(struct file_merge *merge, struct err *err)
{
    int rc = merge->is_metadata ? file_merge_metadata(merge, err) : files_pass(merge, err);
    merge->stats->n_records = 0;
    for (size_t i = 0; i < merge->n_files; i++) {
        merge->stats->n_records += merge->files[i].n_records;
        if (merge->stats->file_records)
            merge->stats->file_records[i] = merge->files[i].n_records;
    }
    return rc;
}

static int expect_check(const struct file_merge *merge, struct err *err)
{
    uint64_t expect = merge->opts->expect;
    uint64_t found = merge->is_metadata ? merge->stats->n_told : merge->stats->n_records;
    if (expect == UINT64_MAX || expect == found)
        return 0;
    if (found == UINT64_MAX)
        return fail(
            err, ERR_FAILED,
            "expected %lu records, but not every file has a member that counts its records, such "
            "as %s",
            expect, record_count_names[0]);
    return fail(err, ERR_FAILED, "expected %lu records, found %lu", expect, found);
}

static bool is_converted(const struct file_merge *merge)
{
    return other_format(merge, merge->format) != merge->format ||
           merge->stats->out_format != out_of_record(merge->format);
}

/*
 * Makes a first pass without output where it is needed: where written bytes cannot be taken back (a
 * pipe), or where the records are written by another reader than the one that checks them (a
 * conversion).
 */
static int first_look(struct file_merge *merge, struct err *err)
{
    struct outfile *out = merge->out;
    merge->out = NULL;
    merge->has_notes = true;
    merge->ids = merge->opts->id_field ? id_table_new(UINT64_MAX) : NULL;
    int rc = pass(merge, err);
    if (rc == 0)
        rc = expect_check(merge, err);
    id_table_free(merge->ids);
    merge->ids = NULL;
    merge->has_notes = false;
    merge->out = out;
    return rc;
}

static int output_fill(struct file_merge *merge, struct err *err)
{
    bool needs_look = merge->out->is_direct || is_converted(merge);
    int rc = needs_look ? first_look(merge, err) : 0;
    if (rc)
        return rc;
    if (is_converted(merge))
        return file_merge_convert(merge, merge->stats->out_format, err);
    merge->has_notes = !needs_look;
    merge->ids = !needs_look && merge->opts->id_field ? id_table_new(UINT64_MAX) : NULL;
    rc = pass(merge, err);
    return rc ? rc : expect_check(merge, err);
}

static int output_write(struct file_merge *merge, const char *output, struct err *err)
{
    merge->out = &merge->file;
    int rc = outfile_open(merge->out, output, merge->opts->force, err);
    if (rc == 0)
        rc = output_fill(merge, err);
    if (rc == 0 && merge->opts->placing)
        rc = outfile_sync(merge->out, err);
    if (rc == 0 && merge->opts->placing)
        rc = merge->opts->placing(merge->opts->context, merge->out->fd, err);
    if (rc == 0)
        rc = outfile_commit(merge->out, err);
    merge->stats->n_bytes = merge->file.bytes;
    outfile_close(merge->out);
    return rc;
}

/*
 * No rule can apply to records. If the rules are shared with merges of other files, those merges
 * may have used all of them.
 */
static int rules_refuse(const struct merge_rules *rules, struct err *err)
{
    if (rules->len == 0 || rules->is_shared)
        return merge_rules_check(rules, err);
    return fail(err, ERR_USAGE,
                "--rule and --rules are about files of tensors, and about files of one JSON "
                "object each; these hold records");
}

static int file_merge_run(const struct file_merge_opts *opts, const char *const *paths,
                          size_t n_paths, const char *output, bool is_dry,
                          struct file_merge_stats *stats, struct err *err)
{
    struct file_merge merge = {.opts = opts, .stats = stats, .file = OUTFILE_INIT};
    int rc = file_merge_open(&merge, paths, n_paths, err);
    stats->format = merge.format;
    stats->is_metadata = merge.is_metadata;
    if (rc == 0 && output)
        rc = out_format_settle(&merge, output, err);
    if (rc == 0 && output)
        rc = output_refuse(&merge, output, err);
    if (rc == 0 && opts->rules && !merge.is_metadata)
        rc = rules_refuse(opts->rules, err);
    if (rc == 0 && opts->look && merge.is_metadata)
        rc = fail(err, ERR_USAGE, "files of one JSON object each have no records to look at");
    if (rc == 0 && opts->look)
        rc = file_merge_look(&merge, err);
    if (rc == 0)
        rc = is_dry ? first_look(&merge, err) : output_write(&merge, output, err);
    file_merge_close(&merge);
    return rc;
}

int file_merge_write(const struct file_merge_opts *opts, const char *const *paths, size_t n_paths,
                     const char *output, struct file_merge_stats *stats, struct err *err)
{
    return file_merge_run(opts, paths, n_paths, output, false, stats, err);
}

int file_merge_check(const struct file_merge_opts *opts, const char *const *paths, size_t n_paths,
                     const char *output, struct file_merge_stats *stats, struct err *err)
{
    return file_merge_run(opts, paths, n_paths, output, true, stats, err);
}

int file_merge_count(const char *path, enum record_format format, const struct merge_rules *rules,
                     uint64_t *n_records, struct err *err)
{
    const struct file_merge_opts opts = {.format = format, .rules = rules, .expect = UINT64_MAX};
    struct file_merge_stats stats = {0};
    int rc = file_merge_run(&opts, &path, 1, NULL, true, &stats, err);
    *n_records = stats.is_metadata ? stats.n_told : stats.n_records;
    return rc;
}
