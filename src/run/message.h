/* SPDX-License-Identifier: Apache-2.0
 *
 * What a channel worker's line says, taken apart and not yet understood. Pure.
 */
#pragma once

#include "base/buf.h"

/* Absent members have len 0; of one that occurs twice the last counts. Views into the line. */
struct message {
    struct str ready, done, fail, oom, loaded, result, metrics, error, retry, batch;
};

/* False if the line is not one JSON object. */
MUST_CHECK bool message_parse(struct str line, struct message *message);
