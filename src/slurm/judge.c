/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/judge.h"

#include <stdlib.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/xalloc.h"
#include "slurm/node_names.h"
#include "slurm/sbatch_options.h"
#include "slurm/sbatch_request.h"

enum {
    NAMED_MAX = 8,        /* partitions that a sentence names */
    CANDIDATES_MAX = 4096 /* the most partitions of a cluster */
};

/* What each node of the job must have, at least. */
struct need {
    const struct env_list *options;
    struct sbatch_request asks;
    uint64_t n_nodes, n_cpus, mib;
    uint64_t n_gpus[SBATCH_GPUS_MAX]; /* one for each entry of asks.gpus */
    bool has_qos;                     /* a QOS may allow more than the partition does */
};

static uint64_t share_of(uint64_t count, uint64_t n_nodes)
{
    return n_nodes > 0 ? (count + n_nodes - 1) / n_nodes : MIN(count, (uint64_t)1);
}

static uint64_t gpus_a_node(const struct sbatch_gpus *gpus, uint64_t nodes_max, uint64_t n_tasks)
{
    switch (gpus->per) {
    case SBATCH_PER_JOB:
        return share_of(gpus->count, nodes_max);
    case SBATCH_PER_TASK:
        return gpus->count * n_tasks;
    case SBATCH_PER_NODE:
    case SBATCH_PER_SOCKET:
        break;
    }
    return gpus->count;
}

static void need_read(const struct env_list *options, struct need *out)
{
    *out = (struct need){.options = options, .has_qos = sbatch_value(options, "qos") != NULL};
    struct sbatch_request *asks = &out->asks;
    sbatch_request_read(options, asks);
    uint64_t n_tasks = MAX(MAX(asks->tasks_per_node, (uint64_t)1),
                           asks->nodes_max > 0 ? share_of(asks->n_tasks, asks->nodes_max) : 0);
    out->n_nodes = MAX(asks->nodes_min, (uint64_t)1);
    out->n_cpus =
        sbatch_value(options, "overcommit") ? 0 : n_tasks * MAX(asks->cpus_per_task, (uint64_t)1);
    out->mib = MAX(asks->node_mib, asks->cpu_mib * out->n_cpus);
    for (size_t i = 0; i < asks->n_gpus; i++)
        out->n_gpus[i] = gpus_a_node(&asks->gpus[i], asks->nodes_max, n_tasks);
}

static bool kind_fits(const struct cluster_kind *kind, const struct need *need)
{
    bool fits = kind->n_cpus >= need->n_cpus && kind->mib >= need->mib;
    for (size_t i = 0; fits && i < need->asks.n_gpus; i++)
        fits = cluster_kind_gpus(kind, need->asks.gpus[i].type) >= need->n_gpus[i];
    return fits;
}

/* What the nodes of a partition have, and how many of them are good enough for the job. */
struct supply {
    uint64_t n_nodes, n_fit, n_fit_up;
    uint64_t cpus_max, mib_max, gpus_max;
    uint64_t n_gpus;                     /* of all nodes together */
    uint64_t typed_max[SBATCH_GPUS_MAX]; /* the most on one node, for each entry of asks.gpus */
    uint64_t fit_gpus_min, fit_gpus_max; /* on one node that is good enough */
    struct str types;                    /* of the node with the most GPUs */
};

static void kind_count(const struct cluster_kind *kind, const struct need *need, struct supply *out)
{
    uint64_t n_gpus = cluster_kind_gpus(kind, STR(""));
    if (n_gpus > out->gpus_max)
        out->types = kind->gres;
    out->n_nodes += kind->n_nodes;
    out->n_gpus += n_gpus * kind->n_nodes;
    out->cpus_max = MAX(out->cpus_max, kind->n_cpus);
    out->mib_max = MAX(out->mib_max, kind->mib);
    out->gpus_max = MAX(out->gpus_max, n_gpus);
    for (size_t i = 0; i < need->asks.n_gpus; i++)
        out->typed_max[i] =
            MAX(out->typed_max[i], cluster_kind_gpus(kind, need->asks.gpus[i].type));
    if (!kind_fits(kind, need))
        return;
    out->fit_gpus_min = out->n_fit == 0 ? n_gpus : MIN(out->fit_gpus_min, n_gpus);
    out->fit_gpus_max = MAX(out->fit_gpus_max, n_gpus);
    out->n_fit += kind->n_nodes;
    out->n_fit_up += kind->is_up ? kind->n_nodes : 0;
}

