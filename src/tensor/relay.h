/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes go on to whoever takes them, in their order, on a thread of its own: a file is written while what comes
 * next is made. Where no thread can be had they are passed on at once.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

typedef int relay_fn(void *context, struct str bytes, struct err *err);

struct relay;

/* Until it is closed, nobody else touches what `pass` touches. */
struct relay *relay_open(relay_fn *pass, void *context);
/* The bytes are copied. An error may be of what was passed on before. */
MUST_CHECK int relay_pass(struct relay *relay, struct str bytes, struct err *err);
/* When all of them are there; or the first failure, which may have been told before. */
MUST_CHECK int relay_close(struct relay *relay, struct err *err);
