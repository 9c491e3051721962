/* SPDX-License-Identifier: Apache-2.0
 *
 * Traits: what hosts that share a run are compared by (compare.h), each a text. They are printed by one muster and
 * read by another, so a name keeps its meaning.
 */
#pragma once

#include "doctor/facts.h"

/* name */
#define TRAITS(X)             \
    X(muster)                 \
    X(machine)                \
    X(system)                 \
    X(kernel)                 \
    X(driver)                 \
    X(devices)                \
    X(cores)                  \
    X(memory_free)            \
    X(disk_free)              \
    X(open_files)             \
    X(folder)                 \
    X(python_path)            \
    X(python)                 \
    X(torch)                  \
    X(transformers)           \
    X(vllm)                   \
    X(numpy)                  \
    X(CUDA_VISIBLE_DEVICES)   \
    X(CUDA_DEVICE_ORDER)      \
    X(NVIDIA_VISIBLE_DEVICES) \
    X(ROCR_VISIBLE_DEVICES)   \
    X(HIP_VISIBLE_DEVICES)

enum trait {
#define X(name) TRAIT_##name,
    TRAITS(X)
#undef X
    TRAITS_COUNT
};

enum {
    TRAIT_MAX_BYTES = 512
};

struct traits {
    char *at[TRAITS_COUNT]; /* NULL: not known; "": it is not there, or not set */
};

/* Of this machine; facts->has_python must have been tried. `version`: of muster. */
void traits_take(const struct facts *facts, const char *version, struct traits *out);
void traits_release(struct traits *traits);
const char *trait_name(enum trait trait);
bool trait_find(const char *name, enum trait *out);
