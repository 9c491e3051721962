/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of every kernel for rows. The including file defines `struct block` and its functions,
 * as for scan_kernel.h, and names the resulting function with ROWS_RUN.
 */
#include "data/boundaries/boundary_scan.h"

struct row_marks {
    uint64_t ends, separators, crlf, bad;
};

INLINE struct row_marks row_marks_find(struct rows *r, const struct block *b)
{
    uint64_t newline = block_eq(b, '\n'), quote = block_eq(b, '"'), cr = block_eq(b, '\r'),
             separator = block_eq(b, r->separator);
    uint64_t inside = prefix_xor(quote) ^ r->inside;
    uint64_t outside_cr = cr & ~inside;
    struct row_marks m = {.ends = newline & ~inside, .separators = separator & ~inside};
    uint64_t opening = quote & inside, closing = quote & ~inside;
    uint64_t field_begin = (m.ends | m.separators) << 1 | !r->in_field;
    uint64_t behind_close = closing << 1 | r->was_close, behind_cr = outside_cr << 1 | r->was_cr;
    m.crlf = m.ends & behind_cr;
    m.bad = opening & ~(field_begin | behind_close);
    m.bad |= behind_close & ~(separator | newline | cr | quote);
    m.bad |= behind_cr & ~newline;
    m.bad |= block_has_nul(b) ? block_eq(b, '\0') : 0;
    r->inside = (uint64_t)((int64_t)inside >> 63);
    r->in_field = !((m.ends | m.separators) >> 63);
    r->was_close = closing >> 63;
    r->was_cr = outside_cr >> 63;
    return m;
}

/* Takes the row that ends at `bit` of this block. `upto`: the bits of the block up to there that do
 * not belong to earlier rows. False if the run stops here. */
INLINE bool row_take(struct rows *r, const struct row_marks *m, unsigned bit, uint64_t upto)
{
    size_t end = r->n_bytes + bit, len = end - r->row_at;
    size_t n_separators = r->n_open + (size_t)__builtin_popcountll(m->separators & upto);
    bool is_crlf = m->crlf >> bit & 1;
    if (len == is_crlf) { /* a blank line */
        r->n_crlf += is_crlf;
        r->n_lf += !is_crlf;
        r->row_at = end + 1;
        return true;
    }
    if (n_separators != r->n_separators || r->is_bad || (m->bad & upto)) {
        r->odd_end = end + 1;
        return false;
    }
    r->n_crlf += is_crlf;
    r->n_lf += !is_crlf;
    r->row_at = end + 1;
    if (r->ends)
        r->ends[r->n_rows] = end + 1;
    r->n_rows++;
    r->is_full = r->n_rows == r->ends_max;
    return !r->is_full;
}

static void ROWS_RUN(struct rows *rows, const unsigned char *at, size_t n_blocks)
{
    struct rows r = *rows;
    for (size_t i = 0; i < n_blocks; i++) {
        struct block block = block_load(at + i * SCAN_BLOCK_BYTES);
        struct row_marks m = row_marks_find(&r, &block);
        uint64_t open = UINT64_MAX;
        for (uint64_t rest = m.ends; rest; rest &= rest - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(rest);
            uint64_t upto = UINT64_MAX >> (63 - bit);
            if (!row_take(&r, &m, bit, upto & open)) {
                *rows = r;
                return;
            }
            open = ~upto;
            r.n_open = 0;
            r.is_bad = false;
        }
        r.n_open += (size_t)__builtin_popcountll(m.separators & open);
        r.is_bad |= (m.bad & open) != 0;
        r.n_bytes += SCAN_BLOCK_BYTES;
    }
    *rows = r;
}
