/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.json: what was run, on what, with what, enough to run it again. Written once at the
 * start of a run; a resume reads it back. Text that is not UTF-8 (a path may be any bytes) stands
 * in it as {"bytes": "<hex>"} and comes back as it was.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    MANIFEST_VERSION = 1
};

/* The cure for a folder that is damaged beyond repair. --fresh takes a new one of the usual name. */
#define START_OVER "start over by muster map --fresh, or with another --run-dir"

struct manifest_device {
    const char *name, *uuid;
    uint32_t index;
    uint64_t memory_bytes;
};

/* For writing all pointers are borrowed and NULL means unknown. */
struct manifest {
    const char *verb;           /* "map" */
    const char *const *argv;    /* as typed, NULL-terminated */
    const char *const *command; /* the worker's, NULL-terminated; NULL: none */
    const char *cwd;            /* absolute */
    const char *const *inputs;  /* absolute, NULL-terminated; NULL: none */
    const char *output;         /* absolute, or "-" */
    const char *version;        /* muster's own */
    const char *driver;         /* of the devices */
    const char *options_json;   /* an object; NULL: {} */
    const char *input_json;     /* source_identity(), an object; NULL: null */
    uint64_t seed;
    int64_t started_wall_ms;
    const struct manifest_device *devices;
    size_t n_devices;

    /* Found out by manifest_write itself when NULL or 0; filled by manifest_read. */
    const char *git_commit; /* of the repository around cwd, if it is one */
    const char *host, *user, *kernel;
    uint32_t cpu_count;

    void *owner; /* manifest_read: what holds the strings */
};

/* The environment is noted too, but only what steers devices and threads (CUDA_*, SLURM_*, OMP_*
 * …): the rest may hold secrets. */
MUST_CHECK int manifest_write(const char *dir, const struct manifest *manifest, struct err *err);
/* ERR_USAGE if there is none, ERR_DATA if it is malformed. Give it back with manifest_release. What is
 * always there: verb, argv, cwd, options_json; all else may be NULL. */
MUST_CHECK int manifest_read(const char *dir, struct manifest *out, struct err *err);
void manifest_release(struct manifest *manifest);
