/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/waits.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/proctree.h"

/* The file reads "NUMBER ARG0 …" for a thread blocked in a system call; read is 0 on x86-64 and 63
 * on arm64. */
static int reads_stdin(pid_t pid)
{
    char path[64], text[128] = "";
    snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
    cleanup_file FILE *file = fopen(path, "re");
    if (!file || !fgets(text, sizeof(text), file))
        return -1;
    return strncmp(text, "0 0x0 ", 6) == 0 || strncmp(text, "63 0x0 ", 7) == 0;
}

/* Adds the children of all its threads. */
static void children_add(pid_t pid, struct buf *pids)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        cleanup_free char *list = xasprintf("%s/%s/children", path, entry->d_name);
        cleanup_file FILE *file = entry->d_name[0] == '.' ? NULL : fopen(list, "re");
        for (pid_t child; file && fscanf(file, "%d", &child) == 1;)
            buf_add(pids, &child, sizeof(child));
    }
    closedir(folder);
}

/* By the lists of children: what it costs does not depend on who else is on the machine. */
static int below_reads_stdin(pid_t root)
{
    cleanup_buf struct buf pids = BUF_INIT;
    children_add(root, &pids);
    for (size_t done = 0; done < pids.len; done += sizeof(pid_t)) {
        pid_t pid;
        memcpy(&pid, pids.at + done, sizeof(pid));
        if (reads_stdin(pid) == 1)
            return 1;
        children_add(pid, &pids);
    }
    return 0;
}

int proc_reads_stdin(pid_t root)
{
    struct proctree tree = PROCTREE_INIT;
    int found = reads_stdin(root);
    if (found == 0 && path_exists("/proc/thread-self/children"))
        return below_reads_stdin(root);
    if (found != 0 || !proctree_read(&tree))
        return found;
    proctree_keep_below(&tree, root);
    for (size_t i = 0; i < tree.n && found == 0; i++)
        found = reads_stdin(tree.at[i].pid) == 1;
    proctree_release(&tree);
    return found;
}
