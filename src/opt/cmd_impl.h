/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files about a verb's options (cmd.h).
 */
#pragma once

#include "opt/cmd.h"

/* The word between "muster " and the verb, as typed: "kge", and then " "; or "" and "". */
const char *cmd_family(const struct cmd *cmd);
const char *cmd_family_space(const struct cmd *cmd);
/* True for an option that only muster itself gives, to a muster that it starts. */
bool opt_is_hidden(const struct opt *opt);
size_t cmd_opts_count(const struct cmd *cmd);
bool opt_takes_value(const struct opt *opt);
/* Stores a value into the field of an option of the verb; NULL for an option that takes none. */
MUST_CHECK int opt_store(const struct cmd *cmd, const struct opt *opt, const char *value,
                         void *request, struct err *err);

/* Words that are read into a request. */
struct reading {
    const struct cmd *cmd;
    int argc;
    char **argv;   /* operands are moved to its beginning */
    int at;        /* the word that is read */
    void *request; /* may have values already */
    /* Set for the options among the words, by their place in the table; NULL: not asked. */
    bool *is_typed;
};

/*
 * The values that are typed for an option that may be repeated replace those that the request has. Operands and
 * command as in cmd_parse.
 */
MUST_CHECK int words_parse(struct reading *r, int *argc_out, char ***command, struct err *err);
/* Stores what variables say. ERR_USAGE names the variable. */
MUST_CHECK int environment_defaults(const struct cmd *cmd, void *request, struct err *err);