static void supply_count(const struct cluster *cluster, struct str partition,
                         const struct need *need, struct supply *out)
{
    *out = (struct supply){.types = STR("")};
    for (size_t i = 0; i < cluster->n_kinds; i++)
        if (str_equal(cluster->kinds[i].partition, partition))
            kind_count(&cluster->kinds[i], need, out);
}

/* ---- sentences ---- */

static void error_add(struct judgement *out, const char *fmt, ...) PRINTF(2, 3);
static void error_add(struct judgement *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    env_list_add(&out->errors, xvasprintf(fmt, args));
    va_end(args);
}

static void warning_add(struct judgement *out, const char *fmt, ...) PRINTF(2, 3);
static void warning_add(struct judgement *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    env_list_add(&out->warnings, xvasprintf(fmt, args));
    va_end(args);
}

static void partition_list(const struct cluster *cluster, struct buf *out)
{
    for (size_t i = 0; i < MIN(cluster->n_partitions, (size_t)NAMED_MAX); i++)
        buf_addf(out, "%s%.*s", i > 0 ? ", " : "", (int)cluster->partitions[i].name.len,
                 cluster->partitions[i].name.at);
    if (cluster->n_partitions > NAMED_MAX)
        buf_add_text(out, ", …");
}

/* ---- of a partition ---- */

static bool list_has(struct str list, const char *name)
{
    struct str piece;
    while (list.len > 0 && str_next(&list, ',', &piece))
        if (piece.len == strlen(name) && strncasecmp(piece.at, name, piece.len) == 0)
            return true;
    return false;
}

static void access_judge(const struct cluster_partition *p, const struct need *need,
                         struct judgement *out)
{
    const char *account = sbatch_value(need->options, "account");
    int len = (int)p->name.len;
    if (list_has(p->state, "DRAIN") || list_has(p->state, "INACTIVE"))
        error_add(out, "partition %.*s takes no new jobs: its state is %.*s; sinfo shows others",
                  len, p->name.at, (int)p->state.len, p->state.at);
    else if (list_has(p->state, "DOWN"))
        warning_add(out, "partition %.*s is down: the job waits until it is up", len, p->name.at);
    if (!account)
        return;
    bool is_allowed =
        p->accounts.len == 0 || list_has(p->accounts, "ALL") || list_has(p->accounts, account);
    if (!is_allowed)
        error_add(out, "partition %.*s is not for --account=%s; it is for %.*s", len, p->name.at,
                  account, (int)p->accounts.len, p->accounts.at);
    else if (list_has(p->accounts_denied, account))
        error_add(out, "partition %.*s is not for --account=%s", len, p->name.at, account);
}

/* Writes seconds in the form that --time takes. */
static void time_format(char out[32], uint64_t seconds)
{
    snprintf(out, 32, "%lu-%02lu:%02lu:%02lu", seconds / 86400, seconds / 3600 % 24,
             seconds / 60 % 60, seconds % 60);
}

static void limits_judge(const struct cluster_partition *p, const struct need *need,
                         struct judgement *out)
{
    char limit[32];
    struct judgement found = {0};
    int len = (int)p->name.len;
    if (p->time_max_s > 0 && need->asks.time_s > p->time_max_s) {
        time_format(limit, p->time_max_s);
        error_add(&found,
                  "--time=%s is more than partition %.*s allows: give --time=%s; a map that is "
                  "not complete by then goes on in a further job",
                  sbatch_value(need->options, "time"), len, p->name.at, limit);
    }
    if (p->nodes_max > 0 && need->n_nodes > p->nodes_max)
        error_add(&found, "%lu nodes are more than partition %.*s allows a job: give --nodes=%lu",
                  need->n_nodes, len, p->name.at, p->nodes_max);
    for (size_t i = 0; i < found.errors.len; i++) {
        if (need->has_qos)
            warning_add(out, "%s (unless --qos=%s allows more)", found.errors.at[i],
                        sbatch_value(need->options, "qos"));
        else
            error_add(out, "%s", found.errors.at[i]);
    }
    judgement_release(&found);
}

/* ---- of its nodes ---- */

/* Adds "; there are h200 (8 a node)", with the types of the node that has the most GPUs, and "did you mean". */
static void types_add(struct str gres, const char *typed, struct buf *out)
{
    char *names[NAMED_MAX];
    size_t n = 0;
    struct str type;
    uint64_t count;
    while (n < NAMED_MAX && slurm_gres_next(&gres, STR("gpu"), &type, &count)) {
        buf_addf(out, "%s%.*s (%lu a node)", n > 0 ? ", " : "; there are ", (int)type.len,
                 type.len > 0 ? type.at : "", count);
        names[n++] = xstrndup(type.at, type.len);
    }
    const char *near = suggest(typed, (const char *const *)names, n);
    if (near)
        buf_addf(out, "; did you mean '%s'?", near);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
}

