/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of jobs: what the stage says about a key, and where it says nothing, what `defaults` say; and the leaves of
 * those that are one number or one text.
 */
#pragma once

#include "graph/file/file_impl.h"

struct job_setting {
    struct stage_setting *own, *inherited;
};

/* A number that may have variables in its text. */
struct number {
    struct text text;
    const struct leaf_kind *kind;
    bool is_fixed; /* it has none: `value` is the number */
    uint64_t value;
};

/* A list of texts, or one. */
struct text_list {
    struct text *at;
    uint32_t len;
};

MUST_CHECK int setting_compile(struct graph_file *file, struct file_stage *stage, enum job_key key,
                               const struct leaf_kind *kind, struct job_setting *out);
void *setting_at(const struct job_setting *setting, const uint32_t *row);

extern const struct leaf_kind cpus_kind, retries_kind, timeout_kind, batch_kind, count_kind;
extern const struct leaf_kind gpus_number_kind, gpus_count_kind, gpus_share_kind, gpus_memory_kind;
/* What gpus_number_kind and gpus_count_kind give: n_min << 32 | n_max << 16 | share per mille. */
#define GPUS_MIN(packed)   ((uint32_t)((packed) >> 32))
#define GPUS_MAX(packed)   ((uint32_t)((packed) >> 16 & 0xffff))
#define GPUS_SHARE(packed) ((uint32_t)((packed)&0xffff))

int number_compile_leaf(struct graph_file *file, struct file_stage *stage,
                        const struct yaml_node *node, const struct leaf_kind *kind, void **leaf);
/* *out stays as it is if nothing is set: `number` may be NULL. */
MUST_CHECK int number_get(struct graph_file *file, const struct file_stage *stage,
                          const struct number *number, const uint32_t *row, uint64_t *out);
/* Reads a text or a list of texts. */
MUST_CHECK int text_list_read(struct graph_file *file, const struct file_stage *stage,
                              const struct yaml_node *node, const char *what, enum text_mode mode,
                              struct text_list *out);
/* The leaf struct text_list, of TEXT_VALUE. */
int texts_compile_leaf(struct graph_file *file, struct file_stage *stage,
                       const struct yaml_node *node, const struct leaf_kind *kind, void **leaf);
/* The same of what is one text, and no list. */
int text_compile_leaf(struct graph_file *file, struct file_stage *stage,
                      const struct yaml_node *node, const struct leaf_kind *kind, void **leaf);
