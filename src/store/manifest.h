/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.json: the command of a run with its inputs, options and surroundings, enough to run it again. It is
 * written at the start of a run, and by a graph also when it goes on; a resume reads it. Text that is not UTF-8 (a
 * path may be any bytes) is stored as {"bytes": "<hex>"} and is read back unchanged.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    MANIFEST_VERSION = 1
};

/* What messages advise if a run's folder is damaged beyond repair. --fresh makes a new folder with
 * a name of the usual form. */
#define START_OVER "start over by muster map --fresh, or with another --run-dir"

struct manifest_device {
    const char *name, *uuid;
    uint32_t index;
    uint64_t memory_bytes;
};

/* For writing all pointers are borrowed and NULL means unknown. */
struct manifest {
    const char *verb;           /* "map" */
    const char *const *argv;    /* the command line (opt/cmd.h, cmd_line), NULL-terminated */
    const char *const *command; /* the worker's, NULL-terminated; NULL: none */
    const char *cwd;            /* absolute */
    const char *folder;         /* the run's, absolute; set by manifest_write; NULL: not noted */
    const char *const *inputs;  /* absolute, NULL-terminated; NULL: none */
    const char *output;         /* absolute, or "-" */
    const char *version;        /* muster's own */
    const char *driver;         /* of the devices */
    const char *options_json;   /* an object; NULL: {} */
    const char *input_json;     /* source_identity(), an object; NULL: null */
    uint64_t seed;
    int64_t started_wall_ms;
    int64_t order_wall_ms; /* its place among runs, if the clock was set back; 0: started_wall_ms */
    const struct manifest_device *devices;
    size_t n_devices;

    /* If NULL or 0, manifest_write finds them itself; manifest_read fills them. */
    const char *git_commit; /* of the repository that contains cwd, if any */
    const char *host, *user, *kernel;
    uint32_t cpu_count;

    void *owner; /* manifest_read: what holds the strings */
};

/*
 * Also records variables of the environment that control devices and threads (CUDA_*, SLURM_*, OMP_* …); other
 * variables may hold secrets.
 */
MUST_CHECK int manifest_write(const char *dir, const struct manifest *manifest, struct err *err);
/* ERR_USAGE if there is none, ERR_DATA if it is malformed. Release it with manifest_release().
 * verb, argv, cwd and options_json are always set; any other pointer may be NULL. */
MUST_CHECK int manifest_read(const char *dir, struct manifest *out, struct err *err);
void manifest_release(struct manifest *manifest);
