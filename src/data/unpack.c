/* SPDX-License-Identifier: Apache-2.0 */
#include "data/unpack.h"

#define ZLIB_CONST /* makes next_in const */
#include <zlib.h>
#include <zstd.h>

#include "base/xalloc.h"

struct unpack {
    enum packing packing;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool is_open;    /* within a member */
    bool is_padding; /* gzip: only zeros may follow, which tar and tapes pad with */
    bool has_begun;
};

struct unpack *unpack_new(enum packing packing)
{
    struct unpack *unpack = xcalloc(1, sizeof(*unpack));
    unpack->packing = packing;
    if (packing == PACK_ZSTD) {
        unpack->zstd = ZSTD_createDStream();
        ASSERT(unpack->zstd);
        /* Frames made with --long or --ultra: up to 2 GiB of window, as `zstd --long=31` allows. */
        ZSTD_DCtx_setParameter(unpack->zstd, ZSTD_d_windowLogMax, 31);
    } else if (inflateInit2(&unpack->gzip, 15 + 16) != Z_OK) {
        BUG("inflateInit2");
    }
    return unpack;
}

void unpack_free(struct unpack *unpack)
{
    if (!unpack)
        return;
    if (unpack->packing == PACK_ZSTD)
        ZSTD_freeDStream(unpack->zstd);
    else
        inflateEnd(&unpack->gzip);
    free(unpack);
}

static int skip_zeros(struct str *in, struct err *err)
{
    for (; in->len > 0; in->at++, in->len--)
        if (*in->at)
            return fail(err, ERR_DATA, "something that is not gzip follows the last member");
    return 0;
}

static int gunzip_some(struct unpack *u, struct str *in, char *at, size_t cap, size_t *n_out,
                       struct err *err)
{
    if (!u->is_open && u->has_begun && in->len > 0 && (unsigned char)*in->at != 0x1f)
        u->is_padding = true;
    if (u->is_padding || in->len == 0)
        return u->is_padding ? skip_zeros(in, err) : 0;
    u->is_open = u->has_begun = true;
    u->gzip.next_in = (const Bytef *)in->at;
    u->gzip.avail_in = (uInt)in->len;
    u->gzip.next_out = (Bytef *)at;
    u->gzip.avail_out = (uInt)cap;
    int rc = inflate(&u->gzip, Z_NO_FLUSH);
    in->at += in->len - u->gzip.avail_in;
    in->len = u->gzip.avail_in;
    *n_out = cap - u->gzip.avail_out;
    if (rc == Z_STREAM_END) {
        u->is_open = false;
        inflateReset(&u->gzip);
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        return fail(err, ERR_DATA, "gzip: %s", u->gzip.msg ? u->gzip.msg : "not in gzip format");
    }
    return 0;
}

static int unzstd_some(struct unpack *u, struct str *in, char *at, size_t cap, size_t *n_out,
                       struct err *err)
{
    ZSTD_inBuffer from = {in->at, in->len, 0};
    ZSTD_outBuffer to = {at, cap, 0};
    size_t hint = ZSTD_decompressStream(u->zstd, &to, &from);
    if (ZSTD_isError(hint))
        return fail(err, ERR_DATA, "zstd: %s", ZSTD_getErrorName(hint));
    if (from.pos > 0 || to.pos > 0)
        u->is_open = hint != 0;
    in->at += from.pos;
    in->len -= from.pos;
    *n_out = to.pos;
    return 0;
}

int unpack_some(struct unpack *unpack, struct str *in, char *at, size_t cap, size_t *n_out,
                struct err *err)
{
    *n_out = 0;
    return unpack->packing == PACK_ZSTD ? unzstd_some(unpack, in, at, cap, n_out, err)
                                        : gunzip_some(unpack, in, at, cap, n_out, err);
}

bool unpack_is_at_end(const struct unpack *unpack)
{
    return !unpack->is_open;
}
