/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent's own folder on its machine, for files of workers and sockets: in TMPDIR or /tmp, for this user alone. The
 * folder is made when it is first needed.
 *
 * The folder has a lock, which is a file that names the head and the run. The process that holds the lock has to
 * remove the folder. At first this is the agent. If the agent is killed, or loses its link while the head still
 * fetches files from the folder, then the folder stays for a while. A new agent of the same head takes the folder
 * over and removes it at its end; without such an agent, the folder's keeper removes it. If the keeper was killed
 * too, a later agent of the same user removes the folder.
 */
#pragma once

#include "proc/keeper.h"

struct reaper;
struct scratch {
    char *path; /* NULL: no folder was needed yet */
    int lock_fd;
    struct keeper keeper;
    struct adopted_scratch {
        char *path;
        int lock_fd;
        uint64_t keep_ms;
    } * adopted; /* folders of earlier agents of the run */
    size_t n_adopted;
};
#define SCRATCH_INIT  \
    {                 \
        .lock_fd = -1 \
    }

/* The head and the run that the folder is for. */
struct scratch_owner {
    const char *head; /* one process of muster on one machine */
    const char *run;  /* the run of the head; another head may continue it; "": not known */
    uint64_t keep_ms; /* how long the folder stays after the agent's death */
};

/* Makes the folder if the agent has none yet. */
MUST_CHECK int scratch_take(struct scratch *scratch, const struct scratch_owner *owner,
                            struct reaper *reaper, struct err *err);
/*
 * Looks at the folders that no process holds: takes over those of this head, and removes those of other heads if
 * their time is over or if they had the same run.
 */
void scratch_sweep(struct scratch *scratch, const struct scratch_owner *owner);
/*
 * Removes the folders. With `is_left`, leaves each to its keeper instead, because another agent may send files from
 * there.
 */
void scratch_close(struct scratch *scratch, bool is_left);
/* True if the file system of the folder is full. */
bool scratch_is_full(const struct scratch *scratch);
