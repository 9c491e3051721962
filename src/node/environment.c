/* SPDX-License-Identifier: Apache-2.0 */
#include "node/environment.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

char *python_dir_new(const char *self_path)
{
    static const char *const python_dirs[] = {"", "../python", "../share/muster/python"};
    cleanup_free char *folder = path_dirname(self_path);
    for (size_t i = 0; i < countof(python_dirs); i++) {
        char *found = i == 0 ? xstrdup(folder) : path_join(folder, python_dirs[i]);
        cleanup_free char *module = path_join(found, "muster.py");
        if (path_exists(module))
            return found;
        free(found);
    }
    return NULL;
}

static void python_path_add(const struct allocation *a, struct env_list *env)
{
    const char *before = env_get(env, "PYTHONPATH");
    if (a->python_dir)
        env_set(env, xasprintf("PYTHONPATH=%s%s%s", before ? before : "",
                               before && *before ? ":" : "", a->python_dir));
}

static void devices_add(const struct allocation *a, const struct seat *seat, struct env_list *env)
{
    struct env_list of_seat = {0};
    seat_environment(seat, &a->devices, a->visible, &of_seat);
    env_apply(env, &of_seat);
}

void seat_environment_add(const struct allocation *a, uint32_t number, struct env_list *env)
{
    const struct seat *seat = &a->seats[number];
    if (seat->host == 0) {
        if (seat->n_devices > 0)
            devices_add(a, seat, env);
        python_path_add(a, env);
    }
    env_set(env, xasprintf("MUSTER_WORKER=%u", number));
    env_set(env, xasprintf("MUSTER_WORKERS=%u", a->n_seats));
}
