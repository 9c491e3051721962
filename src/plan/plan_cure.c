/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the changes that would help a model that does not fit. Each change is tried alone, by making the plan again.
 */
#include "base/parse.h"
#include "base/xalloc.h"
#include "plan/plan.h"

static bool fits(const struct model_plan *plan, const struct plan_wish *wish)
{
    struct model_plan other;
    bool is_good =
        model_plan_make(plan->model, wish, &other, NULL) == 0 && plan_missing_bytes(&other) == 0;
    model_plan_release(&other);
    return is_good;
}

/*
 * The largest value from 1 to `given` - 1 with which everything fits; 0 if there is none. A smaller value needs less
 * memory, so halving finds it.
 */
static uint64_t largest_find(const struct model_plan *plan, bool is_context, uint64_t given)
{
    struct plan_wish wish = plan->wish;
    uint64_t *field = is_context ? &wish.context : &wish.batch;
    uint64_t low = 0, high = given;
    while (high - low > 1) {
        *field = low + (high - low) / 2;
        if (fits(plan, &wish))
            low = *field;
        else
            high = *field;
    }
    return low;
}

static void type_try(const struct model_plan *plan, struct buf *out)
{
    struct plan_wish wish = plan->wish;
    bool is_wide = plan->tree.type_bytes > 2 ||
                   (plan->tree.type_bytes == 0 && plan->model->n_parts > 0 &&
                    plan->model->parts[0].bits > 16 && model_part_is_float(&plan->model->parts[0]));
    wish.type_bytes = 2;
    if (is_wide && fits(plan, &wish))
        buf_add_text(out, "--dtype bfloat16, half the bytes of each weight\n");
}

static void numbers_try(const struct model_plan *plan, struct buf *out)
{
    const struct plan_wish *wish = &plan->wish;
    uint64_t batch = wish->batch > 1 ? largest_find(plan, false, wish->batch) : 0;
    uint64_t context = wish->context > 1 ? largest_find(plan, true, wish->context) : 0;
    if (batch > 0)
        buf_addf(out, "--batch %lu, instead of %lu\n", batch, wish->batch);
    if (context > 0)
        buf_addf(out, "--context %lu, instead of %lu\n", context, wish->context);
}

/* The devices of the wish and one more, which stands before the CPU if there is a CPU. free() them. */
static struct plan_device *devices_with_new(const struct model_plan *plan,
                                            const struct plan_device *added, uint32_t at)
{
    uint32_t n = plan->wish.n_devices;
    struct plan_device *devices = xcalloc(n + 1, sizeof(*devices));
    memcpy(devices, plan->wish.devices, at * sizeof(*devices));
    devices[at] = *added;
    memcpy(devices + at + 1, plan->wish.devices + at, (n - at) * sizeof(*devices));
    return devices;
}

static bool fits_with(const struct model_plan *plan, const struct plan_device *added, uint32_t at)
{
    struct plan_wish wish = plan->wish;
    struct plan_device *devices = devices_with_new(plan, added, at);
    wish.devices = devices;
    wish.n_devices++;
    bool is_good = fits(plan, &wish);
    free(devices);
    return is_good;
}

static void devices_try(const struct model_plan *plan, struct buf *out)
{
    const struct plan_wish *wish = &plan->wish;
    uint32_t n_gpus = 0, n = wish->n_devices;
    while (n_gpus < n && wish->devices[n_gpus].of.kind == PARTITION_GPU)
        n_gpus++;
    bool has_cpu = n_gpus < n && wish->devices[n_gpus].of.kind == PARTITION_CPU;
    bool has_disk = n > 0 && wish->devices[n - 1].of.kind == PARTITION_DISK;
    if (n_gpus > 0) {
        char size[16];
        struct plan_device added = wish->devices[n_gpus - 1];
        size_format(size, added.of.mem_bytes);
        if (fits_with(plan, &added, n_gpus))
            buf_addf(out, "another device of %s\n", size);
    }
    const struct plan_device cpu = {
        .key = "cpu", .of = {.kind = PARTITION_CPU, .mem_bytes = PARTITION_BYTES_MAX}};
    if (!has_cpu && fits_with(plan, &cpu, n_gpus))
        buf_add_text(out, "--cpu SIZE, the rest in the memory of the machine, which is slow\n");
    const struct plan_device disk = {.key = "disk", .of = {.kind = PARTITION_DISK}};
    if (!has_disk && fits_with(plan, &disk, n))
        buf_add_text(out, "--disk, the rest in files, which is very slow\n");
}

void plan_cures_add(const struct model_plan *plan, struct buf *out)
{
    type_try(plan, out);
    numbers_try(plan, out);
    devices_try(plan, out);
}
