/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/file_number.h"

#include "base/parse.h"
#include "core/dag.h"

enum {
    GPUS_LARGEST = 4096,
    CPUS_LARGEST = 65536,
    RETRIES_LARGEST = 10000
};

int setting_compile(struct graph_file *file, struct file_stage *stage, enum job_key key,
                    const struct leaf_kind *kind, struct job_setting *out)
{
    const struct yaml_node *own = own_key(stage, key);
    const struct yaml_node *inherited = default_key(file, key);
    int rc = own ? choice_compile(file, stage, own, kind, &out->own) : 0;
    if (rc == 0 && inherited)
        rc = choice_compile(file, stage, inherited, kind, &out->inherited);
    return rc;
}

void *setting_at(const struct job_setting *setting, const uint32_t *row)
{
    void *own = choice_at(setting->own, row);
    return own ? own : choice_at(setting->inherited, row);
}

/* ---- numbers ---- */

static int cpus_parse(struct str text, uint64_t *out, struct err *err)
{
    return u64_parse(text, 0, CPUS_LARGEST, out, err);
}

static int retries_parse(struct str text, uint64_t *out, struct err *err)
{
    return u64_parse(text, 0, RETRIES_LARGEST, out, err);
}

static int batch_parse(struct str text, uint64_t *out, struct err *err)
{
    *out = PLAN_BATCH_AUTO;
    return str_equal(text, STR("auto")) ? 0 : u64_parse(text, 1, UINT32_MAX, out, err);
}

static int count_parse(struct str text, uint64_t *out, struct err *err)
{
    return u64_parse(text, 1, INT64_MAX, out, err);
}

static int timeout_parse(struct str text, uint64_t *out, struct err *err)
{
    int rc = duration_parse(text, out, err);
    return rc == 0 && *out == 0 ? fail(err, ERR_USAGE, "no time at all; leave it out for no limit")
                                : rc;
}

/* "2", "0", "1..3" */
static int gpus_count_parse(struct str text, uint64_t *out, struct err *err)
{
    struct str first = text, last = text;
    uint64_t n_min = 0, n_max = 0;
    const char *dots = memmem(text.at, text.len, "..", 2);
    if (dots) {
        first.len = (size_t)(dots - text.at);
        last = (struct str){dots + 2, text.len - first.len - 2};
    }
    if (u64_parse(first, 0, GPUS_LARGEST, &n_min, NULL) ||
        u64_parse(last, 0, GPUS_LARGEST, &n_max, NULL) || n_min > n_max || (dots && n_min == 0))
        return fail(err, ERR_USAGE, "expected a number such as 2, or 1..3, found '%.*s'",
                    (int)MIN(text.len, 64ul), text.at);
    if (n_min > DAG_JOB_DEVICES_MAX)
        return fail(err, ERR_USAGE, "a job can have at most %d devices, found '%.*s'",
                    DAG_JOB_DEVICES_MAX, (int)MIN(text.len, 64ul), text.at);
    *out = n_min << 32 | n_max << 16;
    return 0;
}

static int gpus_share_parse(struct str text, uint64_t *out, struct err *err)
{
    double share = 0;
    if (double_parse(text, &share, NULL) || share < 0.001 || share > 1)
        return fail(err, ERR_USAGE, "expected a share of a device such as 0.5, found '%.*s'",
                    (int)MIN(text.len, 64ul), text.at);
    uint64_t per_mille = (uint64_t)(share * 1000 + 0.5);
    *out = 1ull << 32 | 1ull << 16 | (per_mille == 1000 ? 0 : per_mille);
    return 0;
}

static int gpus_number_parse(struct str text, uint64_t *out, struct err *err)
{
    bool is_share = text.len > 1 && text.at[0] == '0' && text.at[1] == '.' &&
                    !memmem(text.at, text.len, "..", 2);
    return is_share ? gpus_share_parse(text, out, err) : gpus_count_parse(text, out, err);
}

