/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent's own folder on its machine, for files of workers and sockets: in TMPDIR or /tmp, for this user alone. It is
 * made when it is needed.
 *
 * Whoever holds the lock in it, a file that names head and run, has to remove it. First that is the agent. If its link is
 * lost while the head still fetches files from there, the folder stays for a while: an agent of the same head takes it
 * over, and removes it at its end; without one the folder's keeper does. The same holds if the agent is killed. Where the
 * keeper was killed as well, a later agent of the user removes the folder.
 */
#pragma once

#include "proc/keeper.h"

struct reaper;
struct scratch {
    char *path; /* NULL: it was not needed yet */
    int lock_fd;
    struct keeper keeper;
    struct adopted_scratch {
        char *path;
        int lock_fd;
        uint64_t keep_ms;
    } * adopted; /* of earlier agents of the run */
    size_t n_adopted;
};
#define SCRATCH_INIT  \
    {                 \
        .lock_fd = -1 \
    }

/* For whom the folder is. */
struct scratch_owner {
    const char *head; /* one process of muster on one machine */
    const char *run;  /* its run, which another head may go on with; "": not known */
    uint64_t keep_ms; /* how long the folder stays after the agent's death */
};

/* Makes the folder if it is not there yet. */
MUST_CHECK int scratch_take(struct scratch *scratch, const struct scratch_owner *owner,
                            struct reaper *reaper, struct err *err);
/* Of the folders that nobody holds, takes over those of this head, and removes those of other heads whose time is over,
 * or that had the same run. */
void scratch_sweep(struct scratch *scratch, const struct scratch_owner *owner);
/* Removes the folders, or leaves each to its keeper: another agent may fetch files from there. */
void scratch_close(struct scratch *scratch, bool is_left);
/* True if nothing more can be written there. */
bool scratch_is_full(const struct scratch *scratch);
