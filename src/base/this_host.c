/* SPDX-License-Identifier: Apache-2.0 */
#include "base/this_host.h"

#include <sched.h>
#include <unistd.h>

#include "base/attr.h"

void host_name(char out[HOST_NAME_BYTES])
{
    if (gethostname(out, HOST_NAME_BYTES) != 0)
        out[0] = '\0';
    out[HOST_NAME_BYTES - 1] = '\0';
}

uint32_t processors_allowed(void)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        return (uint32_t)CPU_COUNT(&allowed);
    return (uint32_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
}
