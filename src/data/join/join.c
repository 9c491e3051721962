/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked for, the passes over the files, the output.
 */
#include "data/join/join.h"

#include "base/fs.h"
#include "base/xalloc.h"
#include "data/container.h"
#include "data/join/join_impl.h"
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

static bool is_uniform(const struct join *join)
{
    for (size_t i = 0; i < join->n_files; i++)
        if (join->files[i].format != join->format)
            return false;
    return true;
}

/*
 * An output named .csv is CSV whatever the files are; one whose name says nothing is what they
 * are.
 */
static int out_format_settle(struct join *join, const char *output, struct err *err)
{
    enum out_format own = out_of_record(join->format), format = join->opts->out_format;
    if (packing_of_path(output) != PACK_NONE)
        return fail(err, ERR_USAGE, "%s: the output is not packed; pack it afterwards, from -o -",
                    output);
    int rc = format == OUT_AUTO ? container_output_refuse(output, err) : 0;
    if (rc)
        return rc;
    if (format == OUT_AUTO)
        format = out_format_of_path(output);
    if (join->opts->out_format == OUT_AUTO && format == OUT_LINES)
        format = own;
    if (format == OUT_LINES && (own != OUT_LINES || !is_uniform(join)))
        return fail(err, ERR_USAGE, "records of %s do not become lines; jsonl, json, csv, tsv do",
                    record_format_name(join->format));
    if (join->is_metadata && format != OUT_JSON)
        return fail(
            err, ERR_USAGE,
            "files of one JSON object each become one such file, json; if they have one value "
            "a line, say --format jsonl");
    join->stats->out_format = format;
    return 0;
}

/* The output must not be one of the files, whatever its name. */
static int output_refuse(const struct join *join, const char *output, struct err *err)
{
    struct stat st;
    if (folder_exists(output) || str_ends_with(str_of(output), STR("/")))
        return fail(err, ERR_USAGE, "%s is a folder; name the file in it that the records go to",
                    output);
    if (output_is_direct(output) || stat(output, &st) != 0)
        return 0;
    for (size_t i = 0; i < join->n_files; i++) {
        const struct input *input = &join->files[i].head.input;
        if (input->st.st_ino == st.st_ino && input->st.st_dev == st.st_dev)
            return fail(err, ERR_USAGE, "%s is the output and one of the files too; leave it out",
                        input->name);
    }
    return join->opts->force ? 0 : fail(err, ERR_USAGE, "%s exists; --force replaces it", output);
}

static int file_pass(struct join *join, struct join_file *file, struct err *err)
{
    file->n_records = 0;
    switch (file->format) {
    case FORMAT_LINES:
    case FORMAT_JSONL:
        return join_lines(join, file, err);
    case FORMAT_JSON:
        return join_array(join, file, err);
    case FORMAT_CSV:
    case FORMAT_TSV:
        return join_rows(join, file, err);
    case FORMAT_AUTO:
        break;
    }
    BUG("format %d", file->format);
}

static void pass_begin(struct join *join)
{
    join->n_records = 0;
    buf_reset(&join->blank_tail);
    if (join->out && join->format == FORMAT_JSON)
        join_array_begin(join);
    if (!join->out || join->header.len == 0)
        return;
    if (!join->line_end)
        join->line_end = "\n";
    buf_add_str(&join->out->pending, buf_str(&join->header));
    buf_add_text(&join->out->pending, join->line_end);
}

static int files_pass(struct join *join, struct err *err)
{
    int rc = 0;
    pass_begin(join);
    for (size_t i = 0; rc == 0 && i < join->n_files; i++) {
        struct join_file *file = &join->files[i];
        rc = file_pass(join, file, err);
        if (rc == 0 && file->n_records == 0)
            join_note(join, "%s has no records", file->head.input.name);
    }
    if (rc == 0 && join->ids)
        rc = ids_settle(join, err);
    if (rc == 0 && join->out && join->format == FORMAT_JSON)
        join_array_end(join);
    return rc;
}

/* Through all files: looked at, counted, and written if there is an output. */
static int pass(struct join *join, struct err *err)
{
    int rc = join->is_metadata ? join_metadata(join, err) : files_pass(join, err);
    join->stats->n_records = 0;
    for (size_t i = 0; i < join->n_files; i++) {
        join->stats->n_records += join->files[i].n_records;
        if (join->stats->file_records)
            join->stats->file_records[i] = join->files[i].n_records;
    }
    return rc;
}

