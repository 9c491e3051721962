/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/session.h"

#include "base/cleanup.h"
#include "base/xalloc.h"

static void on_sampled(void *context, const struct device_sample *sample)
{
    struct trial_session *session = context;
    trial_sampled(&session->run, sample);
}

static void on_memory_back(void *context, uint32_t seat)
{
    struct trial_session *session = context;
    trial_memory_back(&session->run, seat);
}

/*
 * A lost device ends the session, because its measurements cannot be repeated on another device. The loss of a device
 * that the run does not use has no effect.
 */
static void on_lost(void *context, uint32_t chosen, bool is_awaited)
{
    struct trial_session *session = context;
    struct err err = {0};
    cleanup_buf struct buf label = BUF_INIT;
    (void)is_awaited;
    if (!trial_has(&session->run, chosen))
        return;
    allocation_label_add(&session->allocation, chosen, &label);
    fail(&err, ERR_UNAVAILABLE, "%s was lost", buf_text(&label));
    shell_abort(session->shell, &err);
}

static const struct device_handlers watch_handlers = {
    .sampled = on_sampled, .lost = on_lost, .memory_back = on_memory_back};

static void on_stop(void *context, enum shell_stop how)
{
    struct trial_session *session = context;
    trial_stop(&session->run, how == STOP_KILL ? END_AT_ONCE : END_POLITELY);
}

static void on_tick(void *context)
{
    struct trial_session *session = context;
    trial_tick(&session->run);
    device_watch_check(session->watch);
}

static void on_each_second(void *context)
{
    struct trial_session *session = context;
    device_watch_renew(session->watch);
}

int trial_session_open(struct trial_session *session, const struct trial_session_wish *wish,
                       struct err *err)
{
    cleanup_free char *gpus = NULL;
    struct allocation_wish allocation = *wish->allocation;
    const struct shell_setup setup = {.verb = &session->verb,
                                      .context = session,
                                      .log = wish->log,
                                      .self_path = wish->self_path,
                                      .sample_every_ms = TRIAL_SAMPLE_EVERY_MS,
                                      .limit_ms = wish->limit_ms};
    *session = (struct trial_session){.shell = shell_new(&setup),
                                      .verb = {.name = wish->verb,
                                               .stop = on_stop,
                                               .tick = on_tick,
                                               .each_second = on_each_second},
                                      .run = {.setting = {NULL, &session->allocation, NULL},
                                              .ended = wish->ended,
                                              .context = wish->context,
                                              .input = TRIAL_INPUT_INIT}};
    session->run.setting.shell = session->shell;
    int rc = trial_spec_new(wish->self_path, allocation.gpus, wish->n_devices, &gpus, err);
    allocation.gpus = gpus;
    if (rc == 0)
        rc = shell_begin(session->shell, &allocation, &session->allocation, err);
    if (rc)
        return rc;
    session->watch =
        device_watch_new(session->shell, &session->allocation, &watch_handlers, session);
    session->run.setting.watch = session->watch;
    device_watch_begin(session->watch);
    return 0;
}

void trial_session_close(struct trial_session *session)
{
    if (session->watch)
        device_watch_end(session->watch);
    shell_close(session->shell);
    device_watch_free(session->watch);
    trial_release(&session->run);
    allocation_release(&session->allocation);
    shell_free(session->shell);
}
