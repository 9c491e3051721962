/* SPDX-License-Identifier: Apache-2.0
 *
 * The far end of --hosts: this machine's node behind a stream (node/link.h), for a head that has the run. The agent
 * takes and locks devices, starts workers, and carries their bytes; it decides nothing. It ends everything that it
 * started when the stream ends or has been silent for too long, and leaves nothing but, for a while, files that the head
 * was fetching (scratch.h).
 *
 *   agent.c         the stream, the devices, the end
 *   agent_worker.c  workers: what the head sends to them, what they send to it
 *   kept.c          the program, where the head has installed it
 *   agent_files.c   files of workers, where this machine does not see those of the head
 *   scratch.c       the folder for these
 */
#pragma once

#include "base/log.h"

struct agent_request {
    const char
        *keep; /* the name of the bundle that the program's folder is: agent_keep(); NULL: serve */
    const char *folder; /* of the workers, if the head's own is not there; NULL: the present one */
};

/* Serves the head at the standard streams until it leaves. Returns an exit status, or an error. */
int agent_run(struct log *log, const char *self_path, const struct agent_request *request,
              struct err *err);
