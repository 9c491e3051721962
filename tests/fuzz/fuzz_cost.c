/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_getFrameHeader */
#include <zstd.h>

#include "fuzz.h"

enum {
    /* Files are written and read, and sanitizers take their share; a million steps for each byte are beyond both. */
    NS_ALWAYS = 300 * 1000 * 1000,
    NS_PER_BYTE = 20 * 1000
};

static bool is_forgiven;

void fuzz_cost_forgive(void)
{
    is_forgiven = true;
}

void fuzz_cost_forgive_windows(struct str bytes)
{
    static const struct str magic = {"\x28\xB5\x2F\xFD", 4};
    ZSTD_frameHeader header;
    while (bytes.len > 0) {
        const char *at = memmem(bytes.at, bytes.len, magic.at, magic.len);
        if (!at)
            return;
        bytes.len -= (size_t)(at - bytes.at);
        bytes.at = at;
        if (ZSTD_getFrameHeader(&header, bytes.at, bytes.len) == 0 && header.windowSize > 64 << 20)
            fuzz_cost_forgive();
        bytes = (struct str){bytes.at + 1, bytes.len - 1};
    }
}

/* Of the processor, by all threads: a machine that others work on changes little of it. */
static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_too_costly(const uint8_t *data, size_t size, int64_t *spent)
{
    int64_t begin = now_ns();
    is_forgiven = false;
    fuzz_target(data, size);
    *spent = now_ns() - begin;
    return !is_forgiven && *spent > NS_ALWAYS + (int64_t)size * NS_PER_BYTE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t spent, again;
    if (is_too_costly(data, size, &spent) && is_too_costly(data, size, &again))
        BUG("%zu bytes take %ld ms, and again %ld", size, spent / 1000000, again / 1000000);
    return 0;
}
