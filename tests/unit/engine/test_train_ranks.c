/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that train together: the same bits as one process, on processors and on devices that are
 * played; who has which part; and errors that come to all.
 */
#include "unit/engine/train_kit.h"
#include "unit/lib/ranks.h"

#include <string.h>

enum {
    UPDATES = 3
};

static void pieces_belong_to_one_rank_each(void **state)
{
    (void)state;
    for (uint32_t size = 1; size < 12; size++)
        for (size_t n = 0; n < 40; n++) {
            size_t next = 0;
            for (uint32_t rank = 0; rank < size; rank++) {
                const struct team team = {.rank = rank, .size = size};
                struct team_part part = team_part(&team, n);
                assert_int_equal(part.first, next);
                assert_true(part.n <= part.each && part.each * size < n + size);
                assert_true(part.n == part.each || part.first + part.n == n);
                next += part.n;
            }
            assert_int_equal(next, n);
        }
}

struct kind {
    const char *name;
    struct num_backend (*open)(void);
    unsigned n_threads; /* a device, and what plays one, has one workspace for one thread */
    bool is_reproducible;
    uint32_t size;
    const struct conve *expected;
};

static struct num_backend open_ref(void)
{
    return host("ref");
}

static struct num_backend open_fast(void)
{
    return host(NULL);
}

static struct num_backend open_guarded(void)
{
    return guarded(0);
}

/* After some updates; all ranks come to the end even where the weights are wrong. */
static struct conve *trained(const struct kind *kind, const struct team *team)
{
    struct triple triples[TRIPLES];
    struct conve *model = kit_model(&large, 77);
    struct num_backend be = kind->open();
    struct thread_pool *pool = thread_pool_open(kind->n_threads);
    struct trainer trainer;
    struct train_opts opts = {
        .mode = drops[0], .batch_size = BATCH, .accumulate = 2, .learning_rate = 1e-3, .decay = 1};
    opts.mode.team = team;
    opts.mode.is_reproducible = kind->is_reproducible;
    kit_triples(&large, 5, triples, TRIPLES);
    assert_int_equal(trainer_open(&trainer, model, &opts, triples, TRIPLES, &be, pool, NULL), 0);
    assert_int_equal(trainer_share(&trainer, NULL), 0);
    trainer_epoch_prepare(&trainer);
    for (size_t i = 0; i < UPDATES; i++) {
        assert_int_equal(trainer_update(&trainer, NULL), 0);
        if (trainer_epoch_is_over(&trainer))
            trainer_epoch_next(&trainer);
    }
    assert_int_equal(trainer_fetch(&trainer, NULL), 0);
    trainer_close(&trainer);
    thread_pool_close(pool);
    num_close(&be);
    return model;
}

static int trains_the_same(uint32_t rank, uint32_t size, const void *arg)
{
    const struct kind *kind = arg;
    struct team team;
    struct err err = {0};
    CHECK(team_open(&team, &err) == 0, "%s", err.text);
    CHECK(team.rank == rank && team_size(&team) == size, "rank %u of %u", team.rank, team.size);
    struct conve *model = trained(kind, &team);
    for (unsigned param = 0; param < PARAM_N; param++) {
        size_t n = conve_param_dims(&large, (enum conve_param)param).n_elements;
        CHECK(n == 0 || memcmp(model->at[param], kind->expected->at[param], n * sizeof(float)) == 0,
              "%s, rank %u of %u: %s differs", kind->name, rank, size,
              conve_param_name((enum conve_param)param, NAMING_PLAIN));
    }
    conve_free(model);
    team_close(&team);
    return 0;
}

static void any_number_of_ranks_trains_the_same_bits(void **state)
{
    (void)state;
    struct kind kinds[] = {{"ref", open_ref, 2, false, 5, NULL},
                           {"the fastest", open_fast, 2, false, 2, NULL},
                           {"guarded", open_guarded, 1, true, 3, NULL},
                           {"emulated", emulated, 1, true, 2, NULL}};
    for (size_t k = 0; k < countof(kinds); k++) {
        struct conve *expected = trained(&kinds[k], NULL);
        kinds[k].expected = expected;
        ranks_run(kinds[k].size, trains_the_same, &kinds[k]);
        conve_free(expected);
    }
}

static int error_comes_to_all(uint32_t rank, uint32_t size, const void *arg)
{
    struct team team;
    struct err err = {0};
    bool is_known = false;
    int32_t one = 1;
    (void)arg;
    CHECK(team_open(&team, &err) == 0, "%s", err.text);
    team_wait(&team); /* so that all have opened it */
    if (rank == 1) {
        fail(&err, ERR_DATA, "the words");
        CHECK(team_fail(&team, ERR_DATA, &err, &is_known) == ERR_DATA && !is_known, "rank 1");
    }
    team_most(&team, &one, 1);
    CHECK(team_has_failed(&team), "rank %u of %u goes on", rank, size);
    CHECK(team_check(&team, &err) == ERR_DATA, "code %d", err.code);
    CHECK(strcmp(err.text, "rank 1: the words") == 0, "%s", err.text);
    team_fail(&team, ERR_DATA, &err, &is_known);
    CHECK(is_known == (rank != 1), "rank %u: who tells it", rank);
    team_close(&team);
    return 0;
}

static void an_error_of_one_rank_is_that_of_all(void **state)
{
    (void)state;
    ranks_run(3, error_comes_to_all, NULL);
}

static void alone_nothing_is_exchanged(void **state)
{
    (void)state;
    const struct team alone = {0};
    double number = 3;
    team_sum_doubles(&alone, &number, 1);
    team_broadcast(NULL, &number, sizeof(number), 0);
    assert_true(number == 3 && team_is_leader(NULL) && team_is_leader(&alone));
    assert_true(team_is_alone(&alone) && team_size(NULL) == 1 && team_check(NULL, NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_belong_to_one_rank_each),
        cmocka_unit_test(any_number_of_ranks_trains_the_same_bits),
        cmocka_unit_test(an_error_of_one_rank_is_that_of_all),
        cmocka_unit_test(alone_nothing_is_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