/* Adds the names of the partitions that have GPUs. */
static void partitions_with_gpus(const struct cluster *cluster, struct buf *out)
{
    struct str last = STR("");
    size_t n = 0;
    for (size_t i = 0; i < cluster->n_kinds && n < NAMED_MAX; i++) {
        const struct cluster_kind *kind = &cluster->kinds[i];
        if (cluster_kind_gpus(kind, STR("")) == 0 || str_equal(kind->partition, last))
            continue;
        last = kind->partition;
        buf_addf(out, "%s%.*s", n++ > 0 ? ", " : ": those with GPUs are ", (int)last.len, last.at);
    }
}

/* Adds an error if the job needs more GPUs on a node than any node has. False: a node has enough. */
static bool gpus_lack(const struct cluster *cluster, struct str partition, const struct need *need,
                      const struct supply *supply, struct judgement *out)
{
    cleanup_buf struct buf more = BUF_INIT;
    for (size_t i = 0; i < need->asks.n_gpus; i++) {
        const struct sbatch_gpus *gpus = &need->asks.gpus[i];
        cleanup_free char *type = xstrndup(gpus->type.at, gpus->type.len);
        if (supply->typed_max[i] >= need->n_gpus[i])
            continue;
        if (supply->gpus_max == 0) {
            partitions_with_gpus(cluster, &more);
            error_add(out, "no node of partition %.*s has GPUs%s", (int)partition.len, partition.at,
                      buf_text(&more));
        } else if (supply->typed_max[i] == 0) {
            types_add(supply->types, type, &more);
            error_add(out, "no node of partition %.*s has GPUs of type '%s'%s", (int)partition.len,
                      partition.at, type, buf_text(&more));
        } else {
            error_add(out,
                      "--%s: %lu GPUs of one node are asked for, and no node of partition %.*s has "
                      "more than %lu%s%s: give --nodes=%lu --gpus-per-node=%s%s%lu",
                      gpus->option, need->n_gpus[i], (int)partition.len, partition.at,
                      supply->typed_max[i], *type ? " of type " : "", type,
                      share_of(need->n_gpus[i] * need->n_nodes, supply->typed_max[i]), type,
                      *type ? ":" : "", supply->typed_max[i]);
        }
        return true;
    }
    return false;
}

static bool cores_lack(struct str partition, const struct need *need, const struct supply *supply,
                       struct judgement *out)
{
    char asked[16], most[16];
    if (need->n_cpus > supply->cpus_max) {
        error_add(out,
                  "%lu CPUs of one node are asked for, and no node of partition %.*s has more than "
                  "%lu: give less to --cpus-per-task or to the tasks of a node",
                  need->n_cpus, (int)partition.len, partition.at, supply->cpus_max);
        return true;
    }
    if (need->mib <= supply->mib_max)
        return false;
    size_format(asked, need->mib << 20);
    size_format(most, supply->mib_max << 20);
    error_add(out,
              "%s of memory on one node are asked for, and no node of partition %.*s has more than "
              "%s: give --mem=0 for all that a node has",
              asked, (int)partition.len, partition.at, most);
    return true;
}

static void nodes_judge(const struct cluster *cluster, struct str partition,
                        const struct need *need, struct judgement *out)
{
    struct supply supply;
    int len = (int)partition.len;
    supply_count(cluster, partition, need, &supply);
    if (supply.n_nodes == 0 || gpus_lack(cluster, partition, need, &supply, out) ||
        cores_lack(partition, need, &supply, out))
        return;
    if (supply.n_nodes < need->n_nodes)
        error_add(out, "%lu nodes are asked for, and partition %.*s has %lu: give --nodes=%lu",
                  need->n_nodes, len, partition.at, supply.n_nodes, supply.n_nodes);
    else if (supply.n_fit < need->n_nodes)
        error_add(out,
                  "%lu node%s with the GPUs, CPUs and memory that are asked for: partition %.*s "
                  "has %lu such of %lu (sinfo -N -o '%%N %%c %%m %%G')",
                  need->n_nodes, plural(need->n_nodes), len, partition.at, supply.n_fit,
                  supply.n_nodes);
    else if (supply.n_fit_up < need->n_nodes)
        warning_add(out,
                    "%lu of the %lu nodes of partition %.*s that can run the job are up, and it "
                    "needs %lu: it waits for the others (sinfo -R says what they lack)",
                    supply.n_fit_up, supply.n_fit, len, partition.at, need->n_nodes);
    for (size_t i = 0; i < need->asks.n_gpus; i++)
        if (need->asks.gpus[i].per == SBATCH_PER_JOB && need->asks.gpus[i].count > supply.n_gpus)
            error_add(out, "--gpus: %lu are asked for, and partition %.*s has %lu",
                      need->asks.gpus[i].count, len, partition.at, supply.n_gpus);
}

