/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a model's names, its config.json, a layout, and a device map: four parts that are
 * separated by NUL bytes. Names are lines, and the first byte of each is its size. The tree has
 * every tensor once, parents before children; a map that muster makes passes its own check.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "plan/plan.h"
#include "tensor/grow.h"

static void names_take(struct model *model, struct str lines)
{
    struct str line;
    model->parts[0] = (struct model_part){.dtype = "F32", .bits = 32};
    model->n_parts = 1;
    while (str_next(&lines, '\n', &line)) {
        if (line.len < 2)
            continue;
        struct str name = {line.at + 1, line.len - 1};
        uint64_t n = (unsigned char)line.at[0];
        if (name_index_find(&model->names, name) != NAME_NONE)
            continue;
        name_index_add(&model->names, name);
        PUSH(model->tensors, model->n_tensors, model->cap_tensors,
             (struct model_tensor){.n_elements = n, .bytes = 4 * n, .shares = (uint32_t)(n % 3)});
    }
}

static void tree_check(const struct model_tree *tree)
{
    const struct partition_model *of = &tree->of;
    ASSERT(of->n_modules > 0 && of->modules[0].name.len == 0);
    for (size_t i = 1; i < of->n_modules; i++)
        ASSERT(of->modules[i].parent < i && of->modules[i].class_number < of->n_modules);
    for (size_t i = 0; i < of->n_tensors; i++) {
        ASSERT(of->tensors[i].module < of->n_modules && of->tensors[i].tied <= of->n_tensors);
        ASSERT(i == 0 || of->tensors[i].module >= of->tensors[i - 1].module);
        ASSERT(str_starts_with(of->tensors[i].name, of->modules[of->tensors[i].module].name));
    }
}

static void texts_make(const struct model_plan *plan)
{
    cleanup_buf struct buf out = BUF_INIT;
    plan_table_add(plan, "model", &out);
    plan_picture_add(plan, &out);
    plan_explanation_add(plan, NULL, &out);
    plan_svg_add(plan, "model", &out);
    buf_reset(&out);
    plan_json_add(plan, &out);
}

static void maps_check(struct model_plan *plan, struct str given)
{
    cleanup_buf struct buf map = BUF_INIT;
    struct plan_check check = {0};
    struct err err = {0};
    plan_map_add(plan, &map);
    texts_make(plan);
    bool all_fits = plan_missing_bytes(plan) == 0;
    ASSERT(plan_map_take(plan, "own", buf_str(&map), &check, &err) == 0 || !all_fits);
    buf_release(&check.problems);

    int rc = plan_map_take(plan, "given", given, &check, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    buf_release(&check.problems);
    texts_make(plan);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, parts[4] = {{"", 0}};
    struct model model = {0};
    struct model_plan plan = {0};
    struct err err = {0};
    const struct plan_device devices[] = {
        {.key = "0", .label = "gpu 0", .of = {.kind = PARTITION_GPU, .mem_bytes = 600}},
        {.key = "1", .label = "gpu 1", .of = {.kind = PARTITION_GPU, .mem_bytes = 900}},
        {.key = "cpu", .label = "cpu", .of = {.kind = PARTITION_CPU, .mem_bytes = 500}},
    };
    for (size_t i = 0; i < countof(parts); i++)
        if (!str_next(&rest, '\0', &parts[i]))
            parts[i] = (struct str){"", 0};
    names_take(&model, parts[0]);
    buf_add_str(&model.config_text, parts[1]);
    model.has_config = model_config_parse(parts[1], &model.config, NULL) == 0;
    const struct plan_wish wish = {.method = size % 2 ? PARTITION_OPTIMAL : PARTITION_BALANCED,
                                   .devices = devices,
                                   .n_devices = countof(devices),
                                   .context = 1,
                                   .layout = parts[2]};
    int rc = model_plan_make(&model, &wish, &plan, &err);
    ASSERT(rc == 0 || ((rc == ERR_DATA || rc == ERR_USAGE) && err.text[0]));
    if (rc == 0) {
        tree_check(&plan.tree);
        maps_check(&plan, parts[3]);
    }
    model_plan_release(&plan);
    model_release(&model);
    return 0;
}
