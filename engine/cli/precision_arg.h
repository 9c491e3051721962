/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of --precision.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "num/backend.h"

/* Parses an option's value; `field` points to an enum num_format. */
int precision_store(struct str text, void *field, struct err *err);
const char *precision_name(enum num_format format);
