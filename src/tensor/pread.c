/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/pread.h"

#include <errno.h>
#include <unistd.h>

int pread_exact(int fd, void *at, size_t len, uint64_t offset, const char *path, struct err *err)
{
    size_t done = 0;
    while (done < len) {
        ssize_t got = pread(fd, (char *)at + done, len - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, "read %s", path);
        if (got == 0)
            return fail(err, ERR_DATA, "%s: ends at byte %lu, while it is read", path,
                        offset + done);
        done += (size_t)got;
    }
    return 0;
}
