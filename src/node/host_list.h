/* SPDX-License-Identifier: Apache-2.0
 *
 * --hosts: which machines, and which of their devices.
 *
 *     node1,user@10.0.0.5:2222,[fe80::1]:22     as ssh has them
 *     node1=0-3                                 a device SPEC for this host alone (device/spec.h)
 *     @FILE                                     one host a line; slots=N (OpenMPI, DeepSpeed) is any:N
 *     local                                     this machine as well
 *     slurm                                     the nodes of the Slurm job that this process runs in
 *     slurm:4                                   four Slurm jobs of one node each, which are asked for
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "slurm/job.h"

struct host {
    char *name;    /* as in messages: "user@10.0.0.5:2222" */
    char *target;  /* without the port: "user@10.0.0.5" */
    char *label;   /* for names of files, unique in the list: "10.0.0.5" */
    char *gpus;    /* SPEC; NULL: the one for all hosts */
    uint16_t port; /* 0: not given */
    bool is_local, is_slurm;
    bool is_job; /* a Slurm job of its own, which may wait in the queue */
};

struct host_list {
    struct host *at;
    size_t len;
    size_t n_of_piece;    /* while it is parsed: hosts of the last entry, whose SPEC may go on */
    struct slurm_job job; /* for "slurm"; id NULL: "slurm" is not in the list */
};

/* ERR_USAGE, with the entry that is wrong; ERR_UNAVAILABLE: "slurm" outside of a job. */
MUST_CHECK int host_list_parse(const char *text, struct host_list *out, struct err *err);
/* Names the jobs of "slurm:4" "slurm-8" … "slurm-11" if there are seven before them. */
void host_list_number_jobs(struct host_list *list, size_t n_before);
void host_list_release(struct host_list *list);
void host_release(struct host *host);
/* Two hosts may differ in user or port alone: gives the host a label that is not taken. */
void host_label_settle(struct host *host, bool (*is_taken)(const void *context, const char *label),
                       const void *context);
