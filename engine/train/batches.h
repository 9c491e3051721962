/* SPDX-License-Identifier: Apache-2.0
 *
 * Training triples as questions, dealt out in batches: an order for each epoch, which follows from
 * the seed and the epoch alone.
 */
#pragma once

#include <stdbool.h>

#include "train/step.h"

struct batches {
    struct triple *questions;
    size_t n;        /* questions; an epoch is each of them once */
    size_t *begins;  /* of question i's true tails in `tails` */
    uint32_t *tails; /* ascending within a question */
    size_t size, n_batches;
    size_t batch_tails_max;
    uint32_t *order; /* of the epoch at hand */

    /* The batch at hand. */
    struct triple *batch_questions;
    size_t *batch_begins;
    uint32_t *batch_tails;
};

/*
 * With is_grouped a question is a head and a relation, with all tails that the training triples
 * have for them; else it is a triple, with its own tail alone. ERR_USAGE where there are fewer than
 * two questions: batch norm has no variance of one.
 */
MUST_CHECK int batches_init(struct batches *batches, const struct triple *triples, size_t n_triples,
                            bool is_grouped, size_t size, struct err *err);
void batches_release(struct batches *batches);
/* The most questions that a batch has: a last one that would be alone joins the batch before it. */
size_t batches_n_max(const struct batches *batches);
struct train_limits batches_limits(const struct batches *batches);
void batches_shuffle(struct batches *batches, uint64_t seed, uint64_t epoch);
/* Valid until the next call. */
struct train_batch batches_at(struct batches *batches, size_t index);
