/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings that differ by a variable: {gemma: 24GiB, phi: 70GiB, "*": 40GiB}. Which variable it is, the keys say: all of
 * them have to be values of one, and of one only. {family: {gemma: …}} names it.
 */
#include "graph/file/file_impl.h"

static bool is_star(const struct yaml_node *key)
{
    return str_equal(key->text, STR("*"));
}

static bool is_value(struct graph_file *file, const struct coord *coord,
                     const struct yaml_node *key)
{
    uint32_t value = value_add(file, key->text, key->is_plain);
    return is_star(key) || list_find(file, &coord->list, value) != NONE ||
           (coord->known && list_find(file, coord->known, value) != NONE);
}

/* The number of keys that are values of the coordinate. */
static uint32_t values_count(struct graph_file *file, const struct coord *coord,
                             const struct yaml_node *mapping)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < mapping->len; i++)
        n += is_value(file, coord, mapping->items[i].key);
    return n;
}

static bool is_star_alone(const struct yaml_node *mapping)
{
    return mapping->len == 1 && is_star(mapping->items[0].key);
}

uint32_t choice_coords(struct graph_file *file, const struct file_stage *stage,
                       const struct yaml_node *mapping, uint32_t *coord)
{
    uint32_t n = 0;
    *coord = NONE;
    for (uint32_t i = 0; i < stage->n_coords && mapping->len > 0 && !is_star_alone(mapping); i++) {
        if (values_count(file, &stage->coords[i], mapping) < mapping->len)
            continue;
        *coord = i;
        n++;
    }
    return n;
}

/* The keys are values of no coordinate: says which key is wrong, of the coordinate that has most of them. */
static int keys_fail(struct graph_file *file, const struct file_stage *stage,
                     const struct yaml_node *mapping, const struct leaf_kind *kind)
{
    const struct coord *best = NULL;
    uint32_t n_best = 0;
    for (uint32_t i = 0; i < stage->n_coords; i++) {
        const struct coord *coord = &stage->coords[i];
        uint32_t n_stars = yaml_get(mapping, STR("*")) != NULL;
        uint32_t n = values_count(file, coord, mapping) - n_stars;
        for (uint32_t j = 0; j < mapping->len && n == 0; j++)
            n = *list_like(file, &coord->list, mapping->items[j].key->text) != 0;
        if (n > n_best) {
            best = coord;
            n_best = n;
        }
    }
    for (uint32_t i = 0; best && i < mapping->len; i++) {
        const struct yaml_node *key = mapping->items[i].key;
        if (!is_value(file, best, key))
            return file_fail(file, key, "'%.64s' is no value of '%s'%s", key->text.at,
                             best->name.at, list_like(file, &best->list, key->text));
    }
    const char *names = stage->n_coords > 0 ? coord_names(file, stage) : NULL;
    return file_fail(file, mapping->len > 0 ? mapping->items[0].key : mapping,
                     "expected %s%s%s, found a mapping%s%.64s%s", kind->expected,
                     names ? ", or a mapping by values of " : "", names ? names : "",
                     mapping->len > 0 ? " with the key '" : " in which nothing stands",
                     mapping->len > 0 ? mapping->items[0].key->text.at : "",
                     mapping->len > 0 ? "'" : "");
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the tree: YAML_DEPTH_MAX, and what overrides name */
static int by_value(struct graph_file *file, struct file_stage *stage,
                    const struct yaml_node *mapping, uint32_t number, const struct leaf_kind *kind,
                    struct stage_setting *out)
{
    const struct coord *coord = &stage->coords[number];
    struct stage_setting *otherwise = NULL;
    const struct yaml_node *star = yaml_get(mapping, STR("*"));
    int rc = star ? choice_compile(file, stage, star, kind, &otherwise) : 0;
    out->coord = number;
    out->by_position = arena_alloc(&file->arena, (coord->list.len + 1) * sizeof(*out->by_position));
    for (uint32_t i = 0; i < coord->list.len; i++)
        out->by_position[i] = otherwise;
    for (uint32_t i = 0; i < mapping->len && rc == 0; i++) {
        uint32_t position;
        struct stage_setting *branch = NULL;
        if (is_star(mapping->items[i].key))
            continue;
        rc = position_read(file, coord, mapping->items[i].key, &position);
        if (rc == 0)
            rc = choice_compile(file, stage, mapping->items[i].value, kind, &branch);
        if (rc == 0 && position != NONE)
            out->by_position[position] = branch;
    }
    return rc;
}

/* NOLINTEND(misc-no-recursion) */

/* {family: {…}}: the number of the coordinate, or NONE. */
static uint32_t named_coord(const struct file_stage *stage, const struct yaml_node *mapping)
{
    return mapping->len == 1 && mapping->items[0].value->kind == YAML_MAPPING
               ? coord_find(stage, mapping->items[0].key->text)
               : NONE;
}

/* Values of a variable that is none of this stage's, as `defaults` may have them: what holds for the others is taken. */
static bool is_of_others(struct graph_file *file, const struct yaml_node *mapping)
{
    for (size_t i = 0; i < file->var_names.len; i++) {
        const struct var *var = &file->vars[i];
        struct coord coord = {.list = var->list, .known = &var->declared_list};
        if (!var->list.is_text && values_count(file, &coord, mapping) == mapping->len)
            return true;
    }
    return false;
}

/* NOLINTBEGIN(misc-no-recursion): as above */
static int mapping_compile(struct graph_file *file, struct file_stage *stage,
                           const struct yaml_node *node, const struct leaf_kind *kind,
                           struct stage_setting **out)
{
    uint32_t coord, named = named_coord(stage, node);
    uint32_t n = choice_coords(file, stage, node, &coord);
    const struct yaml_node *star = yaml_get(node, STR("*"));
    if (n > 1)
        return file_fail(
            file, node, "'%.64s' is a value of more than one of %s; say which: {%s: {…}}",
            node->items[0].key->text.at, coord_names(file, stage), stage->coords[coord].name.at);
    if (n == 1)
        return by_value(file, stage, node, coord, kind, *out);
    if (named != NONE)
        return by_value(file, stage, node->items[0].value, named, kind, *out);
    if (star && (is_star_alone(node) || is_of_others(file, node)))
        return choice_compile(file, stage, star, kind, out);
    return keys_fail(file, stage, node, kind);
}

int choice_compile(struct graph_file *file, struct file_stage *stage, const struct yaml_node *node,
                   const struct leaf_kind *kind, struct stage_setting **out)
{
    struct stage_setting *choice = arena_alloc(&file->arena, sizeof(*choice));
    *choice = (struct stage_setting){.node = node, .coord = NONE};
    *out = choice;
    if (node->kind == YAML_MAPPING && !(kind->is_leaf && kind->is_leaf(file, stage, node)))
        return mapping_compile(file, stage, node, kind, out);
    return kind->compile(file, stage, node, kind, &choice->leaf);
}
/* NOLINTEND(misc-no-recursion) */

void *choice_at(const struct stage_setting *choice, const uint32_t *row)
{
    while (choice && choice->coord != NONE)
        choice = choice->by_position[row[choice->coord]];
    return choice ? choice->leaf : NULL;
}
