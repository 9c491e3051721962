/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the files and scans them forward: how many records there are, and where some of them begin.
 */
#include "data/source.h"

#include <errno.h>
#include <poll.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "data/source_impl.h"

enum {
    SCAN_ALL_BYTES = 8 << 20 /* scanned between two checks for more input */
};

static int format_choose(struct source *source, struct err *err)
{
    const struct source_opts *opts = &source->opts;
    source->format = opts->format;
    for (size_t i = 0; opts->format == FORMAT_AUTO && i < opts->n_paths; i++) {
        enum record_format format = record_format_of_path(opts->paths[i]);
        if (i > 0 && format != source->format)
            return fail(err, ERR_USAGE, "%s looks like %s, %s like %s; say which with --format",
                        opts->paths[0], record_format_name(source->format), opts->paths[i],
                        record_format_name(format));
        source->format = format;
    }
    if (source->format == FORMAT_CSV)
        source->separator = ',';
    if (source->format == FORMAT_TSV)
        source->separator = '\t';
    source->is_converted = source->separator && !opts->is_raw;
    return 0;
}

static int file_open(struct source *source, size_t i, struct err *err)
{
    struct source_file *file = &source->files[i];
    int rc = input_open(&file->input, &source->opts, i, &source->ring, err);
    source->n_files = i + 1;
    if (rc || (file->input.is_stream && !file->input.is_whole))
        return rc;
    bool is_plain = file->input.is_whole;
    if (!is_plain) /* read the first piece of a packed file */
        rc = input_fill(&file->input, 1, err);
    if (rc == 0)
        rc = head_begin(source, file, err);
    if (rc == 0 && is_plain)
        rc = head_check_end(source, file, err);
    return rc;
}

static void scan_buffer_drop(struct source *source)
{
    if (source->scan_buffer != source->opts.scratch)
        free(source->scan_buffer);
    source->scan_buffer = NULL;
}

int source_open(struct source **out, const struct source_opts *opts, struct err *err)
{
    *out = NULL;
    size_t n_stdin = 0;
    for (size_t i = 0; i < opts->n_paths; i++)
        n_stdin += strcmp(opts->paths[i], "-") == 0;
    if (opts->n_paths == 0)
        return fail(err, ERR_USAGE, "no input is named");
    if (n_stdin > 1)
        return fail(err, ERR_USAGE, "stdin ('-') is named %zu times as input", n_stdin);

    struct source *source = xcalloc(1, sizeof(*source));
    source->opts = *opts;
    source->files = xcalloc(opts->n_paths, sizeof(*source->files));
    source->window_bytes = WINDOW_BYTES;
    source->index.stride_bytes = INDEX_STRIDE_BYTES;
    source->index.entries_max = opts->in_any_order ? INDEX_ENTRIES_ANY_ORDER : INDEX_ENTRIES;
    source->scan_buffer = opts->scratch ? opts->scratch : xmalloc(WINDOW_BYTES);
    char **paths = xcalloc(opts->n_paths, sizeof(*paths));
    for (size_t i = 0; i < opts->n_paths; i++)
        paths[i] = xstrdup(opts->paths[i]);
    source->paths = paths;
    source->opts.paths = (const char *const *)paths;
    source->opts.spool_dir = source->spool_dir = opts->spool_dir ? xstrdup(opts->spool_dir) : NULL;
    source->opts.weight_field = source->weight_field =
        opts->weight_field ? xstrdup(opts->weight_field) : NULL;
    int rc = format_choose(source, err);
    for (size_t i = 0; rc == 0 && i < opts->n_paths; i++)
        rc = file_open(source, i, err);
    if (rc) {
        source_close(source);
        return rc;
    }
    *out = source;
    return 0;
}

void source_close(struct source *source)
{
    if (!source)
        return;
    for (size_t i = 0; i < source->n_files; i++)
        input_close(&source->files[i].input);
    for (size_t i = 0; i < N_CURSORS; i++)
        free(source->cursors[i].at);
    for (size_t i = 0; i < source->opts.n_paths; i++)
        free(source->paths[i]);
    free(source->paths);
    free(source->spool_dir);
    free(source->weight_field);
    free(source->files);
    scan_buffer_drop(source);
    free(source->index.entries);
    free(source->key_ends);
    csv_row_release(&source->header);
    csv_row_release(&source->row);
    buf_release(&source->keys);
    buf_release(&source->item);
    free(source);
}

