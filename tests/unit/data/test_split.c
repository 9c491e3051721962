/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/rng.h"
#include "data/split_isa.h"

enum {
    N_BLOCKS = 100
};

static bool tally_equal(const struct split_tally *a, const struct split_tally *b)
{
    return a->n_ends == b->n_ends && a->n_newlines == b->n_newlines && a->n_seen == b->n_seen &&
           a->after_end == b->after_end && a->n_bytes == b->n_bytes && a->has_cr == b->has_cr;
}

static bool split_equal(const struct split *a, const struct split *b)
{
    return a->inside == b->inside && a->has_content == b->has_content &&
           a->is_escaped == b->is_escaped && a->depth == b->depth && a->is_first == b->is_first &&
           a->flaws == b->flaws;
}

/* Every kernel that this processor can run gives what the plain loops give. */
static void all_kernels_agree(void **state)
{
    (void)state;
    static const char alphabet[] = "\n\n\r \t\"\"\\\\,,[]{}ab";
    struct rng rng = {99};
    unsigned char text[N_BLOCKS * SPLIT_BLOCK_BYTES];
    for (int round = 0; round < 3000; round++) {
        for (size_t i = 0; i < sizeof(text); i++)
            text[i] = (unsigned char)alphabet[rng_below(&rng, sizeof(alphabet) - (round % 4 != 0))];
        enum record_format format = (enum record_format)(FORMAT_LINES + rng_below(&rng, 5));
        struct split_tally first = {.ends_max =
                                        rng_below(&rng, 2) ? UINT64_MAX : 1 + rng_below(&rng, 90)};
        struct split begin = split_begin(format), expected = begin;
        struct split_tally wanted = first;
        split_kernel_plain.run(&expected, text, N_BLOCKS, &wanted);
        for (const struct split_kernel *const *kernel = split_table; *kernel; kernel++) {
            struct split split = begin;
            struct split_tally tally = first;
            if (!(*kernel)->is_usable())
                continue;
            (*kernel)->run(&split, text, N_BLOCKS, &tally);
            if (!tally_equal(&tally, &wanted) || !split_equal(&split, &expected))
                fail_msg("round %d: kernel %s differs on %s: %lu ends, expected %lu", round,
                         (*kernel)->name, record_format_name(format), tally.n_ends, wanted.n_ends);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_kernels_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
