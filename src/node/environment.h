/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment of a worker on a seat has in addition to muster's: its devices, its number, and in PYTHONPATH
 * the folder with muster.py. Variables that depend on the machine are added there: for a seat of another host, by the
 * host's agent from its own allocation.
 */
#pragma once

#include "base/texts.h"
#include "node/allocation.h"

/* A secret that the ranks of a job have in common; muster launch sends it, and only ranks read it. */
#define LIBMUSTER_TOKEN "MUSTER_DIST_TOKEN"

/* What the user wants around every worker. */
struct environment_wish {
    const char
        *setup; /* a line of shell, which runs before the program in the same shell; NULL: none */
    struct texts env; /* NAME=VALUE; NAME: the value of this process, on other hosts too */
};

/* ERR_USAGE for a malformed entry of `env`, or a name that has no value here. */
MUST_CHECK int environment_entry_check(const char *entry, struct err *err);
void environment_wish_apply(const struct environment_wish *wish, struct env_list *env);
/* The words of the program, with what runs the setup before them. */
void environment_command(const struct environment_wish *wish, const char *const *program,
                         struct env_list *words);
/* The variables that hosts get, and the program that each must have; what the setup brings is not known before it has run. */
void environment_program(const struct environment_wish *wish, const char *const *command,
                         struct allocation_wish *allocation);
/*
 * The differences from the environment of this process, as env_apply() takes them; only these are sent to other
 * hosts. Names of the entries in `sent` (NAME or NAME=VALUE; may be NULL) always count as different.
 */
void environment_changes(const char *const *envp, const struct texts *sent,
                         struct env_list *changes);

/*
 * Adds the environment of this process, for a program whose output is read as it comes. Leaves out what a muster that
 * started this one has set for its worker.
 */
void environment_begin(struct env_list *env);
/* The devices alone, of a seat that need not be the allocation's. */
void seat_devices_add(const struct allocation *allocation, const struct seat *seat,
                      struct env_list *env);
void seat_environment_add(const struct allocation *allocation, uint32_t number,
                          struct env_list *env);
/* environment_begin(), seat_environment_add() and environment_wish_apply(): the variables of every worker. */
void worker_environment_begin(const struct allocation *allocation, uint32_t number,
                              const struct environment_wish *wish, struct env_list *env);
/* The folder with muster.py, beside the program that muster keeps on another host,
 * beside the sources in a build tree, under share/ when installed; free() it. NULL: none. */
char *python_dir_new(const char *self_path);
