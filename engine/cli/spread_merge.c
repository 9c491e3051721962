/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_merge.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/spread_answer.h"
#include "tracin/topk.h"

/* ---- answers, one by one ---- */

struct seen {
    uint64_t *at;
    size_t n;
};

struct answers {
    const struct spread_merge *merge;
    FILE *file;
    char *path, *line;
    size_t cap;
    size_t n_read;
    struct spread_answer next;
    struct spread_times times;
    struct seen workers, lives;
};

static bool seen_add(struct seen *seen, uint64_t id)
{
    for (size_t i = 0; i < seen->n; i++)
        if (seen->at[i] == id)
            return false;
    seen->at = xrealloc(seen->at, (seen->n + 1) * sizeof(*seen->at));
    seen->at[seen->n++] = id;
    return true;
}

static int answers_open(struct answers *answers, const struct spread_merge *merge, struct err *err)
{
    *answers = (struct answers){.merge = merge, .path = path_join(merge->dir, SPREAD_ANSWERS)};
    answers->file = fopen(answers->path, "re");
    return answers->file ? 0 : fail_errno(err, "open %s", answers->path);
}

static void answers_close(struct answers *answers)
{
    if (answers->file)
        fclose(answers->file);
    spread_answer_release(&answers->next);
    free(answers->workers.at);
    free(answers->lives.at);
    free(answers->line);
    free(answers->path);
}

static void times_add(struct answers *answers)
{
    const struct spread_answer *next = &answers->next;
    struct spread_times *times = &answers->times;
    times->work_ms += next->work_ms;
    times->n_workers += seen_add(&answers->workers, next->worker);
    if (!seen_add(&answers->lives, next->life))
        return;
    times->n_lives++;
    times->load_ms += next->load_ms;
}

/* Reads a line into answers->next; it must be the answer to the next item. */
static int answers_next(struct answers *answers, struct err *err)
{
    ssize_t len = getline(&answers->line, &answers->cap, answers->file);
    int rc = len >= 0                ? spread_answer_parse(&answers->next,
                                                           str_trim((struct str){answers->line, (size_t)len}), err)
             : ferror(answers->file) ? fail_errno(err, "read")
                                     : fail(err, ERR_DATA, "it ends too early");
    if (rc == 0 && answers->next.item != answers->n_read)
        rc = fail(err, ERR_DATA, "expected the answer to item %zu, found that to item %lu",
                  answers->n_read, (unsigned long)answers->next.item);
    if (rc)
        return wrap(err, rc, "%s (--force begins anew)", answers->path);
    answers->n_read++;
    times_add(answers);
    return 0;
}

/* ---- the best of all ranges ---- */

struct block_tops {
    struct topk *at; /* by test */
    double *selves;
    size_t n;
};

static size_t wanted_n(const struct spread_merge *merge, const struct tracin_test *test)
{
    size_t n = test->train_indices ? test->n_train_indices : merge->n_train;
    return merge->top_k > 0 ? MIN(merge->top_k, n) : n;
}

static void selves_take(const struct spread_answer *answer, double *selves, size_t n)
{
    for (size_t t = 0; t < n; t++)
        selves[t] = spread_answer_self(answer, t);
}

static int tops_damaged(const struct answers *answers, struct err *err)
{
    return fail(err, ERR_DATA, "%s: the answer to item %lu is damaged (--force begins anew)",
                answers->path, (unsigned long)answers->next.item);
}

static int tops_take(const struct answers *answers, struct block_tops *tops, struct err *err)
{
    struct spread_tops walk = {buf_str(&answers->next.tops)};
    struct tracin_influence next;
    for (size_t t = 0; t < tops->n; t++) {
        size_t n = 0;
        bool is_whole = spread_tops_count(&walk, &n);
        for (; is_whole && n > 0; n--) {
            is_whole = spread_tops_next(&walk, &next) && next.train_index < answers->merge->n_train;
            if (is_whole)
                topk_add(&tops->at[t], next.train_index, next.value);
        }
        if (!is_whole)
            return tops_damaged(answers, err);
    }
    return walk.rest.len == 0 ? 0 : tops_damaged(answers, err);
}

static int block_read(struct answers *answers, const struct spread_block *block,
                      struct block_tops *tops, struct err *err)
{
    const struct spread_plan *plan = answers->merge->plan;
    size_t n_items = (block->n_subset + plan->train_per_item - 1) / plan->train_per_item;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n_items; i++) {
        rc = answers_next(answers, err);
        if (rc == 0 && answers->next.selves.len != block->n_tests * sizeof(double))
            rc = tops_damaged(answers, err);
        if (rc == 0 && i == 0)
            selves_take(&answers->next, tops->selves, tops->n);
        if (rc == 0 && tops->at)
            rc = tops_take(answers, tops, err);
    }
    return rc;
}

