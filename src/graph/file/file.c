/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "graph/file/file_impl.h"

/* ---- overrides ---- */

enum {
    PATH_POINTS_MAX = 200 /* of what an override names: a part for each */
};

/* The end of the next part of a path: the longest key that is there, since names of stages may have points in them. */
static size_t part_len(const struct yaml_node *mapping, struct str path)
{
    const char *dot = memchr(path.at, '.', path.len);
    size_t len = dot ? (size_t)(dot - path.at) : path.len;
    for (uint32_t i = 0; mapping && mapping->kind == YAML_MAPPING && i < mapping->len; i++) {
        struct str key = mapping->items[i].key->text;
        bool is_part = key.len > len && str_starts_with(path, key) &&
                       (key.len == path.len || path.at[key.len] == '.');
        len = is_part ? key.len : len;
    }
    return len;
}

/* A copy of a mapping with one more or another item. */
static struct yaml_node *mapping_with(struct graph_file *file, const struct yaml_node *mapping,
                                      struct str name, const struct yaml_node *value)
{
    struct yaml_node *copy = arena_alloc(&file->arena, sizeof(*copy));
    bool is_mapping = mapping && mapping->kind == YAML_MAPPING;
    if (is_mapping)
        *copy = *mapping;
    else
        *copy = (struct yaml_node){.kind = YAML_MAPPING,
                                   .source = value->source,
                                   .line = value->line,
                                   .column = value->column};
    copy->items = arena_alloc(&file->arena, (copy->len + 1) * sizeof(*copy->items));
    if (copy->len > 0)
        memcpy(copy->items, mapping->items, copy->len * sizeof(*copy->items));
    uint32_t at = 0;
    while (at < copy->len && !str_equal(copy->items[at].key->text, name))
        at++;
    if (at == copy->len) {
        struct yaml_node *key = arena_alloc(&file->arena, sizeof(*key));
        *key = *value;
        key->kind = YAML_SCALAR;
        key->is_plain = true;
        key->text = (struct str){arena_text(&file->arena, name), name.len};
        copy->items[copy->len++].key = key;
    }
    copy->items[at].value = value;
    return copy;
}

/* The tree with another value at a path. NOLINTNEXTLINE(misc-no-recursion): PATH_POINTS_MAX deep */
static const struct yaml_node *tree_with(struct graph_file *file, const struct yaml_node *node,
                                         struct str path, const struct yaml_node *value)
{
    if (path.len == 0)
        return value;
    struct str name = {path.at, part_len(node, path)};
    size_t used = MIN(name.len + 1, path.len);
    bool is_mapping = node && node->kind == YAML_MAPPING;
    const struct yaml_node *below = is_mapping ? yaml_get(node, name) : NULL;
    const struct yaml_node *changed =
        tree_with(file, below, (struct str){path.at + used, path.len - used}, value);
    return mapping_with(file, node, name, changed);
}

/* vars.NAME and jobs.STAGE have to be in the file; whether there is such a key of a job, is checked with the rest. */
static int target_check(struct graph_file *file, const struct yaml_node *value, struct str path)
{
    static const char *const tops[] = {"vars", "defaults", "jobs"};
    struct str top = {path.at, part_len(NULL, path)};
    size_t at = 0;
    while (at < countof(tops) && !str_equal(top, str_of(tops[at])))
        at++;
    if (at == countof(tops) || top.len == path.len)
        return file_fail(file, value,
                         "an override is vars.NAME=…, defaults.KEY=… or jobs.STAGE.KEY=…%s",
                         name_like(file, top, tops, countof(tops)));
    const struct yaml_node *mapping = yaml_get(file->root, top);
    struct str rest = {path.at + top.len + 1, path.len - top.len - 1};
    struct str name = {rest.at, part_len(mapping, rest)};
    bool is_there = mapping && mapping->kind == YAML_MAPPING && yaml_get(mapping, name);
    if (name.len == 0 || (str_equal(top, STR("jobs")) && name.len == rest.len))
        return file_fail(file, value,
                         "an override names what it replaces, as jobs.train.retries=3");
    if (is_there || str_equal(top, STR("defaults")))
        return 0;
    struct name_index names = NAME_INDEX_INIT;
    for (uint32_t i = 0; mapping && mapping->kind == YAML_MAPPING && i < mapping->len; i++)
        name_index_number(&names, mapping->items[i].key->text);
    int rc = file_fail(file, value, "there is no %s '%.*s' in '%s'%s",
                       str_equal(top, STR("vars")) ? "variable" : "stage", (int)MIN(name.len, 64ul),
                       name.at, file->path, index_like(file, name, &names));
    name_index_release(&names);
    return rc;
}

/* Nothing behind the = stands for nothing: it takes away what the file says. */
static int override_parse(struct graph_file *file, const char *name, const char *text,
                          const struct yaml_node **out)
{
    if (str_trim(str_of(text)).len > 0)
        return yaml_parse(&file->arena, name, str_of(text), out, file->err);
    struct yaml_node *nothing = arena_alloc(&file->arena, sizeof(*nothing));
    *nothing = (struct yaml_node){
        .is_plain = true, .line = 1, .column = 1, .source = name, .text = {"", 0}};
    *out = nothing;
    return 0;
}

