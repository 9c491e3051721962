/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "data/source_impl.h"

static void thin_out(struct sparse_index *index)
{
    for (size_t i = 0; i < index->n_entries / 2; i++)
        index->entries[i] = index->entries[2 * i];
    index->n_entries /= 2;
    index->stride_bytes *= 2;
}

void index_add(struct sparse_index *index, struct index_entry entry)
{
    if (entry.offset < index->next_offset)
        return;
    if (!index->entries)
        index->entries = xmalloc(index->entries_max * sizeof(*index->entries));
    if (index->n_entries == index->entries_max)
        thin_out(index);
    index->entries[index->n_entries++] = entry;
    index->next_offset = entry.offset + index->stride_bytes;
}

const struct index_entry *index_find(const struct sparse_index *index, uint64_t item)
{
    size_t low = 0, high = index->n_entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->entries[middle].item <= item)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &index->entries[low - 1] : NULL;
}

uint64_t ends_count(struct input *input, enum record_format format, uint64_t from, uint64_t to)
{
    struct boundary_scan scan = boundary_scan_begin(format);
    struct boundary_tally tally = {.ends_max = UINT64_MAX};
    cleanup_free char *piece = xmalloc(WINDOW_BYTES);
    scan.is_first = true;
    while (from < to) {
        size_t len = (size_t)MIN(to - from, (uint64_t)WINDOW_BYTES);
        if (input_read(input, from, piece, len, NULL) != 0)
            break;
        boundary_scan_all(&scan, piece, len, &tally);
        from += len;
    }
    return tally.n_ends;
}
