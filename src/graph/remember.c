/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/remember.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/cache_file.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

#define MEMO_FILE "graph.json"

/* ---- text to value and back ---- */

static bool number_parse(struct str object, const char *key, uint64_t *out)
{
    struct str value;
    return json_get(object, key, &value) && json_to_u64(value, out);
}

static bool memo_parse(struct str object, struct stage_memo *memo)
{
    return json_kind_of(object) == JSON_OBJECT &&
           number_parse(object, "signature", &memo->signature) &&
           number_parse(object, "ms", &memo->ms) && memo->ms > 0 &&
           number_parse(object, "mem_peak_bytes", &memo->mem_peak_bytes);
}

bool stage_memos_parse(struct str text, struct stage_memos *out)
{
    struct str list, element;
    uint64_t version;
    bool is_begun = false, is_good = true;
    out->len = 0;
    if (!json_is_object(text) || !number_parse(text, "version", &version) || version != 1 ||
        !json_get(text, "stages", &list) || json_kind_of(list) != JSON_ARRAY)
        return false;
    while (is_good && json_element(&list, &is_begun, &element))
        is_good = out->len < STAGE_MEMOS_MAX && memo_parse(element, &out->at[out->len++]);
    if (!is_good)
        out->len = 0;
    return is_good;
}

void stage_memos_format(const struct stage_memos *memos, struct buf *out)
{
    buf_add_text(out, "{\"version\":1,\"stages\":[");
    for (size_t i = 0; i < memos->len; i++)
        buf_addf(out, "%s\n{\"signature\":%lu,\"ms\":%lu,\"mem_peak_bytes\":%lu}", i > 0 ? "," : "",
                 memos->at[i].signature, memos->at[i].ms, memos->at[i].mem_peak_bytes);
    buf_add_text(out, "\n]}\n");
}

const struct stage_memo *stage_memos_find(const struct stage_memos *memos, uint64_t signature)
{
    for (size_t i = memos->len; i-- > 0;)
        if (memos->at[i].signature == signature)
            return &memos->at[i];
    return NULL;
}

void stage_memos_put(struct stage_memos *memos, const struct stage_memo *memo)
{
    const struct stage_memo *same = stage_memos_find(memos, memo->signature);
    size_t dropped = same ? (size_t)(same - memos->at) : 0;
    if (same || memos->len == STAGE_MEMOS_MAX) {
        memos->len--;
        memmove(&memos->at[dropped], &memos->at[dropped + 1],
                (memos->len - dropped) * sizeof(memos->at[0]));
    }
    memos->at[memos->len++] = *memo;
}

/* ---- of a graph ---- */

/*
 * Includes the folder: relative paths in a command mean other files in another folder. 0: the jobs of the stage have
 * nothing in common.
 */
static uint64_t signature_of(const struct graph *graph, uint32_t stage)
{
    uint64_t template = graph->plan->stages[stage].signature;
    return template == 0 ? 0 : XXH3_64bits_withSeed(graph->cwd, strlen(graph->cwd), template);
}

static int memos_load(struct stage_memos *out, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    out->len = 0;
    int rc = cache_file_read(MEMO_FILE, STAGE_MEMO_BYTES_MAX, &text, err);
    if (rc == 1 && !stage_memos_parse(buf_str(&text), out))
        rc = cache_file_damaged(MEMO_FILE, err);
    return MIN(rc, 0);
}

static int by_signature(const void *a, const void *b)
{
    uint64_t x = ((const struct stage_memo *)a)->signature,
             y = ((const struct stage_memo *)b)->signature;
    return (x > y) - (x < y);
}

/* A graph may have as many stages as jobs, so the memos are sorted. */
void remembered_take(struct graph *graph)
{
    cleanup_free struct stage_memos *memos = xmalloc(sizeof(*memos));
    struct err err = {0};
    if (memos_load(memos, &err) != 0)
        log_add(shell_log(graph->shell), LOG_WARN, "graph",
                "what jobs took in earlier runs is not used: %s", err.text);
    qsort(memos->at, memos->len, sizeof(memos->at[0]), by_signature);
    for (uint32_t i = 0; memos->len > 0 && i < graph->plan->n_stages; i++) {
        const struct stage_memo key = {.signature = signature_of(graph, i)},
                                *memo =
                                    bsearch(&key, memos->at, memos->len, sizeof(key), by_signature);
        if (memo && key.signature != 0)
            graph->learned.stages[i].remembered = *memo;
    }
}

static bool is_news(const struct stage_past *learned)
{
    return learned->n > learned->n_before;
}

static void news_put(const struct graph *graph, struct stage_memos *memos)
{
    for (uint32_t i = 0; i < graph->plan->n_stages; i++) {
        const struct stage_past *learned = &graph->learned.stages[i];
        const struct stage_memo memo = {.signature = signature_of(graph, i),
                                        .ms = learned->ms / MAX(learned->n, 1u),
                                        .mem_peak_bytes = learned->mem_peak_bytes};
        if (is_news(learned) && memo.signature != 0)
            stage_memos_put(memos, &memo);
    }
}

void remembered_keep(struct graph *graph)
{
    cleanup_free struct stage_memos *memos = xmalloc(sizeof(*memos));
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_fd int lock_fd = -1;
    struct err err = {0}, why = {0};
    bool any_is_news = false;
    for (uint32_t i = 0; i < graph->plan->n_stages && !any_is_news; i++)
        any_is_news = is_news(&graph->learned.stages[i]);
    if (!any_is_news)
        return;
    int rc = cache_file_lock(MEMO_FILE, &lock_fd, &err);
    if (rc == 0 && memos_load(memos, &why) != 0)
        log_keep(shell_log(graph->shell), LOG_WARN, "graph",
                 "the memory of what jobs took is begun anew: %s", why.text);
    if (rc == 0) {
        news_put(graph, memos);
        stage_memos_format(memos, &text);
        rc = cache_file_write(MEMO_FILE, buf_str(&text), true, &err);
    }
    if (rc)
        log_keep(shell_log(graph->shell), LOG_WARN, "graph",
                 "what the jobs took is not remembered: %s", err.text);
}
