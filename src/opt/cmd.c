/* SPDX-License-Identifier: Apache-2.0
 *
 * From a table of options to a filled request.
 */
#include "opt/cmd_impl.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/xalloc.h"

const char *cmd_family_space(const struct cmd *cmd)
{
    return cmd->family ? " " : "";
}

const char *cmd_family(const struct cmd *cmd)
{
    return cmd->family ? cmd->family : "";
}

bool opt_takes_value(const struct opt *opt)
{
    return opt->arg != NULL;
}

static const struct opt *opt_by_name(const struct cmd *cmd, struct str name)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++)
        if (opt->name && str_equal(name, str_of(opt->name)))
            return opt;
    return NULL;
}

/* Is the typed text this name, or if `is_part` its beginning? */
static bool name_is(const char *name, struct str typed, bool is_part)
{
    size_t i = 0;
    while (i < typed.len && name[i] && name[i] == (typed.at[i] == '_' ? '-' : typed.at[i]))
        i++;
    return i == typed.len && (is_part || !name[i]);
}

/* --help is in no table, as each verb has it. */
static bool may_be_help(const struct cmd *cmd, struct str typed)
{
    return cmd->is_like_argparse && typed.len > 0 && name_is("help", typed, true);
}

/* The option whose name was typed, in the manner of the verb; NULL: none. ERR_USAGE if it may be one of several. */
static int opt_typed(const struct cmd *cmd, struct str typed, const struct opt **out,
                     struct err *err)
{
    const struct opt *found = opt_by_name(cmd, typed);
    for (int is_part = 0; cmd->is_like_argparse && !found && is_part < 2; is_part++)
        for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
            if (!opt->name || (is_part && opt->is_exact) || !name_is(opt->name, typed, is_part))
                continue;
            if (found && opt_target(cmd, found) != opt_target(cmd, opt))
                return fail(err, ERR_USAGE, "option '--%.*s' may be --%s or --%s", (int)typed.len,
                            typed.at, found->name, opt->name);
            found = opt;
        }
    if (found && may_be_help(cmd, typed) && !opt_by_name(cmd, typed))
        return fail(err, ERR_USAGE, "option '--%.*s' may be --%s or --help", (int)typed.len,
                    typed.at, found->name);
    *out = found;
    return 0;
}

static const struct opt *opt_by_letter(const struct cmd *cmd, char letter)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++)
        if (opt->letter == letter && letter != 0)
            return opt;
    return NULL;
}

const struct opt *opt_target(const struct cmd *cmd, const struct opt *opt)
{
    if (opt->kind != OPT_ALIAS)
        return opt;
    const struct opt *target = opt_by_name(cmd, str_of(opt->same_as));
    ASSERT(target && target->kind != OPT_ALIAS);
    return target;
}

static void word_store(struct texts *texts, const char *word)
{
    texts->at = xrealloc(texts->at, (texts->len + 1) * sizeof(*texts->at));
    texts->at[texts->len++] = word;
}

static int u64_store(const struct cmd *cmd, const struct opt *opt, struct str text, uint64_t *field,
                     struct err *err)
{
    uint64_t max = opt->max > 0 ? opt->max : UINT64_MAX;
    return cmd->is_like_argparse ? python_u64_parse(text, opt->min, max, field, err)
                                 : u64_parse(text, opt->min, max, field, err);
}

static int choice_store(const struct opt *opt, struct str text, void *field, struct err *err)
{
    int value = 0;
    int rc = choice_parse(text, opt->choices, &value, err);
    if (rc == 0 && opt->kind == OPT_EITHER)
        *(bool *)field = value != 0;
    else if (rc == 0)
        *(int *)field = value;
    return rc;
}