static int override_apply(struct graph_file *file, const char *text)
{
    const char *equals = strchr(text, '=');
    const struct yaml_node *value;
    struct buf source = BUF_INIT;
    if (!equals || equals == text)
        return fail(file->err, ERR_USAGE,
                    "'%.100s' is no override; it is written NAME=VALUE, as "
                    "vars.round=1..3",
                    text);
    struct str path = {text, (size_t)(equals - text)};
    size_t n_points = 0;
    for (size_t i = 0; i < path.len; i++)
        n_points += path.at[i] == '.';
    if (n_points > PATH_POINTS_MAX)
        return fail(file->err, ERR_USAGE, "'%.100s' is no override: it names what is %zu deep",
                    text, n_points);
    buf_addf(&source, "override '%.100s'", text);
    const char *name = arena_text(&file->arena, buf_str(&source));
    buf_release(&source);
    int rc = override_parse(file, name, equals + 1, &value);
    if (rc == 0)
        rc = target_check(file, value, path);
    if (rc == 0)
        file->root = tree_with(file, file->root, path, value);
    return rc;
}

static int overrides_apply(struct graph_file *file)
{
    int rc = 0;
    for (size_t i = 0; i < file->opts.n_overrides && rc == 0; i++)
        rc = override_apply(file, file->opts.overrides[i]);
    return rc;
}

/* ---- the file ---- */

static int top_check(struct graph_file *file)
{
    static const char *const keys[] = {"version", "name", "vars", "defaults", "jobs"};
    int rc = keys_check(file, file->root, "the file", keys, countof(keys));
    const struct yaml_node *version = rc ? NULL : yaml_get(file->root, STR("version"));
    const struct yaml_node *name = rc ? NULL : yaml_get(file->root, STR("name"));
    const struct yaml_node *defaults = rc ? NULL : yaml_get(file->root, STR("defaults"));
    if (version && (version->kind != YAML_SCALAR || !str_equal(version->text, STR("1"))))
        return file_fail(file, version, "this muster reads version 1 of the format");
    if (name && name->kind != YAML_SCALAR)
        return file_fail(file, name, "expected a text, found %s", yaml_kind_name(name));
    if (defaults && !yaml_is_empty(defaults))
        file->defaults = defaults;
    return file->defaults && rc == 0 ? job_keys_check(file, defaults, "`defaults`") : rc;
}

static int stage_name_check(struct graph_file *file, const struct yaml_node *key)
{
    struct str name = key->text;
    bool is_good = name.len > 0 && name.len <= NAME_MAX_BYTES;
    for (size_t i = 0; i < name.len && is_good; i++) {
        char c = name.at[i];
        bool is_letter =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        is_good = is_letter || (i > 0 && (c == '-' || c == '.' || c == '+'));
    }
    if (is_good)
        return 0;
    return file_fail(file, key,
                     "'%.64s' cannot be the name of a stage: letters, digits, _ and then - . +, at "
                     "most %d",
                     name.at, NAME_MAX_BYTES);
}

static int stages_read(struct graph_file *file)
{
    const struct yaml_node *jobs = yaml_get(file->root, STR("jobs"));
    if (!jobs || jobs->kind != YAML_MAPPING || jobs->len == 0)
        return file_fail(file, jobs ? jobs : file->root,
                         "there are no jobs; `jobs` is a mapping of stages, as {train: {run: …}}");
    file->stages = arena_alloc(&file->arena, jobs->len * sizeof(*file->stages));
    for (uint32_t i = 0; i < jobs->len; i++) {
        const struct yaml_item *item = &jobs->items[i];
        file->stages[i] =
            (struct file_stage){.name = item->key->text, .key = item->key, .node = item->value};
        int rc = stage_name_check(file, item->key);
        if (rc == 0)
            rc = job_keys_check(file, item->value, "a job");
        if (rc)
            return rc;
        name_index_add(&file->stage_names, item->key->text);
    }
    return 0;
}

/* Calls a step for each stage: what a step reads of other stages, an earlier step has made. */
static int each_stage(struct graph_file *file,
                      int (*step)(struct graph_file *, struct file_stage *))
{
    int rc = 0;
    for (size_t i = 0; i < file->stage_names.len && rc == 0; i++)
        rc = step(file, &file->stages[i]);
    return rc;
}

/* NOLINTNEXTLINE(misc-no-recursion): YAML_DEPTH_MAX at most */
static uint64_t node_digest(const struct yaml_node *node, uint64_t seed)
{
    uint64_t digest = XXH3_64bits_withSeed(node->text.at, node->text.len, seed + node->kind);
    for (uint32_t i = 0; i < node->len; i++) {
        digest = node->items[i].key ? node_digest(node->items[i].key, digest) : digest + 1;
        digest = node_digest(node->items[i].value, digest);
    }
    return digest;
}

