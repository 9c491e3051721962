/* SPDX-License-Identifier: Apache-2.0
 *
 * What the doctor reports: one finding for each thing that it looked at. A trouble is a constant: its level, its
 * meaning and its cure. The check that finds a trouble adds what was found, with figures.
 */
#pragma once

#include "base/buf.h"
#include "device/device.h"

/* level, name in the output */
#define FINDING_LEVELS(X) \
    X(OK, "ok")           \
    X(WARN, "warn")       \
    X(FAIL, "fail")

enum finding_level {
#define X(level, name) FINDING_##level,
    FINDING_LEVELS(X)
#undef X
};

struct trouble {
    enum finding_level level; /* WARN or FAIL */
    const char *means, *cure;
    const char *means_amd, *cure_amd; /* on AMD's devices; NULL: the same */
};

struct finding {
    enum finding_level level;
    const char *check;        /* "shm"; static */
    char subject[192];        /* what it is about: "gpu 0-3", a folder; "" for the machine */
    char *found;              /* with the figures */
    const char *means, *cure; /* static; "" when all is well */
};

struct findings {
    struct finding *at;
    size_t len;
    const char *check; /* the current check, which goes into each finding */
};

void findings_release(struct findings *findings);
/* Adds the finding that all is well; the text says what was seen. */
void found_ok(struct findings *findings, const char *fmt, ...) PRINTF(2, 3);
/* The same for one of several subjects. A subject may be "" and is cut to what fits, here and
 * below. */
void found_ok_on(struct findings *findings, const char *subject, const char *fmt, ...) PRINTF(3, 4);
void found(struct findings *findings, const struct trouble *trouble, const char *subject,
           const char *fmt, ...) PRINTF(4, 5);
/* found_for(): as found(), with the meaning and the cure for devices of that kind. found_at(): the
 * same for one device, which is the subject. */
void found_for(struct findings *findings, const struct trouble *trouble, enum device_kind kind,
               const char *subject, const char *fmt, ...) PRINTF(5, 6);
void found_at(struct findings *findings, const struct trouble *trouble, const struct device *device,
              const char *fmt, ...) PRINTF(4, 5);

const char *finding_level_name(enum finding_level level);
size_t findings_count(const struct findings *findings, enum finding_level level);
/* The first finding of the worst level; NULL if there are no findings. */
const struct finding *findings_worst(const struct findings *findings);
/* An object with check, level, subject, found, means and cure, without a newline. */
void finding_format_json(const struct finding *finding, struct buf *out);
