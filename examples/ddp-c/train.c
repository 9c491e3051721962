/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel training in C, from the ranks to the checkpoint: a network of two layers learns a
 * sine, with the same bits on 1 to 8 ranks, also after a resume. docs/guides/ddp-c.md explains it.
 *
 *     muster launch --nproc-per-node 2 --no-python ddp_train STEPS [CHECKPOINT]
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "muster/ddp.h"

enum {
    N_IN = 16,
    N_HIDDEN = 32,
    N_SHARDS = 8,   /* of a batch, whatever the number of ranks */
    SHARD_SIZE = 8, /* samples */
    EVERY = 50      /* steps between checkpoints, and comparisons of the replicas */
};

struct network {
    float in[N_HIDDEN][N_IN], out[N_HIDDEN];
};

/* All that a checkpoint is made of. */
struct state {
    unsigned long long step;
    struct network weights, momentum;
};

/* From -1 to 1, from the number alone: the same on every rank, and after every restart. */
static float noise(uint64_t number)
{
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
    number = (number ^ number >> 27) * 0x94d049bb133111eb;
    return (float)(int32_t)(number >> 32) / 2147483648.0f;
}

/* Adds the gradient of one sample's squared error; returns the error. */
static double sample_learn(const struct network *weights, uint64_t sample, struct network *gradient)
{
    float x[N_IN], hidden[N_HIDDEN], answer = 0;
    for (int i = 0; i < N_IN; i++)
        x[i] = noise(sample * N_IN + (uint64_t)i);
    for (int h = 0; h < N_HIDDEN; h++) {
        float sum = 0;
        for (int i = 0; i < N_IN; i++)
            sum += weights->in[h][i] * x[i];
        hidden[h] = tanhf(sum);
        answer += weights->out[h] * hidden[h];
    }
    float error = answer - sinf(3 * x[0]);
    for (int h = 0; h < N_HIDDEN; h++) {
        float back = 2 * error * weights->out[h] * (1 - hidden[h] * hidden[h]);
        gradient->out[h] += 2 * error * hidden[h];
        for (int i = 0; i < N_IN; i++)
            gradient->in[h][i] += back * x[i];
    }
    return (double)(error * error);
}

/* A batch: this rank's shards, then the mean of all ranks'. Returns the sum of this rank's errors. */
static double batch_learn(struct muster_ddp *ddp, const struct state *state,
                          struct network *gradient)
{
    uint32_t first, end;
    double errors = 0;
    muster_ddp_shards(ddp, &first, &end);
    for (uint32_t shard = first; shard < end; shard++) {
        uint64_t begin = (state->step * N_SHARDS + shard) * SHARD_SIZE;
        for (uint64_t sample = begin; sample < begin + SHARD_SIZE; sample++)
            errors += sample_learn(&state->weights, sample, gradient);
        muster_ddp_shard(ddp, SHARD_SIZE);
    }
    muster_ddp_finish(ddp);
    return errors;
}

/* Zeroes the gradient, because the next batch adds to it. */
static void optimise(struct state *state, struct network *gradient)
{
    float *weights = (float *)&state->weights, *momentum = (float *)&state->momentum;
    const float *slopes = (const float *)gradient;
    for (size_t i = 0; i < sizeof(*gradient) / sizeof(float); i++) {
        momentum[i] = 0.9f * momentum[i] + slopes[i];
        weights[i] -= 0.03f * momentum[i];
    }
    *gradient = (struct network){0};
    state->step++;
}

/* No file is a beginning. False if the file is not whole: a beginning would overwrite it. */
static bool checkpoint_read(struct state *state, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return errno == ENOENT;
    bool is_whole = fread(state, sizeof(*state), 1, file) == 1 && fgetc(file) == EOF;
    fclose(file);
    return is_whole;
}

/* Beside the old one, which it then replaces: there is a whole one at any moment. */
static void checkpoint_write(struct muster_dist *dist, const struct state *state, const char *path)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s.new", path);
    FILE *file = fopen(name, "wb");
    bool is_written = file && fwrite(state, sizeof(*state), 1, file) == 1;
    if (!file || fclose(file) != 0 || !is_written || rename(name, path) != 0)
        muster_dist_fail(dist, MUSTER_DIST_EFAIL, "the checkpoint cannot be written");
}

int main(int argc, char **argv)
{
    unsigned long long n_steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 400;
    const char *path = argc > 2 ? argv[2] : NULL; /* of the checkpoint */
    static struct network gradient;
    static struct state state;
    for (size_t i = 0; i < sizeof(state.weights) / sizeof(float); i++)
        ((float *)&state.weights)[i] = 0.3f * noise(~i);

    struct muster_dist *dist = muster_dist_open(NULL);
    if (path && muster_dist_rank(dist) == 0 && !checkpoint_read(&state, path))
        muster_dist_fail(dist, MUSTER_DIST_EFAIL, "the checkpoint cannot be read, or is not whole");
    muster_dist_broadcast(dist, &state, sizeof(state), MUSTER_UINT8, 0);
    const struct muster_param params[] = {
        {"in", MUSTER_FLOAT32, N_HIDDEN * N_IN, state.weights.in, gradient.in},
        {"out", MUSTER_FLOAT32, N_HIDDEN, state.weights.out, gradient.out},
    };
    const struct muster_ddp_opts opts = {.n_shards = N_SHARDS, .gradients_are_sums = true};
    struct muster_ddp *ddp = muster_ddp_new(dist, params, 2, &opts);
    double errors = 0;
    while (muster_dist_code(dist) == 0 && state.step < n_steps) {
        errors = batch_learn(ddp, &state, &gradient);
        optimise(&state, &gradient);
        bool is_due = state.step % EVERY == 0 || state.step == n_steps;
        if (is_due && muster_ddp_check_replicas(ddp) == 0 && path && muster_dist_rank(dist) == 0)
            checkpoint_write(dist, &state, path);
    }
    muster_dist_all_reduce(dist, &errors, 1, MUSTER_FLOAT64, MUSTER_SUM);
    if (muster_dist_code(dist) != 0)
        fprintf(stderr, "ddp_train: %s\n", muster_dist_error(dist));
    else if (muster_dist_rank(dist) == 0)
        printf("step %llu: error %.4f\n", state.step, errors / (N_SHARDS * SHARD_SIZE));
    muster_ddp_free(ddp);
    return muster_dist_close(dist) == 0 ? 0 : 1;
}
