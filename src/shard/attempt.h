/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt at one shard, from the seat that waits for a shard to the files that its program
 * left:
 *   worker.c       the life of the attempt
 *   transfer.c     its files, on a host that does not share the run's folder
 *   fetch_again.c  the files of an earlier attempt on such a host
 */
#pragma once

#include "node/background.h"
#include "node/node.h"
#include "shard/progress_parser.h"
#include "shard/shard.h"

enum shard_phase {
    SHARD_IDLE,      /* the worker has a seat, and no shard yet */
    SHARD_PREPARING, /* before the start: the input is written */
    SHARD_STAGING,   /* before the start, on another host: the shard's files are made ready there */
    SHARD_RUNNING,
    SHARD_COLLECTING, /* after the end: the files are collected */
    SHARD_SETTLED
};

/* A file that the program must have left at its end. */
struct shard_taking {
    struct buf pattern;
    struct collect collect;
    struct file_traces before;
    struct collected found;
};

struct shard_worker {
    enum shard_phase phase;
    uint64_t shard, batch;
    uint32_t attempt;
    char *input_path; /* muster wrote a file for {input}; it is removed at the end. NULL: none */
    struct template_values values;
    struct buf text; /* holds the values */
    char **command;
    struct shard_taking *takings; /* by kind */
    size_t n_takings;
    struct background background;
    int rc; /* the result of the other thread's work */
    struct err err;
    uint64_t started_ms;
    struct node_files *files; /* on a host that does not share the run's folder; NULL: the files
                               * are here */
    char *folder;             /* the attempt's folder on that host */
    size_t n_fetched;         /* how many of `takings` were fetched */
    int64_t since_ns;         /* files that the program writes are newer (clock_file_ns) */
    struct progress_parser parsers[2]; /* of stdout and stderr */
};

static inline struct shard_worker *shard_worker_of(const struct worker *worker)
{
    return worker_work_data(worker);
}

/* ---- worker.c ---- */

/* Starts the program, when all is ready. */
void shard_attempt_start(struct worker *worker);
/* Ends the attempt: its files are here, or rc and err say why they are not. */
void shard_attempt_settle(struct worker *worker);
/* Makes values and command, with files in `folder`, or in the run's folder if it is NULL. */
void shard_attempt_fill(struct worker *worker, const char *folder);

/* ---- transfer.c ---- */

/*
 * Asks the host whether it shares the run's folder. Returns false if the host is this one. Else the
 * host answers later, and the program is started then, or when its files are ready there.
 */
bool shard_transfer_begin(struct worker *worker);
/* Fetches what the program left. */
void shard_transfer_collect(struct worker *worker);
/* Ends an attempt whose program has not started. */
void shard_transfer_drop(struct worker *worker);
/* The name of the host of the worker's seat; "" for this machine, if it is the only one. */
const char *shard_host_name(const struct worker *worker);
/* True if a pattern begins at the program's folder of work. */
bool shards_have_relative(const struct shards *shards);
/* Takes a file that a host has found. Returns false if the file is not what was asked for. */
bool shard_found_take(const struct shards *shards, uint64_t shard, size_t kind,
                      const struct left_ask *ask, const char *host, const struct left_file *file,
                      struct collected *found);
