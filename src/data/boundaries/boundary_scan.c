/* SPDX-License-Identifier: Apache-2.0 */
#include "data/boundaries/boundary_scan.h"

#include "data/boundaries/scan_isa.h"

struct boundary_scan boundary_scan_begin(enum record_format format)
{
    return (struct boundary_scan){.format = format, .depth = 1};
}

static const struct scan_kernel *kernel(void)
{
    const struct scan_kernel *const *at = scan_table;
    while (!(*at)->is_usable())
        at++;
    return *at;
}

void boundary_scan_blocks(struct boundary_scan *scan, const char *at, size_t len,
                          struct boundary_tally *tally)
{
    kernel()->run(scan, (const unsigned char *)at, len / SCAN_BLOCK_BYTES, tally);
}

void rows_blocks(struct rows *rows, const char *at, size_t len)
{
    kernel()->rows(rows, (const unsigned char *)at, len / SCAN_BLOCK_BYTES);
}

void boundary_scan_tail(struct boundary_scan *scan, const char *at, size_t len,
                        struct boundary_tally *tally)
{
    ASSERT(len < SCAN_BLOCK_BYTES);
    if (len == 0)
        return;
    /* The block is filled up with a byte that means nothing in the format: a blank, in CSV a CR. */
    bool is_csv = scan->format == FORMAT_CSV || scan->format == FORMAT_TSV, had_cr = tally->has_cr;
    char block[SCAN_BLOCK_BYTES];
    memset(block, is_csv ? '\r' : ' ', sizeof(block));
    memcpy(block, at, len);
    size_t begin = tally->n_bytes;
    kernel()->run(scan, (const unsigned char *)block, 1, tally);
    tally->n_bytes = begin + len;
    tally->has_cr = had_cr || memchr(at, '\r', len) != NULL;
    if (scan->format == FORMAT_LINES)
        scan->has_content = at[len - 1] != '\n';
}

void boundary_scan_all(struct boundary_scan *scan, const char *at, size_t len,
                       struct boundary_tally *tally)
{
    size_t tail = len % SCAN_BLOCK_BYTES;
    boundary_scan_blocks(scan, at, len, tally);
    if (!boundary_scan_is_stopped(scan, tally))
        boundary_scan_tail(scan, at + len - tail, tail, tally);
}
