/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that are the defaults of options: MUSTER_GPUS of --gpus.
 */
#include <ctype.h>
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

static bool has_variable(const struct cmd *cmd, const struct opt *opt)
{
    /* Variables that muster sets for its workers: they must not become options of a muster inside a worker. */
    static const char *const reserved[] = {"seed", "batch", "run-dir"};
    bool has = opt->name && opt->kind != OPT_ALIAS && !opt->is_exact;
    for (size_t i = 0; has && !cmd->family && i < countof(reserved); i++)
        has = strcmp(opt->name, reserved[i]) != 0;
    return has;
}

/* The value of the option's variable, and its name; NULL: it has none, or an empty one. */
static const char *variable_value(const struct cmd *cmd, const struct opt *opt,
                                  char variable[OPT_VARIABLE_MAX])
{
    if (!has_variable(cmd, opt))
        return NULL;
    opt_variable(cmd, opt, variable);
    const char *value = getenv(variable);
    if ((!value || !*value) && cmd->other_prefix) {
        prefixed_variable(cmd, opt, cmd->other_prefix, variable);
        value = getenv(variable);
    }
    return value && *value ? value : NULL;
}

/* What the variable of an option without a value says. */
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
            rc = opt_store(opt, value, request, err);
        if (rc)
            return wrap(err, rc, "%s", variable);
    }
    return 0;
}
