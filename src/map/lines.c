/* SPDX-License-Identifier: Apache-2.0 */
#include "map/lines.h"

#include <errno.h>
#include <unistd.h>

enum {
    BLOCK = 64,
    READ_BYTES = 65536
};

/* Compilers turn this form into vector compares: 64 bytes in a few instructions. */
static unsigned newlines_in_block(const char *at)
{
    unsigned char count = 0;
    for (int i = 0; i < BLOCK; i++)
        count = (unsigned char)(count + (at[i] == '\n'));
    return count;
}

size_t lines_skip(struct str bytes, uint64_t want, uint64_t *found)
{
    size_t at = 0;
    *found = 0;
    while (at + BLOCK <= bytes.len) {
        unsigned here = newlines_in_block(bytes.at + at);
        if (*found + here >= want)
            break;
        *found += here;
        at += BLOCK;
    }
    size_t last = at; /* the end of the last line; found below if no newline follows */
    while (*found < want && at < bytes.len) {
        const char *end = memchr(bytes.at + at, '\n', bytes.len - at);
        if (!end)
            break;
        ++*found;
        at = last = (size_t)(end + 1 - bytes.at);
    }
    if (*found > 0 && last > 0 && bytes.at[last - 1] != '\n') {
        const char *end = memrchr(bytes.at, '\n', last);
        last = end ? (size_t)(end + 1 - bytes.at) : 0;
    }
    return *found > 0 ? last : 0;
}

int part_lines_skip(int fd, uint64_t offset, uint64_t bytes, uint64_t n_lines, uint64_t *out,
                    struct err *err)
{
    static char block[READ_BYTES];
    uint64_t done = 0;
    while (n_lines > 0 && done < bytes) {
        ssize_t got = pread(fd, block, MIN(sizeof(block), bytes - done), (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, "read back results");
        if (got == 0)
            return fail(err, ERR_DATA, "fewer results are there than were written");
        uint64_t found;
        size_t used = lines_skip((struct str){block, (size_t)got}, n_lines, &found);
        n_lines -= found;
        done += n_lines > 0 ? (uint64_t)got : used;
    }
    *out = done;
    return n_lines > 0 ? fail(err, ERR_DATA, "fewer results than were counted") : 0;
}
