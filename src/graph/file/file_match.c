/* SPDX-License-Identifier: Apache-2.0
 *
 * {algo: PITA, data: [MATH, TLDR]}: which rows have one of the values in each of the coordinates.
 */
#include "graph/file/file_impl.h"

struct term {
    uint32_t coord;
    bool *allowed; /* [positions] */
};

/* One mapping. `next` are the other mappings of its list. */
struct match {
    struct term *terms;
    uint32_t n_terms;
    bool is_never; /* it asks for a value that a variable does not have */
    struct match *next;
};

/* ---- values ---- */

/* Looks a value up in the list, and among those that may be written though they are not in it. */
static int value_locate(struct graph_file *file, const struct list *list, const struct list *known,
                        const char *name, uint32_t value, const struct yaml_node *node,
                        uint32_t *out)
{
    *out = list_find(file, list, value);
    if (*out != NONE || (known && list_find(file, known, value) != NONE))
        return 0;
    struct str text = str_of(arena_text(&file->arena, value_text(file, value)));
    return file_fail(file, node, "'%.100s' is no value of '%s'%s", text.at, name,
                     list_like(file, list, text));
}

int position_read(struct graph_file *file, const struct coord *coord, const struct yaml_node *node,
                  uint32_t *out)
{
    if (node->kind != YAML_SCALAR || yaml_is_empty(node))
        return file_fail(file, node, "expected a value of '%s', found %s", coord->name.at,
                         yaml_kind_name(node));
    uint32_t value = value_add(file, node->text, node->is_plain);
    return value_locate(file, &coord->list, coord->known, coord->name.at, value, node, out);
}

static bool is_star(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && str_equal(node->text, STR("*"));
}

int positions_read(struct graph_file *file, const struct coord *coord, const struct yaml_node *node,
                   bool **out)
{
    struct list values;
    bool *allowed = arena_alloc(&file->arena, coord->list.len + 1);
    *out = allowed;
    if (is_star(node)) {
        memset(allowed, true, coord->list.len);
        return 0;
    }
    int rc = list_read(file, node, &values);
    for (uint32_t i = 0; i < values.len && rc == 0; i++) {
        uint32_t position;
        rc = value_locate(file, &coord->list, coord->known, coord->name.at, values.at[i], node,
                          &position);
        if (rc == 0 && position != NONE)
            allowed[position] = true;
    }
    return rc;
}

/* ---- mappings ---- */

/*
 * `only` with a variable that is none of the stage's: has it one of the values? One that is a text has other values on
 * other command lines, which nobody can list; of a list, a value that is not in it is a slip.
 */
static int variable_asks(struct graph_file *file, const struct file_stage *stage,
                         const struct yaml_item *item, bool *has_one)
{
    struct list values;
    struct var *var = var_find(file, item->key->text);
    *has_one = false;
    if (!var)
        return file_fail(file, item->key, "there is no variable '%.64s'%s; '%s' has %s",
                         item->key->text.at, var_like(file, item->key->text), stage->name.at,
                         stage->n_coords > 0 ? coord_names(file, stage) : "no `for`");
    if (is_star(item->value)) {
        *has_one = true;
        return 0;
    }
    int rc = list_read(file, item->value, &values);
    bool is_text = var->node->kind == YAML_SCALAR && var->list.len == 1;
    for (uint32_t i = 0; i < values.len && rc == 0; i++) {
        uint32_t position = list_find(file, &var->list, values.at[i]);
        if (!is_text)
            rc = value_locate(file, &var->list, &var->declared_list, var->name.at, values.at[i],
                              item->value, &position);
        *has_one = *has_one || (rc == 0 && position != NONE);
    }
    return rc;
}

static int term_read(struct graph_file *file, const struct file_stage *stage,
                     const struct yaml_item *item, bool is_only, struct match *match)
{
    uint32_t coord = coord_find(stage, item->key->text);
    if (coord == NONE && is_only) {
        bool has_one;
        int rc = variable_asks(file, stage, item, &has_one);
        match->is_never = match->is_never || !has_one;
        return rc;
    }
    if (coord == NONE)
        return coord_missing_fail(file, stage, item->key);
    struct term *term = &match->terms[match->n_terms++];
    term->coord = coord;
    return positions_read(file, &stage->coords[coord], item->value, &term->allowed);
}

static int mapping_read(struct graph_file *file, const struct file_stage *stage,
                        const struct yaml_node *node, bool is_only, struct match **out)
{
    struct match *match = arena_alloc(&file->arena, sizeof(*match));
    int rc = 0;
    if (node->kind != YAML_MAPPING || node->len == 0)
        return file_fail(
            file, node, "expected a mapping of variables to values, such as {%s: …}, found %s",
            stage->n_coords > 0 ? stage->coords[0].name.at : "name", yaml_kind_name(node));
    match->terms = arena_alloc(&file->arena, node->len * sizeof(*match->terms));
    for (uint32_t i = 0; i < node->len && rc == 0; i++)
        rc = term_read(file, stage, &node->items[i], is_only, match);
    match->next = *out;
    *out = match;
    return rc;
}

int match_read(struct graph_file *file, const struct file_stage *stage,
               const struct yaml_node *node, bool is_only, struct match **out)
{
    int rc = 0;
    if (node->kind != YAML_LIST)
        return mapping_read(file, stage, node, is_only, out);
    for (uint32_t i = 0; i < node->len && rc == 0; i++)
        rc = mapping_read(file, stage, node->items[i].value, is_only, out);
    return rc;
}

static bool mapping_holds(const struct match *match, const uint32_t *row)
{
    for (uint32_t i = 0; i < match->n_terms; i++)
        if (!match->terms[i].allowed[row[match->terms[i].coord]])
            return false;
    return !match->is_never;
}

bool match_holds(const struct match *match, const uint32_t *row)
{
    for (; match; match = match->next)
        if (mapping_holds(match, row))
            return true;
    return false;
}
