/* SPDX-License-Identifier: Apache-2.0
 *
 * What the control groups of this process allow it (proc/cgroup.h).
 */
#include "base/parse.h"
#include "doctor/checks.h"

/* ---- memory ---- */

static const struct trouble
    less_memory =
        {FINDING_WARN,
         "The kernel kills a worker when its group exceeds the limit, even if `free` shows more; "
         "each worker reads its model through host memory of its own.",
         "Give the container or job more (docker run --memory, sbatch --mem), or run fewer "
         "workers (-g, --loading 1)"},
    little_left = {FINDING_WARN, "A worker that loads a model may be killed for memory.",
                   "See who has it (top, ps aux --sort -rss), or run fewer workers (--loading 1)"};

void memory_judge(const struct facts *facts, struct findings *out)
{
    const struct host_facts *host = &facts->host;
    uint64_t limit = facts->cgroup.mem_max_bytes;
    char limit_text[16], total[16], available[16];
    size_format(limit_text, limit);
    size_format(total, host->mem_total_bytes);
    size_format(available, host->mem_available_bytes);
    /* five per cent: what a machine keeps for itself */
    if (limit > 0 && limit < host->mem_total_bytes / 20 * 19)
        found(out, &less_memory, "", "limited to %s of the machine's %s", limit_text, total);
    else if (host->mem_available_bytes < host->mem_total_bytes / 20)
        found(out, &little_left, "", "%s of %s available", available, total);
    else
        found_ok(out, "%s of %s available, no lower limit", available, total);
}

/* ---- cores ---- */

enum {
    PIDS_FEW = 4096
};

static const struct trouble
    quota =
        {FINDING_WARN,
         "Programs see all cores and start a thread for each; the kernel then stops them all for "
         "most of each tenth of a second.",
         "Raise the quota (docker run --cpus, limits.cpu in Kubernetes), or set OMP_NUM_THREADS "
         "to the quota's share of a worker; -g cpu:N for N CPU slots"},
    few_pids = {FINDING_WARN,
                "Threads count as well: data loaders and BLAS fail with \"Resource temporarily "
                "unavailable\".",
                "docker run --pids-limit -1; TasksMax=infinity for a service"};

void cpus_judge(const struct facts *facts, struct findings *out)
{
    const struct host_facts *host = &facts->host;
    const struct cgroup_facts *cgroup = &facts->cgroup;
    size_t n_before = out->len;
    /* a tenth: quotas are often a little below a whole number on purpose */
    if (cgroup->cpus_max > 0 && cgroup->cpus_max < 0.9 * host->cpus_allowed)
        found(out, &quota, "", "a quota of %.1f cores, and %u are seen", cgroup->cpus_max,
              host->cpus_allowed);
    if (cgroup->pids_max > 0 && cgroup->pids_max < PIDS_FEW)
        found(out, &few_pids, "", "at most %lu processes and threads",
              (unsigned long)cgroup->pids_max);
    if (out->len > n_before)
        return;
    const char *rights = cgroup->is_ours ? "may be made" : "may not be made, and are not needed";
    if (host->cpus_allowed < host->cpus_online)
        found_ok(out, "%u of the machine's %u threads, by affinity; control groups %s",
                 host->cpus_allowed, host->cpus_online, rights);
    else
        found_ok(out, "%u thread%s, no quota; control groups %s", host->cpus_online,
                 host->cpus_online == 1 ? "" : "s", rights);
}