/* ---- whatever the partition is ---- */

static void gpu_types_judge(const struct need *need, struct judgement *out)
{
    const struct sbatch_gpus *typed = NULL, *untyped = NULL;
    for (size_t i = 0; i < need->asks.n_gpus; i++)
        *(need->asks.gpus[i].type.len > 0 ? &typed : &untyped) = &need->asks.gpus[i];
    if (typed && untyped)
        error_add(out,
                  "GPUs are asked for with a type (--%s, %.*s) and without (--%s), which Slurm "
                  "refuses: give a type to all or to none",
                  typed->option, (int)typed->type.len, typed->type.at, untyped->option);
}

static void array_judge(const struct cluster *cluster, const struct need *need,
                        struct judgement *out)
{
    if (need->asks.n_array > 0 && cluster->array_max > 0 &&
        need->asks.array_last >= cluster->array_max)
        error_add(out,
                  "--array: the highest number is %lu, and this cluster allows %lu (MaxArraySize): "
                  "give more of the work to each task",
                  need->asks.array_last, cluster->array_max - 1);
}

static void node_list_judge(const struct need *need, struct judgement *out)
{
    const char *list = sbatch_value(need->options, "nodelist");
    struct env_list names = {0};
    struct err err = {0};
    if (!list || strchr(list, '/') || need->asks.nodes_max == 0) /* a file of names */
        return;
    if (slurm_node_names(list, &names, &err) == 0 && names.len > need->asks.nodes_max)
        warning_add(out,
                    "--nodelist names %zu nodes, and the job is one of %lu: Slurm leaves out the "
                    "others; give --nodes=%zu for all of them, or --nodelist=%s",
                    names.len, need->asks.nodes_max, names.len, names.at[0]);
    env_list_release(&names);
}

/* ---- which partition ---- */