int opt_store(const struct cmd *cmd, const struct opt *opt, const char *value, void *request,
              struct err *err)
{
    void *field = (char *)request + opt->offset;
    struct str text = str_of(value);
    int rc = opt->check ? opt->check(value, err) : 0;
    if (rc)
        return rc;
    switch (opt->kind) {
    case OPT_FLAG:
        *(bool *)field = true;
        return 0;
    case OPT_UNSET:
        *(bool *)field = false;
        return 0;
    case OPT_PATH:
        if (text.len == 0)
            return fail(err, ERR_USAGE, "expected a path, found ''; . is the current folder");
        *(const char **)field = value;
        return 0;
    case OPT_TEXT:
        *(const char **)field = value;
        return 0;
    case OPT_WORDS:
        ((struct texts *)field)->len = 0;
        word_store(field, value);
        return 0;
    case OPT_TEXTS:
        word_store(field, value);
        return 0;
    case OPT_U64:
        return u64_store(cmd, opt, text, field, err);
    case OPT_SIZE:
        return size_parse(text, field, err);
    case OPT_DURATION:
        return duration_parse(text, field, err);
    case OPT_PARSE:
        return opt->parse(text, field, err);
    case OPT_CHOICE:
    case OPT_EITHER:
        return choice_store(opt, text, field, err);
    case OPT_END:
    case OPT_HEADING:
    case OPT_ALIAS:
        break;
    }
    BUG("option kind %d", opt->kind);
}

static const struct opt_foreign *foreign_find(const struct cmd *cmd, struct str typed)
{
    const struct opt_foreign *found = NULL;
    for (const struct opt_foreign *at = cmd->foreign; at && at->beginning && !found; at++) {
        size_t len = strlen(at->beginning);
        if (typed.len >= len && name_is(at->beginning, (struct str){typed.at, len}, false))
            found = at;
    }
    return found;
}

bool opt_is_hidden(const struct opt *opt)
{
    return !opt->help && opt->kind != OPT_ALIAS;
}

static int unknown_option(const struct cmd *cmd, const char *typed, struct err *err)
{
    const char *names[256];
    size_t n_names = 0;
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END && n_names < countof(names); opt++)
        if (opt->name && !opt_is_hidden(opt))
            names[n_names++] = opt->name;
    size_t len = strcspn(typed, "=");
    const struct opt_foreign *foreign = foreign_find(cmd, (struct str){typed, len});
    if (foreign)
        return fail(err, ERR_USAGE, "option '--%.*s': %s", (int)len, typed, foreign->cure);
    char *name = xstrndup(typed, len);
    const char *near = suggest(name, names, n_names);
    free(name);
    if (near)
        return fail(err, ERR_USAGE, "unknown option '--%.*s' (did you mean '--%s'?)", (int)len,
                    typed, near);
    return fail(err, ERR_USAGE, "unknown option '--%.*s'; see muster %s%s%s --help", (int)len,
                typed, cmd_family(cmd), cmd_family_space(cmd), cmd->name);
}

int cmd_option_check(const struct cmd *cmd, const char *name, struct err *err)
{
    const struct opt *named = NULL;
    int rc = opt_typed(cmd, str_of(name), &named, err);
    return rc || named ? rc : unknown_option(cmd, name, err);
}

bool cmd_option_is(const struct cmd *cmd, const char *typed, const char *name)
{
    const struct opt *named = NULL;
    return opt_typed(cmd, str_of(typed), &named, NULL) == 0 && named &&
           strcmp(opt_target(cmd, named)->name, name) == 0;
}

static struct texts *texts_of(const struct opt *opt, void *request)
{
    return (struct texts *)(void *)((char *)request + opt->offset);
}

/* Stores the value of an option that was typed, and the further words of OPT_WORDS; `at` moves over these. */
static int typed_store(struct reading *r, const struct opt *opt, const char *value, struct err *err)
{
    if (r->is_typed)
        r->is_typed[opt - r->cmd->opts] = true;
    int rc = opt_store(r->cmd, opt, value, r->request, err);
    struct texts *texts = texts_of(opt, r->request);
    while (opt->kind == OPT_WORDS && r->at + 1 < r->argc && r->argv[r->at + 1][0] != '-' &&
           (opt->max == 0 || texts->len < opt->max))
        word_store(texts, r->argv[++r->at]);
    return rc;
}

