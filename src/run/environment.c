/* SPDX-License-Identifier: Apache-2.0 */
#include "run/environment.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "run/shard.h"

static bool is_named(const char *entry, const char *name, size_t len)
{
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* Later entries win: a variable that the seat or muster sets replaces the inherited one. */
void env_set(struct env_list *env, char *entry)
{
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < env->len; i++) {
        if (!is_named(env->at[i], entry, len))
            continue;
        free(env->at[i]);
        env->at[i] = entry;
        return;
    }
    env_list_add(env, entry);
}

/* Every entry of that name: an environment may hold several. */
static void env_unset(struct env_list *env, const char *name)
{
    size_t n_left = 0;
    for (size_t i = 0; i < env->len; i++) {
        if (is_named(env->at[i], name, strlen(name)))
            free(env->at[i]);
        else
            env->at[n_left++] = env->at[i];
    }
    env->len = n_left;
}

static const char *env_get(const struct env_list *env, const char *name)
{
    for (size_t i = 0; i < env->len; i++)
        if (is_named(env->at[i], name, strlen(name)))
            return env->at[i] + strlen(name) + 1;
    return NULL;
}

/* The folder with muster.py: beside the sources in a build tree, under share/ when installed. */
static char *python_dir_new(const char *self_path)
{
    static const char *const places[] = {"../python", "../share/muster/python"};
    cleanup_free char *folder = path_dirname(self_path);
    for (size_t i = 0; i < countof(places); i++) {
        char *found = path_join(folder, places[i]);
        cleanup_free char *module = path_join(found, "muster.py");
        if (path_exists(module))
            return found;
        free(found);
    }
    return NULL;
}

static void python_path_add(const struct session *s, struct env_list *env)
{
    cleanup_free char *folder = python_dir_new(s->self_path);
    const char *inherited = env_get(env, "PYTHONPATH");
    if (folder)
        env_set(env, xasprintf("PYTHONPATH=%s%s%s", inherited ? inherited : "",
                               inherited && *inherited ? ":" : "", folder));
}

void worker_environment(const struct life *life, uint64_t batch, struct env_list *env)
{
    const struct session *s = life->session;
    const struct place *place = &s->places[life->seat];
    struct env_list seat = {0};
    for (char **entry = environ; *entry; entry++)
        if (!is_named(*entry, "MUSTER_CHANNEL",
                      strlen("MUSTER_CHANNEL"))) /* of a muster around us */
            env_list_add(env, xstrdup(*entry));
    seat_environment(&place->seat, &s->devices, s->request->visible, &seat);
    for (size_t i = 0; i < seat.len; i++) {
        if (strchr(seat.at[i], '=')) {
            env_set(env, seat.at[i]);
            continue;
        }
        env_unset(env, seat.at[i]);
        free(seat.at[i]);
    }
    free(seat.at);
    env_set(env, xasprintf("MUSTER_RUN_ID=%s", s->run_id));
    env_set(env, xasprintf("MUSTER_RUN_DIR=%s", s->run_dir));
    env_set(env, xasprintf("MUSTER_WORKER=%u", life->seat));
    env_set(env, xasprintf("MUSTER_WORKERS=%u", s->n_places));
    env_set(env, xasprintf("MUSTER_SEED=%lu", s->base_seed));
    env_set(env, xasprintf("MUSTER_ATTEMPT=%u", life->number));
    env_set(env, xasprintf("MUSTER_BATCH=%lu", batch > 0 ? batch : s->request->batch));
    if (life->shard)
        shard_environment(life, env);
    else
        env_set(env, life->channel_path ? xasprintf("MUSTER_CHANNEL=%s", life->channel_path)
                                        : xstrdup("MUSTER_CHANNEL=3"));
    if (!env_get(env, "PYTHONUNBUFFERED"))
        env_set(env, xstrdup("PYTHONUNBUFFERED=1"));
    python_path_add(s, env);
    env_list_add(env, NULL);
    env->len--;
}
