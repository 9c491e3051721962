/* SPDX-License-Identifier: Apache-2.0
 *
 * From needs to edges between jobs: the rows of a needed stage are put into a hash table by the coordinates that decide,
 * and each job looks its own up. Linear in jobs and edges.
 */
#include "graph/file/file_needs.h"

/* ---- the tables ---- */

static uint64_t mix(uint64_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 29;
}

static bool is_keyed(const struct selector *selector)
{
    return selector->kind == SELECT_SAME || selector->kind == SELECT_SHIFTED;
}

static uint32_t target_value(const struct graph_file *file, const struct file_stage *target,
                             const struct selector *selector, const uint32_t *row)
{
    return value_same(file, target->coords[selector->coord].list.at[row[selector->coord]]);
}

/* Where the chain of these values begins; NULL: no row of the target has them. */
static uint32_t *head_of(const struct graph_file *file, const struct need *need,
                         const uint32_t *values)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < file->stages[need->target].n_coords; i++) {
        const struct selector *selector = &need->selectors[i];
        if (!is_keyed(selector))
            continue;
        uint32_t number = values[i] - selector->first;
        if (number >= selector->n_values)
            return NULL;
        at = need->is_direct ? at * selector->n_values + number : mix(at, number);
    }
    return &need->heads[need->is_direct ? at : at & (need->n_heads - 1)];
}

static bool is_allowed(const struct need *need, const struct file_stage *target,
                       const uint32_t *row)
{
    for (uint32_t i = 0; i < target->n_coords; i++)
        if (need->selectors[i].kind == SELECT_FIXED && !need->selectors[i].allowed[row[i]])
            return false;
    return true;
}

static void values_span(const struct graph_file *file, const struct list *list,
                        struct selector *selector)
{
    uint32_t last = 0;
    selector->first = UINT32_MAX;
    for (uint32_t k = 0; k < list->len; k++) {
        selector->first = MIN(selector->first, value_same(file, list->at[k]));
        last = MAX(last, value_same(file, list->at[k]));
    }
    selector->n_values = list->len > 0 ? last - selector->first + 1 : 0;
}

/* Decides how many heads there are, and how they are found. */
static void heads_make(const struct graph_file *file, struct need *need)
{
    const struct file_stage *target = &file->stages[need->target];
    uint64_t n_direct = 1, n_direct_max = 4 * (uint64_t)target->n_rows + 64;
    for (uint32_t i = 0; i < target->n_coords; i++) {
        struct selector *selector = &need->selectors[i];
        if (!is_keyed(selector))
            continue;
        values_span(file, &target->coords[selector->coord].list, selector);
        n_direct = n_direct <= n_direct_max ? n_direct * selector->n_values : n_direct;
    }
    need->is_direct = n_direct <= n_direct_max;
    need->n_heads = 1;
    while (need->n_heads < target->n_rows)
        need->n_heads *= 2;
    need->n_heads = need->is_direct ? (uint32_t)n_direct : need->n_heads;
    need->heads = xcalloc((size_t)need->n_heads + 1, sizeof(*need->heads));
}

/* From the last row to the first, so that chains are in the order of the file. */
static void table_make(const struct graph_file *file, struct need *need)
{
    const struct file_stage *target = &file->stages[need->target];
    uint32_t values[COORDS_MAX];
    heads_make(file, need);
    need->chain = xcalloc((size_t)target->n_rows + 1, sizeof(*need->chain));
    for (uint32_t row = target->n_rows; row-- > 0;) {
        const uint32_t *at = stage_row(target, row);
        if (!is_allowed(need, target, at))
            continue;
        for (uint32_t i = 0; i < target->n_coords; i++)
            if (is_keyed(&need->selectors[i]))
                values[i] = target_value(file, target, &need->selectors[i], at);
        uint32_t *head = head_of(file, need, values);
        need->chain[row] = *head;
        *head = row + 1;
    }
}

/* ---- one job ---- */

/* The values that the keyed coordinates of a needed job have; false: there is none at that distance. */
static bool wanted_values(const struct graph_file *file, const struct file_stage *stage,
                          const struct need *need, const uint32_t *row, uint32_t *wanted)
{
    for (uint32_t i = 0; i < file->stages[need->target].n_coords; i++) {
        const struct selector *selector = &need->selectors[i];
        if (!is_keyed(selector))
            continue;
        const struct coord *coord = &stage->coords[selector->own];
        int64_t position = (int64_t)row[selector->own] + selector->shift;
        bool is_off =
            position < 0 || position >= coord->n_base || row[selector->own] >= coord->n_base;
        if (selector->kind == SELECT_SHIFTED && is_off)
            return false;
        wanted[i] = value_same(file, coord->list.at[position]);
    }
    return true;
}

static bool is_wanted(const struct graph_file *file, const struct need *need,
                      const uint32_t *wanted, const uint32_t *row)
{
    const struct file_stage *target = &file->stages[need->target];
    for (uint32_t i = 0; !need->is_direct && i < target->n_coords; i++)
        if (is_keyed(&need->selectors[i]) &&
            target_value(file, target, &need->selectors[i], row) != wanted[i])
            return false;
    return true;
}

