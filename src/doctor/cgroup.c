/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits that control groups, version 1 and 2, set for this process. The limits of the groups
 * above hold as well, so each group is read, from our own up to the mount. In a container the path
 * may name groups that cannot be seen; they are skipped.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "doctor/checks.h"

enum {
    FILE_MAX_BYTES = 1 << 16
};

/* Version 1 writes "no limit" as the largest number of pages. */
#define NO_LIMIT (1ull << 60)

/* Up to two numbers from a file of a group. "max", or any other text, is 0: no limit. */
struct pair {
    uint64_t first, second;
};

static bool pair_read(const char *group, const char *name, struct pair *out)
{
    cleanup_free char *path = path_join(group, name);
    cleanup_buf struct buf text = BUF_INIT;
    *out = (struct pair){0};
    if (file_read(path, FILE_MAX_BYTES, &text, NULL) != 0)
        return false;
    struct str rest = str_trim(buf_str(&text)), word;
    uint64_t *numbers[] = {&out->first, &out->second};
    for (size_t i = 0; i < countof(numbers) && str_next(&rest, ' ', &word); i++)
        if (u64_parse(word, 0, UINT64_MAX, numbers[i], NULL) != 0)
            *numbers[i] = 0;
    return true;
}

static void least_of(uint64_t *least, uint64_t value)
{
    if (value > 0 && value < NO_LIMIT && (*least == 0 || value < *least))
        *least = value;
}

static void quota_take(struct cgroup_facts *out, uint64_t quota, uint64_t period)
{
    double cpus = period > 0 ? (double)quota / (double)period : 0;
    if (cpus > 0 && (out->cpus_max <= 0 || cpus < out->cpus_max))
        out->cpus_max = cpus;
}

/* Reads the files of both versions; a file that is not there sets no limit. */
static void group_read(const char *group, struct cgroup_facts *out)
{
    struct pair pair, period;
    if (pair_read(group, "memory.max", &pair))
        least_of(&out->mem_max_bytes, pair.first);
    if (pair_read(group, "memory.limit_in_bytes", &pair))
        least_of(&out->mem_max_bytes, pair.first);
    if (pair_read(group, "pids.max", &pair))
        least_of(&out->pids_max, pair.first);
    if (pair_read(group, "cpu.max", &pair))
        quota_take(out, pair.first, pair.second);
    if (pair_read(group, "cpu.cfs_quota_us", &pair) &&
        pair_read(group, "cpu.cfs_period_us", &period))
        quota_take(out, pair.first, period.first);
}

/* From root/sys/fs/cgroup/<hierarchy>/<path> upwards to the mount itself. */
static void hierarchy_read(const char *mount, const char *path, struct cgroup_facts *out)
{
    cleanup_free char *below = xstrdup(path);
    for (;;) {
        cleanup_free char *group = xasprintf("%s%s", mount, below);
        char *slash = strrchr(below, '/');
        group_read(group, out);
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* "4:memory:/a/b", "1:cpu,cpuacct:/", "0::/user.slice/…": one of the hierarchies. */
static void line_read(const char *root, struct str line, struct cgroup_facts *out)
{
    struct str number, names, name;
    if (!str_next(&line, ':', &number) || !str_next(&line, ':', &names))
        return;
    cleanup_free char *path = xstrndup(line.at, line.len);
    if (names.len == 0) {
        static const char *const mounts[] = {"", "/unified"};
        for (size_t i = 0; i < countof(mounts); i++) {
            cleanup_free char *mount = xasprintf("%s/sys/fs/cgroup%s", root, mounts[i]);
            cleanup_free char *control = xasprintf("%s%s/cgroup.procs", mount, path);
            hierarchy_read(mount, path, out);
            out->is_ours |= access(control, W_OK) == 0;
        }
        return;
    }
    while (names.len > 0 && str_next(&names, ',', &name)) {
        cleanup_free char *mount = xasprintf("%s/sys/fs/cgroup/%.*s", root, (int)name.len, name.at);
        hierarchy_read(mount, path, out);
    }
}

void cgroup_gather(const char *root, struct cgroup_facts *out)
{
    cleanup_free char *path = xasprintf("%s/proc/self/cgroup", root);
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read(path, FILE_MAX_BYTES, &text, NULL) != 0)
        return;
    struct str rest = str_trim(buf_str(&text)), line;
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        line_read(root, line, out);
}

/* ---- memory ---- */

static const struct trouble
    less_memory =
        {FINDING_WARN,
         "The kernel kills a worker when its group exceeds that, though free shows more; a "
         "model is read through host memory, each worker's its own.",
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
