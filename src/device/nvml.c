/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>

#include "device/nvml_abi.h"

const struct nvml_symbols nvml_symbols = {
#define X(field, symbol, args) .field = (symbol),
    NVML_FUNCTIONS(X)
#undef X
};

static const struct {
    const char *symbol;
    size_t offset;
} slots[] = {
#define X(field, symbol, args) {symbol, offsetof(struct nvml, field)},
    NVML_FUNCTIONS(X)
#undef X
        {"nvmlErrorString", offsetof(struct nvml, error_text)},
};

int nvml_load(struct nvml *out, struct err *err)
{
    const char *path = getenv("MUSTER_NVML");
    *out = (struct nvml){0};
    out->library = dlopen(path && *path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!out->library)
        return fail(err, ERR_UNAVAILABLE, "NVIDIA's management library: %s", dlerror());
    for (size_t i = 0; i < countof(slots); i++) {
        void *function = dlsym(out->library, slots[i].symbol);
        memcpy((char *)out + slots[i].offset, &function, sizeof(function));
    }
    if (!out->init || !out->count || !out->by_index || !out->uuid)
        return fail(err, ERR_UNAVAILABLE, "NVIDIA's management library is too old (driver < 319)");
    return 0;
}
