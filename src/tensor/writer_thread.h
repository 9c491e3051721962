/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer thread: passes bytes to a function, in order, on a thread of its own, so that a file
 * is written while the bytes that follow are made. If no thread can be started, the function is
 * called by the caller's thread.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

typedef int writer_thread_fn(void *context, struct str bytes, struct err *err);

struct writer_thread;

/* Until the thread is closed, no other thread may use what `write` uses. */
struct writer_thread *writer_thread_open(writer_thread_fn *write, void *context);
/* Queues a copy of the bytes; blocks while two writes are queued. An error may be of earlier
 * bytes. */
MUST_CHECK int writer_thread_write(struct writer_thread *writer, struct str bytes, struct err *err);
/* Waits until all bytes are written, and frees the writer. Returns the first failure, also if a
 * writer_thread_write returned it before. */
MUST_CHECK int writer_thread_close(struct writer_thread *writer, struct err *err);
