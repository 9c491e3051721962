/* SPDX-License-Identifier: Apache-2.0
 *
 * `vars`: each is evaluated when it is first asked for, since it may refer to others.
 */
#include "graph/file/file_impl.h"

size_t word_len(struct str text)
{
    size_t len = 0;
    for (; len < text.len; len++) {
        char c = text.at[len];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && (len == 0 || c < '0' || c > '9'))
            break;
    }
    return len;
}

bool is_word(struct str text)
{
    return text.len > 0 && word_len(text) == text.len;
}

int var_name_check(struct graph_file *file, const struct yaml_node *node)
{
    if (!is_word(node->text) || node->text.len > NAME_MAX_BYTES)
        return file_fail(
            file, node,
            "'%.*s' cannot be the name of a variable: a letter, then letters, digits and "
            "_, at most %d",
            NAME_MAX_BYTES, node->text.at, NAME_MAX_BYTES);
    if (is_placeholder(node->text))
        return file_fail(
            file, node,
            "'%s' cannot be the name of a variable: {%s} is filled in when a job runs; "
            "choose another name",
            node->text.at, node->text.at);
    return 0;
}

int vars_read(struct graph_file *file, const struct yaml_node *declared)
{
    const struct yaml_node *vars = yaml_get(file->root, STR("vars"));
    if (!vars || yaml_is_empty(vars))
        return 0;
    if (vars->kind != YAML_MAPPING)
        return file_fail(file, vars, "expected a mapping of variables, found %s",
                         yaml_kind_name(vars));
    file->vars = arena_alloc(&file->arena, vars->len * sizeof(*file->vars));
    for (uint32_t i = 0; i < vars->len; i++) {
        const struct yaml_item *item = &vars->items[i];
        int rc = var_name_check(file, item->key);
        if (rc)
            return rc;
        size_t number = name_index_number(&file->var_names, item->key->text);
        file->vars[number] = (struct var){.name = item->key->text, .node = item->value};
        /* Overrides replace values and keep their order. */
        if (declared && declared->items[i].value != item->value)
            file->vars[number].declared = declared->items[i].value;
    }
    int rc = 0;
    for (size_t i = 0; i < file->var_names.len && rc == 0; i++)
        rc = var_evaluate(file, &file->vars[i]);
    return rc;
}

struct var *var_find(struct graph_file *file, struct str name)
{
    size_t number = name_index_find(&file->var_names, name);
    return number == NAME_NONE ? NULL : &file->vars[number];
}

const char *var_like(struct graph_file *file, struct str name)
{
    return index_like(file, name, &file->var_names);
}

int var_evaluate(struct graph_file *file, struct var *var)
{
    if (var->state == VAR_DONE)
        return 0;
    if (var->state == VAR_BUSY)
        return file_fail(file, var->node, "the variable '%s' refers to itself; break the circle",
                         var->name.at);
    if (file->n_nested >= NESTED_MAX)
        return file_fail(file, var->node, "variables refer to each other more than %d deep",
                         NESTED_MAX);
    var->state = VAR_BUSY;
    file->n_nested++;
    int rc = list_read(file, var->node, &var->list);
    /* What the file says, and an override replaced, need not fit any more. */
    if (rc == 0 && var->declared) {
        struct err *err = file->err;
        file->err = NULL;
        if (list_read(file, var->declared, &var->declared_list))
            var->declared_list = (struct list){0};
        file->err = err;
    }
    file->n_nested--;
    var->state = rc ? VAR_NEW : VAR_DONE;
    return rc;
}
