/* SPDX-License-Identifier: Apache-2.0
 *
 * What the feeder is told and answers, by name, for traces.
 */
#pragma once

#include "core/feed.h"

static const char *const event_names[] = {
#define X(kind) #kind,
    FEED_EVENTS(X)
#undef X
};
static const char *const action_names[] = {
#define X(kind) #kind,
    FEED_ACTIONS(X)
#undef X
};
