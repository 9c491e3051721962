/* SPDX-License-Identifier: Apache-2.0
 *
 * A verb is a value. Parsing, --help, the man page's option list and shell completion are all made from
 * struct cmd, so they cannot disagree. Each verb has a file that defines `const struct cmd cmd_<verb>`, and
 * each program has a table of its verbs (program.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/choice.h"
#include "base/env_list.h"
#include "base/err.h"
#include "base/log.h"
#include "base/texts.h"

struct program;

/* Facts about the process; made in main and passed down. */
struct app {
    const struct program *program;
    struct log log;
    bool quiet;            /* -q: nothing on stderr but errors */
    bool color;            /* stderr or stdout may be coloured: terminal, NO_COLOR, TERM=dumb */
    const char *self_path; /* this executable, absolute */
    char **argv;           /* as typed, for the manifest */
    int argc;
};

enum opt_kind {
    OPT_END,     /* closes the table */
    OPT_HEADING, /* `help` is a heading of the option list; nothing to parse */
    OPT_FLAG,    /* bool field: true */
    OPT_UNSET,   /* bool field: false (--no-…) */
    OPT_TEXT,    /* const char *field */
    OPT_PATH,    /* const char *field, not empty: "" would mean the current folder */
    OPT_TEXTS,   /* struct texts field: may be given several times */
    OPT_WORDS, /* struct texts field: the value and the words after it, up to the next option; at most max of
                     them (0: no limit). Given again, it replaces what was given before */
    OPT_U64,      /* uint64_t field, between min and max (max 0: no limit) */
    OPT_SIZE,     /* uint64_t field in bytes */
    OPT_DURATION, /* uint64_t field in ms */
    OPT_PARSE,    /* parse() stores into the field; format() is the reverse */
    OPT_CHOICE,   /* enum field: the value of one of the words of `choices` */
    OPT_EITHER,   /* bool field, the same: 0 or 1 */
    OPT_ALIAS,    /* another name of the option `same_as`, used by other programs */
};

struct opt {
    enum opt_kind kind;
    char letter;      /* 0: none */
    const char *name; /* without dashes */
    const char *arg;  /* "SPEC", NULL for flags */
    /* Any length, wrapped when printed; with units and default. NULL: the option is not listed. */
    const char *help;
    size_t offset; /* offsetof(struct <verb>_request, field) */
    uint64_t min, max;
    int (*parse)(struct str text, void *field, struct err *err);
    /* The field as text that parse() accepts; false: it is not set. Needed only for cmd_words. */
    bool (*format)(const void *field, struct buf *out);
    const char *same_as; /* of OPT_ALIAS, which otherwise has only a name and a letter */
    /* OPT_TEXT, OPT_TEXTS: refuses a malformed value (ERR_USAGE) when it is typed; NULL: any is good. */
    int (*check)(const char *value, struct err *err);
    bool is_exact;        /* its name is not shortened, and it has no variable */
    bool has_no_variable; /* an option of this name means something else to another verb */
    const struct choice *choices;
    /* The text option without which this one has no effect, and is refused if it has another value than usual
     * (cmd_needs_check); NULL: none. */
    const char *needs;
};

/* Options of another program that users may type although the verb does not have them. */
struct opt_foreign {
    const char
        *beginning; /* of their names, without dashes, with `-` for `_`; NULL ends the table */
    const char *cure;
};

struct cmd_check;

/* What the words behind the first `--` are. */
enum cmd_command {
    COMMAND_NONE,   /* operands */
    COMMAND_BEHIND, /* the command of a worker; operands stand before it */
    COMMAND_ALONE   /* the same; refused with operands, and without a command */
};

struct cmd {
    const char *name;
    const char *family;  /* "kge" if it is typed "muster kge NAME"; NULL for "muster NAME" */
    const char *args;    /* "[OPTION]... -o OUT INPUT... -- COMMAND [ARG]..." */
    const char *summary; /* one line, lower case, no full stop */
    const char *details; /* a paragraph for --help; may be NULL */
    const struct opt *opts;
    const char *const *examples; /* pairs: command line, what it does; NULL-terminated */
    bool is_hidden;              /* helpers: not in the list of verbs, no man page */
    /* `needs` is not checked here: the other option may come with a later order, or from the run itself. */
    bool needs_elsewhere;
    enum cmd_command command;
    /*
     * As Python's argparse reads options: `_` in a name is the same as `-`, the beginning of a name that is that of no
     * other stands for it, --help among them, whole numbers are written as for int(), and everything from the first operand
     * on is the command.
     */
    bool is_like_argparse;
    const char
        *other_prefix; /* of variables besides MUSTER_, which come first: "PET_"; NULL: none */
    const struct opt_foreign *foreign; /* NULL: none */
    /* run() gets all words as operands, unparsed: those of another program are among them. */
    bool reads_words;
    size_t request_size;
    void (*defaults)(void *request);
    /*
     * argc/argv: the operands, without options; command: the words after `--`, NULL-terminated,
     * or NULL. Returns an exit status >= 0, or a negative err_code with err filled.
     */
    int (*run)(struct app *app, void *request, int argc, char **argv, char **command,
               struct err *err);
    /*
     * For a run that begins later, perhaps on another machine: refuses a request of which it is known now that it
     * will fail. Changes only *check. NULL: only parsing can refuse.
     */
    int (*check)(struct app *app, void *request, int argc, char **argv, char **command,
                 struct cmd_check *check, struct err *err);
};

