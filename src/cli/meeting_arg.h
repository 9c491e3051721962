/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `muster launch` that say where ranks and machines meet, with torchrun's meanings.
 */
#pragma once

#include "launch/launch.h"
#include "launch/takeover.h"

struct meeting_options {
    bool is_standalone;
    const char *nnodes; /* NULL: not given */
    const char *backend, *endpoint, *conf, *local_addr, *token_file;
    const char *master_addr; /* NULL: not given */
    uint64_t master_port;    /* 0: not given */
    uint64_t node_rank;      /* UINT64_MAX: not given */
};

/* The texts that a request borrows. */
struct meeting_texts {
    char *host;
    struct buf token;
    struct takeover takeover;
};

/*
 * Fills in where the ranks of the request meet: its meeting, task, run_id, master_addr and
 * master_port. ERR_USAGE; ERR_UNAVAILABLE: the token's file cannot be read; ERR_DATA: the
 * launcher's variables are malformed.
 */
MUST_CHECK int meeting_settle(const struct meeting_options *options, struct launch_request *request,
                              struct meeting_texts *texts, struct log *log, struct err *err);
void meeting_texts_release(struct meeting_texts *texts);
