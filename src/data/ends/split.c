/* SPDX-License-Identifier: Apache-2.0 */
#include "data/ends/split.h"

#include "data/ends/split_isa.h"

struct split split_begin(enum record_format format)
{
    return (struct split){.format = format, .depth = 1};
}

static const struct split_kernel *kernel(void)
{
    const struct split_kernel *const *at = split_table;
    while (!(*at)->is_usable())
        at++;
    return *at;
}

void split_blocks(struct split *split, const char *at, size_t len, struct split_tally *tally)
{
    kernel()->run(split, (const unsigned char *)at, len / SPLIT_BLOCK_BYTES, tally);
}

void rows_blocks(struct rows *rows, const char *at, size_t len)
{
    kernel()->rows(rows, (const unsigned char *)at, len / SPLIT_BLOCK_BYTES);
}

void split_tail(struct split *split, const char *at, size_t len, struct split_tally *tally)
{
    ASSERT(len < SPLIT_BLOCK_BYTES);
    if (len == 0)
        return;
    /* Filled up with what means nothing in the format: a blank, in CSV a CR. */
    bool is_csv = split->format == FORMAT_CSV || split->format == FORMAT_TSV,
         had_cr = tally->has_cr;
    char block[SPLIT_BLOCK_BYTES];
    memset(block, is_csv ? '\r' : ' ', sizeof(block));
    memcpy(block, at, len);
    size_t begin = tally->n_bytes;
    kernel()->run(split, (const unsigned char *)block, 1, tally);
    tally->n_bytes = begin + len;
    tally->has_cr = had_cr || memchr(at, '\r', len) != NULL;
    if (split->format == FORMAT_LINES)
        split->has_content = at[len - 1] != '\n';
}

void split_all(struct split *split, const char *at, size_t len, struct split_tally *tally)
{
    size_t tail = len % SPLIT_BLOCK_BYTES;
    split_blocks(split, at, len, tally);
    if (!split_is_stopped(split, tally))
        split_tail(split, at + len - tail, tail, tally);
}
