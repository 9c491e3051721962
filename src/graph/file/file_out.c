/* SPDX-License-Identifier: Apache-2.0
 *
 * `out`: what a job leaves, and what proves that it is whole.
 */
#include "graph/file/file_job.h"

struct out_def {
    struct text path, json_has, pattern;
    bool has_json, has_pattern;
    struct number *count; /* NULL: not asked for */
};

struct out_list {
    struct out_def *at;
    uint32_t len;
    const struct plan_out *made; /* one for all jobs, whose texts have no coordinates */
};

static const char *const out_keys[] = {"path", "json-has", "count", "pattern"};

static bool has_out_key(struct graph_file *file, const struct file_stage *stage,
                        const struct yaml_node *node)
{
    (void)file;
    (void)stage;
    for (size_t i = 0; i < countof(out_keys); i++)
        if (yaml_get(node, str_of(out_keys[i])))
            return true;
    return false;
}

static int text_read(struct graph_file *file, const struct file_stage *stage,
                     const struct yaml_node *node, const char *what, struct text *out)
{
    if (node->kind != YAML_SCALAR || node->text.len == 0)
        return file_fail(file, node, "'%s': expected a text, found %s", what,
                         node->kind == YAML_SCALAR ? "nothing" : yaml_kind_name(node));
    return text_compile(file, stage, node, node->text, TEXT_VALUE, out);
}

static int out_mapping_read(struct graph_file *file, struct file_stage *stage,
                            const struct yaml_node *node, struct out_def *out)
{
    const struct yaml_node *path = yaml_get(node, STR("path"));
    const struct yaml_node *json_has = yaml_get(node, STR("json-has"));
    const struct yaml_node *count = yaml_get(node, STR("count"));
    const struct yaml_node *pattern = yaml_get(node, STR("pattern"));
    int rc = keys_check(file, node, "`out`", out_keys, countof(out_keys));
    if (rc == 0 && !path)
        rc = file_fail(file, node, "`out` has no `path`");
    if (rc == 0 && path)
        rc = text_read(file, stage, path, "path", &out->path);
    if (rc == 0 && json_has)
        rc = text_read(file, stage, json_has, "json-has", &out->json_has);
    if (rc == 0 && pattern && !count)
        rc = file_fail(file, pattern, "`pattern` says which names `count` counts; add `count`");
    if (rc == 0 && pattern)
        rc = text_read(file, stage, pattern, "pattern", &out->pattern);
    if (rc == 0 && count)
        rc = number_compile_leaf(file, stage, count, &count_kind, (void **)&out->count);
    out->has_json = json_has != NULL;
    out->has_pattern = pattern != NULL;
    return rc;
}

static int out_compile(struct graph_file *file, struct file_stage *stage,
                       const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct out_list *list = arena_alloc(&file->arena, sizeof(*list));
    bool is_list = node->kind == YAML_LIST;
    int rc = 0;
    *leaf = list;
    list->len = is_list ? node->len : 1;
    list->at = arena_alloc(&file->arena, (list->len + 1) * sizeof(*list->at));
    for (uint32_t i = 0; i < list->len && rc == 0; i++) {
        const struct yaml_node *one = is_list ? node->items[i].value : node;
        rc = one->kind == YAML_MAPPING ? out_mapping_read(file, stage, one, &list->at[i])
                                       : text_read(file, stage, one, kind->name, &list->at[i].path);
    }
    return rc;
}

const struct leaf_kind out_kind = {"out",
                                   "a path, a list of them, or {path, json-has, count, pattern}",
                                   has_out_key, out_compile, NULL};

/* What can never be fulfilled would be found only when the job has worked for hours. */
static int out_check_made(struct graph_file *file, const struct out_def *out,
                          const struct plan_out *made, const char *job)
{
    bool is_folder = str_ends_with(str_of(made->path), STR("/"));
    if (!*made->path)
        return file_fail(file, out->path.node, "the path of what '%s' leaves is empty", job);
    if (made->pattern && !is_folder)
        return file_fail(file, out->path.node,
                         "`pattern` is about what is in a folder, and '%s' is a file; the path of "
                         "a folder ends with a slash",
                         made->path);
    if (made->json_has && is_folder)
        return file_fail(file, out->path.node, "`json-has` looks into a file, and '%s' is a folder",
                         made->path);
    return 0;
}

static bool is_constant(const struct out_def *out)
{
    return out->path.constant && (!out->has_json || out->json_has.constant) &&
           (!out->has_pattern || out->pattern.constant) && (!out->count || out->count->is_fixed);
}

int outs_make(struct graph_file *file, const struct file_stage *stage, struct out_list *outs,
              const uint32_t *row, struct plan_job *job)
{
    bool is_shared = true;
    int rc = 0;
    if (!outs || outs->len == 0)
        return 0;
    job->n_outs = outs->len;
    job->outs = outs->made;
    if (outs->made)
        return 0;
    struct plan_out *made = plan_alloc(file->plan, outs->len * sizeof(*made));
    file->text_bytes += outs->len * sizeof(*made);
    for (uint32_t i = 0; i < outs->len && rc == 0; i++) {
        const struct out_def *out = &outs->at[i];
        made[i].path = text_make(file, stage, &out->path, row);
        made[i].json_has = out->has_json ? text_make(file, stage, &out->json_has, row) : NULL;
        made[i].pattern = out->has_pattern ? text_make(file, stage, &out->pattern, row) : NULL;
        rc = number_get(file, stage, out->count, row, &made[i].count_min);
        is_shared = is_shared && is_constant(out);
        rc = rc ? rc : out_check_made(file, out, &made[i], job->name);
    }
    job->outs = made;
    outs->made = is_shared ? made : NULL;
    return rc;
}
