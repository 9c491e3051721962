/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hist.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum {
    STEPS_LOG2 = 3, /* log2 of the buckets per octave */
    STEPS = 1 << STEPS_LOG2
};

static uint32_t bucket_of(uint64_t us)
{
    if (us < STEPS)
        return (uint32_t)us;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(us);
    uint32_t step = (uint32_t)(us >> (octave - STEPS_LOG2)) & (STEPS - 1);
    return MIN((octave - STEPS_LOG2 + 1) * STEPS + step, (uint32_t)HIST_BUCKETS - 1);
}

static uint64_t bucket_begin_us(uint32_t bucket)
{
    if (bucket < STEPS)
        return bucket;
    uint32_t shift = bucket / STEPS - 1;
    return (uint64_t)(STEPS + bucket % STEPS) << shift;
}

void hist_add(struct hist *hist, uint64_t each_us, uint64_t count)
{
    if (count == 0)
        return;
    hist->min_us = hist->n == 0 ? each_us : MIN(hist->min_us, each_us);
    hist->max_us = MAX(hist->max_us, each_us);
    hist->n += count;
    hist->sum_us += each_us * count;
    hist->counts[bucket_of(each_us)] += count;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    if (from->n == 0)
        return;
    into->min_us = into->n == 0 ? from->min_us : MIN(into->min_us, from->min_us);
    into->max_us = MAX(into->max_us, from->max_us);
    into->n += from->n;
    into->sum_us += from->sum_us;
    for (uint32_t i = 0; i < HIST_BUCKETS; i++)
        into->counts[i] += from->counts[i];
}

/* The times within a bucket are taken to be spread evenly. */
uint64_t hist_quantile_us(const struct hist *hist, double q)
{
    double want = q * (double)hist->n, before = 0;
    for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
        double here = (double)hist->counts[i];
        if (here == 0 || before + here < want) {
            before += here;
            continue;
        }
        double begin = (double)bucket_begin_us(i), end = (double)bucket_begin_us(i + 1);
        uint64_t at = (uint64_t)(begin + (end - begin) * (want - before) / here);
        return MIN(MAX(at, hist->min_us), hist->max_us);
    }
    return hist->max_us;
}

double hist_mean_us(const struct hist *hist)
{
    return hist->n > 0 ? (double)hist->sum_us / (double)hist->n : 0;
}

void hist_format(const struct hist *hist, struct buf *out)
{
    const char *comma = "";
    buf_addf(out,
             "{\"n\":%" PRIu64 ",\"sum_us\":%" PRIu64 ",\"min_us\":%" PRIu64 ",\"max_us\":%" PRIu64
             ",\"counts\":[",
             hist->n, hist->sum_us, hist->min_us, hist->max_us);
    for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
        if (hist->counts[i] == 0)
            continue;
        buf_addf(out, "%s[%u,%" PRIu64 "]", comma, i, hist->counts[i]);
        comma = ",";
    }
    buf_add_text(out, "]}");
}

/* What hist_format writes has one form only, so no parser of JSON is needed. */
static bool counts_parse(struct hist *hist, const char *at)
{
    uint64_t total = 0;
    while (*at == '[' || *at == ',') {
        uint32_t bucket;
        uint64_t count;
        int used = 0;
        at += *at == ',';
        if (sscanf(at, "[%" SCNu32 ",%" SCNu64 "]%n", &bucket, &count, &used) != 2 || used == 0 ||
            bucket >= HIST_BUCKETS)
            return false;
        hist->counts[bucket] = count;
        total += count;
        at += used;
    }
    return strcmp(at, "]}") == 0 && total == hist->n;
}

int hist_parse(struct hist *hist, const char *text, struct err *err)
{
    int used = 0;
    *hist = (struct hist){0};
    if (sscanf(text,
               "{\"n\":%" SCNu64 ",\"sum_us\":%" SCNu64 ",\"min_us\":%" SCNu64
               ",\"max_us\":%" SCNu64 ",\"counts\":[%n",
               &hist->n, &hist->sum_us, &hist->min_us, &hist->max_us, &used) == 4 &&
        used > 0 && counts_parse(hist, text + used))
        return 0;
    *hist = (struct hist){0};
    return fail(err, ERR_DATA, "not a histogram of times: %.80s", text);
}
