/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu_share.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

const struct choice numa_bindings[] = {{"node", NUMA_BINDING_NODE},
                                       {"socket", NUMA_BINDING_SOCKET},
                                       {"exclusive", NUMA_BINDING_EXCLUSIVE},
                                       {"core-complex", NUMA_BINDING_CORE_COMPLEX},
                                       {0}};

/* ---- the NUMA nodes of the ranks ---- */

/*
 * The sharers of a NUMA node's cores: the GPUs that ranks see, or the ranks if there are no GPUs.
 */
struct sharers {
    const struct cpu_cores *cores;
    int *nodes; /* [n], -1: not known */
    size_t n;
    const char *what; /* "GPU", "rank" */
};

/* The NUMA nodes on which this process may run, ascending. */
static size_t nodes_list(const struct cpu_cores *cores, int *out)
{
    size_t n = 0;
    for (size_t c = 0; c < cores->len; c++) {
        size_t at = 0;
        if (CPU_COUNT(&cores->at[c].cpus) == 0)
            continue;
        while (at < n && out[at] < cores->at[c].node)
            at++;
        if (at < n && out[at] == cores->at[c].node)
            continue;
        memmove(&out[at + 1], &out[at], (n++ - at) * sizeof(*out));
        out[at] = cores->at[c].node;
    }
    return n;
}

static bool is_one_node(const struct cpu_cores *cores)
{
    bool is_one = true;
    for (size_t c = 1; c < cores->len; c++)
        is_one = is_one && cores->at[c].node == cores->at[0].node;
    return is_one;
}

static struct sharers sharers_make(const struct cpu_cores *cores, const int *gpu_nodes,
                                   size_t n_gpus, uint32_t n_ranks)
{
    cleanup_free int *nodes = xcalloc(cores->len + 1, sizeof(*nodes));
    size_t n_nodes = nodes_list(cores, nodes);
    struct sharers sharers = {
        .cores = cores, .n = n_gpus > 0 ? n_gpus : n_ranks, .what = n_gpus > 0 ? "GPU" : "rank"};
    sharers.nodes = xcalloc(sharers.n + 1, sizeof(*sharers.nodes));
    for (size_t i = 0; i < sharers.n; i++) {
        if (n_gpus == 0)
            sharers.nodes[i] = nodes[i * n_nodes / sharers.n];
        else
            sharers.nodes[i] =
                gpu_nodes[i] < 0 && is_one_node(cores) ? cores->at[0].node : gpu_nodes[i];
    }
    return sharers;
}

/* The position of a sharer among the sharers on its node, and their number. */
static size_t sharer_on_node(const struct sharers *sharers, size_t sharer, size_t *n_on_node)
{
    size_t before = 0;
    *n_on_node = 0;
    for (size_t i = 0; i < sharers->n; i++)
        if (sharers->nodes[i] == sharers->nodes[sharer]) {
            before += i < sharer;
            (*n_on_node)++;
        }
    return before;
}

/* ---- the modes ---- */

static void node_cpus(const struct cpu_cores *cores, int node, cpu_set_t *out)
{
    for (size_t c = 0; c < cores->len; c++)
        if (cores->at[c].node == node)
            CPU_OR(out, out, &cores->at[c].cpus);
}

static void socket_cpus(const struct cpu_cores *cores, int node, cpu_set_t *out)
{
    int socket = -1;
    for (size_t c = 0; c < cores->len && socket < 0; c++)
        if (cores->at[c].node == node)
            socket = cores->at[c].socket;
    for (size_t c = 0; c < cores->len; c++)
        if (cores->at[c].socket == socket)
            CPU_OR(out, out, &cores->at[c].cpus);
}

/* The usable cores of a node, in the order of `cores`; a new array of *n_out. */
static const struct cpu_core **node_cores_new(const struct cpu_cores *cores, int node,
                                              size_t *n_out)
{
    const struct cpu_core **out = xcalloc(cores->len + 1, sizeof(*out));
    *n_out = 0;
    for (size_t c = 0; c < cores->len; c++)
        if (cores->at[c].node == node && CPU_COUNT(&cores->at[c].cpus) > 0)
            out[(*n_out)++] = &cores->at[c];
    return out;
}

/*
 * Gives a sharer its cores. If they cannot be divided evenly, the first sharers get one core more.
 */
static int exclusive_cpus(const struct sharers *sharers, size_t sharer, cpu_set_t *out,
                          struct err *err)
{
    size_t n_cores, n_sharing, number = sharer_on_node(sharers, sharer, &n_sharing);
    cleanup_free const struct cpu_core **cores =
        node_cores_new(sharers->cores, sharers->nodes[sharer], &n_cores);
    size_t each = n_cores / n_sharing, n_larger = n_cores % n_sharing;
    if (each == 0)
        return fail(err, ERR_USAGE,
                    "exclusive: NUMA node %d has %zu core%s for %zu %ss, which need one each",
                    sharers->nodes[sharer], n_cores, plural(n_cores), n_sharing, sharers->what);
    size_t first = number * each + MIN(number, n_larger);
    size_t end = first + each + (number < n_larger);
    for (size_t c = first; c < end; c++)
        CPU_OR(out, out, &cores[c]->cpus);
    return 0;
}

struct cache {
    int number;
    cpu_set_t cpus;
};

/* Inserts a cache, so that caches with more CPUs come first. */
static void cache_put(struct cache *caches, size_t n_caches, const struct cache *cache)
{
    size_t at = n_caches;
    for (; at > 0 && CPU_COUNT(&caches[at - 1].cpus) < CPU_COUNT(&cache->cpus); at--)
        caches[at] = caches[at - 1];
    caches[at] = *cache;
}

