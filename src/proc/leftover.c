/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/leftover.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "proc/proctree.h"

enum {
    ENVIRON_MAX_BYTES = 4 << 20
};

static bool environ_holds(pid_t pid, struct str entry)
{
    char path[64];
    cleanup_buf struct buf environ_text = BUF_INIT;
    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    if (file_read(path, ENVIRON_MAX_BYTES, &environ_text, NULL) != 0)
        return false;
    struct str rest = buf_str(&environ_text), one;
    while (str_next(&rest, '\0', &one))
        if (str_equal(one, entry))
            return true;
    return false;
}

size_t leftover_count(const char *entry, pid_t *one)
{
    struct proctree tree = PROCTREE_INIT;
    size_t count = 0;
    if (!proctree_read(&tree))
        return 0;
    for (size_t i = 0; i < tree.n; i++) {
        const struct proc_stat *stat = &tree.at[i];
        if (stat->pid == getpid() || proc_is_dead(stat) || !environ_holds(stat->pid, str_of(entry)))
            continue;
        *one = stat->pid;
        count++;
    }
    proctree_release(&tree);
    return count;
}
