/* SPDX-License-Identifier: Apache-2.0
 *
 * What a far machine says before the agent starts: any bytes, in any pieces, mean the same, and what is kept of them
 * stays bounded.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "node/bootstrap.h"
#include "node/wire.h"

/* Feeds the bytes in pieces, and notes what was understood. */
static void play(struct str bytes, size_t piece, struct buf *said)
{
    struct bootstrap bootstrap = {0};
    unsigned n_needs = 0;
    while (!bootstrap.is_over && bytes.len > 0) {
        struct str part = {bytes.at, MIN(piece, bytes.len)};
        bytes = (struct str){bytes.at + part.len, bytes.len - part.len};
        bootstrap_feed(&bootstrap, part);
        enum bootstrap_result result = BOOTSTRAP_NEED;
        while (result == BOOTSTRAP_NEED) {
            struct bootstrap_line line = {0};
            struct err err = {0};
            result = bootstrap_next(&bootstrap, &line, &err);
            ASSERT(bootstrap.is_over == (result == BOOTSTRAP_GO || result == BOOTSTRAP_FAILED));
            ASSERT((err.code != 0) == (result == BOOTSTRAP_FAILED));
            if (result == BOOTSTRAP_MORE)
                break;
            n_needs += result == BOOTSTRAP_NEED;
            buf_addf(said, "%d %s %d %d %s %s\n", (int)result, line.machine, line.has_gzip,
                     line.was_installed, line.folder, err.text);
        }
        ASSERT(n_needs <= BOOTSTRAP_NEEDS_MAX && bootstrap.noise.len <= WIRE_NOISE_KEPT_BYTES);
        ASSERT(bootstrap.is_over ||
               bootstrap.in.len <= BOOTSTRAP_LINE_MAX_BYTES + sizeof(BOOTSTRAP_MARK));
    }
    bootstrap_release(&bootstrap);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    cleanup_buf struct buf whole = BUF_INIT, parts = BUF_INIT;
    size_t piece = 1 + fuzz_choice(&input);
    play(input, BOOTSTRAP_LINE_MAX_BYTES, &whole);
    play(input, piece, &parts);
    ASSERT(str_equal(buf_str(&whole), buf_str(&parts)));
    return 0;
}