static int block_tops_merge(struct answers *answers, const struct spread_block *block,
                            struct block_tops *tops, const struct tracin_sink *sink,
                            struct err *err)
{
    const struct spread_merge *merge = answers->merge;
    tops->at = xcalloc(tops->n, sizeof(*tops->at));
    for (size_t t = 0; t < tops->n; t++)
        topk_init(&tops->at[t], wanted_n(merge, &merge->tests->at[block->first_test + t]),
                  merge->order);
    int rc = block_read(answers, block, tops, err);
    for (size_t t = 0; t < tops->n; t++) {
        topk_sort(&tops->at[t]);
        if (rc == 0)
            rc = sink->top(sink->context, block->first_test + t, tops->selves[t], tops->at[t].at,
                           tops->at[t].n, err);
        topk_release(&tops->at[t]);
    }
    free(tops->at);
    return rc;
}

/* ---- rows ---- */

int spread_values_read(const char *dir, uint64_t values_at, uint64_t first, size_t n,
                       double *values, struct err *err)
{
    cleanup_free char *path = path_join(dir, SPREAD_VALUES);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "open %s", path);
    char *to = (char *)values;
    uint64_t at = values_at + first * sizeof(*values);
    for (size_t left = n * sizeof(*values); left > 0;) {
        ssize_t got = TEMP_FAILURE_RETRY(pread(fd, to, left, (off_t)at));
        if (got <= 0)
            return got < 0 ? fail_errno(err, "read %s", path)
                           : fail(err, ERR_DATA, "%s ends too early (--force begins anew)", path);
        to += got;
        at += (uint64_t)got;
        left -= (size_t)got;
    }
    return 0;
}

static int row_merge(const struct spread_merge *merge, const struct spread_block *block,
                     const uint32_t *order, const double *row, size_t test, double self,
                     const struct tracin_sink *sink, struct err *err)
{
    struct topk top;
    topk_init(&top, wanted_n(merge, &merge->tests->at[block->first_test + test]), merge->order);
    for (size_t i = 0; i < block->n_subset; i++)
        if (!isnan(row[i]))
            topk_add(&top, order[i], row[i]);
    topk_sort(&top);
    int rc = sink->top(sink->context, block->first_test + test, self, top.at, top.n, err);
    topk_release(&top);
    return rc;
}

static int block_rows_merge(struct answers *answers, const struct spread_block *block,
                            struct block_tops *tops, const struct tracin_sink *sink,
                            struct err *err)
{
    const struct spread_merge *merge = answers->merge;
    cleanup_free double *row = xcalloc(block->n_subset, sizeof(*row));
    cleanup_free uint32_t *order =
        spread_order_new(merge->plan, block, merge->tests->at, merge->train, merge->n_train);
    int rc = block_read(answers, block, tops, err);
    for (size_t t = 0; rc == 0 && t < tops->n; t++) {
        rc = spread_values_read(merge->dir, 0, block->first_value + t * block->n_subset,
                                block->n_subset, row, err);
        if (rc == 0)
            rc = row_merge(merge, block, order, row, t, tops->selves[t], sink, err);
    }
    return rc;
}

/* ---- all ---- */

static int blocks_merge(struct answers *answers, const struct tracin_sink *sink, struct err *err)
{
    const struct spread_plan *plan = answers->merge->plan;
    int rc = 0;
    for (size_t b = 0; rc == 0 && b < plan->n_blocks; b++) {
        const struct spread_block *block = &plan->blocks[b];
        cleanup_free double *selves = xcalloc(block->n_tests, sizeof(*selves));
        struct block_tops tops = {.selves = selves, .n = block->n_tests};
        rc = plan->form == SPREAD_TOPS ? block_tops_merge(answers, block, &tops, sink, err)
                                       : block_rows_merge(answers, block, &tops, sink, err);
    }
    return rc;
}

int spread_merge(const struct spread_merge *merge, const struct tracin_sink *sink,
                 struct spread_times *times, struct err *err)
{
    struct answers answers;
    int rc = answers_open(&answers, merge, err);
    if (rc == 0)
        rc = blocks_merge(&answers, sink, err);
    *times = answers.times;
    answers_close(&answers);
    return rc;
}

int spread_times_read(const struct spread_merge *merge, struct spread_times *times, struct err *err)
{
    struct answers answers;
    int rc = answers_open(&answers, merge, err);
    while (rc == 0 && answers.n_read < merge->plan->n_items)
        rc = answers_next(&answers, err);
    *times = answers.times;
    answers_close(&answers);
    return rc;
}