static int edge_add(struct graph_file *file, const struct need *need, uint32_t job)
{
    if (file->n_edges >= (size_t)file->n_jobs_max * EDGES_FACTOR)
        return file_fail(
            file, need->node,
            "the jobs have more than %zu needs; let one job stand for many, by a stage "
            "between them",
            file->n_edges);
    if (file->n_edges == file->edges_cap) {
        file->edges_cap = MAX(file->edges_cap * 2, (size_t)1024);
        file->edges = xrealloc(file->edges, file->edges_cap * sizeof(*file->edges));
    }
    file->edges[file->n_edges++] = job;
    return 0;
}

static void wanted_describe(const struct graph_file *file, const struct need *need,
                            const uint32_t *wanted, struct buf *out)
{
    const struct file_stage *target = &file->stages[need->target];
    const char *separator = " with ";
    for (uint32_t i = 0; i < target->n_coords; i++) {
        if (!is_keyed(&need->selectors[i]))
            continue;
        struct str text = value_text(file, wanted[i]);
        buf_addf(out, "%s%s=%.*s", separator, target->coords[i].name.at, (int)MIN(text.len, 40ul),
                 text.at);
        separator = ", ";
    }
}

static int missing_fail(struct graph_file *file, const struct file_stage *stage,
                        const struct need *need, const uint32_t *row, const uint32_t *wanted)
{
    struct buf what = BUF_INIT;
    wanted_describe(file, need, wanted, &what);
    int rc = file_fail(
        file, need->node,
        "'%s' needs '%s'%s, and there is no such job; name what it needs by value, or "
        "leave one of the two out",
        job_name_make(file, stage, row), file->stages[need->target].name.at, buf_text(&what));
    buf_release(&what);
    return rc;
}

static int need_resolve(struct graph_file *file, const struct file_stage *stage, struct need *need,
                        const uint32_t *row)
{
    const struct file_stage *target = &file->stages[need->target];
    uint32_t wanted[COORDS_MAX];
    bool is_found = need->may_miss;
    int rc = 0;
    if (!wanted_values(file, stage, need, row, wanted))
        return 0;
    if (!need->heads)
        table_make(file, need);
    const uint32_t *head = head_of(file, need, wanted);
    uint32_t at = head ? *head : 0;
    for (; at && rc == 0; at = need->chain[at - 1]) {
        if (!is_wanted(file, need, wanted, stage_row(target, at - 1)))
            continue;
        is_found = true;
        rc = edge_add(file, need, target->first + at - 1);
    }
    return rc == 0 && !is_found ? missing_fail(file, stage, need, row, wanted) : rc;
}

/* Two needs may name one job. */
static void edges_sort(struct graph_file *file, size_t begin)
{
    if (file->n_edges - begin < 2)
        return;
    size_t kept = begin;
    numbers_sort(file->edges + begin, file->n_edges - begin);
    for (size_t i = begin; i < file->n_edges; i++)
        if (i == begin || file->edges[i] != file->edges[kept - 1])
            file->edges[kept++] = file->edges[i];
    file->n_edges = kept;
}

/* ---- all jobs ---- */

static int stage_resolve(struct graph_file *file, struct file_stage *stage)
{
    int rc = 0;
    for (uint32_t row = 0; row < stage->n_rows && rc == 0; row++) {
        size_t begin = file->n_edges;
        uint32_t n_lists = 0;
        for (uint32_t i = 0; i < stage->n_needs && rc == 0; i++) {
            struct need *need = choice_at(stage->needs[i], stage_row(stage, row));
            for (; need && rc == 0; need = need->next, n_lists++)
                rc = need_resolve(file, stage, need, stage_row(stage, row));
        }
        if (n_lists > 1)
            edges_sort(file, begin);
        file->edges_begin[stage->first + row + 1] = file->n_edges;
    }
    return rc;
}

/* The tables are large, and not kept. NOLINTNEXTLINE(misc-no-recursion): as deep as the tree, which is YAML_DEPTH_MAX */
static void tables_release(const struct stage_setting *choice, const struct file_stage *stage)
{
    if (choice && choice->coord != NONE) {
        for (uint32_t i = 0; i < stage->coords[choice->coord].list.len; i++)
            tables_release(choice->by_position[i], stage);
        return;
    }
    for (struct need *need = choice ? choice->leaf : NULL; need; need = need->next) {
        free(need->heads);
        free(need->chain);
        need->heads = need->chain = NULL;
    }
}

int edges_make(struct graph_file *file)
{
    int rc = 0;
    file->edges_begin = xcalloc((size_t)file->n_jobs + 1, sizeof(*file->edges_begin));
    for (size_t i = 0; i < file->stage_names.len && rc == 0; i++) {
        struct file_stage *stage = &file->stages[i];
        rc = stage_resolve(file, stage);
        for (uint32_t k = 0; k < stage->n_needs; k++)
            tables_release(stage->needs[k], stage);
    }
    return rc;
}
