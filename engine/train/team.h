/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that train one model together, over libmuster's muster/dist.h.
 *
 * Work is cut into the same pieces as in one process (step.h). Each rank computes some successive
 * pieces, and the pieces that others need are gathered unchanged. So no sum depends on the number
 * of ranks.
 *
 * Errors are sticky, and shared by all ranks. The exchanges below return nothing, and do nothing
 * after an error; team_check() returns the error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct muster_dist;

/* All zero: a process that trains alone. */
struct team {
    struct muster_dist *dist; /* NULL: this process is alone */
    uint32_t rank, size;      /* size 0: this process is alone */
};

/*
 * Waits for all ranks that the environment names. A process that was started alone is alone. *team
 * may be closed after an error, too.
 */
MUST_CHECK int team_open(struct team *team, struct err *err);
void team_close(struct team *team);

/* team may be NULL, which means that this process is alone. */
bool team_is_alone(const struct team *team);
/* True for the process that writes files: rank 0, or a process that is alone. */
bool team_is_leader(const struct team *team);
uint32_t team_size(const struct team *team);

/*
 * The pieces [first, first + n) of this rank. Of all pieces, each rank has `each` successive ones;
 * the last ranks may have fewer.
 */
struct team_part {
    size_t first, n, each;
};
struct team_part team_part_of(const struct team *team, size_t n_pieces, uint32_t rank);
struct team_part team_part(const struct team *team, size_t n_pieces);

/* True if an exchange has failed. */
bool team_has_failed(const struct team *team);
/* Returns the error of an exchange as one of our codes, or 0. */
MUST_CHECK int team_check(const struct team *team, struct err *err);
/*
 * Ends the other ranks with the error of this one. Returns rc; *is_known: another rank has told
 * this error, or tells it.
 */
int team_fail(const struct team *team, int rc, const struct err *err, bool *is_known);

/* Rank r has part r of `at`, which has part_bytes. Afterwards all ranks have all parts. */
void team_gather(const struct team *team, void *at, size_t part_bytes);
void team_broadcast(const struct team *team, void *at, size_t bytes, uint32_t root);
/*
 * Sums n words of 32 bits over the ranks. If all but one rank have 0, the sum is exact, whatever
 * the words mean.
 */
void team_sum_words(const struct team *team, void *at, size_t n);
void team_sum_doubles(const struct team *team, double *at, size_t n);
/* Sets each number to the largest of all ranks. */
void team_most(const struct team *team, int32_t *at, size_t n);
void team_wait(const struct team *team);

/* Returns memory of the host whose exchange needs no copy; NULL: team_check() says why. */
void *team_buffer_new(const struct team *team, size_t bytes);
void team_buffer_free(const struct team *team, void *at);