void source_tune(struct source *source, size_t window_bytes, uint64_t index_stride_bytes)
{
    ASSERT(window_bytes % SCAN_BLOCK_BYTES == 0 && window_bytes <= WINDOW_BYTES);
    source->window_bytes = window_bytes;
    source->index.stride_bytes = index_stride_bytes;
}

enum record_format source_format(const struct source *source)
{
    return source->format;
}

bool source_is_json(const struct source *source)
{
    return source->format == FORMAT_JSONL || source->format == FORMAT_JSON || source->is_converted;
}

uint64_t source_known(const struct source *source)
{
    return source->n_known;
}

bool source_is_complete(const struct source *source)
{
    return source->is_complete;
}

int source_wait_fd(const struct source *source)
{
    if (source->is_complete)
        return -1;
    const struct input *input = &source->files[source->scan_file].input;
    return input->is_stream && !input->is_whole ? input->raw_fd : -1;
}

/* For a packed file the packed bytes count, because their total is known in advance. */
uint64_t source_bytes_scanned(const struct source *source)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < source->n_files; i++) {
        const struct source_file *file = &source->files[i];
        bool is_packed = file->input.packed_read > 0 && !file->input.is_stream;
        sum += is_packed ? file->input.packed_read : file->scan_at;
    }
    return sum;
}

uint64_t source_bytes_total(const struct source *source)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < source->n_files; i++) {
        const struct input *input = &source->files[i].input;
        if (input->is_stream && !input->is_whole)
            return 0;
        bool is_packed = input->packed_read > 0 || !input->is_whole;
        sum += is_packed && !input->is_stream ? (uint64_t)input->st.st_size : input->text_bytes;
    }
    return sum;
}

static int scan_flaw(const struct source_file *file, uint64_t at, struct err *err)
{
    const char *what = file->scan.flaws & SCAN_NUL ? "a NUL byte, which text has not"
                       : file->scan.flaws & SCAN_EMPTY_ELEMENT
                           ? "an element that is empty (two commas, or one before the ']')"
                           : "something behind the ']' that closes the array";
    return fail(err, ERR_DATA, "%s, in the 64 bytes from byte %lu on: %s", file->input.name, at,
                what);
}

static void scan_note(struct source *source, struct source_file *file,
                      const struct boundary_tally *tally)
{
    file->n_items += tally->n_ends;
    if (tally->n_ends == 0)
        return;
    file->last_end_at = file->scan_at + tally->after_end;
    index_add(&source->index, (struct index_entry){
                                  .item = file->first_item + file->n_items,
                                  .offset = file->last_end_at,
                                  .line = file->begin_line + file->n_newlines + tally->n_newlines,
                              });
}

/* Scans the whole blocks among the next bytes. */
static int scan_blocks(struct source *source, struct source_file *file, uint64_t *budget,
                       struct err *err)
{
    uint64_t left = file->input.text_bytes - file->scan_at;
    size_t len = (size_t)MIN(MIN(left, source->window_bytes), MAX(*budget, SCAN_BLOCK_BYTES));
    len -= len % SCAN_BLOCK_BYTES;
    int rc = input_read(&file->input, file->scan_at, source->scan_buffer, len, err);
    for (size_t at = 0; rc == 0 && at < len;) {
        size_t piece = MIN(len - at, (size_t)INDEX_STRIDE_BYTES);
        struct boundary_tally tally = {.ends_max = UINT64_MAX};
        boundary_scan_blocks(&file->scan, source->scan_buffer + at, piece, &tally);
        scan_note(source, file, &tally);
        if (file->scan.flaws)
            return scan_flaw(file, file->scan_at + tally.n_bytes, err);
        file->n_newlines += tally.n_seen;
        file->scan_at += piece;
        at += piece;
    }
    *budget -= MIN(*budget, len);
    return rc;
}

/*
 * Scans the remaining bytes, fewer than 64. The file's state stays as it was before them, because
 * more bytes may follow.
 */
static int scan_tail(struct source_file *file, struct boundary_tally *tally,
                     struct boundary_scan *scan, struct err *err)
{
    char tail[SCAN_BLOCK_BYTES];
    size_t len = (size_t)(file->input.text_bytes - file->scan_at);
    int rc = input_read(&file->input, file->scan_at, tail, len, err);
    if (rc)
        return rc;
    *tally = (struct boundary_tally){.ends_max = UINT64_MAX};
    *scan = file->scan;
    boundary_scan_tail(scan, tail, len, tally);
    file->scan.flaws |= scan->flaws;
    return file->scan.flaws ? scan_flaw(file, file->scan_at, err) : 0;
}

