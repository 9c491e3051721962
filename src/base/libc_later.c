/* SPDX-License-Identifier: Apache-2.0 */
#include "base/libc_later.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Without setlocale(), strerror() does not translate either. */
const char *strerrordesc_np(int sys)
{
    return strerror(sys);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

/* musl has these. */
__attribute__((weak)) ssize_t getrandom(void *at, size_t bytes, unsigned flags)
{
    return syscall(SYS_getrandom, at, bytes, flags);
}

__attribute__((weak)) int memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}
