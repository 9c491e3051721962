/* SPDX-License-Identifier: Apache-2.0
 *
 * `for`: the coordinates of a stage, and how many combinations their values have.
 */
#include "graph/file/file_impl.h"

uint32_t coord_find(const struct file_stage *stage, struct str name)
{
    for (uint32_t i = 0; i < stage->n_coords; i++)
        if (str_equal(stage->coords[i].name, name))
            return i;
    return NONE;
}

const char *coord_names(struct graph_file *file, const struct file_stage *stage)
{
    struct buf text = BUF_INIT;
    for (uint32_t i = 0; i < stage->n_coords; i++)
        buf_addf(&text, "%s%s",
                 i == 0                    ? ""
                 : i + 1 < stage->n_coords ? ", "
                                           : " and ",
                 stage->coords[i].name.at);
    const char *out = arena_text(&file->arena, buf_str(&text));
    buf_release(&text);
    return out;
}

int coord_missing_fail(struct graph_file *file, const struct file_stage *stage,
                       const struct yaml_node *name)
{
    const char *names[COORDS_MAX];
    for (uint32_t i = 0; i < stage->n_coords; i++)
        names[i] = stage->coords[i].name.at;
    return file_fail(file, name, "'%.64s' is no variable of '%s', which has %s%s", name->text.at,
                     stage->name.at, stage->n_coords > 0 ? coord_names(file, stage) : "no `for`",
                     name_like(file, name->text, names, stage->n_coords));
}

/* `value`: the stage's own list; NULL: the variable's. */
static int coord_add(struct graph_file *file, struct file_stage *stage,
                     const struct yaml_node *name, const struct yaml_node *value)
{
    struct coord coord = {.name = name->text, .axis = stage->n_axes};
    if (name->kind != YAML_SCALAR)
        return file_fail(file, name, "expected the name of a variable, found %s",
                         yaml_kind_name(name));
    struct var *var = var_find(file, name->text);
    bool is_own = value && !yaml_is_empty(value);
    int rc = is_own ? var_name_check(file, name) : 0;
    if (rc)
        return rc;
    if (coord_find(stage, name->text) != NONE)
        return file_fail(file, name, "'%s' stands twice in `for`; remove one of them",
                         name->text.at);
    if (stage->n_coords == COORDS_MAX)
        return file_fail(file, name, "a stage has at most %d variables", COORDS_MAX);
    if (!is_own && !var)
        return file_fail(file, name, "there is no variable '%.64s'%s; its values stand in `vars`",
                         name->text.at, var_like(file, name->text));
    if (is_own)
        rc = list_read(file, value, &coord.list);
    else
        coord.list = var->list;
    if (var)
        coord.known = is_own ? &var->list : &var->declared_list;
    coord.n_base = coord.list.len;
    for (uint32_t i = 0; i < coord.list.len; i++)
        coord.longest = MAX(coord.longest, value_text(file, coord.list.at[i]).len);
    if ((stage->n_coords & (stage->n_coords - 1)) == 0) {
        struct coord *grown =
            arena_alloc(&file->arena, MAX(stage->n_coords * 2, 1u) * sizeof(*grown));
        if (stage->n_coords > 0)
            memcpy(grown, stage->coords, stage->n_coords * sizeof(*grown));
        stage->coords = grown;
    }
    stage->coords[stage->n_coords++] = coord;
    return rc;
}

static int axis_end(struct graph_file *file, struct file_stage *stage, const struct yaml_node *node,
                    uint32_t first)
{
    for (uint32_t i = first + 1; i < stage->n_coords; i++)
        if (stage->coords[i].n_base != stage->coords[first].n_base)
            return file_fail(file, node,
                             "the lists in `zip` have to be equally long: '%s' has %u, '%s' has %u",
                             stage->coords[first].name.at, stage->coords[first].n_base,
                             stage->coords[i].name.at, stage->coords[i].n_base);
    if (first < stage->n_coords)
        stage->axis_len[stage->n_axes++] = stage->coords[first].n_base;
    return 0;
}