static void partition_unknown(const struct cluster *cluster, struct str name, struct judgement *out)
{
    const char *near = NULL;
    cleanup_free char *typed = xstrndup(name.at, name.len);
    cleanup_free const char **names = xcalloc(cluster->n_partitions + 1, sizeof(*names));
    cleanup_buf struct buf list = BUF_INIT;
    struct env_list owned = {0};
    for (size_t i = 0; i < cluster->n_partitions; i++) {
        env_list_add(&owned,
                     xstrndup(cluster->partitions[i].name.at, cluster->partitions[i].name.len));
        names[i] = owned.at[i];
    }
    near = suggest(typed, names, cluster->n_partitions);
    partition_list(cluster, &list);
    error_add(out, "there is no partition '%s'%s%s%s; there are %s", typed,
              near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", buf_text(&list));
    env_list_release(&owned);
}

/*
 * Finds the partitions that the job may run in: those that the options name. Without a name, the default partition,
 * or all partitions if a plugin of the site may choose. Returns how many; 0: none, or not known; `out` may then have
 * the reason.
 */
static size_t candidates_find(const struct cluster *cluster, const struct need *need,
                              const struct cluster_partition **found, struct judgement *out)
{
    const char *named = sbatch_value(need->options, "partition");
    struct str list = str_of(named ? named : ""), name;
    size_t n = 0;
    if (cluster->n_partitions == 0) /* not known */
        return 0;
    while (list.len > 0 && n < CANDIDATES_MAX && str_next(&list, ',', &name)) {
        const struct cluster_partition *partition = cluster_partition_find(cluster, name);
        if (!partition)
            partition_unknown(cluster, name, out);
        else
            found[n++] = partition;
    }
    for (size_t i = 0; !named && i < cluster->n_partitions; i++)
        if (cluster->may_change_jobs || cluster->partitions[i].is_default)
            found[n++] = &cluster->partitions[i];
    if (!named && n == 0) {
        cleanup_buf struct buf names = BUF_INIT;
        partition_list(cluster, &names);
        error_add(out, "the cluster has no default partition: give --partition=…; there are %s",
                  buf_text(&names));
    }
    return out->errors.len == 0 ? n : 0;
}

static void partition_judge(const struct cluster *cluster, const struct cluster_partition *p,
                            const struct need *need, struct judgement *out)
{
    access_judge(p, need, out);
    limits_judge(p, need, out);
    nodes_judge(cluster, p->name, need, out);
}

static void list_add(const struct env_list *from, struct env_list *to)
{
    for (size_t i = 0; i < from->len; i++)
        env_list_add(to, xstrdup(from->at[i]));
}

/*
 * The judgement of the first partition that can run the job counts. If none can, the errors of the first partition
 * count.
 */
static void candidates_judge(const struct cluster *cluster, const struct need *need,
                             struct judgement *out)
{
    cleanup_free const struct cluster_partition **found = xcalloc(CANDIDATES_MAX, sizeof(*found));
    size_t n = candidates_find(cluster, need, found, out);
    struct judgement first = {0};
    for (size_t i = 0; i < n; i++) {
        struct judgement one = {0};
        partition_judge(cluster, found[i], need, &one);
        bool is_good = one.errors.len == 0;
        if (i == 0 || is_good) {
            judgement_release(&first);
            first = one;
        } else {
            judgement_release(&one);
        }
        if (is_good)
            break;
    }
    list_add(&first.errors, &out->errors);
    if (first.errors.len == 0) /* a job that cannot run needs no warning about waiting */
        list_add(&first.warnings, &out->warnings);
    judgement_release(&first);
}

void cluster_judge(const struct cluster *cluster, const struct env_list *options,
                   struct judgement *out)
{
    struct need need;
    *out = (struct judgement){0};
    need_read(options, &need);
    gpu_types_judge(&need, out);
    array_judge(cluster, &need, out);
    candidates_judge(cluster, &need, out);
    node_list_judge(&need, out);
}

void judgement_release(struct judgement *judgement)
{
    env_list_release(&judgement->errors);
    env_list_release(&judgement->warnings);
    *judgement = (struct judgement){0};
}

/* ---- what was not said ---- */

/*
 * Does each node of the partition that can run the job have exactly so many GPUs? Adds the number of these nodes to
 * *n_fit.
 */
static bool takes_whole_nodes(const struct cluster *cluster, const struct cluster_partition *p,
                              const struct need *need, uint64_t n_gpus, uint64_t *n_fit)
{
    struct supply supply;
    supply_count(cluster, p->name, need, &supply);
    *n_fit += supply.n_fit;
    return !p->is_exclusive &&
           (supply.n_fit == 0 || (supply.fit_gpus_min == n_gpus && supply.fit_gpus_max == n_gpus));
}

/* How many GPUs the job asks for on each node, if that is all that the node has, whichever node Slurm takes. Else 0. */
static uint64_t whole_node_gpus(const struct cluster *cluster, const struct need *need)
{
    cleanup_free const struct cluster_partition **found = xcalloc(CANDIDATES_MAX, sizeof(*found));
    struct judgement unused = {0};
    size_t n = candidates_find(cluster, need, found, &unused);
    uint64_t n_gpus = 0, n_fit = 0;
    judgement_release(&unused);
    for (size_t i = 0; i < need->asks.n_gpus; i++)
        n_gpus = MAX(n_gpus, need->n_gpus[i]);
    for (size_t i = 0; i < n; i++)
        if (!takes_whole_nodes(cluster, found[i], need, n_gpus, &n_fit))
            return 0;
    return n_fit > 0 ? n_gpus : 0;
}

void cluster_complete(const struct cluster *cluster, struct env_list *options,
                      struct env_list *told)
{
    struct need need;
    if (!sbatch_value(options, "nodes") && !sbatch_value(options, "nodefile"))
        env_list_add(options, xstrdup("--nodes=1")); /* else Slurm may spread the GPUs */
    if (sbatch_value(options, "exclusive") || sbatch_value(options, "oversubscribe"))
        return;
    need_read(options, &need);
    uint64_t n_gpus = whole_node_gpus(cluster, &need);
    if (n_gpus < 2)
        return;
    env_list_add(options, xstrdup("--exclusive"));
    env_list_add(told, xasprintf("--exclusive: %lu GPUs are all that a node has, so the job gets "
                                 "whole nodes (--oversubscribe if it shall not)",
                                 n_gpus));
}