/* `--name=value`, `--name value`, `--name`. `at` moves over a separate value. */
static int long_option(struct reading *r, struct err *err)
{
    const char *typed = r->argv[r->at] + 2;
    size_t len = strcspn(typed, "=");
    const struct opt *named = NULL;
    if (opt_typed(r->cmd, (struct str){typed, len}, &named, err) != 0)
        return ERR_USAGE;
    if (!named)
        return unknown_option(r->cmd, typed, err);
    const struct opt *opt = opt_target(r->cmd, named);
    const char *value = typed[len] == '=' ? typed + len + 1 : NULL;
    if (!opt_takes_value(opt) && value)
        return fail(err, ERR_USAGE, "option '--%s' takes no value", named->name);
    if (opt_takes_value(opt) && !value) {
        if (r->at + 1 >= r->argc)
            return fail(err, ERR_USAGE, "option '--%s' needs a value (%s)", named->name, opt->arg);
        value = r->argv[++r->at];
    }
    int rc = typed_store(r, opt, value, err);
    return rc ? wrap(err, rc, "--%s", named->name) : 0;
}

/* The user may mean an unknown letter as the value of the letter before it. */
static int unknown_letter(const struct reading *r, char letter, struct err *err)
{
    const char *word = r->argv[r->at];
    bool is_alone = word[2] == '\0';
    return fail(err, ERR_USAGE, "unknown option '-%c'%s%s%s; see muster %s%s%s --help", letter,
                is_alone ? "" : " in '", is_alone ? "" : word, is_alone ? "" : "'",
                cmd_family(r->cmd), cmd_family_space(r->cmd), r->cmd->name);
}

/* `-q`, `-g SPEC`, `-gSPEC`, `-qj`; as argparse reads it, also `-g=SPEC`. */
static int short_options(struct reading *r, struct err *err)
{
    for (const char *letter = r->argv[r->at] + 1; *letter; letter++) {
        const struct opt *named = opt_by_letter(r->cmd, *letter);
        if (!named)
            return unknown_letter(r, *letter, err);
        const struct opt *opt = opt_target(r->cmd, named);
        const char *value = NULL;
        if (opt_takes_value(opt)) {
            bool has_sign = r->cmd->is_like_argparse && letter[1] == '=';
            value = letter[1]             ? letter + 1 + has_sign
                    : r->at + 1 < r->argc ? r->argv[++r->at]
                                          : NULL;
            if (!value)
                return fail(err, ERR_USAGE, "option '-%c' needs a value (%s)", *letter, opt->arg);
        }
        int rc = typed_store(r, opt, value, err);
        if (rc)
            return wrap(err, rc, "-%c", *letter);
        if (opt_takes_value(opt))
            return 0;
    }
    return 0;
}

size_t cmd_opts_count(const struct cmd *cmd)
{
    size_t n_opts = 0;
    while (cmd->opts[n_opts].kind != OPT_END)
        n_opts++;
    return n_opts;
}

/* How many values each option that may be repeated has, by its place in the table. A new array. */
static size_t *texts_count(const struct cmd *cmd, void *request)
{
    size_t n_opts = cmd_opts_count(cmd);
    size_t *n_values = xcalloc(n_opts + 1, sizeof(*n_values));
    for (size_t i = 0; i < n_opts; i++)
        if (cmd->opts[i].kind == OPT_TEXTS)
            n_values[i] = texts_of(&cmd->opts[i], request)->len;
    return n_values;
}

/* Later values replace the first ones, if there are later values. */
static void texts_replace(struct texts *texts, size_t n_first)
{
    if (texts->len == n_first)
        return;
    texts->len -= n_first;
    memmove(texts->at, texts->at + n_first, texts->len * sizeof(*texts->at));
}

/*
 * Reads the words into a request that has values already. Typed values of a list replace all values that the list
 * has.
 */
