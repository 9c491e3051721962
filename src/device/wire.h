/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and reads a device, or a sample of one, as one JSON object on a line: between the helper
 * process and muster, and for `muster gpus --json`. Unknown members are skipped, missing ones stay
 * as they are.
 */
#pragma once

#include "device/probe.h"

void device_format_json(const struct device *device, struct buf *out);
MUST_CHECK bool device_parse_json(struct str line, struct device *out);
void sample_format_json(const struct device_sample *sample, struct buf *out);
MUST_CHECK bool sample_parse_json(struct str line, struct device_sample *out);
