/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage's settings, compiled once; and for each of its rows the job of the plan.
 */
#include "graph/file/file_job.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "core/dag.h"

/* ---- gpus ---- */

struct gpus {
    struct number *number;                        /* a number or share */
    struct stage_setting *count, *share, *memory; /* of the mapping */
};

static const char *const gpus_keys[] = {"count", "share", "memory"};

static bool has_gpus_key(struct graph_file *file, const struct file_stage *stage,
                         const struct yaml_node *node)
{
    (void)file;
    (void)stage;
    for (size_t i = 0; i < countof(gpus_keys); i++)
        if (yaml_get(node, str_of(gpus_keys[i])))
            return true;
    return false;
}

static int gpus_compile(struct graph_file *file, struct file_stage *stage,
                        const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct gpus *gpus = arena_alloc(&file->arena, sizeof(*gpus));
    (void)kind;
    *leaf = gpus;
    if (node->kind != YAML_MAPPING)
        return number_compile_leaf(file, stage, node, &gpus_number_kind, (void **)&gpus->number);
    const struct yaml_node *count = yaml_get(node, STR("count"));
    const struct yaml_node *share = yaml_get(node, STR("share"));
    const struct yaml_node *memory = yaml_get(node, STR("memory"));
    int rc = keys_check(file, node, "`gpus`", gpus_keys, countof(gpus_keys));
    if (rc == 0 && count)
        rc = choice_compile(file, stage, count, &gpus_count_kind, &gpus->count);
    if (rc == 0 && share)
        rc = choice_compile(file, stage, share, &gpus_share_kind, &gpus->share);
    if (rc == 0 && memory)
        rc = choice_compile(file, stage, memory, &gpus_memory_kind, &gpus->memory);
    return rc;
}

static const struct leaf_kind gpus_kind = {
    "gpus", "a number such as 2 or 1..3, a share such as 0.5, or {count, share, memory}",
    has_gpus_key, gpus_compile, NULL};

static int devices_make(struct graph_file *file, const struct file_stage *stage,
                        const struct gpus *gpus, const uint32_t *row, struct plan_devices *out)
{
    uint64_t packed = 0, share = 0, memory = 0;
    if (!gpus) {
        *out = (struct plan_devices){.n_min = 1, .n_max = 1};
        return 0;
    }
    const struct number *count = gpus->number ? gpus->number : choice_at(gpus->count, row);
    const struct number *shared = choice_at(gpus->share, row);
    const struct number *sized = choice_at(gpus->memory, row);
    if (!count && (shared || sized))
        packed = 1ull << 32 | 1ull << 16;
    int rc = number_get(file, stage, count, row, &packed);
    if (rc == 0)
        rc = number_get(file, stage, shared, row, &share);
    if (rc == 0)
        rc = number_get(file, stage, sized, row, &memory);
    *out = (struct plan_devices){.n_min = GPUS_MIN(packed),
                                 .n_max = GPUS_MAX(packed),
                                 .share = GPUS_SHARE(packed) | GPUS_SHARE(share),
                                 .mem_bytes = memory};
    const struct number *part = shared ? shared : sized;
    if (rc == 0 && part && out->n_max == 0 && (out->share || out->mem_bytes))
        rc = file_fail(file, part->text.node,
                       "no device is asked for (count: 0), so there is nothing to have a part of");
    return rc;
}

/* ---- priority ---- */

static int priority_compile(struct graph_file *file, struct file_stage *stage,
                            const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    static const struct {
        const char *name, *value;
    } words[] = {{"low", "-10"}, {"normal", "0"}, {"high", "10"}};
    struct yaml_node *number = arena_alloc(&file->arena, sizeof(*number));
    (void)kind;
    *number = *node;
    for (size_t i = 0; i < countof(words); i++)
        if (node->kind == YAML_SCALAR && str_equal(node->text, str_of(words[i].name)))
            number->text = str_of(words[i].value);
    return number_compile(file, stage, number, (struct expr **)leaf);
}

static const struct leaf_kind priority_kind = {
    "priority", "a number, low, normal, high, or an expression such as -10 * round", NULL,
    priority_compile, NULL};

static int priority_make(struct graph_file *file, const struct file_stage *stage,
                         const struct expr *expr, const uint32_t *row, struct plan_job *job)
{
    if (!expr)
        return 0;
    double value = number_of(file, stage, expr, row);
    if (!(value >= -DAG_PRIORITY_MAX && value <= DAG_PRIORITY_MAX))
        return file_fail(file, stage->key, "the priority of '%s' is %g; it has to be within ±%d",
                         job->name, value, DAG_PRIORITY_MAX);
    job->priority = (int32_t)lround(value);
    return 0;
}

/* ---- env ---- */

