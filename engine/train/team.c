/* SPDX-License-Identifier: Apache-2.0 */
#include "train/team.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "muster/dist.h"

enum {
    OWN_CODES = -100 /* the ERR_ codes of a rank are told to the others as OWN_CODES + code */
};

int team_open(struct team *team, struct err *err)
{
    *team = (struct team){.dist = muster_dist_open(NULL)};
    if (!team->dist)
        return fail(err, ERR_UNAVAILABLE, "no memory for a rank");
    team->rank = muster_dist_rank(team->dist);
    team->size = muster_dist_size(team->dist);
    int rc = team_check(team, err);
    if (rc == 0 && team->size == 1)
        team_close(team);
    return rc;
}

void team_close(struct team *team)
{
    if (team->dist)
        (void)muster_dist_close(team->dist);
    *team = (struct team){0};
}

bool team_is_alone(const struct team *team)
{
    return !team || team->size <= 1;
}

bool team_is_leader(const struct team *team)
{
    return team_is_alone(team) || team->rank == 0;
}

uint32_t team_size(const struct team *team)
{
    return team_is_alone(team) ? 1 : team->size;
}

struct team_part team_part_of(const struct team *team, size_t n_pieces, uint32_t rank)
{
    size_t each = (n_pieces + team_size(team) - 1) / team_size(team);
    size_t first = MIN(rank * each, n_pieces);
    return (struct team_part){first, MIN(each, n_pieces - first), each};
}

struct team_part team_part(const struct team *team, size_t n_pieces)
{
    return team_part_of(team, n_pieces, team_is_alone(team) ? 0 : team->rank);
}

/* ---- errors ---- */

bool team_has_failed(const struct team *team)
{
    return !team_is_alone(team) && muster_dist_code(team->dist) != 0;
}

static int code_of(int dist_code)
{
    static const struct {
        int dist_code, code;
    } codes[] = {{MUSTER_DIST_EENV, ERR_USAGE},
                 {MUSTER_DIST_EMISMATCH, ERR_USAGE},
                 {MUSTER_DIST_ENOMEM, ERR_UNAVAILABLE},
                 {MUSTER_DIST_ETIMEOUT, ERR_TIMEOUT},
                 {MUSTER_DIST_EDATA, ERR_DATA}};
    if (dist_code < OWN_CODES)
        return dist_code - OWN_CODES;
    for (size_t i = 0; i < countof(codes); i++)
        if (codes[i].dist_code == dist_code)
            return codes[i].code;
    return ERR_FAILED;
}

int team_check(const struct team *team, struct err *err)
{
    int code = team && team->dist ? muster_dist_code(team->dist) : 0;
    return code == 0 ? 0 : fail(err, code_of(code), "%s", muster_dist_error(team->dist));
}

/* True if this rank has caused the error of the ranks; then this rank's number begins the text. */
static bool is_ours(const struct team *team)
{
    char own[24];
    snprintf(own, sizeof(own), "rank %u:", team->rank);
    return strncmp(muster_dist_error(team->dist), own, strlen(own)) == 0;
}

int team_fail(const struct team *team, int rc, const struct err *err, bool *is_known)
{
    *is_known = false;
    if (team_is_alone(team))
        return rc;
    int code = muster_dist_fail(team->dist, OWN_CODES + rc, err->text);
    *is_known = code < OWN_CODES && !is_ours(team);
    return rc;
}

/* ---- exchanges ---- */

void team_gather(const struct team *team, void *at, size_t part_bytes)
{
    if (team_is_alone(team))
        return;
    bool are_words = part_bytes % sizeof(int32_t) == 0;
    (void)muster_dist_all_gather(team->dist, (char *)at + team->rank * part_bytes, at,
                                 are_words ? part_bytes / sizeof(int32_t) : part_bytes,
                                 are_words ? MUSTER_INT32 : MUSTER_UINT8);
}

void team_broadcast(const struct team *team, void *at, size_t bytes, uint32_t root)
{
    if (!team_is_alone(team) && bytes > 0)
        (void)muster_dist_broadcast(team->dist, at, bytes, MUSTER_UINT8, root);
}

void team_sum_words(const struct team *team, void *at, size_t n)
{
    if (!team_is_alone(team))
        (void)muster_dist_all_reduce(team->dist, at, n, MUSTER_INT32, MUSTER_SUM);
}

void team_sum_doubles(const struct team *team, double *at, size_t n)
{
    if (!team_is_alone(team))
        (void)muster_dist_all_reduce(team->dist, at, n, MUSTER_FLOAT64, MUSTER_SUM);
}

void team_most(const struct team *team, int32_t *at, size_t n)
{
    if (!team_is_alone(team))
        (void)muster_dist_all_reduce(team->dist, at, n, MUSTER_INT32, MUSTER_MAX);
}

void team_wait(const struct team *team)
{
    if (!team_is_alone(team))
        (void)muster_dist_barrier(team->dist);
}

void *team_buffer_new(const struct team *team, size_t bytes)
{
    return muster_dist_buffer_new(team->dist, bytes);
}

void team_buffer_free(const struct team *team, void *at)
{
    if (at)
        muster_dist_buffer_free(team->dist, at);
}
