/* SPDX-License-Identifier: Apache-2.0
 *
 * The file at {input}: only the shard's records, unchanged, for programs that read a whole file and
 * know nothing of shards.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "shard/shard.h"

enum {
    PENDING_BYTES = 1 << 20
};

static int flush(int fd, const char *path, struct buf *pending, struct err *err)
{
    int rc = write_all(fd, buf_text(pending), pending->len, err);
    buf_reset(pending);
    return rc ? wrap(err, rc, "%s", path) : 0;
}

/* The records of a JSON array become an array again; a CSV file gets the header. */
static void frame_begin(struct source *source, struct buf *out)
{
    if (source_format(source) == FORMAT_JSON)
        buf_add_text(out, "[\n");
    source_header(source, out);
}

static int records_write(struct source *source, struct share share, int fd, const char *path,
                         struct err *err)
{
    cleanup_buf struct buf pending = BUF_INIT;
    bool is_array = source_format(source) == FORMAT_JSON;
    int rc = 0;
    frame_begin(source, &pending);
    for (uint64_t i = 0; rc == 0 && i < share.count; i++) {
        rc = source_record(source, share.start + i, &pending, err);
        buf_add_text(&pending, is_array && i + 1 < share.count ? ",\n" : "\n");
        if (rc == 0 && pending.len >= PENDING_BYTES)
            rc = flush(fd, path, &pending, err);
    }
    if (is_array)
        buf_add_text(&pending, "]\n");
    return rc ? rc : flush(fd, path, &pending, err);
}

int shard_input_write(struct session *s, uint64_t shard, const char *path, struct err *err)
{
    struct shards *shards = shards_of(s);
    int rc = mkdir_parents(shards->input_dir, 0775, err);
    if (rc)
        return rc;
    if (unlink(path) != 0 && errno != ENOENT)
        return fail_errno(err, "remove %s", path);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0664);
    if (fd < 0)
        return fail_errno(err, "create %s", path);
    uv_mutex_lock(&shards->source_lock);
    rc = records_write(session_source(s), shard_share(shards, shard), fd, path, err);
    uv_mutex_unlock(&shards->source_lock);
    return rc;
}
