/* SPDX-License-Identifier: Apache-2.0
 *
 * The device_map of Hugging Face. It is an object whose keys are modules or tensors, and whose values are the number
 * of a GPU, "cpu" or "disk". A key stands for everything in its module.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/name_index.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "plan/plan.h"

/* ---- writing ---- */

static void device_add(const struct model_plan *plan, uint32_t device, struct buf *out)
{
    const char *key = device < plan->wish.n_devices ? plan->wish.devices[device].key : "disk";
    if (key[0] >= '0' && key[0] <= '9')
        buf_add_text(out, key);
    else
        buf_add_json(out, str_of(key));
}

void plan_map_add(const struct model_plan *plan, struct buf *out)
{
    buf_add_char(out, '{');
    for (size_t i = 0; i < plan->n_entries; i++) {
        buf_add_text(out, i > 0 ? ",\n  " : "\n  ");
        buf_add_json(out, plan->entries[i].name);
        buf_add_text(out, ": ");
        device_add(plan, plan->entries[i].device, out);
    }
    buf_add_text(out, plan->n_entries > 0 ? "\n}\n" : "}\n");
}

/* ---- a map that somebody made ---- */

struct taking {
    struct model_plan *plan;
    struct plan_check *check;
    const char *name;
    struct name_index keys;
    uint32_t *devices; /* the device of each key */
    bool *is_met;      /* for each key: it holds a tensor, or is a module */
    size_t n_devices, cap_devices;
    uint32_t *tensor_devices; /* n_devices: no device */
    struct err *err;
};

static void problem_add(struct taking *taking, const char *fmt, ...) PRINTF(2, 3);
static void problem_add(struct taking *taking, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    cleanup_free char *text = xvasprintf(fmt, args);
    va_end(args);
    if (taking->check->n_problems++ < PLAN_PROBLEMS_MAX)
        buf_addf(&taking->check->problems, "%s\n", text);
}

/* Finds the device of a value. "cuda:1", "cuda" and 1 are GPUs too. */
static bool device_find(const struct model_plan *plan, struct str value, uint32_t *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t number;
    if (json_to_u64(value, &number))
        buf_addf(&text, "%lu", number);
    else if (!json_to_text(value, &text))
        return false;
    struct str key = buf_str(&text);
    if (str_equal(key, STR("cuda")))
        key = STR("0");
    if (str_starts_with(key, STR("cuda:")))
        key = (struct str){key.at + 5, key.len - 5};
    for (*out = 0; *out < plan->wish.n_devices; ++*out)
        if (str_equal(key, str_of(plan->wish.devices[*out].key)))
            return true;
    return false;
}

static int key_take(struct taking *taking, struct str key, struct str value)
{
    cleanup_buf struct buf name = BUF_INIT;
    uint32_t device = 0;
    if (!json_key_to_text(key, &name))
        return fail(taking->err, ERR_DATA, "%s: a key is no text", taking->name);
    if (!device_find(taking->plan, value, &device)) {
        problem_add(taking, "%s: '%s' is on %.*s, which is none of the devices", taking->name,
                    buf_text(&name), (int)MIN(value.len, (size_t)40), value.at);
        device = taking->plan->wish.n_devices;
    }
    if (name_index_find(&taking->keys, buf_str(&name)) != NAME_NONE) {
        problem_add(taking, "%s: '%s' is there twice", taking->name, buf_text(&name));
        return 0;
    }
    name_index_add(&taking->keys, buf_str(&name));
    taking->devices = xrealloc(taking->devices, taking->keys.len * sizeof(*taking->devices));
    taking->devices[taking->keys.len - 1] = device;
    return 0;
}

static int keys_take(struct taking *taking, struct str text)
{
    struct json_members walk = json_members(text);
    struct str key, value;
    int rc = 0;
    if (!json_is_object(text))
        return fail(taking->err, ERR_DATA, "%s: it is no JSON object", taking->name);
    while (rc == 0 && json_next(&walk, &key, &value))
        rc = key_take(taking, key, value);
    return rc;
}

/*
 * How many keys stand for a name: the name itself, and each module around it. *nearest gets the nearest of these
 * keys, which counts.
 */
static size_t keys_of(const struct taking *taking, struct str name, size_t *nearest)
{
    size_t n = 0;
    for (size_t len = name.len;; len--) {
        bool is_end = len == name.len || len == 0 || name.at[len] == '.';
        size_t key =
            is_end ? name_index_find(&taking->keys, (struct str){name.at, len}) : NAME_NONE;
        if (key != NAME_NONE) {
            taking->is_met[key] = true;
            *nearest = n == 0 ? key : *nearest;
            n++;
        }
        if (len == 0)
            return n;
    }
}

static void tensors_place(struct taking *taking)
{
    const struct partition_model *of = &taking->plan->tree.of;
    uint32_t none = taking->plan->wish.n_devices;
    for (size_t i = 0; i < of->n_tensors; i++) {
        struct str name = of->tensors[i].name;
        size_t nearest = 0, n = keys_of(taking, name, &nearest);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a key has a device */
        taking->tensor_devices[i] = n > 0 ? taking->devices[nearest] : none;
        if (n == 0 && !of->tensors[i].is_buffer)
            problem_add(taking, "'%.*s' has no device", (int)name.len, name.at);
        if (n > 1)
            problem_add(taking, "'%.*s' has %zu devices: more than one key stands for it",
                        (int)name.len, name.at, n);
    }
    for (size_t i = 0; i < of->n_modules; i++) {
        size_t nearest;
        keys_of(taking, of->modules[i].name, &nearest);
    }
    for (size_t i = 0; i < taking->keys.len; i++) {
        struct str name = name_index_get(&taking->keys, i);
        if (!taking->is_met[i])
            problem_add(taking, "'%.*s' is no module of the model", (int)name.len, name.at);
    }
}

