/* SPDX-License-Identifier: Apache-2.0 */
#include "node/environment.h"

#include "base/cleanup.h"
#include "base/executable.h"
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

void environment_begin(struct env_list *env)
{
    static const char *const of_worker[] = {"MUSTER_CHANNEL", "MUSTER_WORKER", "MUSTER_WORKERS"};
    env_inherit(env);
    for (size_t i = 0; i < countof(of_worker); i++)
        env_unset(env, of_worker[i]);
    if (!env_get(env, "PYTHONUNBUFFERED"))
        env_set(env, xstrdup("PYTHONUNBUFFERED=1"));
}

static void python_path_add(const struct allocation *a, struct env_list *env)
{
    const char *before = env_get(env, "PYTHONPATH");
    if (a->python_dir)
        env_set(env, xasprintf("PYTHONPATH=%s%s%s", before ? before : "",
                               before && *before ? ":" : "", a->python_dir));
}

void seat_devices_add(const struct allocation *a, const struct seat *seat, struct env_list *env)
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
            seat_devices_add(a, seat, env);
        python_path_add(a, env);
    }
    env_set(env, xasprintf("MUSTER_WORKER=%u", number));
    env_set(env, xasprintf("MUSTER_WORKERS=%u", a->n_seats));
}

/* ---- what the user wants ---- */

int environment_entry_check(const char *entry, struct err *err)
{
    if (entry[0] == '\0' || entry[0] == '=')
        return fail(err, ERR_USAGE, "expected NAME=VALUE or NAME, found '%s'", entry);
    if (!strchr(entry, '=') && !getenv(entry))
        return fail(err, ERR_USAGE, "%s has no value here; write %s=VALUE", entry, entry);
    return 0;
}

void environment_wish_apply(const struct environment_wish *wish, struct env_list *env)
{
    for (size_t i = 0; i < wish->env.len; i++)
        if (strchr(wish->env.at[i], '='))
            env_set(env, xstrdup(wish->env.at[i]));
}

void worker_environment_begin(const struct allocation *allocation, uint32_t number,
                              const struct environment_wish *wish, struct env_list *env)
{
    environment_begin(env);
    seat_environment_add(allocation, number, env);
    environment_wish_apply(wish, env);
}

void environment_command(const struct environment_wish *wish, const char *const *program,
                         struct env_list *words)
{
    /* Bash where there is one: files that are sourced are often written for it. */
    static const char *const shell[] = {
        "sh", "-c", "s=sh; command -v bash >/dev/null && s=bash; exec $s -c \"$0\" $s \"$@\"",
        NULL};
    if (wish->setup) {
        env_list_add_words(words, shell);
        /* The newline: the setup may end with a comment. */
        env_list_add(words, xasprintf("{ %s\n} || exit; exec \"$@\"", wish->setup));
    }
    env_list_add_words(words, program);
    env_end(words);
}

void environment_program(const struct environment_wish *wish, const char *const *command,
                         struct allocation_wish *allocation)
{
    allocation->program = wish->setup ? NULL : command[0];
    allocation->script = wish->setup ? NULL : program_script(command);
    allocation->sent = &wish->env;
}

void environment_changes(const char *const *envp, const struct texts *sent,
                         struct env_list *changes)
{
    struct env_list own = {0};
    env_inherit(&own);
    for (size_t i = 0; sent && i < sent->len; i++) {
        cleanup_free char *name = xstrndup(sent->at[i], strcspn(sent->at[i], "="));
        env_unset(&own, name);
    }
    for (size_t i = 0; envp[i]; i++) {
        size_t name_len = strcspn(envp[i], "=");
        cleanup_free char *name = xstrndup(envp[i], name_len);
        const char *before = env_get(&own, name);
        if (!before || strcmp(before, envp[i] + name_len + (envp[i][name_len] == '=')) != 0)
            env_list_add(changes, xstrdup(envp[i]));
        env_unset(&own, name);
    }
    for (size_t i = 0; i < own.len; i++)
        env_list_add(changes, xstrndup(own.at[i], strcspn(own.at[i], "=")));
    env_list_release(&own);
}
