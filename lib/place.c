/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/worker.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? strtoull(value, NULL, 10) : otherwise;
}

void muster_worker_place(struct muster_place *place)
{
    *place = (struct muster_place){
        .run_id = text_of("MUSTER_RUN_ID"),
        .run_dir = text_of("MUSTER_RUN_DIR"),
        .devices = text_of("MUSTER_DEVICE"),
        .device_indices = text_of("MUSTER_DEVICE_INDEX"),
        .device_kind = text_of("MUSTER_DEVICE_KIND"),
        .n_devices = 1,
        .worker = (uint32_t)number_of("MUSTER_WORKER", 0),
        .n_workers = (uint32_t)number_of("MUSTER_WORKERS", 1),
        .attempt = (uint32_t)number_of("MUSTER_ATTEMPT", 1),
        .seed = number_of("MUSTER_SEED", 0),
        .batch = (size_t)number_of("MUSTER_BATCH", 0),
    };
    for (const char *at = place->devices; (at = strchr(at, ',')) != NULL; at++)
        place->n_devices++;
}