static int gpus_memory_parse(struct str text, uint64_t *out, struct err *err)
{
    if (str_equal(text, STR("auto"))) {
        *out = PLAN_MEMORY_AUTO;
        return 0;
    }
    int rc = size_parse(text, out, NULL);
    if (rc || *out == 0)
        return fail(err, ERR_USAGE, "expected a size such as 24GiB, or auto, found '%.*s'",
                    (int)MIN(text.len, 64ul), text.at);
    return 0;
}

#define NUMBER_KIND(id, key, what)       \
    const struct leaf_kind id##_kind = { \
        .name = (key), .expected = (what), .compile = number_compile_leaf, .parse = id##_parse}
NUMBER_KIND(cpus, "cpus", "a number of CPUs");
NUMBER_KIND(retries, "retries", "a number");
NUMBER_KIND(timeout, "timeout", "a duration such as 90s or 2h");
NUMBER_KIND(batch, "batch", "a number, or auto");
NUMBER_KIND(count, "count", "a number");
NUMBER_KIND(gpus_number, "gpus",
            "a number such as 2 or 1..3, a share such as 0.5, or {count, share, memory}");
NUMBER_KIND(gpus_count, "count", "a number such as 2 or 1..3");
NUMBER_KIND(gpus_share, "share", "a share of a device such as 0.5");
NUMBER_KIND(gpus_memory, "memory", "a size such as 24GiB, or auto");

static int number_parse(struct graph_file *file, const struct number *number, struct str text,
                        uint64_t *out)
{
    struct err why = {0};
    int rc = number->kind->parse(text, out, &why);
    return rc ? file_fail(file, number->text.node, "'%s': %s", number->kind->name, why.text) : 0;
}

int number_compile_leaf(struct graph_file *file, struct file_stage *stage,
                        const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct number *number = arena_alloc(&file->arena, sizeof(*number));
    *number = (struct number){.kind = kind};
    *leaf = number;
    if (node->kind != YAML_SCALAR || yaml_is_empty(node))
        return file_fail(file, node, "'%s': expected %s, found %s", kind->name, kind->expected,
                         yaml_kind_name(node));
    int rc = text_compile(file, stage, node, node->text, TEXT_VALUE, &number->text);
    if (rc || !number->text.constant)
        return rc;
    number->is_fixed = true;
    return number_parse(file, number, str_of(number->text.constant), &number->value);
}

int number_get(struct graph_file *file, const struct file_stage *stage, const struct number *number,
               const uint32_t *row, uint64_t *out)
{
    if (!number)
        return 0;
    if (number->is_fixed) {
        *out = number->value;
        return 0;
    }
    buf_reset(&file->scratch);
    text_render(file, stage, &number->text, row, &file->scratch);
    return number_parse(file, number, buf_str(&file->scratch), out);
}

/* ---- texts ---- */

int text_list_read(struct graph_file *file, const struct file_stage *stage,
                   const struct yaml_node *node, const char *what, enum text_mode mode,
                   struct text_list *out)
{
    bool is_list = node->kind == YAML_LIST;
    int rc = 0;
    out->len = is_list ? node->len : 1;
    out->at = arena_alloc(&file->arena, (out->len + 1) * sizeof(*out->at));
    for (uint32_t i = 0; i < out->len && rc == 0; i++) {
        const struct yaml_node *one = is_list ? node->items[i].value : node;
        if (one->kind != YAML_SCALAR || yaml_is_empty(one))
            return file_fail(file, one, "'%s': expected a text%s, found %s", what,
                             is_list ? "" : " or a list of texts", yaml_kind_name(one));
        rc = text_compile(file, stage, one, one->text, mode, &out->at[i]);
    }
    return rc;
}

int texts_compile_leaf(struct graph_file *file, struct file_stage *stage,
                       const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct text_list *list = arena_alloc(&file->arena, sizeof(*list));
    *leaf = list;
    return text_list_read(file, stage, node, kind->name, TEXT_VALUE, list);
}

int text_compile_leaf(struct graph_file *file, struct file_stage *stage,
                      const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    return node->kind == YAML_LIST ? file_fail(file, node, "'%s': expected %s, found a list",
                                               kind->name, kind->expected)
                                   : texts_compile_leaf(file, stage, node, kind, leaf);
}
