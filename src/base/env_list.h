/* SPDX-License-Identifier: Apache-2.0
 *
 * An environment that is being made: "NAME=value", each malloc'ed.
 */
#pragma once

#include <stddef.h>

struct env_list {
    char **at;
    size_t len, cap;
};

void env_list_add(struct env_list *env, char *taken);
void env_list_release(struct env_list *env);
/* Takes "NAME=value", in the place of what had that name. */
void env_set(struct env_list *env, char *entry);
/* Every entry of that name: an environment may hold several. */
void env_unset(struct env_list *env, const char *name);
/* The value; NULL: there is none. Borrowed. */
const char *env_get(const struct env_list *env, const char *name);
/* All that this process was started with. */
void env_inherit(struct env_list *env);
/* Takes entries: "NAME=value" is set, "NAME" unset. */
void env_apply(struct env_list *env, struct env_list *changes);
/* A NULL behind the last entry, not counted. */
void env_end(struct env_list *env);
