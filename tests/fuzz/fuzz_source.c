/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as input in any format: every way of reading agrees with the naive splitter, and what
 * is malformed is refused. The first byte chooses format and window, the rest is the file.
 *
 * Built with libFuzzer (-Dfuzz=true), or with fuzz_main.c, which replays files.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "fuzz.h"
#include "unit/data/agree.h"

int fuzz_target(const uint8_t *data, size_t size)
{
    static const size_t windows[] = {0, 64, 128, 4096};
    if (size == 0)
        return 0;
    struct str text = {(const char *)data + 1, size - 1};
    fuzz_cost_forgive_windows(text);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct err err = {0};
    if (fd < 0 || write_all(fd, text.at, text.len, &err))
        return 0;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    enum record_format format = (enum record_format)(FORMAT_LINES + data[0] % 5);
    agree_check(path, text, format, windows[data[0] / 5 % 4], data[0]);
    close(fd);
    return 0;
}
