/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by muster and the programs beside it: finds the verb, parses its options, runs it, and prints the
 * message of a failure. A program is a table of verbs.
 */
#pragma once

#include "opt/cmd.h"

/* A verb that is a program of its own, `muster-NAME`, like an external command of git. */
struct external_verb {
    const char *name, *summary;
};

struct program {
    const char
        *family; /* "kge" of muster-kge, which is typed "muster kge"; NULL for muster itself */
    const char *about;              /* for --help: lines, with their ends */
    void (*about_version)(void);    /* prints further lines of --version; may be NULL */
    const struct cmd *const *verbs; /* NULL-terminated, in the order of --help */
    /* Listed by --help too; ends with a row without a name; may be NULL. */
    const struct external_verb *external_verbs;
    /*
     * For a word that is not a verb of the table: executes the external verb of that name. Returns
     * only if that fails: 0 if there is no such program, or an error.
     */
    int (*run_external)(const struct app *app, char **argv, struct err *err);
};

/* If this variable is set, a program of a family reads the words, says what is wrong with them, and ends. */
#define PROGRAM_PARSES_ONLY "MUSTER_PARSES_ONLY"

/* The whole of main(): an exit status. */
int program_main(const struct program *program, int argc, char **argv);
/* What is typed before its verbs: "muster", "muster kge". A new string. */
char *program_typed(const struct program *program);

/* Made from the tables, for every program: shell completion, and the option list of a verb as mdoc. */
extern const struct cmd cmd_completion;
extern const struct cmd cmd_mdoc_options;
