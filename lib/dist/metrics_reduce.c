/* SPDX-License-Identifier: Apache-2.0
 *
 * Combines the sets of all ranks, by the collective function that the caller gives.
 */
#include "metrics_set.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Ranks with different metrics would send different sizes, which would break a collective. So the
 * first reduce exchanges a block of fixed size: the hash, the count and the definitions as text.
 */
struct layout_block {
    char hash[24]; /* hexadecimal: no byte order */
    char n_items[16];
    char text[MW_LAYOUT_BYTES - 40];
};

static_assert(sizeof(struct layout_block) == MW_LAYOUT_BYTES, "a block has one size everywhere");

static void fill_block(const struct muster_metrics *metrics, struct layout_block *block)
{
    *block = (struct layout_block){0};
    uint64_t hash = mw_metrics_layout(metrics, block->text, sizeof(block->text));
    snprintf(block->hash, sizeof(block->hash), "%016llx", (unsigned long long)hash);
    snprintf(block->n_items, sizeof(block->n_items), "%zu", metrics->n_items);
}

static size_t line_len(const char *line)
{
    return strcspn(line, "\n");
}

/* Returns the length of a definition in a message, without the end of its line. */
static int shown_len(const char **line)
{
    *line = **line ? *line : "nothing";
    return (int)line_len(*line);
}

/* Says what two ranks have defined differently, from the first line that is not the same. */
static int tell_difference(struct muster_metrics *metrics, const struct layout_block *first,
                           const struct layout_block *other, uint32_t rank)
{
    const char *a = first->text, *b = other->text;
    size_t n_same = 0;
    while (*a && line_len(a) == line_len(b) && memcmp(a, b, line_len(a)) == 0) {
        a += line_len(a) + (a[line_len(a)] == '\n');
        b += line_len(b) + (b[line_len(b)] == '\n');
        n_same++;
    }
    /* The difference is beyond the text of a block: the texts are equal, and the hashes are not. */
    if (!*a && !*b)
        return mw_metrics_fail(metrics, MUSTER_METRICS_ELAYOUT,
                               "rank %u has defined other metrics than rank 0 behind the first %zu",
                               rank, n_same - 1);
    int a_len = shown_len(&a), b_len = shown_len(&b);
    return mw_metrics_fail(metrics, MUSTER_METRICS_ELAYOUT,
                           "metric %zu of rank 0 is %.*s, that of rank %u is %.*s", n_same, a_len,
                           a, rank, b_len, b);
}

struct gather {
    muster_all_gather *call;
    void *context;
    uint32_t n_ranks;
};

static int exchange(struct muster_metrics *metrics, const struct gather *gather, const void *mine,
                    size_t bytes, void *all)
{
    int rc = gather->call(gather->context, mine, bytes, all);
    if (rc != 0)
        return mw_metrics_fail(metrics, MUSTER_METRICS_EGATHER,
                               "the metrics of %u ranks cannot be gathered: the call returned %d",
                               gather->n_ranks, rc);
    return 0;
}

static int agree(struct muster_metrics *metrics, const struct gather *gather)
{
    struct layout_block mine, *all = calloc(gather->n_ranks, sizeof(*all));
    if (!all)
        return mw_metrics_fail(metrics, MUSTER_METRICS_ENOMEM, "no memory for %u ranks' metrics",
                               gather->n_ranks);
    fill_block(metrics, &mine);
    int rc = exchange(metrics, gather, &mine, sizeof(mine), all);
    for (uint32_t rank = 0; rc == 0 && rank < gather->n_ranks; rank++) {
        all[rank].text[sizeof(all[rank].text) - 1] = '\0';
        if (memcmp(&all[rank], &all[0], sizeof(*all)) != 0)
            rc = tell_difference(metrics, &all[0], &all[rank], rank);
    }
    metrics->is_agreed = rc == 0;
    free(all);
    return rc;
}

static int gather_all(struct muster_metrics *metrics, const struct gather *gather)
{
    size_t bytes = muster_metrics_bytes(metrics);
    unsigned char *mine = malloc(bytes), *all = calloc(gather->n_ranks, bytes);
    int rc = mine && all ? muster_metrics_save(metrics, mine)
                         : mw_metrics_fail(metrics, MUSTER_METRICS_ENOMEM,
                                           "no memory for %zu bytes of metrics of each of %u ranks",
                                           bytes, gather->n_ranks);
    if (rc == 0)
        rc = exchange(metrics, gather, mine, bytes, all);
    if (rc == 0)
        muster_metrics_reset(metrics);
    for (uint32_t rank = 0; rc == 0 && rank < gather->n_ranks; rank++) {
        rc = muster_metrics_merge(metrics, all + rank * bytes, bytes);
        if (rc == MUSTER_METRICS_ELAYOUT)
            mw_metrics_fail(metrics, rc, "rank %u has reduced other metrics than these", rank);
    }
    free(mine);
    free(all);
    return rc;
}

int muster_metrics_reduce(struct muster_metrics *metrics, uint32_t n_ranks,
                          muster_all_gather *all_gather, void *context)
{
    if (!metrics || metrics->code != 0)
        return metrics ? metrics->code : MUSTER_METRICS_ENOMEM;
    const struct gather gather = {all_gather, context, n_ranks};
    if (n_ranks == 0 || (n_ranks > 1 && !all_gather))
        return mw_metrics_fail(metrics, MUSTER_METRICS_EUSE, "%u ranks, %s all_gather", n_ranks,
                               all_gather ? "with an" : "without");
    mw_metrics_begin(metrics);
    int rc = 0;
    if (n_ranks > 1) {
        if (!metrics->is_agreed)
            rc = agree(metrics, &gather);
        if (rc == 0)
            rc = gather_all(metrics, &gather);
    }
    metrics->is_total = rc == 0;
    return rc;
}
