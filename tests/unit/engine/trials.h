/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation of a backend on numbers drawn from a seed, in sizes that are odd and in its
 * variants: the one table by which all backends are compared.
 */
#pragma once

#include "base/buf.h"
#include "base/rng.h"
#include "num/backend.h"

enum {
    TRIAL_SEED = 0x5eed /* and the place of the size in its row */
};

/* An operation on numbers drawn from the seed. Its results are added to out, as doubles. */
struct trial {
    const struct num_backend *be;
    enum num_dtype dtype;
    size_t a, b, c;     /* sizes, as the operation takes them */
    bool first, second; /* variants */
    struct rng rng;
    struct buf out;
    void *arrays[16];
    size_t n_arrays;
};

struct operation {
    const char *name;
    void (*run)(struct trial *t);
    struct {
        size_t a, b, c;
    } sizes[8];
    double slack; /* of the bound in float32; 0: 1 */
};

enum {
    N_OPERATIONS = 20
};
extern const struct operation operations[N_OPERATIONS];

/* Runs it. `out` is the caller's to release. */
struct trial trial_of(const struct operation *operation, size_t size, unsigned variant,
                      const struct num_backend *be, enum num_dtype dtype);
