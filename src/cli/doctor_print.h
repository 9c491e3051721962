/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings as people and programs read them.
 */
#pragma once

#include "doctor/finding.h"
#include "doctor/trait.h"

/* Adds "warn  shm  /dev/shm: 64 MiB"; if all is not well, also the meaning and the cure. */
void finding_add(struct buf *out, const struct finding *finding, bool has_color);
/* Adds the verdict, the counts, and the first of the worst findings. */
void findings_summary_add(struct buf *out, const struct findings *findings, bool has_color);
/*
 * Adds an object on a line: {"time":…,"host":…, and what follows the brace of `object`. Control
 * characters in it are shown. `host` is as below.
 */
void object_line_add(struct buf *out, const struct buf *object, const char *host);
/*
 * Adds an object on a line. host NULL: no member "host"; "": the member is null, because the
 * finding is about several hosts.
 */
void finding_object_add(struct buf *out, const struct finding *finding, const char *host);
/* Adds one check for --list. */
void check_object_add(struct buf *out, const char *name, const char *purpose);

/*
 * Adds "kernel          6.1.0-13-amd64", a line for each trait that is known; the next function
 * adds them as objects.
 */
void traits_add(struct buf *out, const struct traits *traits);
void traits_objects_add(struct buf *out, const struct traits *traits, const char *host);