static int env_leaf(struct graph_file *file, struct file_stage *stage, const struct yaml_node *node,
                    const struct leaf_kind *kind, void **leaf)
{
    struct text *text = arena_alloc(&file->arena, sizeof(*text));
    struct buf entry = BUF_INIT;
    *leaf = text;
    if (node->kind != YAML_SCALAR)
        return file_fail(file, node, "'%s': expected a text, found %s", kind->name,
                         yaml_kind_name(node));
    buf_add_text(&entry, kind->name);
    if (!yaml_is_empty(node)) {
        buf_add_char(&entry, '=');
        buf_add_str(&entry, node->text);
    }
    struct str kept = {arena_text(&file->arena, buf_str(&entry)), entry.len};
    buf_release(&entry);
    return text_compile(file, stage, node, kept, TEXT_TEMPLATE, text);
}

static struct env_entry *env_entry_of(struct job_def *def, struct str name)
{
    for (uint32_t i = 0; i < def->n_env; i++)
        if (str_equal(def->env[i].name, name))
            return &def->env[i];
    def->env[def->n_env] = (struct env_entry){.name = name};
    return &def->env[def->n_env++];
}

static int env_read(struct graph_file *file, struct file_stage *stage, const struct yaml_node *node,
                    bool is_own)
{
    if (node->kind != YAML_MAPPING)
        return file_fail(file, node, "expected a mapping of names to values for `env`, found %s",
                         yaml_kind_name(node));
    for (uint32_t i = 0; i < node->len; i++) {
        const struct yaml_item *item = &node->items[i];
        if (!is_word(item->key->text))
            return file_fail(file, item->key,
                             "'%.64s' cannot be the name of a variable of the environment",
                             item->key->text.at);
        struct env_entry *entry = env_entry_of(stage->def, item->key->text);
        const struct leaf_kind kind = {entry->name.at, "a text", NULL, env_leaf, NULL};
        int rc = choice_compile(file, stage, item->value, &kind,
                                is_own ? &entry->own : &entry->inherited);
        if (rc)
            return rc;
    }
    return 0;
}

static int env_compile(struct graph_file *file, struct file_stage *stage)
{
    const struct yaml_node *own = own_key(stage, KEY_ENV);
    const struct yaml_node *inherited = default_key(file, KEY_ENV);
    size_t n = (own ? own->len : 0) + (inherited ? inherited->len : 0);
    int rc = 0;
    stage->def->env = arena_alloc(&file->arena, (n + 1) * sizeof(*stage->def->env));
    if (inherited)
        rc = env_read(file, stage, inherited, false);
    if (rc == 0 && own)
        rc = env_read(file, stage, own, true);
    return rc;
}

static void env_make(struct graph_file *file, const struct file_stage *stage, const uint32_t *row,
                     struct plan_job *job)
{
    struct job_def *def = stage->def;
    for (uint32_t i = 0; i < def->n_env; i++) {
        const struct job_setting setting = {def->env[i].own, def->env[i].inherited};
        const struct text *text = setting_at(&setting, row);
        if (text)
            words_add(&def->words, text_make(file, stage, text, row));
    }
    job->env = def->words.len > 0 ? words_take(file, &def->words) : NULL;
}

/* ---- texts ---- */

static const struct leaf_kind cwd_kind = {"cwd", "a folder", NULL, text_compile_leaf, NULL};
static const struct leaf_kind hosts_kind = {"hosts", "a text or a list of texts", NULL,
                                            texts_compile_leaf, NULL};
static const struct leaf_kind devices_kind = {"devices", "a text or a list of texts", NULL,
                                              texts_compile_leaf, NULL};
static const struct leaf_kind in_kind = {"in", "a path or a list of paths", NULL,
                                         texts_compile_leaf, NULL};

/* The working folder; it may have been removed. */
static char *cwd_or_root(void)
{
    char *cwd = path_cwd();
    return cwd ? cwd : xstrdup("/");
}

/* Absolute: a relative one is below the folder where muster was started. */
static const char *cwd_make(struct graph_file *file, const struct file_stage *stage,
                            const struct text_list *list, const uint32_t *row)
{
    if (!list || list->len == 0)
        return NULL;
    const char *path = text_make(file, stage, &list->at[0], row);
    if (*path == '/')
        return path;
    if (!file->cwd)
        file->cwd = cwd_or_root();
    cleanup_free char *joined = path_join(file->cwd, path);
    return plan_text(file->plan, str_of(joined));
}

/* As one text, with commas. */
static const char *list_make(struct graph_file *file, const struct file_stage *stage,
                             const struct text_list *list, const uint32_t *row)
{
    if (!list || list->len == 0)
        return NULL;
    if (list->len == 1)
        return text_make(file, stage, &list->at[0], row);
    buf_reset(&file->scratch);
    for (uint32_t i = 0; i < list->len; i++) {
        if (i > 0)
            buf_add_char(&file->scratch, ',');
        text_render(file, stage, &list->at[i], row, &file->scratch);
    }
    return plan_text(file->plan, buf_str(&file->scratch));
}

