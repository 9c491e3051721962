/* SPDX-License-Identifier: Apache-2.0 */
#include "base/env_list.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/xalloc.h"

void env_list_add(struct env_list *env, char *taken)
{
    if (env->len == env->cap) {
        env->cap = env->cap ? 2 * env->cap : 16;
        env->at = xrealloc(env->at, env->cap * sizeof(*env->at));
    }
    env->at[env->len++] = taken;
}

void env_list_add_words(struct env_list *list, const char *const *words)
{
    for (; *words; words++)
        env_list_add(list, xstrdup(*words));
}

void env_list_release(struct env_list *env)
{
    for (size_t i = 0; i < env->len; i++)
        free(env->at[i]);
    free(env->at);
    *env = (struct env_list){0};
}

static bool is_named(const char *entry, const char *name, size_t len)
{
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

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

void env_unset(struct env_list *env, const char *name)
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

void env_unset_beginning(struct env_list *env, const char *beginning, const char *but)
{
    size_t n_left = 0;
    for (size_t i = 0; i < env->len; i++) {
        bool is_kept = strncmp(env->at[i], beginning, strlen(beginning)) != 0 ||
                       (but && is_named(env->at[i], but, strlen(but)));
        if (is_kept)
            env->at[n_left++] = env->at[i];
        else
            free(env->at[i]);
    }
    env->len = n_left;
}

/*
 * Is this a word for a secret in the name of a variable? A number may follow it, as in KEY2. TOKENS
 * is none: it is a number of tokens.
 */
static bool word_is_secret(const char *word, size_t len)
{
    static const char *const ends[] = {"TOKEN",  "SECRET",     "SECRETS", "PASSWORD", "PASSWORDS",
                                       "PASSWD", "PASSPHRASE", "KEY",     "KEYS",     "JWT"};
    bool is = false;
    while (len > 0 && isdigit((unsigned char)word[len - 1]))
        len--;
    for (size_t i = 0; i < countof(ends); i++) {
        size_t end_len = strlen(ends[i]);
        is = is || (len >= end_len && strncasecmp(word + len - end_len, ends[i], end_len) == 0);
    }
    return is;
}

bool env_is_secret(const char *entry)
{
    const char *end = entry + strcspn(entry, "=");
    bool is = false;
    while (entry < end && !is) {
        size_t len = strcspn(entry, "_=");
        is = word_is_secret(entry, len);
        entry += len + 1;
    }
    return is;
}

void env_unset_secrets(struct env_list *env)
{
    size_t n_left = 0;
    for (size_t i = 0; i < env->len; i++) {
        if (env_is_secret(env->at[i]))
            free(env->at[i]);
        else
            env->at[n_left++] = env->at[i];
    }
    env->len = n_left;
}

const char *env_get(const struct env_list *env, const char *name)
{
    for (size_t i = 0; i < env->len; i++)
        if (is_named(env->at[i], name, strlen(name)))
            return env->at[i] + strlen(name) + 1;
    return NULL;
}

void env_inherit(struct env_list *env)
{
    for (char **entry = environ; *entry; entry++)
        env_list_add(env, xstrdup(*entry));
}

void env_apply(struct env_list *env, struct env_list *changes)
{
    for (size_t i = 0; i < changes->len; i++) {
        if (strchr(changes->at[i], '=')) {
            env_set(env, changes->at[i]);
            continue;
        }
        env_unset(env, changes->at[i]);
        free(changes->at[i]);
    }
    free(changes->at);
    *changes = (struct env_list){0};
}

void env_end(struct env_list *env)
{
    env_list_add(env, NULL);
    env->len--;
}
