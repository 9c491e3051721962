/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster map` as a child process. It ends when this program ends, for whatever reason, and gets
 * the signals that this program gets.
 */
#pragma once

#include "opt/cmd.h"

/*
 * The program muster, as a new string: beside this program, in ../bin (for a program in libexec),
 * else by PATH.
 */
char *muster_find(const char *self_path);

struct spread_map {
    const struct app *app;
    const char *dir;    /* spread_files.h */
    const char *gpus;   /* SPEC */
    uint64_t n_threads; /* of a worker; 0: as many as muster gives its seat */
    int lock_fd;        /* muster inherits it, and so holds the lock while it runs */
};

/*
 * Runs muster map over the items, or resumes the run that an earlier command began. *status is the
 * exit status of muster, or 128 + the signal that killed it. If no program muster is found, *status
 * is the exit status of ERR_UNAVAILABLE.
 */
MUST_CHECK int spread_map_run(const struct spread_map *map, int *status, struct err *err);
/* True if muster has made its run: spread_map_run() then resumes it. */
bool spread_map_has_begun(const char *dir);
/* Adds the last error or warning in muster's log to out. */
void spread_map_last_words(const char *dir, struct buf *out);
