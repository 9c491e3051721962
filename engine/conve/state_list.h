/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as state_dict() of its torch module lists it: every parameter and statistic in the
 * module's order, with the counts that torch's norms keep.
 */
#pragma once

#include "conve/model.h"

enum {
    STATE_NORMS = 3,
    STATE_NAME_MAX = 64
};

struct state_tensor {
    char name[STATE_NAME_MAX];
    struct conve_param_dims dims;
    const float *at; /* NULL: a norm's count of batches, an int64, which no computation reads */
};

struct state_list {
    struct state_tensor at[PARAM_N + STATE_NORMS];
    size_t n;
    float *owned[2]; /* only in PyKEEN's form: renumbered relations, and an entity bias of zeros */
};

/*
 * The list has plain names, or with is_pykeen PyKEEN's names; the model then has LAYOUT_HEIGHT. The
 * model is borrowed.
 */
void state_list_init(struct state_list *list, const struct conve *model, bool is_pykeen);
void state_list_release(struct state_list *list);
