/* SPDX-License-Identifier: Apache-2.0
 *
 * What would block the loop, on a thread of its own that is gone with its stack when it is done. Where no thread may be
 * had it is done at once by the loop's; libuv's pool would end the program there.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

struct background {
    uv_async_t ended; /* its data is the context */
    pthread_t thread;
    bool has_thread;
    void (*run)(void *context);
    void (*done)(void *context);
};

void background_open(struct background *background, uv_loop_t *loop, void *context);
/* One at a time: run on the thread, then done by the loop. */
void background_start(struct background *background, void (*work)(void *context),
                      void (*done)(void *context));
/* Not while it runs. */
void background_close(struct background *background, uv_close_cb closed);