int words_parse(struct reading *r, int *argc_out, char ***command, struct err *err)
{
    const struct cmd *cmd = r->cmd;
    cleanup_free size_t *n_before = texts_count(cmd, r->request);
    int rc = 0, n_operands = 0;
    *command = NULL;
    for (r->at = 1; r->at < r->argc && rc == 0; r->at++) {
        char **argv = r->argv, *word = argv[r->at];
        bool is_option = word[0] == '-' && word[1] != '\0';
        if (cmd->is_like_argparse && !is_option) {
            *command = argv + r->at;
            break;
        }
        if (strcmp(word, "--") == 0) {
            if (cmd->command || cmd->is_like_argparse) {
                *command = argv + r->at + 1;
                break;
            }
            while (++r->at < r->argc)
                argv[n_operands++] = argv[r->at];
        } else if (is_option) {
            rc = word[1] == '-' ? long_option(r, err) : short_options(r, err);
        } else {
            argv[n_operands++] = word;
        }
    }
    for (size_t i = 0; cmd->opts[i].kind != OPT_END; i++)
        if (cmd->opts[i].kind == OPT_TEXTS)
            texts_replace(texts_of(&cmd->opts[i], r->request), n_before[i]);
    *argc_out = n_operands;
    return rc;
}

static int command_check(int argc, char **argv, char **command, struct err *err)
{
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected '%s'; the command stands behind --", argv[0]);
    return command && command[0] ? 0 : fail(err, ERR_USAGE, "no command; it stands behind --");
}

int cmd_parse(const struct cmd *cmd, int argc, char **argv, void *request, int *argc_out,
              char ***operands, char ***command, struct err *err)
{
    memset(request, 0, cmd->request_size);
    if (cmd->defaults)
        cmd->defaults(request);
    *operands = argv;
    int rc = environment_defaults(cmd, request, err);
    struct reading reading = {.cmd = cmd, .argc = argc, .argv = argv, .request = request};
    if (rc == 0 && !cmd->reads_words)
        rc = words_parse(&reading, argc_out, command, err);
    if (rc == 0 && cmd->command == COMMAND_ALONE)
        rc = command_check(*argc_out, *operands, *command, err);
    if (rc || !cmd->reads_words)
        return rc;
    *argc_out = argc - 1;
    *operands = argv + 1;
    *command = NULL;
    return 0;
}

int cmd_overlay(const struct cmd *cmd, int argc, char **argv, void *request, struct err *err)
{
    struct reading reading = {.cmd = cmd, .argc = argc, .argv = argv, .request = request};
    int n_operands;
    char **command;
    return words_parse(&reading, &n_operands, &command, err);
}

/* 0: the field is a list, or only the verb knows its size. */
static size_t field_bytes(enum opt_kind kind)
{
    static const size_t bytes[] = {[OPT_FLAG] = sizeof(bool),        [OPT_UNSET] = sizeof(bool),
                                   [OPT_EITHER] = sizeof(bool),      [OPT_CHOICE] = sizeof(int),
                                   [OPT_TEXT] = sizeof(char *),      [OPT_PATH] = sizeof(char *),
                                   [OPT_U64] = sizeof(uint64_t),     [OPT_SIZE] = sizeof(uint64_t),
                                   [OPT_DURATION] = sizeof(uint64_t)};
    return kind < countof(bytes) ? bytes[kind] : 0;
}

int cmd_underlay(const struct cmd *cmd, int argc, char **argv, void *request, struct err *err)
{
    cleanup_free char *usual = xcalloc(1, cmd->request_size),
                      *given = xcalloc(1, cmd->request_size);
    int n_operands;
    char **command;
    if (cmd->defaults)
        cmd->defaults(usual), cmd->defaults(given);
    struct reading reading = {.cmd = cmd, .argc = argc, .argv = argv, .request = given};
    int rc = words_parse(&reading, &n_operands, &command, err);
    for (const struct opt *opt = cmd->opts; rc == 0 && opt->kind != OPT_END; opt++) {
        size_t n_bytes = field_bytes(opt->kind);
        char *field = (char *)request + opt->offset;
        if (n_bytes > 0 && memcmp(field, usual + opt->offset, n_bytes) == 0)
            memcpy(field, given + opt->offset, n_bytes);
    }
    return rc;
}

