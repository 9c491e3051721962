/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose a file is, among very many.
 */
#include "unit/test.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "shard/shard.h"

enum {
    MANY = 300000
};

struct fixture {
    struct shards shards;
    struct shard_kind kind;
};

static void fixture_make(struct fixture *f, uint64_t n_shards)
{
    *f = (struct fixture){.shards = {.n_shards = n_shards, .n_kinds = 1}};
    f->shards.kinds = &f->kind;
    f->shards.results = xcalloc(n_shards, sizeof(*f->shards.results));
}

static void fixture_release(struct fixture *f)
{
    for (uint64_t k = 0; k < f->shards.n_shards; k++)
        shard_result_free(&f->shards, &f->shards.results[k]);
    free(f->shards.results);
    free(f->kind.claims.slots);
}

static void result_give(struct fixture *f, uint64_t shard, const char *path)
{
    struct shard_file *file = f->shards.results[shard].files = xcalloc(1, sizeof(*file));
    file->path = xstrdup(path);
}

/* In more than a minute, were all results compared with each. */
static void the_owner_of_a_file_is_found_at_once_among_many(void **state)
{
    (void)state;
    struct fixture f;
    char path[64];
    fixture_make(&f, MANY);
    for (uint64_t k = 0; k < MANY; k++) {
        snprintf(path, sizeof(path), "/data/results/part_%lu.jsonl", k);
        assert_true(shard_claim(&f.shards, 0, path, k) == UINT64_MAX);
        result_give(&f, k, path);
        assert_true(shard_claim(&f.shards, 0, path, (k + 1) % MANY) == k);
    }
    for (uint64_t k = 0; k < MANY; k++)
        assert_true(shard_claim(&f.shards, 0, f.shards.results[k].files->path, k) == UINT64_MAX);
    fixture_release(&f);
}

static void results_of_an_earlier_session_count(void **state)
{
    (void)state;
    struct fixture f;
    fixture_make(&f, 4);
    result_give(&f, 2, "a");
    assert_true(shard_claim(&f.shards, 0, "a", 1) == 2);
    assert_true(shard_claim(&f.shards, 0, "b", 1) == UINT64_MAX);
    fixture_release(&f);
}

static void a_file_of_a_shard_that_lost_its_result_is_nobodys(void **state)
{
    (void)state;
    struct fixture f;
    fixture_make(&f, 4);
    assert_true(shard_claim(&f.shards, 0, "a", 2) == UINT64_MAX);
    assert_true(shard_claim(&f.shards, 0, "a", 3) == UINT64_MAX); /* 2 was refused */
    result_give(&f, 3, "a");
    assert_true(shard_claim(&f.shards, 0, "a", 2) == 3);
    shard_result_free(&f.shards, &f.shards.results[3]);
    assert_true(shard_claim(&f.shards, 0, "a", 2) == UINT64_MAX);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_of_a_file_is_found_at_once_among_many),
        cmocka_unit_test(results_of_an_earlier_session_count),
        cmocka_unit_test(a_file_of_a_shard_that_lost_its_result_is_nobodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
