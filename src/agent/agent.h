/* SPDX-License-Identifier: Apache-2.0
 *
 * The far end of --hosts. An agent serves the node of this machine over a stream (node/link.h) to a head on another
 * machine, which has the run. The agent takes and locks devices, starts workers, and carries their bytes; the head
 * makes all decisions. When the stream ends, or has been silent for too long, the agent ends everything that it
 * started. It leaves nothing behind, except that files which the head was fetching stay for a while (scratch.h).
 *
 *   agent.c         the stream, the devices, the end
 *   agent_worker.c  workers: what the head sends to them, what they send to it
 *   kept.c          the program, on a host where the head has installed it
 *   agent_files.c   files of workers, where this machine does not see those of the head
 *   scratch.c       the folder for the files of workers
 */
#pragma once

#include "base/log.h"

struct agent_request {
    const char *keep;   /* the bundle's name, for agent_keep(); NULL: serve */
    const char *folder; /* for workers, if the head's is not here; NULL: the present one */
};

/* Serves the head over the standard streams until the head leaves. Returns an exit status, or an error. */
int agent_run(struct log *log, const char *self_path, const struct agent_request *request,
              struct err *err);
