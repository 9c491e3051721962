/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "proc/cgroup.h"

enum {
    LOOK_EVERY_MS = 15000,
    TEXT_MAX_BYTES = 1 << 20
};

static char *sys_path(const char *below)
{
    const char *root = getenv("MUSTER_SYSFS");
    return xasprintf("%s/fs/cgroup%s", root && *root ? root : "/sys", below);
}

/* Reads NUMBER from the line "NAME NUMBER" of the file. */
static bool counter_read(const char *path, struct str name, uint64_t *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read(path, TEXT_MAX_BYTES, &text, NULL) != 0)
        return false;
    struct str rest = buf_str(&text), line;
    while (str_next(&rest, '\n', &line))
        if (str_starts_with(line, name) && line.len > name.len && line.at[name.len] == ' ')
            return u64_parse((struct str){line.at + name.len + 1, line.len - name.len - 1}, 0,
                             UINT64_MAX, out, NULL) == 0;
    return false;
}

/*
 * cgroup v2 counts the kills in all descendant groups as well, v1 only those in the group itself.
 */
static const struct version {
    const char *mount, *controllers, *kills;
} versions[] = {
    {"", "", "memory.events"},
    {"/memory", "memory", "memory.oom_control"},
};

/*
 * True if this hierarchy has the controller. `names` is "cpu,memory" of "4:cpu,memory:/path", and
 * empty for cgroup v2.
 */
static bool has_controller(struct str names, const char *wanted)
{
    struct str name;
    if (names.len == 0 || *wanted == '\0')
        return names.len == 0 && *wanted == '\0';
    while (str_next(&names, ',', &name))
        if (str_equal(name, str_of(wanted)))
            return true;
    return false;
}

/* In a container, the path may be the host's, while the group itself is mounted at the root. */
static char *group_folder(const struct version *version, struct str path)
{
    cleanup_free char *below = xasprintf("%s%.*s", version->mount, (int)path.len, path.at);
    cleanup_free char *folder = sys_path(below);
    return folder_exists(folder) ? steal_ptr(&folder) : sys_path(version->mount);
}

/* The path of the file in which our own memory cgroup counts kills; free() it. NULL: there is none, as in the root
 * group. */
static char *own_kills_file(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read("/proc/self/cgroup", TEXT_MAX_BYTES, &text, NULL) != 0)
        return NULL;
    for (size_t v = 0; v < countof(versions); v++) {
        struct str rest = buf_str(&text), line, number, names;
        while (str_next(&rest, '\n', &line)) {
            if (!str_next(&line, ':', &number) || !str_next(&line, ':', &names) ||
                !has_controller(names, versions[v].controllers))
                continue;
            cleanup_free char *folder = group_folder(&versions[v], line);
            cleanup_free char *file = path_join(folder, versions[v].kills);
            if (path_exists(file))
                return steal_ptr(&file);
        }
    }
    return NULL;
}

struct oom_counts oom_counts_read(void)
{
    struct oom_counts counts = {0};
    cleanup_free char *own = own_kills_file();
    counts.knows_own = own && counter_read(own, STR("oom_kill"), &counts.own);
    if (!counter_read("/proc/vmstat", STR("oom_kill"), &counts.host))
        counts.host = counts.own;
    return counts;
}

uint64_t oom_memory_bytes(void)
{
    uint64_t bytes = (uint64_t)MAX(sysconf(_SC_PHYS_PAGES), 0L) * (uint64_t)sysconf(_SC_PAGESIZE);
    cleanup_free char *mounts = sys_path("");
    struct cgroup_facts limits = {0};
    cgroup_gather("/proc/self/cgroup", mounts, &limits);
    return limits.mem_max_bytes > 0 ? MIN(bytes, limits.mem_max_bytes) : bytes;
}

void oom_watch_begin(struct oom_watch *watch, uint64_t now_ms)
{
    watch->before = watch->recent = oom_counts_read();
    watch->recent_ms = now_ms;
}

void oom_watch_look(struct oom_watch *watch, uint64_t now_ms)
{
    if (now_ms - watch->recent_ms < LOOK_EVERY_MS)
        return;
    watch->before = watch->recent;
    watch->recent = oom_counts_read();
    watch->recent_ms = now_ms;
}

struct oom_counts oom_watch_kills(const struct oom_watch *watch)
{
    struct oom_counts now = oom_counts_read(), before = watch->before;
    return (struct oom_counts){.knows_own = now.knows_own && before.knows_own,
                               .own = now.own - MIN(before.own, now.own),
                               .host = now.host - MIN(before.host, now.host)};
}

void oom_watch_explained(struct oom_watch *watch)
{
    watch->before.own++;
    watch->before.host++;
    watch->recent.own += watch->recent.own < watch->before.own;
    watch->recent.host += watch->recent.host < watch->before.host;
}