static int zip_read(struct graph_file *file, struct file_stage *stage, const struct yaml_node *node)
{
    uint32_t first = stage->n_coords;
    int rc = 0;
    if (node->kind == YAML_SCALAR)
        return file_fail(file, node,
                         "expected a list of variables, or a mapping of lists, for `zip`, found %s",
                         yaml_kind_name(node));
    for (uint32_t i = 0; i < node->len && rc == 0; i++) {
        const struct yaml_item *item = &node->items[i];
        rc = item->key ? coord_add(file, stage, item->key, item->value)
                       : coord_add(file, stage, item->value, NULL);
    }
    return rc ? rc : axis_end(file, stage, node, first);
}

static int member_read(struct graph_file *file, struct file_stage *stage,
                       const struct yaml_item *item, bool is_nested)
{
    uint32_t first = stage->n_coords;
    if (str_equal(item->key->text, STR("zip")))
        return zip_read(file, stage, item->value);
    if (str_equal(item->key->text, STR("exclude")) || str_equal(item->key->text, STR("include")))
        return is_nested ? file_fail(file, item->key, "'%s' stands beside `for`, not in its list",
                                     item->key->text.at)
                         : 0; /* file_rows.c reads them, when the coordinates are known */
    int rc = coord_add(file, stage, item->key, item->value);
    return rc ? rc : axis_end(file, stage, item->value, first);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree: YAML_DEPTH_MAX, and what overrides name */
static int for_read(struct graph_file *file, struct file_stage *stage, const struct yaml_node *node,
                    bool is_nested)
{
    uint32_t first = stage->n_coords;
    int rc = 0;
    if (node->kind == YAML_SCALAR) {
        rc = coord_add(file, stage, node, NULL);
        return rc ? rc : axis_end(file, stage, node, first);
    }
    for (uint32_t i = 0; i < node->len && rc == 0; i++) {
        const struct yaml_item *item = &node->items[i];
        if (item->key)
            rc = member_read(file, stage, item, is_nested);
        else if (item->value->kind == YAML_LIST)
            rc = file_fail(file, item->value,
                           "expected the name of a variable, found a list; lists that advance "
                           "together are {zip: […]}");
        else
            rc = for_read(file, stage, item->value, true);
    }
    return rc;
}

static bool has_filters(const struct graph_file *file, const struct file_stage *stage)
{
    const struct yaml_node *node = stage_key(file, stage, KEY_FOR);
    return stage_key(file, stage, KEY_EXCLUDE) || stage_key(file, stage, KEY_ONLY) ||
           stage_key(file, stage, KEY_WHEN) ||
           (node && node->kind == YAML_MAPPING && yaml_get(node, STR("exclude")));
}

/* Without filters each combination is a job. */
static int candidates_count(struct graph_file *file, struct file_stage *stage,
                            const struct yaml_node *node)
{
    uint64_t max = file->n_jobs_max, n = 1;
    if (has_filters(file, stage))
        max *= CANDIDATES_FACTOR;
    for (uint32_t i = 0; i < stage->n_axes && n <= max; i++)
        n *= stage->axis_len[i];
    stage->n_candidates = n;
    file->n_candidates += n;
    if (n > max || file->n_candidates > (uint64_t)file->n_jobs_max * CANDIDATES_FACTOR)
        return file_fail(
            file, node ? node : stage->key,
            "the values of '%s' have too many combinations: a file has at most %u jobs, "
            "and %d combinations for each that are left out; use smaller lists, or `zip`",
            stage->name.at, file->n_jobs_max, CANDIDATES_FACTOR);
    return 0;
}

int coords_read(struct graph_file *file, struct file_stage *stage)
{
    const struct yaml_node *node = stage_key(file, stage, KEY_FOR);
    int rc = node ? for_read(file, stage, node, false) : 0;
    return rc ? rc : candidates_count(file, stage, node);
}
