/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a stage, as positions in the lists of its coordinates: all combinations, the last coordinate first, without
 * those that `exclude` names, with those that `include` adds; of these, what `only` and `when` leave.
 */
#include "graph/file/file_impl.h"

enum {
    INCLUDED_MAX = 2000 /* each is compared with those before it */
};

struct filters {
    struct match *exclude[2], *only;
    bool has_only;
    struct expr *when;
};

/* ---- rows ---- */

static bool passes(const struct graph_file *file, const struct file_stage *stage,
                   const struct filters *filters, const uint32_t *row)
{
    return (!filters->has_only || match_holds(filters->only, row)) &&
           (!filters->when || condition_holds(file, stage, filters->when, row));
}

static bool is_excluded(const struct filters *filters, const uint32_t *row)
{
    return match_holds(filters->exclude[0], row) || match_holds(filters->exclude[1], row);
}

static int row_add(struct graph_file *file, struct file_stage *stage, const uint32_t *row)
{
    if (stage->n_rows + file->n_jobs >= file->n_jobs_max)
        return file_fail(file, stage->key,
                         "with the jobs of '%s' the file has more than %u; make it smaller",
                         stage->name.at, file->n_jobs_max);
    if ((stage->n_rows & (stage->n_rows - 1)) == 0) {
        size_t cap = MAX((size_t)stage->n_rows * 2, (size_t)1);
        stage->rows = xrealloc(stage->rows, (cap * stage->n_coords + 1) * sizeof(*stage->rows));
    }
    if (stage->n_coords > 0)
        memcpy(stage->rows + (size_t)stage->n_rows * stage->n_coords, row,
               stage->n_coords * sizeof(*row));
    stage->n_rows++;
    return 0;
}

/* Candidate `number`: the last axis advances first. */
static void candidate_of(const struct file_stage *stage, uint64_t number, uint32_t *row)
{
    uint32_t at[COORDS_MAX] = {0};
    for (uint32_t axis = stage->n_axes; axis-- > 0;) {
        at[axis] = (uint32_t)(number % stage->axis_len[axis]);
        number /= stage->axis_len[axis];
    }
    for (uint32_t i = 0; i < stage->n_coords; i++)
        row[i] = at[stage->coords[i].axis];
}

static int product_make(struct graph_file *file, struct file_stage *stage,
                        const struct filters *filters)
{
    uint32_t row[COORDS_MAX];
    int rc = 0;
    for (uint64_t i = 0; i < stage->n_candidates && rc == 0; i++) {
        candidate_of(stage, i, row);
        if (!is_excluded(filters, row) && passes(file, stage, filters, row))
            rc = row_add(file, stage, row);
    }
    return rc;
}

/* ---- include ---- */

static int included_value(struct graph_file *file, struct coord *coord,
                          const struct yaml_node *node, uint32_t *out)
{
    struct text text;
    if (node->kind != YAML_SCALAR || yaml_is_empty(node))
        return file_fail(file, node, "expected a value of '%s', found %s", coord->name.at,
                         yaml_kind_name(node));
    int rc = text_compile(file, NULL, node, node->text, TEXT_VALUE, &text);
    if (rc)
        return rc;
    uint32_t value = value_add(file, str_of(text.constant), node->is_plain);
    coord->longest = MAX(coord->longest, strlen(text.constant));
    *out = list_find(file, &coord->list, value);
    if (*out == NONE) {
        struct list shared = coord->list;
        if (coord->list.len == coord->n_base)
            list_copy(file, &shared, &coord->list);
        *out = list_add(file, &coord->list, value);
    }
    return 0;
}

static int included_read(struct graph_file *file, struct file_stage *stage,
                         const struct yaml_node *node, uint32_t *row)
{
    if (node->kind != YAML_MAPPING)
        return file_fail(file, node, "expected a mapping of variables to values, found %s",
                         yaml_kind_name(node));
    for (uint32_t i = 0; i < node->len; i++)
        if (coord_find(stage, node->items[i].key->text) == NONE)
            return coord_missing_fail(file, stage, node->items[i].key);
    for (uint32_t i = 0; i < stage->n_coords; i++) {
        struct coord *coord = &stage->coords[i];
        const struct yaml_node *value = yaml_get(node, coord->name);
        if (!value)
            return file_fail(file, node, "'%s' is missing; `include` names all of %s",
                             coord->name.at, coord_names(file, stage));
        int rc = included_value(file, coord, value, &row[i]);
        if (rc)
            return rc;
    }
    return 0;
}

