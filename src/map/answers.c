/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"
#include "map/lines.h"
#include "map/session_impl.h"

void answers_note(struct worker *worker, struct answered_items items)
{
    struct answered_items *last =
        worker->answers.len > 0 ? &worker->answers.at[worker->answers.len - 1] : NULL;
    if (last && !last->metrics && !items.metrics && last->first + last->count == items.first &&
        last->offset + last->bytes == items.offset) {
        last->count += items.count;
        last->bytes += items.bytes;
        return;
    }
    if (worker->answers.len == worker->answers.cap) {
        worker->answers.cap = worker->answers.cap ? worker->answers.cap * 2 : 16;
        worker->answers.at =
            xrealloc(worker->answers.at, worker->answers.cap * sizeof(*worker->answers.at));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    worker->answers.at[worker->answers.len++] = items;
}

static void range_record(struct worker *worker, uint64_t first, uint64_t count, uint64_t offset,
                         uint64_t bytes, const struct metrics *metrics)
{
    struct range_row row = {.first = first,
                            .count = count,
                            .part = worker->number,
                            .offset = offset,
                            .bytes = bytes,
                            .seat = worker->seat,
                            .attempt = feed_item_failures(worker->session->feed, first) + 1};
    if (!ledger_range(worker->session->ledger, worker->part, &row, metrics))
        channel_unsummed(worker, first);
}

/* The part of an answered range that is in [first, first+count), found by counting lines. Rare. */
static void range_cut(struct worker *worker, const struct answered_items *run, uint64_t first,
                      uint64_t count)
{
    uint64_t begin = 0, end = 0;
    struct err err = {0};
    int rc = part_flush(worker->part, &err);
    if (rc == 0)
        rc = part_lines_skip(worker->part->fd, run->offset, run->bytes, first - run->first, &begin,
                             &err);
    if (rc == 0)
        rc = part_lines_skip(worker->part->fd, run->offset, run->bytes, first - run->first + count,
                             &end, &err);
    if (rc)
        shell_abort(worker->session->shell, &err);
    else
        range_record(worker, first, count, run->offset + begin, end - begin, NULL);
}

void answers_commit(struct worker *worker, uint64_t first, uint64_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < worker->answers.len; i++) {
        struct answered_items run = worker->answers.at[i];
        uint64_t from = MAX(first, run.first), to = MIN(first + count, run.first + run.count);
        if (from >= to) {
            /* Items that were answered elsewhere stay until no answer is provisional. */
            worker->answers.at[kept++] = run;
        } else if (from == run.first && to == run.first + run.count) {
            range_record(worker, run.first, run.count, run.offset, run.bytes, run.metrics);
            free(run.metrics);
        } else {
            range_cut(worker, &run, from, to - from);
            worker->answers.at[kept++] = run;
        }
    }
    worker->answers.len = kept;
}

void answers_forget(struct worker *worker)
{
    for (size_t i = 0; i < worker->answers.len; i++)
        free(worker->answers.at[i].metrics);
    worker->answers.len = 0;
}
