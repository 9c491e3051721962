/* SPDX-License-Identifier: Apache-2.0
 *
 * Which CPUs each rank of a machine gets, by the modes of torchrun's --numa-binding, and how many
 * threads a rank should use. The modes, for a rank whose GPU is near a NUMA node:
 *
 *   node          all CPUs of that node
 *   socket        all CPUs of all nodes of its socket
 *   exclusive     an even share of the node's physical cores, among the GPUs that are near the node
 *   core-complex  the cores of one last-level cache of the node; its GPUs take turns, largest
 *                 caches first
 *
 * Ranks without GPUs are spread evenly over the NUMA nodes, in order, and are then treated as GPUs
 * are; torchrun refuses such ranks. Pure, but for the struct cpu_cores that cpu_shares_make() is
 * given (topology.h reads them).
 */
#pragma once

#include "base/choice.h"
#include "device/device.h"
#include "device/topology.h"

enum numa_binding {
    NUMA_BINDING_NONE,
    NUMA_BINDING_NODE,
    NUMA_BINDING_SOCKET,
    NUMA_BINDING_EXCLUSIVE,
    NUMA_BINDING_CORE_COMPLEX,
    NUMA_BINDINGS
};

enum {
    CPU_RANKS_MAX = 65536
};

/* The names of the modes for `--numa-binding`. */
extern const struct choice numa_bindings[];

/* What the caller wants for the ranks of a machine. */
struct cpu_wish {
    enum numa_binding binding;
    bool shares_threads;
    uint32_t n_ranks;
};

struct cpu_share {
    cpu_set_t cpus;   /* empty: the rank is not bound */
    unsigned threads; /* its physical cores, divided among the ranks on them; at least 1 */
};

/*
 * Fills out[n_ranks], by local rank. gpu_nodes[n_gpus]: the NUMA node of each GPU that the ranks
 * see; rank i has GPU i. -1: not known; on a machine with one node it is that node. ERR_USAGE if a
 * rank has no GPU of its own, or if there are more GPUs than cores; ERR_UNAVAILABLE if a node is
 * not known, or if this process may not run there.
 */
MUST_CHECK int cpu_shares_make(const struct cpu_wish *wish, const struct cpu_cores *cores,
                               const int *gpu_nodes, size_t n_gpus, struct cpu_share *out,
                               struct err *err);

/*
 * The same for devices of a list, which are given by their positions. CPU slots do not count as
 * GPUs. *out is an array of n_ranks, free() it. It asks hwloc.
 */
MUST_CHECK int cpu_shares_of(const struct cpu_wish *wish, const struct device_list *devices,
                             const size_t *positions, size_t n_positions, struct cpu_share **out,
                             struct err *err);
