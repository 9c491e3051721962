/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that wait for their commit: which items' results stand where in the worker's part.
 */
#include "base/xalloc.h"
#include "run/lines.h"
#include "run/session.h"

void answers_note(struct life *life, struct answered_items items)
{
    struct answered_items *last =
        life->n_answered > 0 ? &life->answered[life->n_answered - 1] : NULL;
    if (last && !last->metrics && !items.metrics && last->first + last->count == items.first &&
        last->offset + last->bytes == items.offset) {
        last->count += items.count;
        last->bytes += items.bytes;
        return;
    }
    if (life->n_answered == life->cap_answered) {
        life->cap_answered = life->cap_answered ? life->cap_answered * 2 : 16;
        life->answered = xrealloc(life->answered, life->cap_answered * sizeof(*life->answered));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    life->answered[life->n_answered++] = items;
}

static void range_record(struct life *life, uint64_t first, uint64_t count, uint64_t offset,
                         uint64_t bytes, const struct metrics *metrics)
{
    struct range_row row = {.first = first,
                            .count = count,
                            .part = life->number,
                            .offset = offset,
                            .bytes = bytes,
                            .seat = life->seat,
                            .attempt = feed_item_failures(life->session->feed, first) + 1};
    ledger_range(life->session->ledger, life->part, &row, metrics);
}

/* The part of an answered run that lies in [first, first+count), found by counting lines. Rare. */
static void range_cut(struct life *life, const struct answered_items *run, uint64_t first,
                      uint64_t count)
{
    uint64_t begin = 0, end = 0;
    struct err err = {0};
    int rc = part_flush(life->part, &err);
    if (rc == 0)
        rc = part_lines_skip(life->part->fd, run->offset, run->bytes, first - run->first, &begin,
                             &err);
    if (rc == 0)
        rc = part_lines_skip(life->part->fd, run->offset, run->bytes, first - run->first + count,
                             &end, &err);
    if (rc)
        shell_abort(&life->session->shell, &err);
    else
        range_record(life, first, count, run->offset + begin, end - begin, NULL);
}

void answers_commit(struct life *life, uint64_t first, uint64_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < life->n_answered; i++) {
        struct answered_items run = life->answered[i];
        uint64_t from = MAX(first, run.first), to = MIN(first + count, run.first + run.count);
        if (from >= to) {
            /* Losers, answered elsewhere, stay until nothing is provisional any more. */
            life->answered[kept++] = run;
        } else if (from == run.first && to == run.first + run.count) {
            range_record(life, run.first, run.count, run.offset, run.bytes, run.metrics);
            free(run.metrics);
        } else {
            range_cut(life, &run, from, to - from);
            life->answered[kept++] = run;
        }
    }
    life->n_answered = kept;
}

void answers_forget(struct life *life)
{
    for (size_t i = 0; i < life->n_answered; i++)
        free(life->answered[i].metrics);
    life->n_answered = 0;
}