/* All rows that `include` has, one behind the other, in *out, which is malloc'ed. */
static int includes_read(struct graph_file *file, struct file_stage *stage, uint32_t **out,
                         uint32_t *n)
{
    const struct yaml_node *nodes[2] = {stage_key(file, stage, KEY_INCLUDE),
                                        stage_key(file, stage, KEY_FOR)};
    if (nodes[1])
        nodes[1] = nodes[1]->kind == YAML_MAPPING ? yaml_get(nodes[1], STR("include")) : NULL;
    for (size_t k = 0; k < countof(nodes); k++) {
        if (nodes[k] && nodes[k]->kind != YAML_LIST)
            return file_fail(file, nodes[k], "expected a list of mappings for `include`, found %s",
                             yaml_kind_name(nodes[k]));
        if (nodes[k] && nodes[k]->len > INCLUDED_MAX)
            return file_fail(file, nodes[k], "`include` has %u combinations, at most %d; use `zip`",
                             nodes[k]->len, INCLUDED_MAX);
        for (uint32_t i = 0; nodes[k] && i < nodes[k]->len; i++) {
            *out = xrealloc(*out, ((size_t)*n + 1) * (stage->n_coords + 1) * sizeof(**out));
            int rc = included_read(file, stage, nodes[k]->items[i].value,
                                   *out + (size_t)*n * stage->n_coords);
            if (rc)
                return rc;
            (*n)++;
        }
    }
    return 0;
}

/* Is it a combination of the lists? */
static bool is_candidate(const struct file_stage *stage, const uint32_t *row)
{
    uint32_t at[COORDS_MAX];
    memset(at, 0xff, sizeof(at));
    for (uint32_t i = 0; i < stage->n_coords; i++) {
        uint32_t *axis = &at[stage->coords[i].axis];
        if (row[i] >= stage->coords[i].n_base || (*axis != NONE && *axis != row[i]))
            return false;
        *axis = row[i];
    }
    return true;
}

/* A combination that is there already is not added again. */
static int includes_add(struct graph_file *file, struct file_stage *stage,
                        const struct filters *filters, const uint32_t *rows, uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        const uint32_t *row = rows + (size_t)i * stage->n_coords;
        bool is_there = is_candidate(stage, row) && !is_excluded(filters, row);
        for (uint32_t j = 0; j < i && !is_there; j++)
            is_there = memcmp(rows + (size_t)j * stage->n_coords, row,
                              stage->n_coords * sizeof(*row)) == 0;
        if (!is_there && passes(file, stage, filters, row))
            rc = row_add(file, stage, row);
    }
    return rc;
}

/* ---- filters ---- */

static int filters_read(struct graph_file *file, struct file_stage *stage, struct filters *out)
{
    const struct yaml_node *exclude = stage_key(file, stage, KEY_EXCLUDE);
    const struct yaml_node *inner = stage_key(file, stage, KEY_FOR);
    const struct yaml_node *only = stage_key(file, stage, KEY_ONLY);
    const struct yaml_node *when = stage_key(file, stage, KEY_WHEN);
    int rc = exclude ? match_read(file, stage, exclude, false, &out->exclude[0]) : 0;
    if (rc == 0 && inner && inner->kind == YAML_MAPPING)
        inner = yaml_get(inner, STR("exclude"));
    else
        inner = NULL;
    if (rc == 0 && inner)
        rc = match_read(file, stage, inner, false, &out->exclude[1]);
    out->has_only = only != NULL;
    if (rc == 0 && only)
        rc = match_read(file, stage, only, true, &out->only);
    if (rc == 0 && when)
        rc = condition_compile(file, stage, when, &out->when);
    return rc;
}

int rows_make(struct graph_file *file, struct file_stage *stage)
{
    struct filters filters = {0};
    uint32_t *included = NULL, n_included = 0;
    int rc = includes_read(file, stage, &included, &n_included);
    if (rc == 0)
        rc = filters_read(file, stage, &filters);
    if (rc == 0)
        rc = product_make(file, stage, &filters);
    if (rc == 0)
        rc = includes_add(file, stage, &filters, included, n_included);
    free(included);
    stage->first = file->n_jobs;
    file->n_jobs += stage->n_rows;
    return rc;
}
