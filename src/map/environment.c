/* SPDX-License-Identifier: Apache-2.0 */
#include "map/environment.h"

#include "base/cleanup.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "map/session_impl.h"
#include "map/work.h"
#include "node/environment.h"

void worker_environment(const struct worker *worker, uint64_t batch, struct env_list *env)
{
    const struct session *s = worker->session;
    worker_environment_begin(&s->allocation, worker->seat, &s->request->environment, env);
    env_set(env, xasprintf("MUSTER_RUN_ID=%s", shell_run_id(s->shell)));
    env_set(env, xasprintf("MUSTER_RUN_DIR=%s", shell_run_dir(s->shell)));
    env_set(env, xasprintf("MUSTER_SEED=%lu", s->base_seed));
    env_set(env, xasprintf("MUSTER_ATTEMPT=%u", worker->number));
    env_set(env, xasprintf("MUSTER_BATCH=%lu", batch > 0 ? batch : s->request->schedule.batch));
    s->request->work->worker->environment(worker, env);
    env_end(env);
}

void environment_sent_print(const struct session *s)
{
    struct env_list env = {0}, changes = {0};
    cleanup_buf struct buf line = BUF_INIT;
    if (s->n_seats == 0 || s->allocation.n_hosts < 2)
        return;
    worker_environment_begin(&s->allocation, s->n_seats - 1, &s->request->environment, &env);
    env_end(&env);
    environment_changes((const char *const *)env.at, &s->request->environment.env, &changes);
    buf_add_text(&line, "sent to other hosts: MUSTER_* of the run");
    for (size_t i = 0; i < changes.len; i++)
        if (strncmp(changes.at[i], "MUSTER_", 7) != 0)
            buf_addf(&line, ", %.*s", (int)strcspn(changes.at[i], "="), changes.at[i]);
    print_line("%s", buf_text(&line));
    env_list_release(&env);
    env_list_release(&changes);
}
