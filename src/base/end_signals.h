/* SPDX-License-Identifier: Apache-2.0
 *
 * The signals that ask a program to end. Muster passes them on to the processes that it has started.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* The number of a signal, "SIGTERM"; 0: the name is not one of these signals. */
int end_signal_find(struct str name);
bool end_signal_is(int number);
/* The name of a signal, "SIGTERM"; for any other number "a signal". */
const char *end_signal_name(int number);
