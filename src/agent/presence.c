/* SPDX-License-Identifier: Apache-2.0
 *
 * Which agents of a head have left nothing behind. When a link is cut, the agent there ends its workers, which takes up to
 * the time of grace; meanwhile the head may have started another agent. Each holds a name in the kernel, together with the
 * guards of its workers and its keeper, so a name that is free says that all of them have ended. Names are seen in one
 * network namespace of one machine alone, so the head is told where that is.
 */
#include "agent/agent_impl.h"
#include "base/fs.h"

enum {
    PRESENCE_MAX = 80
};

static void name_of(const struct agent *agent, uint32_t number, char out[PRESENCE_MAX])
{
    snprintf(out, PRESENCE_MAX, "%s.%u", agent->take.presence, number);
}

void agent_presence_take(struct agent *agent)
{
    char name[PRESENCE_MAX], boot[64], space[64];
    if (!agent->take.presence[0])
        return;
    name_of(agent, agent->take.agent_number, name);
    boot_id_read(boot);
    net_space(space);
    if (boot[0] && space[0] && device_locks_be_present(&agent->allocation.locks, name))
        snprintf(agent->presence.place, sizeof(agent->presence.place), "%s %s", boot, space);
    agent->presence.next_number = agent->take.empty_number + 1;
}

void agent_presence_tick(struct agent *agent)
{
    char name[PRESENCE_MAX];
    uint32_t *next = &agent->presence.next_number;
    if (*next == 0)
        return;
    for (; *next < agent->take.agent_number; (*next)++) {
        name_of(agent, *next, name);
        if (presence_is_held(name))
            return;
    }
    *next = 0;
    agent_send(agent, FRAME_EMPTY, WIRE_NO_WORKER, 0, STR(""));
}