/* Checks the end of a file: an open record counts as one, an open quote or array is an error. */
static int scan_end(struct source *source, struct source_file *file, struct err *err)
{
    /* With a limit the rest of the file does not matter, even if it is malformed. */
    if (source->opts.limit > 0 && file->first_item + file->n_items >= source->opts.limit)
        return 0;
    bool is_open = source->format == FORMAT_LINES ? file->last_end_at < file->input.text_bytes
                                                  : file->scan.has_content;
    if (source->separator && file->scan.inside)
        return head_blame_quotes(source, file, err);
    if (source->format == FORMAT_JSON)
        return file->scan.depth == 0
                   ? 0
                   : fail(err, ERR_DATA,
                          "%s is cut off: the array is not closed at byte %lu, after "
                          "%lu elements",
                          file->input.name, file->input.text_bytes, file->n_items);
    file->n_items += is_open;
    return is_open && source->format == FORMAT_JSONL
               ? head_check_last(source, file, file->last_end_at, err)
               : 0;
}

static int scan_finish(struct source *source, struct source_file *file, struct err *err)
{
    struct boundary_tally tally;
    struct boundary_scan scan;
    int rc = scan_tail(file, &tally, &scan, err);
    if (rc)
        return rc;
    file->scan = scan;
    scan_note(source, file, &tally);
    file->scan_at = file->input.text_bytes;
    file->n_tail = 0;
    rc = scan_end(source, file, err);
    if (rc)
        return rc;
    file->is_scanned = true;
    source->index.next_offset = 0;
    if (++source->scan_file < source->n_files)
        source->files[source->scan_file].first_item = file->first_item + file->n_items;
    else
        source->is_complete = true;
    return 0;
}

/*
 * When the limit is reached the rest is not read. Spools are then declared complete, so that a
 * resume finds them.
 */
static int scan_limit(struct source *source, struct err *err)
{
    const struct source_file *file = &source->files[MIN(source->scan_file, source->n_files - 1)];
    uint64_t known = file->first_item + file->n_items + file->n_tail, limit = source->opts.limit;
    source->n_known = limit > 0 ? MIN(known, limit) : known;
    if (limit == 0 || known < limit)
        return 0;
    source->is_complete = true;
    int rc = 0;
    for (size_t i = source->scan_file; rc == 0 && i < source->n_files; i++)
        rc = input_finish(&source->files[i].input, err);
    return rc;
}

/* Does one step of a scan; *is_stuck: nothing more can be read now. */
static int scan_step(struct source *source, uint64_t *budget, bool *is_stuck, struct err *err)
{
    struct source_file *file = &source->files[source->scan_file];
    uint64_t had = file->input.text_bytes, packed_had = file->input.packed_read;
    if (file->input.text_bytes - file->scan_at < source->window_bytes) {
        int rc = input_fill(&file->input, source->window_bytes, err);
        if (rc)
            return rc;
    }
    int rc = file->is_begun ? 0 : head_begin(source, file, err);
    if (rc == 0 && file->is_begun && file->input.text_bytes - file->scan_at >= SCAN_BLOCK_BYTES)
        return scan_blocks(source, file, budget, err);
    if (rc == 0 && file->is_begun && file->input.is_whole)
        return scan_finish(source, file, err);
    *is_stuck = file->input.text_bytes == had && file->input.packed_read == packed_had;
    if (rc || !file->is_begun)
        return rc;
    struct boundary_tally tally = {0};
    struct boundary_scan scan;
    rc = scan_tail(file, &tally, &scan, err);
    file->n_tail = tally.n_ends;
    return rc;
}

int source_scan(struct source *source, size_t bytes_max, struct err *err)
{
    uint64_t budget = bytes_max;
    bool is_stuck = false;
    while (!source->is_complete && budget > 0 && !is_stuck) {
        int rc = scan_step(source, &budget, &is_stuck, err);
        if (rc)
            return rc;
        rc = scan_limit(source, err);
        if (rc)
            return rc;
    }
    if (source->is_complete)
        scan_buffer_drop(source);
    return 0;
}

int source_scan_all(struct source *source, struct err *err)
{
    int rc = 0;
    while (rc == 0 && !source->is_complete) {
        struct pollfd ready = {.fd = source_wait_fd(source), .events = POLLIN};
        if (ready.fd >= 0 && poll(&ready, 1, -1) < 0 && errno != EINTR)
            return fail_errno(err, "wait for input");
        rc = source_scan(source, SCAN_ALL_BYTES, err);
    }
    return rc;
}
