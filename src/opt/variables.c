/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that are the defaults of options: MUSTER_GPUS of --gpus.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "opt/cmd_impl.h"

static void prefixed_variable(const struct cmd *cmd, const struct opt *opt, const char *prefix,
                              char out[OPT_VARIABLE_MAX])
{
    snprintf(out, OPT_VARIABLE_MAX, "%s%s%s%s", prefix, cmd_family(cmd), cmd->family ? "_" : "",
             opt->name);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

void opt_variable(const struct cmd *cmd, const struct opt *opt, char out[OPT_VARIABLE_MAX])
{
    prefixed_variable(cmd, opt, "MUSTER_", out);
}

bool opt_has_variable(const struct cmd *cmd, const struct opt *opt)
{
    /* Variables that muster sets for its workers: they must not become options of a muster inside a worker. */
    static const char *const reserved[] = {"seed", "batch", "run-dir"};
    bool has = opt->name && opt->kind != OPT_ALIAS && !opt->is_exact && !opt->has_no_variable;
    for (size_t i = 0; has && !cmd->family && i < countof(reserved); i++)
        has = strcmp(opt->name, reserved[i]) != 0;
    return has;
}

/*
 * The value of the option's variable, and the variable's name. NULL if the option has no variable, or if it is empty
 * or not set.
 */
static const char *variable_value(const struct cmd *cmd, const struct opt *opt,
                                  char variable[OPT_VARIABLE_MAX])
{
    if (!opt_has_variable(cmd, opt))
        return NULL;
    opt_variable(cmd, opt, variable);
    const char *value = getenv(variable);
    if ((!value || !*value) && cmd->other_prefix) {
        prefixed_variable(cmd, opt, cmd->other_prefix, variable);
        value = getenv(variable);
    }
    return value && *value ? value : NULL;
}

/* Reads the variable of an option that takes no value. */
static int flag_parse(const char *value, bool *is_set, struct err *err)
{
    static const char *const yes[] = {"1", "true", "yes", "on"}, *const no[] = {"0", "false", "no",
                                                                                "off"};
    for (size_t i = 0; i < countof(yes); i++) {
        *is_set = strcasecmp(value, yes[i]) == 0;
        if (*is_set || strcasecmp(value, no[i]) == 0)
            return 0;
    }
    return fail(err, ERR_USAGE,
                "expected 1, true, yes or on, or else 0, false, no or off; found '%s'", value);
}

int environment_defaults(const struct cmd *cmd, void *request, struct err *err)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        char variable[OPT_VARIABLE_MAX];
        const char *value = variable_value(cmd, opt, variable);
        bool is_set = value;
        int rc = value && !opt_takes_value(opt) ? flag_parse(value, &is_set, err) : 0;
        if (rc == 0 && is_set)
            rc = opt_store(cmd, opt, value, request, err);
        if (rc)
            return wrap(err, rc, "%s", variable);
    }
    return 0;
}

/* ---- which options a message names that were set by variables ---- */

char **cmd_words_copy(int argc, char **argv)
{
    char **copy = xcalloc((size_t)argc + 1, sizeof(*copy));
    memcpy(copy, argv, (size_t)argc * sizeof(*copy));
    return copy;
}

/* For a verb that reads its words itself: is the option among the words? */
static bool is_among(const struct opt *opt, int argc, char **argv)
{
    bool is = false;
    for (int i = 1; i < argc && !is && opt->name; i++) {
        size_t len = strcspn(argv[i], "=");
        is = len > 2 && strncmp(argv[i], "--", 2) == 0 &&
             str_equal((struct str){argv[i] + 2, len - 2}, str_of(opt->name));
    }
    return is;
}

/* For each option of the table: was it typed? A new array. */
static bool *typed_options(const struct cmd *cmd, int argc, char **argv)
{
    bool *is_typed = xcalloc(cmd_opts_count(cmd) + 1, sizeof(*is_typed));
    cleanup_free void *request = xcalloc(1, cmd->request_size + 1);
    cleanup_free char **words = cmd_words_copy(argc, argv);
    struct reading reading = {
        .cmd = cmd, .argc = argc, .argv = words, .request = request, .is_typed = is_typed};
    int n_operands;
    char **command;
    if (cmd->defaults)
        cmd->defaults(request);
    for (size_t i = 0; cmd->reads_words && cmd->opts[i].kind != OPT_END; i++)
        is_typed[i] = is_among(&cmd->opts[i], argc, argv);
    if (!cmd->reads_words) /* what comes behind a mistake counts as not typed */
        (void)!words_parse(&reading, &n_operands, &command, NULL);
    cmd_release(cmd, request);
    return is_typed;
}

/* Is `word`, such as "--also" or "-g", in the text as a whole word? */
static bool is_named(const char *text, const char *word)
{
    size_t len = strlen(word);
    bool is = false;
    for (const char *at = strstr(text, word); at && !is; at = strstr(at + 1, word)) {
        char before = at == text ? ' ' : at[-1], after = at[len];
        is = !isalnum((unsigned char)before) && before != '-' && before != '_' &&
             !isalnum((unsigned char)after) && after != '-' && after != '_';
    }
    return is;
}

static void named_add(const struct cmd *cmd, const struct opt *opt, const char *text,
                      struct buf *out)
{
    char variable[OPT_VARIABLE_MAX], letter[] = {'-', opt->letter, '\0'};
    const char *value = variable_value(cmd, opt, variable);
    bool is_set = value;
    if (value && !opt_takes_value(opt) && flag_parse(value, &is_set, NULL) != 0)
        is_set = false;
    if (!is_set || is_named(text, variable))
        return;
    cleanup_free char *name = xasprintf("--%s", opt->name);
    bool is_letter = !is_named(text, name);
    if (is_letter && !(opt->letter && is_named(text, letter)))
        return;
    buf_addf(out, "%s%s is set by %s", out->len > 0 ? "; " : "", is_letter ? letter : name,
             variable);
}

void cmd_variables_tell(const struct cmd *cmd, int argc, char **argv, struct err *err)
{
    cleanup_free bool *is_typed = typed_options(cmd, argc, argv);
    cleanup_free char *text = xstrdup(err->text);
    cleanup_buf struct buf named = BUF_INIT;
    for (size_t i = 0; cmd->opts[i].kind != OPT_END; i++)
        if (!is_typed[i])
            named_add(cmd, &cmd->opts[i], text, &named);
    if (named.len > 0)
        fail(err, err->code, "%s (%s)", text, buf_text(&named));
}
