/* SPDX-License-Identifier: Apache-2.0
 *
 * The rank of this process and the number of ranks, from the environment, and the name by which the ranks of one
 * attempt of one job find each other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MD_RANKS_MAX = 4096
};

struct md_place {
    uint32_t rank, size;
    uint32_t local_rank;
    uint32_t local_size;  /* ranks on this machine; 0: not known */
    const char *launcher; /* for messages */
    char key[40];         /* of the user, the job and the attempt; the same on all ranks */
    uint64_t job;         /* of the job and the attempt; the same on all machines */
    bool is_of_torch;     /* the environment is that of torch's launchers */
};

/* 0, or MUSTER_DIST_EENV with a sentence in error. Without a launcher it is a world of one. */
int md_place_read(struct md_place *place, char *error, size_t error_cap);
