/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/file_impl.h"

static const char *const job_keys[] = {
#define X(id, name) [KEY_##id] = (name),
    JOB_KEYS(X)
#undef X
};

const char *job_key_name(enum job_key key)
{
    return job_keys[key];
}

/* Keys of other programs' files, and what is further inside here. */
static const struct {
    const char *key, *cure;
} foreign_keys[] = {
    {"memory", "; the memory of a device is gpus: {memory: …}"},
    {"depends_on", "; it is `needs`, or `after`"},
    {"dependencies", "; it is `needs`, or `after`"},
    {"command", "; it is `run`"},
    {"cmd", "; it is `run`"},
    {"script", "; it is `run`"},
    {"output", "; it is `out`"},
    {"outputs", "; it is `out`"},
    {"input", "; it is `in`"},
    {"inputs", "; it is `in`"},
    {"environment", "; it is `env`"},
    {"if", "; it is `when`"},
    {"zip", "; it stands in `for`"},
};

static const char *cure_of(struct graph_file *file, struct str key, const char *const *names,
                           size_t n_names)
{
    for (size_t i = 0; i < countof(foreign_keys) && names == job_keys; i++)
        if (str_equal(key, str_of(foreign_keys[i].key)))
            return foreign_keys[i].cure;
    return name_like(file, key, names, n_names);
}

int keys_check(struct graph_file *file, const struct yaml_node *node, const char *what,
               const char *const *names, size_t n_names)
{
    if (node->kind != YAML_MAPPING)
        return file_fail(file, node, "expected a mapping for %s, found %s", what,
                         yaml_kind_name(node));
    for (uint32_t i = 0; i < node->len; i++) {
        const struct yaml_node *key = node->items[i].key;
        size_t at = 0;
        /* For anchors. */
        if (node == file->root && str_starts_with(key->text, STR("x-")))
            continue;
        while (at < n_names && !str_equal(key->text, str_of(names[at])))
            at++;
        if (at == n_names)
            return file_fail(file, key, "unknown key '%.64s' of %s%s", key->text.at, what,
                             cure_of(file, key->text, names, n_names));
    }
    return 0;
}

int job_keys_check(struct graph_file *file, const struct yaml_node *node, const char *what)
{
    static const enum job_key pairs[][2] = {{KEY_FOR, KEY_MATRIX}, {KEY_NEEDS, KEY_AFTER}};
    static const enum job_key kinds[] = {KEY_RUN, KEY_MAP, KEY_LAUNCH, KEY_MERGE};
    int rc = keys_check(file, node, what, job_keys, countof(job_keys));
    if (rc)
        return rc;
    for (size_t i = 0; i < countof(pairs); i++) {
        const char *first = job_keys[pairs[i][0]], *second = job_keys[pairs[i][1]];
        const struct yaml_node *at = yaml_get(node, str_of(second));
        if (at && yaml_get(node, str_of(first)))
            return file_fail(file, at, "'%s' and '%s' are two names of one key; use one of them",
                             first, second);
    }
    const char *found = NULL;
    for (size_t i = 0; i < countof(kinds); i++) {
        const struct yaml_node *at = yaml_get(node, str_of(job_keys[kinds[i]]));
        if (at && found)
            return file_fail(file, at, "%s has both '%s' and '%s'; make two stages of it", what,
                             found, job_keys[kinds[i]]);
        found = at ? job_keys[kinds[i]] : found;
    }
    return 0;
}

/* `matrix` and `after` are second names. */
static enum job_key second_name(enum job_key key)
{
    return key == KEY_FOR ? KEY_MATRIX : key == KEY_NEEDS ? KEY_AFTER : key;
}

static const struct yaml_node *key_of(const struct yaml_node *mapping, enum job_key key)
{
    const struct yaml_node *node = mapping ? yaml_get(mapping, str_of(job_keys[key])) : NULL;
    if (!node && mapping && second_name(key) != key)
        node = yaml_get(mapping, str_of(job_keys[second_name(key)]));
    return node && !yaml_is_empty(node) ? node : NULL;
}

const struct yaml_node *own_key(const struct file_stage *stage, enum job_key key)
{
    return key_of(stage->node, key);
}

const struct yaml_node *default_key(const struct graph_file *file, enum job_key key)
{
    return key_of(file->defaults, key);
}

const struct yaml_node *stage_key(const struct graph_file *file, const struct file_stage *stage,
                                  enum job_key key)
{
    const struct yaml_node *own = own_key(stage, key);
    return own ? own : default_key(file, key);
}
