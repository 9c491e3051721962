/* SPDX-License-Identifier: Apache-2.0
 *
 * How much device memory a model needs, computed from its headers (muster fit --estimate). The formulas, in bytes:
 *
 *   weights      what the tensors have in the files
 *   KV cache     2 * layers * KV heads * head size * bytes of an element, for each token of each
 *                sequence; of layers with a window of w tokens, min(w, context) of them
 *   gradients    as the weights; of types with less than 16 bits, 2 for each parameter
 *   adam         two moments in float32, and where weights have less than 32 bits, a float32
 *                copy of them: 8 or 12 for each parameter (Rajbhandari et al. 2020, "ZeRO", 3.1)
 *   adam8bit     two moments of a byte, and a float32 factor for 256 of each (Dettmers et al. 2022,
 *                "8-bit Optimizers via Block-wise Quantization"; 256 is the block of bitsandbytes)
 *   sgd          a momentum of the weights' type
 *   activations  that the backward pass needs, for elements of 16 bits (Korthikanti et al. 2022,
 *                "Reducing Activation Recomputation in Large Transformer Models"): for each layer
 *                s b h (34 + 5 a s / h); with selective recomputation, to which kernels such as
 *                FlashAttention amount, 34 s b h; with full recomputation 2 s b h. And once
 *                s b h + 4 s b h (1 + v / h), of which the logits in float32 are most.
 *
 * s: tokens of a sequence, b: sequences, h: hidden size, a: heads, v: vocabulary. The paper's layer
 * has a GeLU between h and 4h, dropout, and as many KV heads as heads; for others this is near.
 * What is not counted: the context of the driver (some 0.5 GiB), workspaces of kernels,
 * fragmentation. Pure.
 */
#pragma once

#include "model/model.h"

enum estimate_optimizer {
    OPTIMIZER_ADAM,
    OPTIMIZER_ADAM8BIT,
    OPTIMIZER_SGD,
    OPTIMIZER_NONE
};

enum estimate_recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE,
    RECOMPUTE_FULL
};

struct estimate_wish {
    bool is_training;
    enum estimate_optimizer optimizer;
    enum estimate_recompute recompute;
    uint64_t context, batch; /* tokens of a sequence, sequences */
};

struct estimate {
    uint64_t n_parameters, weight_bytes;
    uint64_t token_bytes; /* of the KV cache, for each token; 0: no cache, or not known */
    /*
     * For inference, only the cache counts; for training, the others. A size is 0 if it does not count or is not
     * known.
     */
    uint64_t cache_bytes, gradient_bytes, optimizer_bytes, activation_bytes;
    uint64_t total_bytes;
    bool is_partial; /* the config lacks numbers for the cache or the activations */
};

/* Makes an estimate. ERR_DATA if a number does not fit into 64 bits. */
MUST_CHECK int estimate_make(const struct model *model, const struct estimate_wish *wish,
                             struct estimate *out, struct err *err);

/* A device, for the question whether the model fits on it. */
struct estimate_device {
    char name[96];
    uint64_t total_bytes, margin_bytes;
};
bool estimate_fits(const struct estimate *estimate, const struct estimate_device *device);

/* ---- estimate_report.c ---- */

struct estimate_report {
    const char *path;
    const struct model *model;
    const struct estimate_wish *wish;
    const struct estimate *estimate;
    const struct estimate_device *devices;
    size_t n_devices;
};
void estimate_table_add(const struct estimate_report *report, struct buf *out);
/* Adds lines of JSON, an object on each line. */
void estimate_json_add(const struct estimate_report *report, struct buf *out);
