/* SPDX-License-Identifier: Apache-2.0 */
#include "node/group.h"

#include "base/xalloc.h"

struct group {
    struct node base;
    struct node **nodes;
    size_t n_nodes;
    bool is_held; /* holds for nodes that are added later, too */
};

static int group_spawn(struct node *node, const struct spawn_request *request,
                       struct node_worker **out, struct err *err)
{
    const struct group *group = (const struct group *)node;
    ASSERT(request->seat->host < group->n_nodes);
    return node_spawn(group->nodes[request->seat->host], request, out, err);
}

static int group_stage(struct node *node, const struct stage_request *request,
                       struct node_files **out, struct err *err)
{
    const struct group *group = (const struct group *)node;
    ASSERT(request->seat->host < group->n_nodes);
    return node_stage(group->nodes[request->seat->host], request, out, err);
}

static void group_hold(struct node *node, bool is_held)
{
    struct group *group = (struct group *)node;
    group->is_held = is_held;
    for (size_t i = 0; i < group->n_nodes; i++)
        node_hold(group->nodes[i], is_held);
}

static uint64_t group_look(struct node *node)
{
    const struct group *group = (const struct group *)node;
    uint64_t look_ms = UINT64_MAX;
    for (size_t i = 0; i < group->n_nodes; i++)
        look_ms = MIN(look_ms, node_look(group->nodes[i]));
    return look_ms;
}

static void group_flush(struct node *node)
{
    const struct group *group = (const struct group *)node;
    for (size_t i = 0; i < group->n_nodes; i++)
        node_flush(group->nodes[i]);
}

static void group_tick(struct node *node)
{
    const struct group *group = (const struct group *)node;
    for (size_t i = 0; i < group->n_nodes; i++)
        node_tick(group->nodes[i]);
}

/* In reverse, because the transports of the other nodes are workers of the first. */
static void group_close(struct node *node)
{
    struct group *group = (struct group *)node;
    for (size_t i = group->n_nodes; i-- > 0;)
        node_close(group->nodes[i]);
    free(group->nodes);
    free(group);
}

/* A worker has the operations of its own node. */
static const struct node_ops group_ops = {.spawn = group_spawn,
                                          .hold = group_hold,
                                          .look = group_look,
                                          .flush = group_flush,
                                          .tick = group_tick,
                                          .close = group_close,
                                          .stage = group_stage};

struct node *group_open(struct node *first)
{
    struct group *group = xcalloc(1, sizeof(*group));
    *group = (struct group){.base = {&group_ops}};
    (void)group_add(&group->base, first);
    return &group->base;
}

uint32_t group_add(struct node *node, struct node *another)
{
    struct group *group = (struct group *)node;
    group->nodes = xrealloc(group->nodes, (group->n_nodes + 1) * sizeof(struct node *));
    group->nodes[group->n_nodes] = another;
    if (group->is_held)
        node_hold(another, true);
    return (uint32_t)group->n_nodes++;
}
