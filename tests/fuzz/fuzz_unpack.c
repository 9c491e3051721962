/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed input: any bytes as .gz or .zst, and any text packed here, in one member or two, which must
 * come back as it was. The first byte chooses.
 */
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "data/source.h"
#include "fuzz.h"

enum {
    TEXT_MAX_BYTES = 4 << 20 /* a small file may unpack to gigabytes */
};

static void gzip_add(struct str text, struct buf *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text.at, .avail_in = (uInt)text.len};
    ASSERT(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    size_t bound = deflateBound(&z, text.len);
    buf_reserve(out, bound);
    z.next_out = (Bytef *)out->at + out->len;
    z.avail_out = (uInt)bound;
    ASSERT(deflate(&z, Z_FINISH) == Z_STREAM_END);
    out->len += z.total_out;
    deflateEnd(&z);
}

static void zstd_add(struct str text, struct buf *out)
{
    size_t bound = ZSTD_compressBound(text.len);
    buf_reserve(out, bound);
    size_t len = ZSTD_compress(out->at + out->len, bound, text.at, text.len, 1);
    ASSERT(!ZSTD_isError(len));
    out->len += len;
}

/* All lines of the file, 0 or the error that ended it. */
static int read_all(const char *path, size_t step, struct buf *out)
{
    const char *paths[] = {path};
    const struct source_opts opts = {.paths = paths, .n_paths = 1, .format = FORMAT_LINES};
    struct source *source = NULL;
    struct err err = {0};
    int rc = source_open(&source, &opts, &err);
    while (rc == 0 && !source_is_complete(source) && source_bytes_scanned(source) < TEXT_MAX_BYTES)
        rc = source_scan(source, step, &err);
    if (rc)
        ASSERT(err.code == ERR_DATA && err.text[0]);
    uint64_t n_items = rc ? 0 : source_known(source);
    for (uint64_t first = 0, n_out = 0; first < n_items; first += n_out)
        if (source_lines(source, first, n_items - first, 1 << 16, out, &n_out, &err))
            BUG("a line that was scanned cannot be read: %s", err.text);
    source_close(source);
    return rc;
}

static void check_round_trip(struct str text, bool zstd, bool twice, size_t step)
{
    cleanup_buf struct buf packed = BUF_INIT, plain = BUF_INIT, unpacked = BUF_INIT;
    void (*add)(struct str, struct buf *) = zstd ? zstd_add : gzip_add;
    size_t first = twice ? text.len / 3 : text.len;
    add((struct str){text.at, first}, &packed);
    if (twice)
        add((struct str){text.at + first, text.len - first}, &packed);
    cleanup_free char *path = xstrdup(fuzz_file(zstd ? "in.zst" : "in.gz", buf_str(&packed)));
    int rc_packed = read_all(path, step, &unpacked);
    int rc_plain = read_all(fuzz_file("in.txt", text), 1 << 20, &plain);
    if (rc_packed != rc_plain || !str_equal(buf_str(&plain), buf_str(&unpacked)))
        BUG("packed and unpacked, %zu bytes are %zu", plain.len, unpacked.len);
    /* Cut off, it must be said. */
    packed.len -= 1 + text.len % 4;
    fuzz_file(zstd ? "in.zst" : "in.gz", buf_str(&packed));
    buf_reset(&unpacked);
    ASSERT(read_all(path, step, &unpacked) != 0);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    bool zstd = choice & 1, own = choice & 2, twice = choice & 4;
    size_t step = 1 + (size_t)(choice >> 3) * 100;
    if (own) {
        check_round_trip(text, zstd, twice, step);
        return 0;
    }
    cleanup_buf struct buf once = BUF_INIT, again = BUF_INIT;
    const char *path = fuzz_file(zstd ? "in.zst" : "in.gz", text);
    fuzz_cost_forgive_windows(text);
    int rc = read_all(path, step, &once);
    ASSERT(read_all(path, 1 << 20, &again) == rc);
    ASSERT(rc || once.len >= TEXT_MAX_BYTES || str_equal(buf_str(&once), buf_str(&again)));
    return 0;
}