static int expect_check(const struct join *join, struct err *err)
{
    uint64_t expect = join->opts->expect;
    uint64_t found = join->is_metadata ? join->stats->n_told : join->stats->n_records;
    if (expect == UINT64_MAX || expect == found)
        return 0;
    if (found == UINT64_MAX)
        return fail(err, ERR_FAILED,
                    "expected %lu records, and some file does not tell of how many it is (%s …)",
                    expect, record_count_names[0]);
    return fail(err, ERR_FAILED, "expected %lu records, found %lu", expect, found);
}

static bool is_converted(const struct join *join)
{
    return !is_uniform(join) || join->stats->out_format != out_of_record(join->format);
}

/* A pass without output first where bytes cannot be taken back, or records are written by another
 * reader than the one that checks them. */
static int first_look(struct join *join, struct err *err)
{
    struct outfile *out = join->out;
    join->out = NULL;
    join->has_notes = true;
    join->ids = join->opts->id_field ? id_table_new(UINT64_MAX) : NULL;
    int rc = pass(join, err);
    if (rc == 0)
        rc = expect_check(join, err);
    id_table_free(join->ids);
    join->ids = NULL;
    join->has_notes = false;
    join->out = out;
    return rc;
}

static int output_fill(struct join *join, struct err *err)
{
    bool needs_look = join->out->is_direct || is_converted(join);
    int rc = needs_look ? first_look(join, err) : 0;
    if (rc)
        return rc;
    if (is_converted(join))
        return join_convert(join, join->stats->out_format, err);
    join->has_notes = !needs_look;
    join->ids = !needs_look && join->opts->id_field ? id_table_new(UINT64_MAX) : NULL;
    rc = pass(join, err);
    return rc ? rc : expect_check(join, err);
}

static int output_write(struct join *join, const char *output, struct err *err)
{
    join->out = &join->file;
    int rc = outfile_open(join->out, output, join->opts->force, err);
    if (rc == 0)
        rc = output_fill(join, err);
    if (rc == 0 && join->opts->placing)
        rc = outfile_sync(join->out, err);
    if (rc == 0 && join->opts->placing)
        rc = join->opts->placing(join->opts->context, join->out->fd, err);
    if (rc == 0)
        rc = outfile_commit(join->out, err);
    join->stats->n_bytes = join->file.bytes;
    outfile_close(join->out);
    return rc;
}

/* Nothing in records fits a rule; where other files take the rules too, all may have been used. */
static int rules_refuse(const struct merge_rules *rules, struct err *err)
{
    if (rules->len == 0 || rules->is_shared)
        return merge_rules_check(rules, err);
    return fail(err, ERR_USAGE,
                "--rule and --rules are about files of tensors, and about files of one JSON "
                "object each; these hold records");
}

static int join_run(const struct join_opts *opts, const char *const *paths, size_t n_paths,
                    const char *output, bool is_dry, struct join_stats *stats, struct err *err)
{
    struct join join = {.opts = opts, .stats = stats, .file = OUTFILE_INIT};
    int rc = join_open(&join, paths, n_paths, err);
    stats->format = join.format;
    stats->is_metadata = join.is_metadata;
    if (rc == 0 && output)
        rc = out_format_settle(&join, output, err);
    if (rc == 0 && output)
        rc = output_refuse(&join, output, err);
    if (rc == 0 && opts->rules && !join.is_metadata)
        rc = rules_refuse(opts->rules, err);
    if (rc == 0 && opts->look && join.is_metadata)
        rc = fail(err, ERR_USAGE, "files of one JSON object each have no records to look at");
    if (rc == 0 && opts->look)
        rc = join_look(&join, err);
    if (rc == 0)
        rc = is_dry ? first_look(&join, err) : output_write(&join, output, err);
    join_close(&join);
    return rc;
}

int join_files(const struct join_opts *opts, const char *const *paths, size_t n_paths,
               const char *output, struct join_stats *stats, struct err *err)
{
    return join_run(opts, paths, n_paths, output, false, stats, err);
}

int join_check(const struct join_opts *opts, const char *const *paths, size_t n_paths,
               const char *output, struct join_stats *stats, struct err *err)
{
    return join_run(opts, paths, n_paths, output, true, stats, err);
}

int join_count(const char *path, enum record_format format, const struct merge_rules *rules,
               uint64_t *n_records, struct err *err)
{
    const struct join_opts opts = {.format = format, .rules = rules, .expect = UINT64_MAX};
    struct join_stats stats = {0};
    int rc = join_run(&opts, &path, 1, NULL, true, &stats, err);
    *n_records = stats.is_metadata ? stats.n_told : stats.n_records;
    return rc;
}
