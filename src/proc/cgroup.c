/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/cgroup.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"

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

/* Reads each group from <mount>/<path> up to the mount itself. */
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

/*
 * Reads one hierarchy. A line is "4:memory:/a/b", "1:cpu,cpuacct:/", or "0::/user.slice/…" for
 * version 2.
 */
static void line_read(const char *mounts, struct str line, struct cgroup_facts *out)
{
    struct str number, names, name;
    if (!str_next(&line, ':', &number) || !str_next(&line, ':', &names))
        return;
    cleanup_free char *path = xstrndup(line.at, line.len);
    if (names.len == 0) {
        static const char *const unified[] = {"", "/unified"};
        for (size_t i = 0; i < countof(unified); i++) {
            cleanup_free char *mount = xasprintf("%s%s", mounts, unified[i]);
            cleanup_free char *control = xasprintf("%s%s/cgroup.procs", mount, path);
            hierarchy_read(mount, path, out);
            out->is_ours |= access(control, W_OK) == 0;
        }
        return;
    }
    while (names.len > 0 && str_next(&names, ',', &name)) {
        cleanup_free char *mount = xasprintf("%s/%.*s", mounts, (int)name.len, name.at);
        hierarchy_read(mount, path, out);
    }
}

void cgroup_gather(const char *groups, const char *mounts, struct cgroup_facts *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read(groups, FILE_MAX_BYTES, &text, NULL) != 0)
        return;
    struct str rest = str_trim(buf_str(&text)), line;
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        line_read(mounts, line, out);
}
