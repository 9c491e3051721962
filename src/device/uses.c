/* SPDX-License-Identifier: Apache-2.0
 *
 * Several jobs may share a device; the memory of a job is that of its processes. All processes of a
 * job stay below its guard, whatever session or group they make, so the guards above a process tell
 * which job it belongs to. A process has several such guards if a muster is itself a job of another
 * one.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "device/driver_probe.h"
#include "device/sysfs.h"

enum {
    DEPTH_MAX = 64
};
#define GUARD_COMM "muster-guard"

/*
 * The file is "PID (COMM) STATE PARENT …", and COMM may have any characters. 0: the process is
 * gone.
 */
static pid_t parent_read(pid_t pid, bool *is_guard)
{
    char path[64];
    uint64_t parent = 0;
    cleanup_buf struct buf text = BUF_INIT;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!small_file(path, &text))
        return 0;
    const char *begin = memchr(text.at, '(', text.len), *end = memrchr(text.at, ')', text.len);
    if (!begin || !end || end - text.at + 4 > (ptrdiff_t)text.len)
        return 0;
    *is_guard = str_equal((struct str){begin + 1, (size_t)(end - begin - 1)}, STR(GUARD_COMM));
    struct str rest = {end + 4, text.len - (size_t)(end + 4 - text.at)}, word;
    return str_next(&rest, ' ', &word) && u64_parse(word, 0, INT32_MAX, &parent, NULL) == 0
               ? (pid_t)parent
               : 0;
}

static void use_add(struct device_sample *out, pid_t guard_pid, uint64_t mem_bytes)
{
    size_t i = 0;
    while (i < out->n_uses && out->uses[i].guard_pid != guard_pid)
        i++;
    if (i == SAMPLE_USES_MAX)
        return;
    struct device_use *use = &out->uses[i];
    if (i == out->n_uses)
        out->uses[out->n_uses++] = (struct device_use){guard_pid, mem_bytes};
    else
        use->mem_bytes = use->mem_bytes > 0 && mem_bytes > 0 ? use->mem_bytes + mem_bytes : 0;
}

void device_uses_find(const struct device *device, struct device_sample *out)
{
    for (size_t i = 0; i < device->n_processes; i++) {
        pid_t pid = device->processes[i].pid;
        for (int depth = 0; pid > 1 && depth < DEPTH_MAX; depth++) {
            bool is_guard = false;
            pid_t parent = parent_read(pid, &is_guard);
            if (is_guard)
                use_add(out, pid, device->processes[i].mem_bytes);
            pid = parent;
        }
    }
}