static void core_complex_cpus(const struct sharers *sharers, size_t sharer, cpu_set_t *out)
{
    size_t n_cores, n_caches = 0, n_sharing, number = sharer_on_node(sharers, sharer, &n_sharing);
    cleanup_free const struct cpu_core **cores =
        node_cores_new(sharers->cores, sharers->nodes[sharer], &n_cores);
    cleanup_free struct cache *caches = xcalloc(n_cores + 1, sizeof(*caches));
    for (size_t c = 0; c < n_cores; c++) {
        struct cache cache = {.number = cores[c]->cache};
        bool is_known = false;
        for (size_t i = 0; i < n_caches; i++)
            is_known = is_known || caches[i].number == cache.number;
        for (size_t i = c; i < n_cores && !is_known; i++)
            if (cores[i]->cache == cache.number)
                CPU_OR(&cache.cpus, &cache.cpus, &cores[i]->cpus);
        if (!is_known)
            cache_put(caches, n_caches++, &cache);
    }
    ASSERT(n_caches > 0); /* a sharer is on a node with cores */
    *out = caches[number % n_caches].cpus;
}

static int sharer_cpus(const struct sharers *sharers, size_t sharer, enum numa_binding binding,
                       cpu_set_t *out, struct err *err)
{
    int node = sharers->nodes[sharer];
    cpu_set_t near;
    CPU_ZERO(&near);
    CPU_ZERO(out);
    node_cpus(sharers->cores, node, &near);
    if (node < 0)
        return fail(err, ERR_UNAVAILABLE, "the system does not say which NUMA node GPU %zu is near",
                    sharer);
    if (CPU_COUNT(&near) == 0)
        return fail(err, ERR_UNAVAILABLE,
                    "GPU %zu is near NUMA node %d, where this process may not run", sharer, node);
    if (binding == NUMA_BINDING_SOCKET)
        socket_cpus(sharers->cores, node, out);
    else if (binding == NUMA_BINDING_CORE_COMPLEX)
        core_complex_cpus(sharers, sharer, out);
    else if (binding == NUMA_BINDING_EXCLUSIVE)
        return exclusive_cpus(sharers, sharer, out, err);
    else
        *out = near;
    return 0;
}

/* ---- the shares of all ranks ---- */

static bool overlap(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;
    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

static size_t cores_count(const struct cpu_cores *cores, const cpu_set_t *cpus)
{
    size_t n = 0;
    for (size_t c = 0; c < cores->len; c++)
        n += overlap(&cores->at[c].cpus, cpus);
    return n;
}

static void threads_share(const struct cpu_cores *cores, uint32_t n_ranks, struct cpu_share *out)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    for (size_t c = 0; c < cores->len; c++)
        CPU_OR(&all, &all, &cores->at[c].cpus);
    for (uint32_t i = 0; i < n_ranks; i++) {
        bool is_bound = CPU_COUNT(&out[i].cpus) > 0;
        size_t n_sharing = is_bound ? 0 : n_ranks;
        for (uint32_t j = 0; j < n_ranks && is_bound; j++)
            n_sharing += overlap(&out[i].cpus, &out[j].cpus);
        size_t n_cores = cores_count(cores, is_bound ? &out[i].cpus : &all);
        out[i].threads = (unsigned)MAX(n_cores / n_sharing, (size_t)1);
    }
}

int cpu_shares_make(const struct cpu_wish *wish, const struct cpu_cores *cores,
                    const int *gpu_nodes, size_t n_gpus, struct cpu_share *out, struct err *err)
{
    bool binds = wish->binding != NUMA_BINDING_NONE;
    int rc = 0;
    for (uint32_t i = 0; i < wish->n_ranks; i++)
        out[i] = (struct cpu_share){.threads = 1};
    if (binds && n_gpus > 0 && n_gpus < wish->n_ranks)
        return fail(err, ERR_USAGE,
                    "--numa-binding: %u ranks need a GPU each, and there %s %zu here",
                    wish->n_ranks, n_gpus == 1 ? "is" : "are", n_gpus);
    struct sharers sharers = sharers_make(cores, gpu_nodes, n_gpus, wish->n_ranks);
    for (uint32_t i = 0; rc == 0 && binds && i < wish->n_ranks; i++)
        rc = sharer_cpus(&sharers, i, wish->binding, &out[i].cpus, err);
    free(sharers.nodes);
    if (rc)
        return wrap(err, rc, "--numa-binding");
    threads_share(cores, wish->n_ranks, out);
    return 0;
}

int cpu_shares_of(const struct cpu_wish *wish, const struct device_list *devices,
                  const size_t *positions, size_t n_positions, struct cpu_share **out,
                  struct err *err)
{
    struct cpu_cores cores;
    size_t n_gpus = 0;
    cleanup_free int *nodes = xcalloc(n_positions + 1, sizeof(*nodes));
    for (size_t i = 0; i < n_positions; i++)
        if (devices->at[positions[i]].kind != DEVICE_CPU)
            nodes[n_gpus++] = devices->at[positions[i]].numa_node;
    cpu_cores_list(&cores);
    *out = xcalloc(wish->n_ranks + 1, sizeof(**out));
    int rc = cpu_shares_make(wish, &cores, nodes, n_gpus, *out, err);
    cpu_cores_release(&cores);
    return rc;
}