static uint64_t stage_signature(const struct graph_file *file, const struct file_stage *stage)
{
    static const enum job_key keys[] = {KEY_RUN,  KEY_SHELL,   KEY_MAP, KEY_LAUNCH, KEY_MERGE,
                                        KEY_GPUS, KEY_DEVICES, KEY_CWD, KEY_BATCH};
    uint64_t digest = XXH3_64bits(stage->name.at, stage->name.len);
    for (size_t i = 0; i < countof(keys); i++) {
        const struct yaml_node *node = stage_key(file, stage, keys[i]);
        digest = node ? node_digest(node, digest + keys[i]) : digest;
    }
    return digest;
}

static int plan_fill(struct graph_file *file)
{
    struct plan *plan = file->plan;
    int rc = 0;
    plan->n_stages = (uint32_t)file->stage_names.len;
    plan->stages = xcalloc(plan->n_stages, sizeof(*plan->stages));
    for (uint32_t i = 0; i < plan->n_stages; i++)
        plan->stages[i] = (struct plan_stage){.name = plan_text(plan, file->stages[i].name),
                                              .n_jobs = file->stages[i].n_rows,
                                              .signature = stage_signature(file, &file->stages[i])};
    plan->n_jobs = file->n_jobs;
    plan->jobs = xcalloc((size_t)plan->n_jobs + 1, sizeof(*plan->jobs));
    plan->n_edges = file->n_edges;
    file->needs = plan_alloc(plan, (file->n_edges + 1) * sizeof(*file->needs));
    for (uint32_t i = 0; i < plan->n_jobs && rc == 0; i++) {
        rc = job_make(file, i);
        if (rc == 0)
            rc = texts_check(file);
    }
    return rc;
}

static int graph_make(struct graph_file *file, struct str text)
{
    int rc = yaml_parse(&file->arena, file->path, text, &file->root, file->err);
    if (rc == 0 && file->root->kind != YAML_MAPPING)
        rc = file_fail(file, file->root, "expected a mapping with `jobs`, found %s",
                       yaml_kind_name(file->root));
    const struct yaml_node *declared = rc ? NULL : yaml_get(file->root, STR("vars"));
    if (rc == 0)
        rc = overrides_apply(file);
    if (rc == 0)
        rc = top_check(file);
    if (rc == 0)
        rc = vars_read(file, declared);
    if (rc == 0)
        rc = stages_read(file);
    if (rc == 0)
        rc = each_stage(file, coords_read);
    if (rc)
        return rc;
    letters_give(file);
    rc = each_stage(file, rows_make);
    if (rc == 0)
        rc = each_stage(file, needs_read);
    if (rc == 0)
        rc = edges_make(file);
    if (rc == 0)
        rc = order_make(file);
    if (rc == 0)
        rc = each_stage(file, job_compile);
    return rc ? rc : plan_fill(file);
}

static void graph_release(struct graph_file *file)
{
    for (size_t i = 0; i < file->stage_names.len; i++) {
        free(file->stages[i].rows);
        if (file->stages[i].def)
            job_def_release(file->stages[i].def);
    }
    name_index_release(&file->var_names);
    name_index_release(&file->value_texts);
    name_index_release(&file->stage_names);
    free(file->values);
    free(file->edges_begin);
    free(file->edges);
    free(file->order);
    free(file->place);
    free(file->cwd);
    buf_release(&file->scratch);
    arena_release(&file->arena);
}

int graph_text_read(const char *path, struct str text, const struct graph_file_opts *opts,
                    uint32_t n_jobs_max, struct plan *out, struct err *err)
{
    struct graph_file file = {.path = path,
                              .plan = out,
                              .err = err,
                              .n_jobs_max = n_jobs_max,
                              .var_names = NAME_INDEX_INIT,
                              .value_texts = NAME_INDEX_INIT,
                              .stage_names = NAME_INDEX_INIT,
                              .scratch = BUF_INIT};
    *out = (struct plan){0};
    if (opts)
        file.opts = *opts;
    int rc = graph_make(&file, text);
    graph_release(&file);
    if (rc == 0)
        rc = wrap(err, plan_index(out, err), "%s", path);
    return rc;
}

int graph_file_read(const char *path, const struct graph_file_opts *opts, struct plan *out,
                    struct err *err)
{
    struct stat status;
    cleanup_buf struct buf text = BUF_INIT;
    *out = (struct plan){0};
    /* The end of a pipe that nobody writes to is not waited for. */
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status))
        return fail_errno_as(err, ERR_USAGE, "%s", path);
    if (!S_ISREG(status.st_mode))
        return fail(err, ERR_USAGE, "%s: expected a file, found %s; write the graph into a file",
                    path, S_ISDIR(status.st_mode) ? "a folder" : "a pipe or device");
    int rc = file_read_fd(fd, path, GRAPH_FILE_BYTES_MAX, &text, err);
    return rc ? rc : graph_text_read(path, buf_str(&text), opts, PLAN_JOBS_MAX, out, err);
}
