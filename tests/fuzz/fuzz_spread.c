/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what muster kge tracin and its workers hand each other: answers to items, test triples with their
 * filters, training triples. What is accepted is written again as it was.
 */
#include "fuzz.h"

#include "cli/spread_answer.h"
#include "cli/spread_triples.h"

enum {
    N_TRAIN = 100
};

static void fuzz_answer(struct str text)
{
    struct spread_answer answer = {0}, again = {0};
    cleanup_buf struct buf written = BUF_INIT;
    struct err err = {0};
    int rc = spread_answer_parse(&answer, text, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    if (rc == 0) {
        spread_answer_format(&answer, &written);
        ASSERT(spread_answer_parse(&again, buf_str(&written), NULL) == 0);
        ASSERT(again.item == answer.item && again.life == answer.life);
        ASSERT(str_equal(buf_str(&again.selves), buf_str(&answer.selves)));
        ASSERT(str_equal(buf_str(&again.tops), buf_str(&answer.tops)));
    }
    struct spread_tops walk = {buf_str(&answer.tops)};
    struct tracin_influence next;
    size_t n, n_read = 0;
    while (spread_tops_count(&walk, &n))
        for (; n > 0 && spread_tops_next(&walk, &next); n--)
            n_read++;
    ASSERT(n_read * (sizeof(uint32_t) + sizeof(double)) <= answer.tops.len);
    spread_answer_release(&answer);
    spread_answer_release(&again);
}

static void fuzz_tests(struct str text)
{
    struct spread_tests tests;
    cleanup_buf struct buf written = BUF_INIT;
    fuzz_file(SPREAD_TESTS, text);
    int rc = spread_tests_read(&tests, fuzz_folder(), N_TRAIN, NULL);
    ASSERT(rc == 0 || rc == ERR_DATA);
    for (size_t t = 0; rc == 0 && t < tests.n; t++) {
        const struct tracin_test *test = &tests.at[t];
        for (size_t i = 0; i < test->n_train_indices; i++)
            ASSERT(test->train_indices[i] < N_TRAIN);
        spread_tests_add(&written, tests.places[t], test);
    }
    ASSERT(rc != 0 || written.len == text.len);
    spread_tests_release(&tests);
}

static void fuzz_train(struct str text)
{
    struct spread_train train;
    fuzz_file(SPREAD_TRAIN, text);
    int rc = spread_train_read(&train, fuzz_folder(), NULL);
    ASSERT(rc == 0 || rc == ERR_DATA);
    ASSERT(rc != 0 || (train.n > 0 && train.n * sizeof(*train.at) == text.len));
    spread_train_release(&train);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    static void (*const kinds[])(struct str) = {fuzz_answer, fuzz_tests, fuzz_train};
    kinds[fuzz_choice(&input) % countof(kinds)](input);
    return 0;
}
