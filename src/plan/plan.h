/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a model goes to which device (muster plan): the wish of the user becomes that of
 * core/partition.h, whose map becomes a device_map of Hugging Face, a table, and a picture. Pure.
 *
 * The formulas beside those of model/estimate.h, in bytes: activations of inference, which every
 * GPU that holds a part has for one block at a time, s b (4 h + 2 i) e, and the logits of the last
 * token of each sequence in float32, 4 b v. s: tokens of a sequence, b: sequences, h: hidden size,
 * i: width of the MLP (4 h if config.json does not say it), e: bytes of an element, v: vocabulary.
 * The four: the residual, its norm, and queries with their result; of the MLP two, because most
 * have a gate. Kernels such as FlashAttention keep no s x s matrix.
 */
#pragma once

#include "core/partition.h"
#include "model/model.h"
#include "model/tree.h"

enum {
    PLAN_CONTEXT_DEFAULT = 4096
};

struct plan_device {
    char key[24];   /* in the map: "0", "cpu", "disk" */
    char label[96]; /* "gpu 0 (NVIDIA A100)" */
    struct partition_device of;
};

struct plan_wish {
    enum partition_method method;
    enum partition_goal goal;
    const struct plan_device *devices; /* as partition_device demands */
    uint32_t n_devices;
    uint64_t context, batch; /* 0: the model's context, at most 4096; one sequence */
    uint32_t type_bytes;     /* 0: as config.json says */
    uint64_t reserve_bytes;  /* of each GPU, beside the activations */
    struct str layout;       /* instead of the table's; empty: none */
    bool sets_no_limits;     /* of Accelerate's methods: sizes are what is free */
};

/* Where the parts of a model are, and what it was made from. */
struct model_plan {
    struct plan_wish wish; /* with the defaults filled in */
    const struct model *model;
    struct model_tree tree;
    struct partition_map *map;
    const struct partition_entry *entries; /* the map's, or those of a map that was taken */
    size_t n_entries;
    struct partition_entry *taken;
    uint64_t activation_bytes; /* of each GPU that holds a part */
};

/* ERR_USAGE, ERR_DATA. A model that does not fit is no error here: see plan_missing_bytes().
 * Release also after a failure. */
MUST_CHECK int model_plan_make(const struct model *model, const struct plan_wish *wish,
                               struct model_plan *out, struct err *err);
void model_plan_release(struct model_plan *plan);
/* What device `i` needs with cache, activations and reserve, and what it lacks; i < n_devices. */
uint64_t plan_need_bytes(const struct model_plan *plan, uint32_t i);
uint64_t plan_lack_bytes(const struct model_plan *plan, uint32_t i);
/* What devices lack together, and what fits nowhere; 0: everything fits. */
uint64_t plan_missing_bytes(const struct model_plan *plan);
/* Whether config.json, or its lack, hides the size of the KV cache or of the activations. */
bool plan_is_partial(const struct model_plan *plan);
/* Whether the map is of use: all fits, or with Accelerate's methods, each tensor has a device. */
bool plan_has_map(const struct model_plan *plan);
const char *plan_method_name(enum partition_method method);

/* ---- plan_map.c: the device_map of Hugging Face ---- */

/* An object with a line for each key, in the order of the model. */
void plan_map_add(const struct model_plan *plan, struct buf *out);

/* What a map that somebody made says about a model. */
struct plan_check {
    size_t n_problems;
    struct buf problems; /* a line for each, at most PLAN_PROBLEMS_MAX */
};
enum {
    PLAN_MAP_BYTES_MAX = 16 << 20,
    PLAN_PROBLEMS_MAX = 20
};
/*
 * Replaces the plan's map by the one in `text`, for the report; `name` is for messages. A module
 * that the model does not have, a tensor that has no device, or two of them, and a device that is
 * not among those of the wish, are problems. ERR_DATA if it is no map.
 */
MUST_CHECK int plan_map_take(struct model_plan *plan, const char *name, struct str text,
                             struct plan_check *check, struct err *err);

/* ---- plan_cure.c: what would help ---- */

/* A line for each change that makes everything fit. */
void plan_cures_add(const struct model_plan *plan, struct buf *out);

/* ---- plan_report.c, plan_picture.c, plan_json.c, plan_svg.c ---- */

void plan_table_add(const struct model_plan *plan, const char *path, struct buf *out);
void plan_picture_add(const struct model_plan *plan, struct buf *out);
/* How the figures come about; `other` is what Accelerate's balanced map would need, or NULL. */
void plan_explanation_add(const struct model_plan *plan, const struct model_plan *other,
                          struct buf *out);
/* An object on each line: devices, then the whole. */
void plan_json_add(const struct model_plan *plan, struct buf *out);
void plan_svg_add(const struct model_plan *plan, const char *path, struct buf *out);

/* Consecutive entries on one device, with blocks in short: "model.layers.0-10". */
void plan_ranges_add(const struct model_plan *plan, uint32_t device, size_t ranges_max,
                     struct buf *out);
