/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accelerate_plugins.h"

#include <ctype.h>
#include <string.h>

#include "base/choice.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum value_form {
    AS_IT_IS,
    LOWER, /* in lower case, as accelerate writes Python's True */
};

static const struct plugin_row {
    const char *name, *variable, *usual;
    enum value_form form;
} rows[] = {
#define X(id, name, variable, usual, form, help) {name, variable, usual, form},
    FSDP_OPTIONS(X) DEEPSPEED_OPTIONS(X)
#undef X
};

static bool is_of_fsdp(size_t row)
{
    return row < PLUGIN_ZERO_STAGE;
}

/* "--fsdp_version", as accelerate writes it. */
static char *typed_new(const struct plugin_row *row)
{
    char *typed = xasprintf("--%s", row->name);
    for (char *c = typed + 2; *c; c++)
        *c = *c == '-' ? '_' : *c;
    return typed;
}

bool accelerate_plugin_has(const char *name)
{
    bool has = false;
    for (size_t i = 0; i < countof(rows) && !has; i++) {
        cleanup_free char *typed = typed_new(&rows[i]);
        has = strcmp(typed + 2, name) == 0;
    }
    return has;
}

bool accelerate_plugins_are_used(const struct accelerate_plugins *plugins)
{
    bool any = plugins->uses_fsdp || plugins->uses_deepspeed;
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++)
        any = any || plugins->values[i];
    return any;
}

void accelerate_plugins_idle(const struct accelerate_plugins *plugins, bool of_fsdp,
                             struct buf *names)
{
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++) {
        bool is_used = of_fsdp ? plugins->uses_fsdp : plugins->uses_deepspeed;
        if (is_used || is_of_fsdp(i) != of_fsdp || !plugins->values[i])
            continue;
        cleanup_free char *typed = typed_new(&rows[i]);
        buf_addf(names, "%s%s", names->len > 0 ? ", " : "", typed);
    }
}

/* ---- what is refused ---- */

static int number_check(const struct accelerate_plugins *plugins, enum plugin_option option,
                        uint64_t min, uint64_t max, struct err *err)
{
    const char *value = plugins->values[option];
    uint64_t ignored;
    if (!value || (option == PLUGIN_ACCUMULATION && strcmp(value, "auto") == 0))
        return 0;
    cleanup_free char *typed = typed_new(&rows[option]);
    int rc = u64_parse(str_of(value), min, max, &ignored, err);
    return rc ? wrap(err, rc, "%s", typed) : 0;
}

static int clipping_check(const char *value, struct err *err)
{
    double ignored;
    if (!value || strcmp(value, "auto") == 0)
        return 0;
    int rc = double_parse(str_of(value), &ignored, err);
    return rc ? wrap(err, rc, "--gradient_clipping") : 0;
}

int accelerate_plugins_check(const struct accelerate_plugins *plugins, bool are_several_machines,
                             struct err *err)
{
    const char *launcher = plugins->values[PLUGIN_LAUNCHER];
    if (plugins->uses_fsdp && plugins->uses_deepspeed)
        return fail(err, ERR_USAGE, "--use_fsdp and --use_deepspeed exclude each other");
    if (plugins->uses_deepspeed && are_several_machines && launcher &&
        strcmp(launcher, "standard") != 0)
        return fail(err, ERR_USAGE,
                    "--deepspeed_multinode_launcher %s: expected standard, with which the same "
                    "command is started on each machine; or --hosts in place of --num_machines, "
                    "which starts the ranks of all",
                    launcher);
    int rc = number_check(plugins, PLUGIN_VERSION, 1, 2, err);
    rc = rc ? rc : number_check(plugins, PLUGIN_MIN_PARAMS, 0, UINT64_MAX, err);
    rc = rc ? rc : number_check(plugins, PLUGIN_ZERO_STAGE, 0, 3, err);
    rc = rc ? rc : number_check(plugins, PLUGIN_ACCUMULATION, 1, UINT64_MAX, err);
    return rc ? rc : clipping_check(plugins->values[PLUGIN_CLIPPING], err);
}

/* ---- variables ---- */

static void row_export(const struct plugin_row *row, const char *given, plugin_variable_fn *add,
                       void *context)
{
    const char *value = given ? given : row->usual;
    if (!value || !row->variable)
        return;
    cleanup_free char *written = xstrdup(value), *typed = typed_new(row);
    for (char *c = written; *c && row->form == LOWER; c++)
        *c = (char)tolower((unsigned char)*c);
    add(context, given ? typed : NULL, row->variable, written);
}

void accelerate_plugins_export(const struct accelerate_plugins *plugins, const char *fields,
                               plugin_variable_fn *add, void *context)
{
    if (plugins->uses_fsdp)
        add(context, "--use_fsdp", "ACCELERATE_USE_FSDP", "true");
    if (plugins->uses_deepspeed) {
        add(context, "--use_deepspeed", "ACCELERATE_USE_DEEPSPEED", "true");
        add(context, NULL, "ACCELERATE_CONFIG_DS_FIELDS", fields);
    }
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++)
        if (is_of_fsdp(i) ? plugins->uses_fsdp : plugins->uses_deepspeed)
            row_export(&rows[i], plugins->values[i], add, context);
}
