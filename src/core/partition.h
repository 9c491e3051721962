/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a model goes to which device: a device map of Hugging Face, by the algorithm of
 * Accelerate (the same map, key by key) or by an optimal contiguous partition. Pure: a function
 * of the model and of the wish, which allocates once.
 *
 * A model is a tree of modules that hold tensors. Its units are what is never cut: modules without children, modules
 * that are marked as whole (the no-split blocks of an architecture), and the tensors that stand directly in any other
 * module. They run in the order of registration, so a partition of their sequence into contiguous pieces, one a
 * device, has the fewest transfers. Tensors that share memory are on one device, because the loader ties them to one
 * storage: the units that hold them go along, which is the only exception from contiguity.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Largest sum of the sizes of a model, 256 PiB: products and sums below it do not overflow. */
#define PARTITION_BYTES_MAX ((uint64_t)1 << 58)

/*
 * Module 0 is the root, with the name "". Others come in depth-first order of registration, as
 * nn.Module.named_modules() names them, also those without tensors, since the map has keys for
 * them.
 */
struct partition_module {
    struct str name;       /* the full one: "model.layers.0" */
    uint32_t parent;       /* a lower number; the root's is 0 */
    bool is_whole;         /* it is never cut */
    uint32_t class_number; /* below n_modules; whole modules of one class have the same */
    uint64_t kv_bytes; /* of the cache that it keeps, without its children; for PARTITION_OPTIMAL */
};

/* In the order of their modules, in one module parameters before buffers. */
struct partition_tensor {
    struct str name; /* the full one */
    uint64_t bytes;  /* that it takes in memory */
    uint32_t module;
    bool is_buffer;
    bool is_bool; /* Accelerate counts a bit for an element that takes a byte */
    /*
     * 0, or the number, at most n_tensors, of a group that shares the memory of its first tensor.
     * A group has parameters or buffers, never both.
     */
    uint32_t tied;
};

struct partition_model {
    const struct partition_module *modules; /* at least the root */
    size_t n_modules;                       /* below UINT32_MAX, as n_tensors */
    const struct partition_tensor *tensors;
    size_t n_tensors;
};

enum partition_method {
    PARTITION_BALANCED, /* `auto` as well */
    PARTITION_BALANCED_LOW_0,
    PARTITION_SEQUENTIAL,
    PARTITION_OPTIMAL
};

/*
 * What PARTITION_OPTIMAL minimises, among the maps that have the fewest bytes on no device, then on the disk, then on
 * the CPU.
 */
enum partition_goal {
    /*
     * The highest use of a GPU's memory, relative to its size: so every device keeps as much as possible for longer
     * contexts and larger batches. Absolute bytes would fill a small device completely beside a large one.
     */
    PARTITION_LEAST_MEMORY,
    /* The time of the slowest stage, if stages work at the same time on different batches. */
    PARTITION_LEAST_STAGE,
    /* The sum of the times of all stages: the time of one batch, if stages work one after the other. */
    PARTITION_LEAST_LATENCY
};

enum partition_kind {
    PARTITION_GPU,
    PARTITION_CPU,
    PARTITION_DISK /* without a limit */
};

/* GPUs first, then at most one CPU, then at most one disk. */
struct partition_device {
    enum partition_kind kind;
    uint64_t mem_bytes; /* that may be used; a GPU may have 0 */
    /* For PARTITION_OPTIMAL: */
    uint64_t reserve_bytes; /* of mem_bytes: for activations, if the device holds anything */
    uint32_t speed;         /* bytes of weights and cache that it reads in a unit of time; 0: 1 */
};

struct partition_wish {
    enum partition_method method;
    const struct partition_device *devices;
    uint32_t n_devices;
    /* For PARTITION_OPTIMAL. */
    enum partition_goal goal;
    uint64_t handover_time; /* of a stage, in the unit of time of `speed` */
    /* For Accelerate's methods, by its names: */
    bool sets_no_limits; /* max_memory=None: mem_bytes are free; a single GPU is used to 90 % */
    bool fallback_allocation; /* a device on which the next module does not fit gets a later one */
    bool keeps_pieces;        /* clean_result=False */
};

/*
 * A key of the map; keys are in the order of the model. Each tensor belongs to one key, except for buffers that stand
 * directly in a module that Accelerate cut: its maps have no key for these.
 */
struct partition_entry {
    struct str name; /* of a module or of a tensor; borrowed from the model */
    uint32_t device; /* n_devices: fits nowhere; Accelerate says "disk", also where there is none */
};

/* What is on one device; memory that tensors share is counted once. */
struct partition_load {
    uint64_t weight_bytes, kv_bytes;
    uint64_t reserve_bytes; /* activations, and room for the largest unit on a slower device */
};

struct partition_map {
    bool is_too_large; /* weights and caches are over PARTITION_BYTES_MAX: there is no map */
    struct partition_entry *entries;
    size_t n_entries;
    struct partition_load *loads; /* [n_devices + 1]; the last one is what fits nowhere */
    uint32_t *tensor_devices;     /* [n_tensors] as in partition_entry */
    /* What fits nowhere: its sum, and the largest unit of it. */
    uint64_t missing_bytes;
    struct str missing_name;
    uint64_t missing_unit_bytes;
    /*
     * PARTITION_OPTIMAL: the highest use of a GPU's memory, relative to its size, if the whole
     * model were on the GPUs and cut for PARTITION_LEAST_MEMORY. Above 1, every GPU would have to
     * be so much larger. 0: there are no GPUs.
     */
    double needed_use;
};

/* NULL: memory ran out. The strings of the model must stay. */
struct partition_map *partition_new(const struct partition_model *model,
                                    const struct partition_wish *wish);
void partition_free(struct partition_map *map);
