/* SPDX-License-Identifier: Apache-2.0 */
#include "map/environment.h"

#include "base/xalloc.h"
#include "map/work.h"
#include "node/environment.h"

void worker_environment(const struct worker *worker, uint64_t batch, struct env_list *env)
{
    const struct session *s = worker->session;
    env_inherit(env);
    seat_environment_add(&s->allocation, worker->seat, env);
    env_unset(env, "MUSTER_CHANNEL"); /* that of a muster which started this one */
    env_set(env, xasprintf("MUSTER_RUN_ID=%s", s->shell.run_id));
    env_set(env, xasprintf("MUSTER_RUN_DIR=%s", s->shell.run_dir));
    env_set(env, xasprintf("MUSTER_SEED=%lu", s->base_seed));
    env_set(env, xasprintf("MUSTER_ATTEMPT=%u", worker->number));
    env_set(env, xasprintf("MUSTER_BATCH=%lu", batch > 0 ? batch : s->request->schedule.batch));
    s->request->work->worker->environment(worker, env);
    if (!env_get(env, "PYTHONUNBUFFERED"))
        env_set(env, xstrdup("PYTHONUNBUFFERED=1"));
    env_end(env);
}
