/* SPDX-License-Identifier: Apache-2.0 */
#include "node/background.h"

#include <assert.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/thread.h"

static void on_ended(uv_async_t *async)
{
    struct background *background = (struct background *)async;
    static_assert(offsetof(struct background, ended) == 0, "on_ended relies on it");
    background->is_running = false;
    if (background->has_thread)
        pthread_join(background->thread, NULL);
    background->done(async->data);
}

static void *run(void *context)
{
    struct background *background = context;
    background->run(background->ended.data);
    uv_async_send(&background->ended);
    return NULL;
}

void background_open(struct background *background, uv_loop_t *loop, void *context)
{
    int rc = uv_async_init(loop, &background->ended, on_ended);
    ASSERT(rc == 0); /* it cannot fail: the loop already has the descriptor that this needs */
    background->ended.data = context;
}

void background_start(struct background *background, void (*work)(void *context),
                      void (*done)(void *context))
{
    background->run = work;
    background->done = done;
    background->is_running = true;
    background->has_thread = thread_start(&background->thread, run, background);
    if (!background->has_thread)
        run(background);
}

void background_close(struct background *background, uv_close_cb closed)
{
    if (background->is_running && background->has_thread)
        pthread_join(background->thread, NULL);
    background->is_running = false;
    uv_close((uv_handle_t *)&background->ended, closed);
}
