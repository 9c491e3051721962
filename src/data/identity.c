/* SPDX-License-Identifier: Apache-2.0
 *
 * Records what the input was when the run began, and checks whether it is still the same. Uses
 * jansson, whose names clash with base/json.h, so that header is not included here.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/xalloc.h"
#include "data/source_impl.h"

enum {
    SAMPLE_BYTES = 64 * 1024,
    N_SAMPLES = 18 /* head, tail, 16 between */
};

/* A file no larger than this is hashed as a whole. */
static const uint64_t whole_bytes = (uint64_t)SAMPLE_BYTES * N_SAMPLES;

struct file_identity {
    const char *path;
    uint64_t bytes;
    int64_t mtime_ns;
    char hash[17];
};

static int sample(int fd, uint64_t offset, size_t len, char *piece, XXH3_state_t *hash,
                  struct err *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t got =
            pread(fd, piece, MIN(len - done, (size_t)SAMPLE_BYTES), (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno_as(err, ERR_USAGE, "read");
        if (got == 0)
            return fail(err, ERR_USAGE, "it changes while it is read");
        XXH3_64bits_update(hash, piece, (size_t)got);
        done += (size_t)got;
    }
    return 0;
}

/* Hashes a small file as a whole, a large one by evenly spread blocks. */
static int content_hash(int fd, uint64_t bytes, char out[17], struct err *err)
{
    cleanup_free char *piece = xmalloc(SAMPLE_BYTES);
    XXH3_state_t *hash = XXH3_createState();
    if (!hash)
        return fail(err, ERR_STOPPED, "out of memory for the hash of an input");
    XXH3_64bits_reset(hash);
    int rc = 0;
    if (bytes <= whole_bytes)
        rc = sample(fd, 0, (size_t)bytes, piece, hash, err);
    for (uint64_t i = 0; bytes > whole_bytes && rc == 0 && i < N_SAMPLES; i++) {
        uint64_t step = (bytes - SAMPLE_BYTES) / (N_SAMPLES - 1);
        uint64_t offset = i == N_SAMPLES - 1 ? bytes - SAMPLE_BYTES : i * step;
        rc = sample(fd, offset, SAMPLE_BYTES, piece, hash, err);
    }
    snprintf(out, 17, "%016lx", (unsigned long)XXH3_64bits_digest(hash));
    XXH3_freeState(hash);
    return rc;
}

/* Identifies the file as it is now. A stream has no identity except its name. */
static int identify(const struct input *input, struct file_identity *out, struct err *err)
{
    *out = (struct file_identity){.path = input->path};
    if (input->is_stream)
        return 0;
    cleanup_fd int fd = open(input->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", input->path);
    out->bytes = (uint64_t)st.st_size;
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    int rc = content_hash(fd, out->bytes, out->hash, err);
    return rc ? wrap(err, rc, "%s", input->path) : 0;
}

/* A path that is not UTF-8 is written as {"bytes": "<hex>"}, as in the manifest around it. */
static json_t *path_json(const struct input *input)
{
    cleanup_free char *path = input->is_stream ? xstrdup(input->path) : path_absolute(input->path);
    json_t *text = json_string(path);
    if (text)
        return text;
    cleanup_buf struct buf hex = BUF_INIT;
    buf_add_hex(&hex, str_of(path));
    return json_pack("{s:s}", "bytes", buf_text(&hex));
}

void source_identity(struct source *source, struct buf *json_out)
{
    json_t *files = json_array();
    for (size_t i = 0; i < source->n_files; i++) {
        const struct input *input = &source->files[i].input;
        struct file_identity id;
        json_t *entry = json_object();
        json_object_set_new(entry, "path", path_json(input));
        /* A file that cannot be read any more gets an identity that no file matches. */
        if (!input->is_stream && identify(input, &id, NULL) == 0) {
            json_object_set_new(entry, "bytes", json_integer((json_int_t)id.bytes));
            json_object_set_new(entry, "mtime_ns", json_integer((json_int_t)id.mtime_ns));
            json_object_set_new(entry, "xxh3_samples", json_string(id.hash));
        }
        json_array_append_new(files, entry);
    }
    json_t *root =
        json_pack("{s:s, s:o}", "format", record_format_name(source->format), "files", files);
    cleanup_free char *text = json_dumps(root, JSON_COMPACT);
    ASSERT(text);
    buf_add_text(json_out, text);
    json_decref(root);
}

static int stream_compare(const struct source *source, struct input *input, struct err *err)
{
    if (!source->opts.streams_are_typed || isatty(input->raw_fd))
        return 0;
    return input_compare_stream(input, source->opts.limit > 0, err);
}

static int compare(const struct source *source, struct input *input, json_t *then, struct err *err)
{
    struct file_identity now;
    const json_t *path = json_object_get(then, "path");
    json_t *path_now = path_json(input);
    bool is_same = json_equal(path, path_now);
    json_decref(path_now);
    if (!is_same)
        return fail(err, ERR_USAGE, "the run began with %s, not with %s",
                    json_is_string(path) ? json_string_value(path) : "another file", input->path);
    if (input->is_stream)
        return stream_compare(source, input, err);
    int rc = identify(input, &now, err);
    if (rc)
        return rc;
    uint64_t bytes = (uint64_t)json_integer_value(json_object_get(then, "bytes"));
    const char *hash = json_string_value(json_object_get(then, "xxh3_samples"));
    if (bytes != now.bytes)
        return fail(err, ERR_USAGE, "%s has %s from %lu to %lu bytes since the run began",
                    input->path, now.bytes > bytes ? "grown" : "shrunk", bytes, now.bytes);
    /*
     * A change between two samples leaves the hash as it was, so a large file with another mtime
     * counts as changed.
     */
    bool is_touched = json_integer_value(json_object_get(then, "mtime_ns")) != now.mtime_ns;
    if (!hash || strcmp(hash, now.hash) != 0)
        return fail(err, ERR_USAGE, "%s has other content than when the run began", input->path);
    if (is_touched && bytes > whole_bytes)
        return fail(err, ERR_USAGE,
                    "%s was written to since the run began (its time of change differs)",
                    input->path);
    return 0;
}

int source_verify(struct source *source, struct str identity_json, struct err *err)
{
    json_error_t where;
    json_t *root = json_loadb(identity_json.at, identity_json.len, 0, &where);
    const char *format = json_string_value(json_object_get(root, "format"));
    json_t *files = json_object_get(root, "files");
    int rc = 0;
    if (!root || !format || !json_is_array(files))
        rc = fail(err, ERR_DATA, "the record of the input is not readable%s%s", root ? "" : ": ",
                  root ? "" : where.text);
    else if (strcmp(format, record_format_name(source->format)) != 0)
        rc = fail(err, ERR_USAGE, "the run began with input read as %s, not as %s", format,
                  record_format_name(source->format));
    else if (json_array_size(files) != source->n_files)
        rc = fail(err, ERR_USAGE, "the run began with %zu input files, not with %zu",
                  json_array_size(files), source->n_files);
    for (size_t i = 0; rc == 0 && i < source->n_files; i++)
        rc = compare(source, &source->files[i].input, json_array_get(files, i), err);
    json_decref(root);
    return rc;
}