struct cmd_check {
    bool has_setup; /* the run's environment is made later, so its program need not be found here */
    bool has_hosts; /* --hosts will be given */
    char *run_dir;  /* set: the run that it goes on with, a new string; NULL: a new one */
    /* If set: the words behind the verb, in place of words that mean something else later, such as "latest". */
    struct env_list words;
};

/*
 * Parses argv[1..] for cmd into request (request_size bytes, defaults applied). The default of a long option may be
 * set by the variable MUSTER_<NAME> (dashes as underscores), in a family MUSTER_<FAMILY>_<NAME>; what argv says replaces
 * it, also the whole list of an option that may be repeated. Errors are ERR_USAGE, with "did you mean". Operands are moved to argv[0..*argc_out).
 */
MUST_CHECK int cmd_parse(const struct cmd *cmd, int argc, char **argv, void *request, int *argc_out,
                         char ***operands, char ***command, struct err *err);
/*
 * For a request that was refused after parsing. Adds to the message which of the named options were set only by
 * variables, because the user has not typed these. argv: the words as typed, before parsing moved them.
 */
void cmd_variables_tell(const struct cmd *cmd, int argc, char **argv, struct err *err);
/* A copy of the list, not of the words, since parsing moves operands to its beginning. */
char **cmd_words_copy(int argc, char **argv);
/*
 * ERR_USAGE for an option without the option that it `needs`. It is no error if a variable has set the option,
 * because the variable may be meant for other command lines.
 */
MUST_CHECK int cmd_needs_check(const struct cmd *cmd, const void *request, struct err *err);
/*
 * Adds the options that make this request, each as a word: options that differ from their defaults, whether set by
 * argv or by the environment, and all options that may be repeated. Operands and command are not added.
 */
void cmd_words(const struct cmd *cmd, const void *request, struct env_list *out);
/* The whole command line: the program as it was called, the verb, its options, operands and command; ended. */
void cmd_line(const struct cmd *cmd, const struct app *app, const void *request, int argc,
              char **argv, char **command, struct env_list *out);
/* The field of an OPT_TEXT or OPT_PATH, by the option's name; NULL: it is not set, or there is no such option. */
const char *cmd_text(const struct cmd *cmd, const void *request, const char *name);
/* Is this flag set in the request? */
bool cmd_flag(const struct cmd *cmd, const void *request, const char *name);
bool cmd_has(const struct cmd *cmd, const char *name);
/* Frees what parsing took for options that may be repeated. */
void cmd_release(const struct cmd *cmd, void *request);
/* ERR_USAGE, with "did you mean", if the verb has no such long option, `name` without dashes. */
MUST_CHECK int cmd_option_check(const struct cmd *cmd, const char *name, struct err *err);
/* Does `typed` mean the option `name`? It may be another name of it, or its beginning. */
bool cmd_option_is(const struct cmd *cmd, const char *typed, const char *name);
/*
 * Parses only argv, into a request that is filled already: no defaults, no environment. New values of an option that
 * may be repeated replace the values in the request.
 */
MUST_CHECK int cmd_overlay(const struct cmd *cmd, int argc, char **argv, void *request,
                           struct err *err);

/*
 * The reverse of cmd_overlay(): argv sets only options that still have their defaults. It does not set options that
 * may be repeated, or options that the verb parses itself.
 */
MUST_CHECK int cmd_underlay(const struct cmd *cmd, int argc, char **argv, void *request,
                            struct err *err);

enum {
    OPT_VARIABLE_MAX = 80
};

/* A variable means the same to all verbs that have it. */
bool opt_has_variable(const struct cmd *cmd, const struct opt *opt);
/* The option's variable, such as "MUSTER_WORKERS_PER_GPU". */
void opt_variable(const struct cmd *cmd, const struct opt *opt, char out[OPT_VARIABLE_MAX]);
/* The option itself, or the one of which it is an alias. */
const struct opt *opt_target(const struct cmd *cmd, const struct opt *opt);
/* Is --help or -h among the words, without those of the command? */
bool cmd_wants_help(const struct cmd *cmd, int argc, char **argv);
void cmd_help(const struct cmd *cmd, struct buf *out);
/* mdoc of the OPTIONS list, for the man page. */
void cmd_mdoc(const struct cmd *cmd, struct buf *out);
