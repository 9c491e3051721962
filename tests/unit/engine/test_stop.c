/* SPDX-License-Identifier: Apache-2.0
 *
 * Training that is told to stop in the midst of an update: it stands where it stood before, and goes
 * on to the same bits.
 */
#include "unit/test.h"

#include "base/buf.h"
#include "train/trainer.h"
#include "unit/engine/kit.h"

enum {
    TRIPLES = 64,
    BATCH = 16
};

static atomic_bool is_told;

/* Products of another backend, the last of which tells the pool to stop. */
static struct {
    void (*gemm)(const struct num_backend *be, const struct num_gemm *op);
    atomic_long n_left; /* tells when it comes to 0 */
} teller;

static void telling_gemm(const struct num_backend *be, const struct num_gemm *op)
{
    if (atomic_fetch_sub(&teller.n_left, 1) == 1)
        atomic_store(&is_told, true);
    teller.gemm(be, op);
}

struct scene {
    struct num_backend be;
    struct thread_pool *pool;
    struct conve *model;
    struct trainer trainer;
    struct triple triples[TRIPLES];
};

static void scene_begin(struct scene *scene, size_t accumulate)
{
    const struct train_opts opts = {.mode = {{0.2, 0.3, 0.3}, true, 0.1},
                                    .batch_size = BATCH,
                                    .accumulate = accumulate,
                                    .learning_rate = 1e-3,
                                    .decay = 1};
    *scene = (struct scene){.pool = thread_pool_open(2), .model = kit_model(&kit_shapes[1], 77)};
    assert_int_equal(num_open(&scene->be, "ref", NULL), 0);
    teller.gemm = scene->be.gemm;
    atomic_store(&teller.n_left, 0);
    scene->be.gemm = telling_gemm;
    thread_pool_stop_when(scene->pool, &is_told);
    kit_triples(&kit_shapes[1], 5, scene->triples, TRIPLES);
    assert_int_equal(trainer_open(&scene->trainer, scene->model, &opts, scene->triples, TRIPLES,
                                  &scene->be, scene->pool, NULL),
                     0);
    trainer_epoch_prepare(&scene->trainer);
}

static void scene_end(struct scene *scene)
{
    trainer_close(&scene->trainer);
    thread_pool_close(scene->pool);
    conve_free(scene->model);
    num_close(&scene->be);
}

/* All that an update changes, as bytes. */
static struct buf bytes_of(const struct scene *scene)
{
    struct buf bytes = BUF_INIT;
    const struct trainer *trainer = &scene->trainer;
    buf_add(&bytes, &trainer->at, sizeof(trainer->at));
    for (unsigned param = 0; param < PARAM_N; param++) {
        size_t size = conve_param_dims(&scene->model->shape, (enum conve_param)param).n_elements *
                      sizeof(float);
        buf_add(&bytes, scene->model->at[param], size);
        for (unsigned i = 0; param < PARAM_N_TRAINED && i < N_MOMENTS; i++)
            buf_add(&bytes, trainer_moment(trainer, (enum train_moment)i)[param], size);
    }
    return bytes;
}

static void assert_same(const struct buf *expected, const struct scene *scene)
{
    struct buf found = bytes_of(scene);
    assert_int_equal(found.len, expected->len);
    assert_memory_equal(found.at, expected->at, expected->len);
    buf_release(&found);
}

/* Told to stop at the n-th product of the second update; false if it has no so many. */
static bool stopped_at(long n_products, size_t accumulate, const struct buf *first,
                       const struct buf *second)
{
    struct scene scene;
    struct err err = {0};
    scene_begin(&scene, accumulate);
    assert_int_equal(trainer_update(&scene.trainer, NULL), 0);
    atomic_store(&teller.n_left, n_products);
    int rc = trainer_update(&scene.trainer, &err);
    bool is_reached = atomic_load(&teller.n_left) <= 0;
    atomic_store(&is_told, false);
    if (is_reached) {
        assert_int_equal(rc, ERR_STOPPED);
        assert_same(first, &scene);
        rc = trainer_update(&scene.trainer, NULL);
    }
    assert_int_equal(rc, 0);
    assert_same(second, &scene);
    scene_end(&scene);
    return is_reached;
}

static void an_update_that_is_told_to_stop_changes_nothing(void **state)
{
    (void)state;
    for (size_t accumulate = 1; accumulate <= 2; accumulate++) {
        struct scene scene;
        scene_begin(&scene, accumulate);
        assert_int_equal(trainer_update(&scene.trainer, NULL), 0);
        struct buf first = bytes_of(&scene);
        assert_int_equal(trainer_update(&scene.trainer, NULL), 0);
        struct buf second = bytes_of(&scene);
        scene_end(&scene);
        long n = 1;
        while (stopped_at(n, accumulate, &first, &second))
            n++;
        assert_true(n >
                    2 * (long)accumulate); /* there are products forward, of the scores, and back */
        buf_release(&first);
        buf_release(&second);
    }
}

struct count {
    atomic_size_t n_made;
};

static void count_make(void *context, unsigned thread, size_t piece)
{
    struct count *count = context;
    (void)thread;
    atomic_fetch_add(&count->n_made, 1);
    if (piece == 3)
        atomic_store(&is_told, true);
}

static void pieces_that_always_end_do(void **state)
{
    (void)state;
    struct thread_pool *pool = thread_pool_open(3);
    struct count count = {0};
    struct thread_pool_work work = {.context = &count, .n_pieces = 100, .make = count_make};
    thread_pool_stop_when(pool, &is_told);
    assert_int_equal(thread_pool_run(pool, &work, NULL), ERR_STOPPED);
    assert_true(atomic_load(&count.n_made) < 100);
    atomic_store(&count.n_made, 0);
    work.always_ends = true;
    assert_int_equal(thread_pool_run(pool, &work, NULL), 0);
    assert_int_equal(atomic_load(&count.n_made), 100);
    atomic_store(&is_told, false);
    thread_pool_close(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_that_is_told_to_stop_changes_nothing),
        cmocka_unit_test(pieces_that_always_end_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