static int inputs_make(struct graph_file *file, const struct file_stage *stage,
                       const struct text_list *list, const uint32_t *row, struct plan_job *job)
{
    struct words *words = &stage->def->words;
    for (uint32_t i = 0; list && i < list->len; i++) {
        const char *path = text_make(file, stage, &list->at[i], row);
        if (!*path)
            return file_fail(file, list->at[i].node, "a path of what '%s' reads is empty",
                             job->name);
        words_add(words, path);
    }
    job->inputs = words->len > 0 ? words_take(file, words) : NULL;
    return 0;
}

/* ---- stages ---- */

int job_compile(struct graph_file *file, struct file_stage *stage)
{
    struct job_def *def = arena_alloc(&file->arena, sizeof(*def));
    const struct {
        enum job_key key;
        const struct leaf_kind *kind;
        struct job_setting *setting;
    } settings[] = {
        {KEY_CPUS, &cpus_kind, &def->cpus},
        {KEY_RETRIES, &retries_kind, &def->retries},
        {KEY_TIMEOUT, &timeout_kind, &def->timeout},
        {KEY_BATCH, &batch_kind, &def->batch},
        {KEY_GPUS, &gpus_kind, &def->gpus},
        {KEY_PRIORITY, &priority_kind, &def->priority},
        {KEY_CWD, &cwd_kind, &def->cwd},
        {KEY_HOSTS, &hosts_kind, &def->hosts},
        {KEY_DEVICES, &devices_kind, &def->devices},
        {KEY_IN, &in_kind, &def->in},
        {KEY_OUT, &out_kind, &def->out},
    };
    stage->def = def;
    file->stage_bytes = 0;
    int rc = command_compile(file, stage, &def->command);
    for (size_t i = 0; i < countof(settings) && rc == 0; i++)
        rc = setting_compile(file, stage, settings[i].key, settings[i].kind, settings[i].setting);
    return rc ? rc : env_compile(file, stage);
}

void job_def_release(struct job_def *def)
{
    free(def->words.at);
}

/* ---- jobs ---- */

static void needs_make(struct graph_file *file, uint32_t number, struct plan_job *job)
{
    uint32_t *needs = file->needs;
    for (uint64_t i = file->edges_begin[number]; i < file->edges_begin[number + 1]; i++)
        needs[job->n_needs++] = file->place[file->edges[i]];
    numbers_sort(needs, job->n_needs);
    job->needs = job->n_needs > 0 ? needs : NULL;
    file->needs += job->n_needs;
}

static int numbers_make(struct graph_file *file, const struct file_stage *stage,
                        const uint32_t *row, struct plan_job *job)
{
    const struct job_def *def = stage->def;
    uint64_t cpus = 0, retries = 0; /* 0: plan_job_cpus() */
    int rc = number_get(file, stage, setting_at(&def->cpus, row), row, &cpus);
    if (rc == 0)
        rc = number_get(file, stage, setting_at(&def->retries, row), row, &retries);
    if (rc == 0)
        rc = number_get(file, stage, setting_at(&def->timeout, row), row, &job->timeout_ms);
    if (rc == 0)
        rc = number_get(file, stage, setting_at(&def->batch, row), row, &job->batch);
    if (rc == 0)
        rc = devices_make(file, stage, setting_at(&def->gpus, row), row, &job->devices);
    job->n_cpus = (uint32_t)cpus;
    job->n_retries = (uint32_t)retries;
    return rc ? rc : priority_make(file, stage, setting_at(&def->priority, row), row, job);
}

int job_make(struct graph_file *file, uint32_t position)
{
    uint32_t number = file->order[position];
    const struct file_stage *stage = stage_of_job(file, number);
    const struct job_def *def = stage->def;
    const uint32_t *row = stage_row(stage, number - stage->first);
    struct plan_job *job = &file->plan->jobs[position];
    *job = (struct plan_job){.name = job_name_make(file, stage, row),
                             .stage = (uint32_t)(stage - file->stages),
                             .line = stage->key->line};
    needs_make(file, number, job);
    job->cwd = cwd_make(file, stage, setting_at(&def->cwd, row), row);
    job->hosts = list_make(file, stage, setting_at(&def->hosts, row), row);
    job->device_names = list_make(file, stage, setting_at(&def->devices, row), row);
    int rc = inputs_make(file, stage, setting_at(&def->in, row), row, job);
    if (rc)
        return rc;
    env_make(file, stage, row, job);
    rc = outs_make(file, stage, setting_at(&def->out, row), row, job);
    if (rc == 0)
        rc = command_make(file, stage, &def->command, row, job);
    return rc ? rc : numbers_make(file, stage, row, job);
}
