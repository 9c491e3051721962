/* SPDX-License-Identifier: Apache-2.0
 *
 * A scene for the feeder: a few events set it, and the actions that follow are compared as text.
 */
#pragma once

#include "unit/test.h"

#include "base/buf.h"
#include "core/feed.h"

struct scene {
    struct feed *feed;
    uint64_t now_ms;
    struct buf said; /* actions since the last expect */
};

static const char *const action_names[] = {
#define X(kind) [ACT_##kind] = #kind,
    FEED_ACTIONS(X)
#undef X
};

static inline void scene_open(struct scene *scene, const struct feed_config *config)
{
    *scene = (struct scene){.feed = feed_new(config), .now_ms = 1000};
    assert_non_null(scene->feed);
}

static inline void scene_close(struct scene *scene)
{
    feed_free(scene->feed);
    buf_release(&scene->said);
}

static inline void tell(struct scene *scene, struct feed_event event)
{
    const struct feed_action *actions;
    event.now_ms = scene->now_ms;
    size_t n_actions = feed_step(scene->feed, &event, &actions);
    feed_check(scene->feed);
    for (size_t i = 0; i < n_actions; i++) {
        const struct feed_action *a = &actions[i];
        buf_addf(&scene->said, "%s", action_names[a->kind]);
        if (a->worker != UINT32_MAX)
            buf_addf(&scene->said, " w%u", a->worker);
        if (a->kind == ACT_SEND || a->kind == ACT_COMMIT)
            buf_addf(&scene->said, " %lu+%lu", a->item, a->count);
        if (a->kind == ACT_SET_ASIDE)
            buf_addf(&scene->said, " %lu after %lu", a->item, a->count);
        if (a->kind == ACT_BATCH || (a->kind == ACT_SPAWN && a->count > 0))
            buf_addf(&scene->said, " batch %lu", a->count);
        buf_add_text(&scene->said, "; ");
    }
}

static inline void expect(struct scene *scene, const char *actions)
{
    if (strcmp(buf_text(&scene->said), actions) != 0)
        fail_msg("expected \"%s\"\n   found \"%s\"", actions, buf_text(&scene->said));
    buf_reset(&scene->said);
}

#define TELL(scene, ...) tell(scene, (struct feed_event){__VA_ARGS__})

/* A channel worker, up and asking. */
static inline void channel_up(struct scene *scene, uint32_t worker, uint64_t credits)
{
    TELL(scene, .kind = EV_STARTED, .worker = worker);
    TELL(scene, .kind = EV_READY, .worker = worker, .count = credits);
}

/* A filter whose answers carry keys, up and with room. */
static inline void keyed_up(struct scene *scene, uint32_t worker)
{
    TELL(scene, .kind = EV_STARTED, .worker = worker);
    TELL(scene, .kind = EV_KEYED, .worker = worker);
    TELL(scene, .kind = EV_ROOM, .worker = worker, .count = 1000);
}
