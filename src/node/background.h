/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs work that would block the loop on a thread of its own, which ends with the work. If no thread can be
 * created, the loop's thread does the work at once; libuv's pool would abort the program.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

struct background {
    uv_async_t ended; /* its data is the context */
    pthread_t thread;
    bool has_thread, is_running;
    void (*run)(void *context);
    void (*done)(void *context);
};

void background_open(struct background *background, uv_loop_t *loop, void *context);
/* One at a time: work() is called on the thread, then done() on the loop's. */
void background_start(struct background *background, void (*work)(void *context),
                      void (*done)(void *context));
/* Waits for work that runs; done() is not called any more. */
void background_close(struct background *background, uv_close_cb closed);
