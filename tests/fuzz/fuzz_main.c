/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays the files named on the command line, then 20,000 small inputs made from a fixed seed, so
 * that the fuzz target is a test where there is no libFuzzer.
 */
#include "base/fs.h"
#include "base/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay_random(void)
{
    static const char alphabet[] = "\n\n\n\r\"\"\"\\,,\t []{}:19ae\xc3\xa9\xff\x00";
    struct rng rng = {4711};
    uint8_t data[400];
    for (int round = 0; round < 20000; round++) {
        size_t size = 1 + rng_below(&rng, round % 10 == 0 ? sizeof(data) : 40);
        data[0] = (uint8_t)rng_next(&rng);
        for (size_t i = 1; i < size; i++)
            data[i] = (uint8_t)alphabet[rng_below(&rng, sizeof(alphabet) - 1)];
        if (data[0] % 5 == 2 && size > 2) { /* an array more often than chance has it */
            data[1] = '[';
            data[size - 1] = ']';
        }
        LLVMFuzzerTestOneInput(data, size);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct buf file = BUF_INIT;
        struct err err = {0};
        if (file_read(argv[i], 64 << 20, &file, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        LLVMFuzzerTestOneInput((const uint8_t *)buf_text(&file), file.len);
        buf_release(&file);
    }
    replay_random();
    return 0;
}