/* Finds blocks whose parts are on several devices, and tied tensors on different devices. Both load, and then fail. */
static void cuts_find(struct taking *taking)
{
    const struct partition_model *of = &taking->plan->tree.of;
    cleanup_free uint32_t *ties = xcalloc(of->n_tensors + 1, sizeof(*ties)); /* a tensor, plus 1 */
    cleanup_free uint32_t *blocks =
        xcalloc(of->n_modules, sizeof(*blocks)); /* the same, per block */
    cleanup_free bool *is_told = xcalloc(of->n_modules, sizeof(*is_told));
    for (uint32_t i = 0; i < of->n_tensors; i++) {
        const struct partition_tensor *tensor = &of->tensors[i];
        uint32_t block = tensor->module, first;
        while (block > 0 && !of->modules[block].is_whole)
            block = of->modules[block].parent;
        if (blocks[block] == 0)
            blocks[block] = i + 1;
        first = blocks[block] - 1;
        if (block > 0 && !is_told[block] &&
            taking->tensor_devices[first] != taking->tensor_devices[i]) {
            struct str name = of->modules[block].name;
            problem_add(taking, "'%.*s' is cut: a block must be on one device", (int)name.len,
                        name.at);
            is_told[block] = true;
        }
        if (tensor->tied == 0)
            continue;
        if (ties[tensor->tied] == 0)
            ties[tensor->tied] = i + 1;
        const struct partition_tensor *leader = &of->tensors[ties[tensor->tied] - 1];
        if (taking->tensor_devices[ties[tensor->tied] - 1] != taking->tensor_devices[i])
            problem_add(taking, "'%.*s' and '%.*s' are tied, and on two devices",
                        (int)leader->name.len, leader->name.at, (int)tensor->name.len,
                        tensor->name.at);
    }
}

/* ---- what is where ---- */

static void loads_count(struct taking *taking, struct partition_load *loads)
{
    const struct partition_model *of = &taking->plan->tree.of;
    cleanup_free uint32_t *module_device = xcalloc(of->n_modules, sizeof(*module_device));
    cleanup_free bool *is_counted = xcalloc(of->n_tensors + 1, sizeof(*is_counted)); /* groups */
    for (size_t i = 0; i < of->n_modules; i++)
        module_device[i] = UINT32_MAX;
    for (size_t i = 0; i < of->n_tensors; i++) {
        const struct partition_tensor *tensor = &of->tensors[i];
        uint32_t device = taking->tensor_devices[i];
        if (!is_counted[tensor->tied])
            loads[device].weight_bytes += tensor->bytes;
        is_counted[tensor->tied] = tensor->tied > 0;
        for (uint32_t m = tensor->module; m > 0 && module_device[m] == UINT32_MAX;
             m = of->modules[m].parent)
            module_device[m] = device;
    }
    for (size_t i = 0; i < of->n_modules; i++)
        if (module_device[i] != UINT32_MAX)
            loads[module_device[i]].kv_bytes += of->modules[i].kv_bytes;
}

/* Takes the keys that the model has, in the order of the file. */
static void entries_take(struct taking *taking)
{
    struct model_plan *plan = taking->plan;
    size_t n = 0;
    free(plan->taken);
    plan->taken = xcalloc(taking->keys.len + 1, sizeof(*plan->taken));
    for (size_t i = 0; i < taking->keys.len; i++) {
        struct str key = name_index_get(&taking->keys, i);
        size_t module = name_index_find(&plan->tree.module_names, key);
        size_t tensor = name_index_find(&plan->tree.tensor_names, key);
        if (module == NAME_NONE && tensor == NAME_NONE)
            continue;
        plan->taken[n++] = (struct partition_entry){
            .name = module != NAME_NONE ? name_index_get(&plan->tree.module_names, module)
                                        : name_index_get(&plan->tree.tensor_names, tensor),
            .device = taking->devices[i]};
    }
    plan->entries = plan->taken;
    plan->n_entries = n;
}

static void map_replace(struct taking *taking)
{
    struct partition_map *map = taking->plan->map;
    uint32_t n_devices = taking->plan->wish.n_devices;
    memset(map->loads, 0, (n_devices + 1) * sizeof(*map->loads));
    map->missing_bytes = map->missing_unit_bytes = 0;
    map->missing_name = (struct str){"", 0};
    loads_count(taking, map->loads);
    entries_take(taking);
    memcpy(map->tensor_devices, taking->tensor_devices,
           taking->plan->tree.of.n_tensors * sizeof(*map->tensor_devices));
}

int plan_map_take(struct model_plan *plan, const char *name, struct str text,
                  struct plan_check *check, struct err *err)
{
    struct taking taking = {.plan = plan, .check = check, .name = name, .err = err};
    *check = (struct plan_check){0};
    int rc = keys_take(&taking, text);
    taking.is_met = xcalloc(taking.keys.len + 1, sizeof(*taking.is_met));
    taking.tensor_devices = xcalloc(plan->tree.of.n_tensors + 1, sizeof(*taking.tensor_devices));
    if (rc == 0) {
        tensors_place(&taking);
        map_replace(&taking);
        cuts_find(&taking);
    }
    free(taking.is_met);
    free(taking.devices);
    free(taking.tensor_devices);
    name_index_release(&taking.keys);
    return rc;
}