/* ---- fields by the names of their options ---- */

bool cmd_has(const struct cmd *cmd, const char *name)
{
    return opt_by_name(cmd, str_of(name)) != NULL;
}

const char *cmd_text(const struct cmd *cmd, const void *request, const char *name)
{
    const struct opt *opt = opt_by_name(cmd, str_of(name));
    bool is_text = opt && (opt->kind == OPT_TEXT || opt->kind == OPT_PATH);
    return is_text ? *(const char *const *)(const void *)((const char *)request + opt->offset)
                   : NULL;
}

/* Of its variable, which may be for other command lines; what a text was set to by argv is another one. */
static bool is_of_variable(const struct cmd *cmd, const void *request, const struct opt *opt)
{
    char variable[OPT_VARIABLE_MAX];
    const char *value = cmd_text(cmd, request, opt->name);
    opt_variable(cmd, opt, variable);
    const char *usual = getenv(variable);
    return usual && (!value || strcmp(usual, value) == 0);
}

int cmd_needs_check(const struct cmd *cmd, const void *request, struct err *err)
{
    cleanup_free char *usual = xcalloc(1, cmd->request_size + 1);
    if (cmd->defaults)
        cmd->defaults(usual);
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END && !cmd->needs_elsewhere; opt++) {
        const char *field = (const char *)request + opt->offset;
        if (!opt->needs || cmd_text(cmd, request, opt->needs) ||
            memcmp(field, usual + opt->offset, field_bytes(opt->kind)) == 0)
            continue;
        if (!is_of_variable(cmd, request, opt))
            return fail(err, ERR_USAGE,
                        "--%s is for --%s, which is not given: add --%s, or leave --%s out",
                        opt->name, opt->needs, opt->needs, opt->name);
    }
    return 0;
}

bool cmd_flag(const struct cmd *cmd, const void *request, const char *name)
{
    const struct opt *opt = opt_by_name(cmd, str_of(name));
    return opt && opt->kind == OPT_FLAG && *((const bool *)request + opt->offset);
}

/* ---- help ---- */

/* Is the word after this option its value? */
static bool takes_next(const struct cmd *cmd, const char *word)
{
    const struct opt *opt = NULL;
    if (word[1] == '-')
        return opt_typed(cmd, str_of(word + 2), &opt, NULL) == 0 && opt &&
               opt_takes_value(opt_target(cmd, opt));
    for (const char *letter = word + 1; *letter; letter++)
        if ((opt = opt_by_letter(cmd, *letter)) && opt_takes_value(opt_target(cmd, opt)))
            return !letter[1];
    return false;
}

static bool is_help(const struct cmd *cmd, const char *word)
{
    const struct opt *opt = NULL;
    bool is_long = strncmp(word, "--", 2) == 0;
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
           (is_long && may_be_help(cmd, str_of(word + 2)) &&
            opt_typed(cmd, str_of(word + 2), &opt, NULL) == 0 && !opt);
}

bool cmd_wants_help(const struct cmd *cmd, int argc, char **argv)
{
    bool has_command = cmd->command || cmd->is_like_argparse;
    if (cmd->reads_words)
        argc = MIN(argc, 2);
    for (int i = 1; i < argc && !(has_command && strcmp(argv[i], "--") == 0); i++) {
        if (is_help(cmd, argv[i]))
            return true;
        if (cmd->is_like_argparse && argv[i][0] != '-')
            return false;
        if (cmd->is_like_argparse && takes_next(cmd, argv[i]))
            i++;
    }
    return false;
}

void cmd_release(const struct cmd *cmd, void *request)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        if (opt->kind != OPT_TEXTS && opt->kind != OPT_WORDS)
            continue;
        struct texts *texts = (struct texts *)((char *)request + opt->offset);
        free(texts->at);
        *texts = (struct texts){0};
    }
}
