/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/rng.h"
#include "data/boundaries/scan_isa.h"

enum {
    N_BLOCKS = 100,
    GROUP_BYTES = 32 * SCAN_BLOCK_BYTES /* as in scan_kernel.h */
};

static bool tally_equal(const struct boundary_tally *a, const struct boundary_tally *b)
{
    return a->n_ends == b->n_ends && a->n_newlines == b->n_newlines && a->n_seen == b->n_seen &&
           a->after_end == b->after_end && a->n_bytes == b->n_bytes && a->has_cr == b->has_cr;
}

static bool scan_equal(const struct boundary_scan *a, const struct boundary_scan *b)
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
    unsigned char text[N_BLOCKS * SCAN_BLOCK_BYTES];
    for (int round = 0; round < 3000; round++) {
        for (size_t i = 0; i < sizeof(text); i++)
            text[i] = (unsigned char)alphabet[rng_below(&rng, sizeof(alphabet) - (round % 4 != 0))];
        enum record_format format = (enum record_format)(FORMAT_LINES + rng_below(&rng, 5));
        struct boundary_tally first = {.ends_max = rng_below(&rng, 2) ? UINT64_MAX
                                                                      : 1 + rng_below(&rng, 90)};
        struct boundary_scan begin = boundary_scan_begin(format), expected = begin;
        struct boundary_tally wanted = first;
        scan_kernel_plain.run(&expected, text, N_BLOCKS, &wanted);
        for (const struct scan_kernel *const *kernel = scan_table; *kernel; kernel++) {
            struct boundary_scan scan = begin;
            struct boundary_tally tally = first;
            if (!(*kernel)->is_usable())
                continue;
            (*kernel)->run(&scan, text, N_BLOCKS, &tally);
            if (!tally_equal(&tally, &wanted) || !scan_equal(&scan, &expected))
                fail_msg("round %d: kernel %s differs on %s: %lu ends, expected %lu", round,
                         (*kernel)->name, record_format_name(format), tally.n_ends, wanted.n_ends);
        }
    }
}

/* Rows as they usually are, with something odd in every so many bytes: mostly plain groups. */
static void rows_make(struct rng *rng, unsigned char *text, size_t len, uint64_t odd_every)
{
    static const char *const rows[] = {"1,\"a\nb \"\"c\"\"\",x\n",
                                       "plain text of some length\n",
                                       "x\n",
                                       "{\"id\":1,\"text\":\"a b\"}\n",
                                       "{}\n",
                                       "{\"a\":{}} }\n"};
    size_t kind = rng_below(rng, 2) * 3;
    static const char odd[] = "\n\r \t\"}\0";
    size_t at = 0;
    while (at < len) {
        const char *row = rows[kind + rng_below(rng, 3)];
        for (; *row && at < len; row++)
            text[at++] = (unsigned char)*row;
    }
    for (size_t i = 0; i < len; i++)
        if (rng_below(rng, odd_every) == 0)
            text[i] = (unsigned char)odd[rng_below(rng, sizeof(odd))];
    /* What one group hands to the next is seen only where something odd stands on their border. */
    for (size_t i = GROUP_BYTES; i < len; i += GROUP_BYTES)
        for (size_t k = rng_below(rng, 2) == 0 ? i - 2 : len; k < MIN(i + 2, len); k++)
            text[k] = (unsigned char)"\n\n x}"[rng_below(rng, 5)];
}

/* Blocks that are given one at a time are never counted in groups: they are the oracle. */
static void groups_give_what_single_blocks_give(void **state)
{
    (void)state;
    static const uint64_t odd_every[] = {50, 2000, 10000, UINT64_MAX};
    struct rng rng = {7};
    unsigned char text[N_BLOCKS * SCAN_BLOCK_BYTES];
    for (int round = 0; round < 4000; round++) {
        enum record_format format = (enum record_format)(FORMAT_LINES + rng_below(&rng, 5));
        struct boundary_scan single = boundary_scan_begin(format), grouped = single;
        struct boundary_tally wanted = {.ends_max = UINT64_MAX}, tally = wanted;
        rows_make(&rng, text, sizeof(text), odd_every[rng_below(&rng, countof(odd_every))]);
        for (size_t i = 0; i < N_BLOCKS && !single.flaws; i++)
            scan_kernel_plain.run(&single, text + i * SCAN_BLOCK_BYTES, 1, &wanted);
        for (const struct scan_kernel *const *kernel = scan_table; *kernel; kernel++) {
            struct boundary_scan scan = grouped;
            struct boundary_tally found = tally;
            if (!(*kernel)->is_usable())
                continue;
            (*kernel)->run(&scan, text, N_BLOCKS, &found);
            if (!tally_equal(&found, &wanted) || !scan_equal(&scan, &single))
                fail_msg("round %d: kernel %s differs on %s: %lu ends, expected %lu", round,
                         (*kernel)->name, record_format_name(format), found.n_ends, wanted.n_ends);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_kernels_agree),
                                       cmocka_unit_test(groups_give_what_single_blocks_give)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
