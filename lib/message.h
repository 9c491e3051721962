/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of a line from muster.
 */
#pragma once

#include "text.h"

struct mw_message {
    bool is_item, is_stop;
    uint64_t batch; /* 0: not in the message */
    struct muster_item item;
};

/* The item's views point into line, whose bytes may be changed (base64 is decoded in place). */
bool mw_message_read(struct muster_text line, struct mw_message *message);
