/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idlist.h"

#include "base/parse.h"

static int range_parse(struct str piece, uint32_t max, uint64_t *first, uint64_t *last,
                       struct err *err)
{
    const char *dash = memchr(piece.at, '-', piece.len);
    struct str low = piece, high = piece;
    if (dash) {
        low.len = (size_t)(dash - piece.at);
        high = (struct str){dash + 1, piece.len - low.len - 1};
    }
    int rc = u64_parse(low, 0, max, first, err);
    if (rc == 0)
        rc = u64_parse(high, 0, max, last, err);
    if (rc == 0 && *first > *last)
        rc = fail(err, ERR_USAGE, "range '%.*s' runs backwards", (int)piece.len, piece.at);
    return rc;
}

static bool contains(const uint32_t *ids, size_t n_ids, uint64_t id)
{
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] == id)
            return true;
    return false;
}

int idlist_parse(struct str text, uint32_t max, uint32_t *out, size_t out_cap, size_t *n_out,
                 struct err *err)
{
    struct str rest = text, piece;
    size_t count = 0;
    if (text.len == 0)
        return fail(err, ERR_USAGE, "the list is empty");
    while (str_next(&rest, ',', &piece)) {
        uint64_t first, last;
        piece = str_trim(piece);
        if (piece.len == 0)
            return fail(err, ERR_USAGE, "an entry of '%.*s' is empty", (int)text.len, text.at);
        int rc = range_parse(piece, max, &first, &last, err);
        if (rc)
            return rc;
        for (uint64_t id = first; id <= last; id++) {
            if (contains(out, count, id))
                return fail(err, ERR_USAGE, "%u is listed twice", (unsigned)id);
            if (count == out_cap)
                return fail(err, ERR_USAGE, "more than %zu entries", out_cap);
            out[count++] = (uint32_t)id;
        }
    }
    *n_out = count;
    return 0;
}

void idlist_format(struct buf *out, const uint32_t *ids, size_t n_ids)
{
    for (size_t i = 0; i < n_ids;) {
        size_t run = 1;
        while (i + run < n_ids && ids[i + run] == ids[i] + run)
            run++;
        if (run < 3)
            run = 1;
        buf_addf(out, i > 0 ? ",%u" : "%u", ids[i]);
        if (run > 1)
            buf_addf(out, "-%u", ids[i + run - 1]);
        i += run;
    }
}
