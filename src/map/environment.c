/* SPDX-License-Identifier: Apache-2.0 */
#include "map/environment.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "map/work.h"

/* The folder with muster.py: beside the sources in a build tree, under share/ when installed. */
static char *python_dir_new(const char *self_path)
{
    static const char *const python_dirs[] = {"../python", "../share/muster/python"};
    cleanup_free char *folder = path_dirname(self_path);
    for (size_t i = 0; i < countof(python_dirs); i++) {
        char *found = path_join(folder, python_dirs[i]);
        cleanup_free char *module = path_join(found, "muster.py");
        if (path_exists(module))
            return found;
        free(found);
    }
    return NULL;
}

static void python_path_add(const struct session *s, struct env_list *env)
{
    cleanup_free char *folder = python_dir_new(s->shell.self_path);
    const char *inherited = env_get(env, "PYTHONPATH");
    if (folder)
        env_set(env, xasprintf("PYTHONPATH=%s%s%s", inherited ? inherited : "",
                               inherited && *inherited ? ":" : "", folder));
}

void worker_environment(const struct worker *worker, uint64_t batch, struct env_list *env)
{
    const struct session *s = worker->session;
    allocation_environment(&s->allocation, worker->seat, s->request->visible, env);
    env_unset(env, "MUSTER_CHANNEL"); /* that of a muster which started this one */
    env_set(env, xasprintf("MUSTER_RUN_ID=%s", s->shell.run_id));
    env_set(env, xasprintf("MUSTER_RUN_DIR=%s", s->shell.run_dir));
    env_set(env, xasprintf("MUSTER_SEED=%lu", s->base_seed));
    env_set(env, xasprintf("MUSTER_ATTEMPT=%u", worker->number));
    env_set(env, xasprintf("MUSTER_BATCH=%lu", batch > 0 ? batch : s->request->schedule.batch));
    s->request->work->worker->environment(worker, env);
    if (!env_get(env, "PYTHONUNBUFFERED"))
        env_set(env, xstrdup("PYTHONUNBUFFERED=1"));
    python_path_add(s, env);
    env_end(env);
}
