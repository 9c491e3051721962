/* SPDX-License-Identifier: Apache-2.0
 *
 * `needs`, or `after`: which jobs of other stages a job waits for. Coordinates that both have are equal, unless the
 * mapping says otherwise.
 */
#include "graph/file/file_needs.h"

#include "base/parse.h"

/* The relative position in a text such as "-1" or "+2"; 0: it is none. A number without a sign is a value. */
static int32_t shift_parse(const struct yaml_node *node)
{
    uint64_t distance;
    if (node->kind != YAML_SCALAR || !node->is_plain || node->text.len < 2 ||
        (node->text.at[0] != '-' && node->text.at[0] != '+'))
        return 0;
    struct str digits = {node->text.at + 1, node->text.len - 1};
    if (u64_parse(digits, 1, PLAN_JOBS_MAX, &distance, NULL))
        return 0;
    return node->text.at[0] == '-' ? -(int32_t)distance : (int32_t)distance;
}

static int selector_read(struct graph_file *file, const struct file_stage *stage,
                         const struct file_stage *target, const struct yaml_node *name,
                         const struct yaml_node *node, struct selector *out)
{
    const struct coord *coord = &target->coords[out->coord];
    int32_t shift = shift_parse(node);
    if (node->kind == YAML_SCALAR && str_equal(node->text, STR("*"))) {
        out->kind = SELECT_ALL;
        return 0;
    }
    if (shift == 0) {
        out->kind = SELECT_FIXED;
        return positions_read(file, coord, node, &out->allowed);
    }
    uint32_t value = value_add(file, node->text, true);
    if (shift < 0 && list_find(file, &coord->list, value) != NONE)
        return file_fail(file, node,
                         "%s may be a value of '%s' or a distance in its list; a value is [%s]",
                         node->text.at, name->text.at, node->text.at);
    out->own = coord_find(stage, name->text);
    if (out->own == NONE)
        return file_fail(
            file, node,
            "%s counts from the job's own '%s', and '%s' has no such variable; add it to "
            "its `for`",
            node->text.at, name->text.at, stage->name.at);
    out->kind = SELECT_SHIFTED;
    out->shift = shift;
    return 0;
}

static int selectors_read(struct graph_file *file, const struct file_stage *stage,
                          const struct yaml_node *node, struct need *need)
{
    struct file_stage *target = &file->stages[need->target];
    if (node->kind != YAML_MAPPING)
        return file_fail(file, node,
                         "expected a mapping of variables to values for '%s', such as {round: -1}, "
                         "found %s",
                         target->name.at, yaml_kind_name(node));
    for (uint32_t i = 0; i < node->len; i++) {
        const struct yaml_node *name = node->items[i].key;
        uint32_t coord = coord_find(target, name->text);
        if (coord == NONE)
            return coord_missing_fail(file, target, name);
        int rc =
            selector_read(file, stage, target, name, node->items[i].value, &need->selectors[coord]);
        if (rc)
            return rc;
        need->may_miss = need->may_miss || need->selectors[coord].kind == SELECT_SHIFTED;
    }
    return 0;
}

static int need_read(struct graph_file *file, struct file_stage *stage,
                     const struct yaml_node *name, const struct yaml_node *selectors,
                     struct need **last)
{
    size_t target =
        name->kind == YAML_SCALAR ? name_index_find(&file->stage_names, name->text) : NAME_NONE;
    if (name->kind != YAML_SCALAR || yaml_is_empty(name))
        return file_fail(file, name, "expected the name of a stage, found %s",
                         yaml_kind_name(name));
    if (target == NAME_NONE)
        return file_fail(file, name, "there is no stage '%.64s'%s", name->text.at,
                         index_like(file, name->text, &file->stage_names));
    const struct file_stage *other = &file->stages[target];
    struct need *need = arena_alloc(&file->arena, sizeof(*need));
    *need = (struct need){.node = name, .target = (uint32_t)target, .next = *last};
    need->selectors = arena_alloc(&file->arena, (other->n_coords + 1) * sizeof(*need->selectors));
    for (uint32_t i = 0; i < other->n_coords; i++) {
        uint32_t own = coord_find(stage, other->coords[i].name);
        need->selectors[i] = (struct selector){
            .coord = i, .own = own, .kind = own == NONE ? SELECT_ALL : SELECT_SAME};
    }
    *last = need;
    return selectors && !yaml_is_empty(selectors) ? selectors_read(file, stage, selectors, need)
                                                  : 0;
}

static bool has_stage_names(struct graph_file *file, const struct file_stage *stage,
                            const struct yaml_node *node)
{
    (void)stage;
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->len; i++)
        n += name_index_find(&file->stage_names, node->items[i].key->text) != NAME_NONE;
    return n == node->len && n > 0;
}

/* A name, a list of names or mappings, or a mapping of names to coordinates. */
static int needs_compile(struct graph_file *file, struct file_stage *stage,
                         const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    (void)kind;
    struct need **last = (struct need **)leaf;
    uint32_t coord;
    int rc = 0;
    if (node->kind == YAML_SCALAR)
        return need_read(file, stage, node, NULL, last);
    if (node->kind == YAML_MAPPING && choice_coords(file, stage, node, &coord) > 0)
        return file_fail(
            file, node,
            "'%.64s' is a stage and a value of '%s'; say which: {%s: {…}} for the value, "
            "[{…}] for the stage",
            node->items[0].key->text.at, stage->coords[coord].name.at,
            stage->coords[coord].name.at);
    for (uint32_t i = 0; i < node->len && rc == 0; i++) {
        const struct yaml_item *item = &node->items[i];
        if (item->key)
            rc = need_read(file, stage, item->key, item->value, last);
        else if (item->value->kind == YAML_MAPPING && has_stage_names(file, stage, item->value))
            for (uint32_t j = 0; j < item->value->len && rc == 0; j++)
                rc = need_read(file, stage, item->value->items[j].key, item->value->items[j].value,
                               last);
        else
            rc = need_read(file, stage, item->value, NULL, last);
    }
    return rc;
}

static const struct leaf_kind needs_kind = {.name = "needs",
                                            .expected = "names of stages",
                                            .is_leaf = has_stage_names,
                                            .compile = needs_compile};

/* An element of a list may be one for each value. */
static bool is_by_value(struct graph_file *file, const struct file_stage *stage,
                        const struct yaml_node *node)
{
    return node->kind == YAML_MAPPING && !has_stage_names(file, stage, node);
}

int needs_read(struct graph_file *file, struct file_stage *stage)
{
    const struct yaml_node *node = stage_key(file, stage, KEY_NEEDS);
    int rc = 0;
    if (!node)
        return 0;
    bool is_split = false;
    for (uint32_t i = 0; node->kind == YAML_LIST && i < node->len; i++)
        is_split = is_split || is_by_value(file, stage, node->items[i].value);
    stage->n_needs = is_split ? node->len : 1;
    stage->needs = arena_alloc(&file->arena, stage->n_needs * sizeof(struct stage_setting *));
    for (uint32_t i = 0; i < stage->n_needs && rc == 0; i++)
        rc = choice_compile(file, stage, is_split ? node->items[i].value : node, &needs_kind,
                            &stage->needs[i]);
    return rc;
}
