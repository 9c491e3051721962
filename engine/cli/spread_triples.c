/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_triples.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

static_assert(sizeof(struct triple) == 3 * sizeof(uint32_t), "triples are written as they are");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "and so are numbers");

/* The numbers that precede the indices of a test. n_train_indices 0: all training triples count. */
struct test_head {
    uint64_t place, n_train_indices;
    struct triple triple;
    uint32_t unused;
};
static_assert(sizeof(struct test_head) == 32, "on disk");

void spread_tests_add(struct buf *out, size_t place, const struct tracin_test *test)
{
    struct test_head head = {.place = place,
                             .n_train_indices = test->train_indices ? test->n_train_indices : 0,
                             .triple = test->triple};
    buf_add(out, &head, sizeof(head));
    if (test->train_indices)
        buf_add(out, test->train_indices, test->n_train_indices * sizeof(*test->train_indices));
}

static int shared_read(const char *dir, const char *name, struct buf *out, struct err *err)
{
    cleanup_free char *path = path_join(dir, name);
    return file_read(path, SIZE_MAX / 2, out, err);
}

static int damaged(const char *dir, const char *name, struct err *err)
{
    return fail(err, ERR_DATA, "%s/%s is damaged; --force begins anew", dir, name);
}

static bool are_places(const uint32_t *indices, uint64_t n, size_t n_train)
{
    for (uint64_t i = 0; i < n; i++)
        if (indices[i] >= n_train || (i > 0 && indices[i] <= indices[i - 1]))
            return false;
    return true;
}

int spread_tests_read(struct spread_tests *tests, const char *dir, size_t n_train, struct err *err)
{
    *tests = (struct spread_tests){0};
    int rc = shared_read(dir, SPREAD_TESTS, &tests->bytes, err);
    for (size_t at = 0; rc == 0 && at < tests->bytes.len; tests->n++) {
        struct test_head head;
        const char *from = tests->bytes.at + at;
        size_t left = tests->bytes.len - at;
        if (left < sizeof(head))
            return damaged(dir, SPREAD_TESTS, err);
        memcpy(&head, from, sizeof(head));
        const uint32_t *indices = (const uint32_t *)(const void *)(from + sizeof(head));
        if (head.n_train_indices > (left - sizeof(head)) / sizeof(*indices) ||
            !are_places(indices, head.n_train_indices, n_train))
            return damaged(dir, SPREAD_TESTS, err);
        tests->at = xrealloc(tests->at, (tests->n + 1) * sizeof(*tests->at));
        tests->places = xrealloc(tests->places, (tests->n + 1) * sizeof(*tests->places));
        tests->places[tests->n] = (size_t)head.place;
        tests->at[tests->n] = (struct tracin_test){.triple = head.triple};
        if (head.n_train_indices > 0) {
            tests->at[tests->n].train_indices = indices;
            tests->at[tests->n].n_train_indices = (size_t)head.n_train_indices;
        }
        at += sizeof(head) + head.n_train_indices * sizeof(*indices);
    }
    return rc;
}

void spread_tests_release(struct spread_tests *tests)
{
    free(tests->at);
    free(tests->places);
    buf_release(&tests->bytes);
    *tests = (struct spread_tests){0};
}

int spread_train_read(struct spread_train *train, const char *dir, struct err *err)
{
    *train = (struct spread_train){0};
    int rc = shared_read(dir, SPREAD_TRAIN, &train->bytes, err);
    if (rc == 0 && (train->bytes.len == 0 || train->bytes.len % sizeof(struct triple) != 0))
        rc = damaged(dir, SPREAD_TRAIN, err);
    train->at = (const struct triple *)(const void *)train->bytes.at;
    train->n = train->bytes.len / sizeof(struct triple);
    return rc;
}

void spread_train_release(struct spread_train *train)
{
    buf_release(&train->bytes);
    *train = (struct spread_train){0};
}
