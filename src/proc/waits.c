/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/waits.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
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

int proc_reads_stdin(pid_t root)
{
    struct proctree tree = PROCTREE_INIT;
    int found = reads_stdin(root);
    if (found != 0 || !proctree_read(&tree))
        return found;
    proctree_keep_below(&tree, root);
    for (size_t i = 0; i < tree.n && found == 0; i++)
        found = reads_stdin(tree.at[i].pid) == 1;
    proctree_release(&tree);
    return found;
}
