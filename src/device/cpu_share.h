/* SPDX-License-Identifier: Apache-2.0
 *
 * Which CPUs each rank of a machine gets, with the modes of torchrun's --numa-binding, and how many threads are its share.
 * The modes, for a rank whose GPU is near a NUMA node:
 *
 *   node          all CPUs of that node
 *   socket        all CPUs of all nodes of its socket
 *   exclusive     an even share of the node's physical cores, among the GPUs that are near the node
 *   core-complex  the cores of one last-level cache of the node; its GPUs take turns, largest caches first
 *
 * Ranks without GPUs are spread over the NUMA nodes in order, an even number on each, and take the place of GPUs; torchrun
 * refuses them. Pure, but for the struct cpu_cores that cpu_shares_make() is given (topology.h reads them).
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

/* As `--numa-binding` names them. */
extern const struct choice numa_bindings[];

/* What is wished for the ranks of a machine. */
struct cpu_wish {
    enum numa_binding binding;
    bool shares_threads;
    uint32_t n_ranks;
};

struct cpu_share {
    cpu_set_t cpus;   /* empty: it is not bound */
    unsigned threads; /* physical cores, divided among the ranks that have them; at least 1 */
};

/*
 * out[n_ranks], by local rank. gpu_nodes[n_gpus]: the NUMA nodes of the GPUs that the ranks see, the one of rank i at i; -1
 * is not known, and on a machine with one node that one. ERR_USAGE: ranks without a GPU of their own, or more GPUs than
 * cores; ERR_UNAVAILABLE: a node is not known, or this process may not run there.
 */
MUST_CHECK int cpu_shares_make(const struct cpu_wish *wish, const struct cpu_cores *cores,
                               const int *gpu_nodes, size_t n_gpus, struct cpu_share *out,
                               struct err *err);

/* The same for devices of a list, by their positions; CPU slots are no GPUs. *out is an array of n_ranks, free() it. Asks
 * hwloc. */
MUST_CHECK int cpu_shares_of(const struct cpu_wish *wish, const struct device_list *devices,
                             const size_t *positions, size_t n_positions, struct cpu_share **out,
                             struct err *err);
