/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpulist.h"

#include "base/idlist.h"

bool cpulist_parse(struct str text, cpu_set_t *out)
{
    uint32_t ids[CPU_SETSIZE];
    size_t n_ids = 0;
    CPU_ZERO(out);
    text = str_trim(text);
    if (text.len > 0 && idlist_parse(text, CPU_SETSIZE - 1, ids, CPU_SETSIZE, &n_ids, NULL) != 0)
        return false;
    for (size_t i = 0; i < n_ids; i++)
        CPU_SET(ids[i], out);
    return true;
}

void cpulist_format(struct buf *out, const cpu_set_t *cpus)
{
    uint32_t ids[CPU_SETSIZE];
    size_t n_ids = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, cpus))
            ids[n_ids++] = cpu;
    idlist_format(out, ids, n_ids);
}
