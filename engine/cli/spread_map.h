/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster map` as a child: it ends when this program does, whatever ends it, and gets the signals that this program
 * gets.
 */
#pragma once

#include "opt/cmd.h"

struct spread_map {
    const struct app *app;
    const char *dir;    /* spread_files.h */
    const char *gpus;   /* SPEC */
    uint64_t n_threads; /* of a worker; 0: as many as its seat is given */
    int lock_fd;        /* it keeps this open for as long as it lives */
};

/*
 * Deals the items out, or goes on where an earlier muster was ended. *status is its exit status, 128 and the signal
 * where one killed it. ERR_UNAVAILABLE: there is no program muster.
 */
MUST_CHECK int spread_map_run(const struct spread_map *map, int *status, struct err *err);
/* Did muster get as far as to have a run? Then it is gone on with. */
bool spread_map_has_begun(const char *dir);
/* The last thing that its log says of trouble, added to out. */
void spread_map_last_words(const char *dir, struct buf *out);
