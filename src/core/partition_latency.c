/* SPDX-License-Identifier: Apache-2.0
 *
 * The contiguous partition with the least total time, of a sequence of units over stages that work one after the
 * other, by dynamic programming over stages and cuts. The start of the best piece that ends at a cut is at the front
 * of a queue of starts that are near enough: that range only moves forward, so a row of the table takes one pass.
 */
#include "core/partition_units.h"

#define NEVER ((u128)1 << 126)

/*
 * Cuts from which the piece of a stage may start, the best one first, and with it keys that rise:
 * the time of all before the cut, less what the stage would need for that.
 */
struct start_queue {
    uint32_t *cuts;
    u128 *keys;
    uint32_t first, end;
};

struct latency_table {
    const struct cutting *c;
    u128 handover_ticks;
    u128 *times, *next_times; /* [end + 1] the least time of all before a cut */
    uint32_t *starts; /* [n_stages * (end + 1)] of the piece of a stage that ends at a cut */
    struct start_queue queue;
};

static void queue_add(struct start_queue *q, uint32_t cut, u128 key)
{
    while (q->end > q->first && q->keys[q->end - 1] >= key)
        q->end--;
    q->cuts[q->end] = cut;
    q->keys[q->end++] = key;
}

static void row_fill(struct latency_table *table, const struct unit_stage *stage, uint32_t *starts)
{
    const uint64_t *before = table->c->line->before;
    u128 byte_ticks = stage->room > 0 ? PARTITION_TICKS / stage->scale : 0;
    u128 offset = byte_ticks * before[table->c->end]; /* keeps keys above 0 */
    struct start_queue *q = &table->queue;
    q->first = q->end = 0;
    for (uint32_t cut = 0; cut <= table->c->end; cut++) {
        if (table->times[cut] < NEVER)
            queue_add(q, cut, table->times[cut] + offset - byte_ticks * before[cut]);
        while (q->first < q->end && before[cut] - before[q->cuts[q->first]] > stage->room)
            q->first++;
        table->next_times[cut] = table->times[cut];
        starts[cut] = cut;
        if (q->first == q->end)
            continue;
        u128 time = q->keys[q->first] + byte_ticks * before[cut] - offset + table->handover_ticks;
        if (time < table->next_times[cut]) {
            table->next_times[cut] = time;
            starts[cut] = q->cuts[q->first];
        }
    }
}

static void table_fill(struct latency_table *table, uint32_t *ends)
{
    const struct cutting *c = table->c;
    size_t n = c->end + 1ul;
    for (uint32_t cut = 0; cut < n; cut++)
        table->times[cut] = c->line->before[cut] == 0 ? 0 : NEVER;
    for (uint32_t s = 0; s < c->n_stages; s++) {
        row_fill(table, &c->stages[s], table->starts + s * n);
        u128 *times = table->times;
        table->times = table->next_times;
        table->next_times = times;
    }
    ASSERT(table->times[c->end] < NEVER);
    uint32_t cut = c->end;
    for (uint32_t s = c->n_stages; s-- > 0;) {
        ends[s] = cut;
        cut = table->starts[s * n + cut];
    }
}

bool stages_least_latency(const struct cutting *c, u128 handover_ticks, uint32_t *ends)
{
    size_t n = c->end + 1ul;
    struct latency_table table = {
        .c = c,
        .handover_ticks = handover_ticks,
        .times = malloc(n * sizeof(u128)),
        .next_times = malloc(n * sizeof(u128)),
        .starts = malloc(n * c->n_stages * sizeof(uint32_t)),
        .queue = {.cuts = malloc(n * sizeof(uint32_t)), .keys = malloc(n * sizeof(u128))},
    };
    bool is_ok =
        table.times && table.next_times && table.starts && table.queue.cuts && table.queue.keys;
    if (is_ok)
        table_fill(&table, ends);
    free(table.times);
    free(table.next_times);
    free(table.starts);
    free(table.queue.cuts);
    free(table.queue.keys);
    return is_ok;
}
