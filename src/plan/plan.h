/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a model goes to which device (muster plan). The user's wish becomes a wish of core/partition.h. The
 * map that this module makes becomes a device_map of Hugging Face, a table, and a picture. Pure.
 *
 * Formulas beside those of model/estimate.h, in bytes. Activations of inference: s b (4 h + 2 i) e on each GPU that
 * holds a part, for one block at a time. Logits of the last token of each sequence, in float32: 4 b v. s: tokens of a
 * sequence, b: sequences, h: hidden size, i: width of the MLP (4 h if config.json lacks it), e: bytes of an element,
 * v: vocabulary. The four h are the residual, its norm, the queries and their result. The MLP counts twice, because
 * most have a gate. Kernels such as FlashAttention keep no s x s matrix.
 */
#pragma once

#include "core/partition.h"
#include "model/model.h"
#include "model/tree.h"

enum {
    PLAN_CONTEXT_DEFAULT = 4096
};

struct plan_device {
    char key[24];   /* its name in the map: "0", "cpu", "disk" */
    char label[96]; /* "gpu 0 (NVIDIA A100)" */
    struct partition_device of;
};

struct plan_wish {
    enum partition_method method;
    enum partition_goal goal;
    const struct plan_device *devices; /* in the order that struct partition_device demands */
    uint32_t n_devices;
    uint64_t context, batch; /* 0: the model's context, at most 4096; one sequence */
    uint32_t type_bytes;     /* 0: as config.json says */
    uint64_t reserve_bytes;  /* kept free on each GPU, beside the activations */
    struct str layout;       /* used instead of the table's layout; empty: none */
    bool sets_no_limits;     /* for Accelerate's methods: the sizes are the free memory */
};

/* Where the parts of a model are, and the wish and model of the plan. */
struct model_plan {
    struct plan_wish wish; /* with the defaults filled in */
    const struct model *model;
    struct model_tree tree;
    struct partition_map *map;
    const struct partition_entry *entries; /* of the map, or of a map that was taken */
    size_t n_entries;
    struct partition_entry *taken;
    uint64_t activation_bytes; /* on each GPU that holds a part */
};

/*
 * Makes a plan; release it also after a failure. ERR_USAGE, ERR_DATA. A model that does not fit is no error here: see
 * plan_missing_bytes().
 */
MUST_CHECK int model_plan_make(const struct model *model, const struct plan_wish *wish,
                               struct model_plan *out, struct err *err);
void model_plan_release(struct model_plan *plan);
/* The bytes that device `i` needs with cache, activations and reserve, and the bytes that it lacks; i < n_devices. */
uint64_t plan_need_bytes(const struct model_plan *plan, uint32_t i);
uint64_t plan_lack_bytes(const struct model_plan *plan, uint32_t i);
/* The bytes that all devices lack together, with the parts that fit nowhere; 0: everything fits. */
uint64_t plan_missing_bytes(const struct model_plan *plan);
/* True if the size of the KV cache or of the activations is not known, because config.json lacks it or is missing. */
bool plan_is_partial(const struct model_plan *plan);
/* True if the map can be used: everything fits, or, with Accelerate's methods, each tensor has a device. */
bool plan_has_map(const struct model_plan *plan);
const char *plan_method_name(enum partition_method method);

/* ---- plan_map.c: the device_map of Hugging Face ---- */

/* Adds the map: an object with a line for each key, in the order of the model. */
void plan_map_add(const struct model_plan *plan, struct buf *out);

/* The result of checking a map that somebody else made. */
struct plan_check {
    size_t n_problems;
    struct buf problems; /* a line for each problem, at most PLAN_PROBLEMS_MAX */
};
enum {
    PLAN_MAP_BYTES_MAX = 16 << 20,
    PLAN_PROBLEMS_MAX = 20
};
/*
 * Replaces the plan's map by the one in `text`, for the report; `name` is for messages. Problems are: a module that
 * the model does not have, a tensor with no device or with two, and a device that the wish does not have. ERR_DATA if
 * `text` is no map.
 */
MUST_CHECK int plan_map_take(struct model_plan *plan, const char *name, struct str text,
                             struct plan_check *check, struct err *err);

/* ---- plan_cure.c: what would help ---- */

/* Adds a line for each change that would make everything fit. */
void plan_cures_add(const struct model_plan *plan, struct buf *out);

/* ---- plan_report.c, plan_picture.c, plan_json.c, plan_svg.c ---- */

void plan_table_add(const struct model_plan *plan, const char *path, struct buf *out);
void plan_picture_add(const struct model_plan *plan, struct buf *out);
/* Adds how the figures are computed. `other` is the plan of Accelerate's balanced map, or NULL. */
void plan_explanation_add(const struct model_plan *plan, const struct model_plan *other,
                          struct buf *out);
/* Adds lines of JSON: an object for each device, then one for the whole plan. */
void plan_json_add(const struct model_plan *plan, struct buf *out);
void plan_svg_add(const struct model_plan *plan, const char *path, struct buf *out);

/* Adds the entries on one device; consecutive blocks are shortened: "model.layers.0-10". */
void plan_ranges_add(const struct model_plan *plan, uint32_t device, size_t ranges_max,
                     struct buf *out);
