/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer thread: passes bytes to a function, in order, on a thread of its own, so that a file is
 * written while the bytes that follow are computed. If no thread can be started,
 * writer_thread_write() calls the function itself.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

typedef int writer_thread_fn(void *context, struct str bytes, struct err *err);

struct writer_thread;

/* No other thread may use what `write` uses until the writer is closed. */
struct writer_thread *writer_thread_open(writer_thread_fn *write, void *context);
/*
 * Queues a copy of the bytes; blocks while two writes are queued. An error may be that of earlier
 * bytes.
 */
MUST_CHECK int writer_thread_write(struct writer_thread *writer, struct str bytes, struct err *err);
/*
 * Waits until all bytes are written, and frees the writer. Returns the thread's first failure, even
 * if writer_thread_write() returned that failure before; without a thread, 0.
 */
MUST_CHECK int writer_thread_close(struct writer_thread *writer, struct err *err);
