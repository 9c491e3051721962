/* SPDX-License-Identifier: Apache-2.0
 *
 * An environment under construction: strings "NAME=value", each malloc'ed and owned by the list.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct env_list {
    char **at;
    size_t len, cap;
};

void env_list_add(struct env_list *env, char *taken);
/* Adds copies of the words, up to a NULL. */
void env_list_add_words(struct env_list *list, const char *const *words);
void env_list_release(struct env_list *env);
/* Takes ownership of "NAME=value", which replaces the entry of that name. */
void env_set(struct env_list *env, char *entry);
/* Removes every entry of that name: an environment may hold several. */
void env_unset(struct env_list *env, const char *name);
/* Removes every entry whose name begins with `beginning`, except the name `but` (NULL: no exception). */
void env_unset_beginning(struct env_list *env, const char *beginning, const char *but);
/* By its name "NAME" or "NAME=value" is a secret: HF_TOKEN, AWS_ACCESS_KEY_ID, SLURM_JWT, but not MAX_TOKENS. */
bool env_is_secret(const char *entry);
/* Removes every entry that is one. */
void env_unset_secrets(struct env_list *env);
/* The value of that name, borrowed; NULL if it is not set. */
const char *env_get(const struct env_list *env, const char *name);
/* Adds the environment of this process. */
void env_inherit(struct env_list *env);
/* An entry "NAME=value" of `changes` sets the name, an entry "NAME" unsets it. `changes` is empty
 * afterwards. */
void env_apply(struct env_list *env, struct env_list *changes);
/* Puts a NULL behind the last entry; len does not count it. */
void env_end(struct env_list *env);
