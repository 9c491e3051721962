/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices that muster gpus shows, of this machine and of others, as a table and as objects.
 */
#pragma once

#include "base/buf.h"
#include "device/device.h"

struct gpus_row {
    const char *host; /* borrowed; NULL: this machine, if no hosts were asked for */
    struct device device;
    char time[40];
    char *locked_by; /* NULL: nobody */
    char *in_use_by; /* its processes and its lock, in words; not NULL */
};

struct gpus_rows {
    struct gpus_row *at;
    size_t len;
};

/* Adds a device of this machine. */
void gpus_rows_add(struct gpus_rows *rows, const struct device *device);
/*
 * Adds the devices that `muster gpus --json` printed on another host: any bytes. ERR_DATA, and
 * nothing is added, if they cannot be read.
 */
MUST_CHECK int gpus_rows_parse(struct gpus_rows *rows, const char *host, struct str text,
                               struct err *err);
void gpus_rows_release(struct gpus_rows *rows);

void gpus_rows_table(const struct gpus_rows *rows, struct buf *out);
/* Adds one object on a line for each device that is known. */
void gpus_rows_json(const struct gpus_rows *rows, struct buf *out);
