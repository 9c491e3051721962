/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a dag in virtual time: which job starts when and where, if each job takes the time that the
 * caller gives. So the real scheduler can draw a schedule before any job runs.
 */
#pragma once

#include "core/dag.h"

/* How one start of a job goes. */
struct dag_play_end {
    uint64_t run_ms;
    enum dag_end end;
    uint32_t device; /* the device that failed */
};

struct dag_play {
    struct dag *dag; /* no job of it runs */
    uint64_t from_ms;
    void *context;
    struct dag_play_end (*draw)(void *context, uint32_t job, const struct dag_placement *placement);
    /* Either may be NULL. `placement` is valid during the call. */
    void (*started)(void *context, uint32_t job, const struct dag_placement *placement,
                    uint64_t now_ms);
    void (*ended)(void *context, uint32_t job, enum dag_end end, uint64_t now_ms);
};

/*
 * Plays until no job can start any more. Returns the time at which the last job ended; UINT64_MAX:
 * out of memory.
 */
uint64_t dag_play(const struct dag_play *play);
