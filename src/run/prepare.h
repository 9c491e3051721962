/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/request.h"

/* What can be refused before anything is touched. ERR_USAGE, or ERR_UNAVAILABLE for the program. */
MUST_CHECK int request_check(const struct map_request *request, struct err *err);
