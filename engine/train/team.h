/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that train one model together, over libmuster's muster/dist.h.
 *
 * Work is cut into the same pieces as in one process (step.h). Each rank computes some pieces in a
 * row, and what others need of them is gathered as it is. So no sum depends on the number of ranks.
 *
 * Errors are sticky, and those of all ranks: the exchanges below return nothing, and do nothing
 * after an error; team_check() tells it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct muster_dist;

/* Zero is a process that trains alone. */
struct team {
    struct muster_dist *dist; /* NULL: alone */
    uint32_t rank, size;      /* size 0: alone */
};

/*
 * Waits for all ranks that the environment tells of; a process that was started alone is alone.
 * *team may be closed after an error, too.
 */
MUST_CHECK int team_open(struct team *team, struct err *err);
void team_close(struct team *team);

/* team may be NULL, which means alone. */
bool team_is_alone(const struct team *team);
/* Rank 0, or alone: the one that writes files. */
bool team_is_leader(const struct team *team);
uint32_t team_size(const struct team *team);

/* Of n pieces each rank has `each` in a row, or fewer at the end; this one [first, first + n). */
struct team_part {
    size_t first, n, each;
};
struct team_part team_part_of(const struct team *team, size_t n_pieces, uint32_t rank);
struct team_part team_part(const struct team *team, size_t n_pieces);

/* Whether an exchange has failed. */
bool team_has_failed(const struct team *team);
/* The error of an exchange as one of ours, or 0. */
MUST_CHECK int team_check(const struct team *team, struct err *err);
/*
 * Ends the other ranks with the error of this one. Returns rc; *is_known: another rank has told
 * this error, or tells it.
 */
int team_fail(const struct team *team, int rc, const struct err *err, bool *is_known);

/* Rank r has part r of `at`, of part_bytes; afterwards all have all of it. */
void team_gather(const struct team *team, void *at, size_t part_bytes);
void team_broadcast(const struct team *team, void *at, size_t bytes, uint32_t root);
/* Sums, without rounding where all but one are 0: of n words of 32 bits, whatever they stand for. */
void team_sum_words(const struct team *team, void *at, size_t n);
void team_sum_doubles(const struct team *team, double *at, size_t n);
/* The largest of all ranks. */
void team_most(const struct team *team, int32_t *at, size_t n);
void team_wait(const struct team *team);

/* Memory of the host whose exchange needs no copy; NULL: team_check() says why. */
void *team_buffer_new(const struct team *team, size_t bytes);
void team_buffer_free(const struct team *team, void *at);
