/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accelerate_plugins.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/choice.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    OVERRIDES = 3 /* of --fp8_override_linear_precision */
};
#define EVALUATES "--fp8_use_autocast_during_eval"

/* What accelerate's parser makes of a value. */
enum value_type {
    TEXT,
    INTEGER, /* int() */
    REAL,    /* float() */
    BOOLEAN, /* bool(), which takes any text but an empty one for True */
    TRUTH,   /* a word for true or false: 1 or 0 */
    TRUTHS   /* three of these, each of which becomes a variable */
};

enum value_form {
    AS_IT_IS,
    LOWER, /* in lower case, as accelerate writes Python's True */
};

static const struct plugin_row {
    const char *name, *variable, *usual;
    enum value_type type;
    enum value_form form;
} rows[] = {
#define X(id, name, variable, usual, type, form, help) {name, variable, usual, type, form},
    FSDP_OPTIONS(X) DEEPSPEED_OPTIONS(X) MEGATRON_LM_OPTIONS(X) FP8_OPTIONS(X)
#undef X
};

static const struct {
    enum plugin_option first; /* its options are those from this one to the first of the next */
    const char *typed;
    const char *variable; /* NULL: another one says that it is used */
} plugin_table[PLUGINS] = {
    [OF_FSDP] = {0, "--use_fsdp", "ACCELERATE_USE_FSDP"},
    [OF_DEEPSPEED] = {PLUGIN_ZERO_STAGE, "--use_deepspeed", "ACCELERATE_USE_DEEPSPEED"},
    [OF_MEGATRON_LM] = {PLUGIN_TP_DEGREE, "--use_megatron_lm", "ACCELERATE_USE_MEGATRON_LM"},
    [OF_FP8] = {PLUGIN_FP8_BACKEND, "--mixed_precision fp8", NULL},
};

static enum plugin plugin_of(size_t row)
{
    enum plugin plugin = PLUGINS - 1;
    while (plugin_table[plugin].first > row)
        plugin--;
    return plugin;
}

const char *accelerate_plugin_switch(enum plugin plugin)
{
    return plugin_table[plugin].typed;
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
    bool any = plugins->evaluates_in_fp8;
    for (size_t i = 0; i < PLUGINS; i++)
        any = any || plugins->uses[i];
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++)
        any = any || plugins->values[i];
    return any;
}

void accelerate_plugins_idle(const struct accelerate_plugins *plugins, enum plugin plugin,
                             struct buf *names)
{
    if (plugins->uses[plugin])
        return;
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++) {
        if (plugin_of(i) != plugin || !plugins->values[i])
            continue;
        cleanup_free char *typed = typed_new(&rows[i]);
        buf_addf(names, "%s%s", names->len > 0 ? ", " : "", typed);
    }
    if (plugin == OF_FP8 && plugins->evaluates_in_fp8)
        buf_addf(names, "%s" EVALUATES, names->len > 0 ? ", " : "");
}

/* ---- what is typed ---- */

/* -1: the word says neither. */
static int truth_of(struct str word)
{
    static const char *const words[][6] = {{"false", "no", "n", "f", "off", "0"},
                                           {"true", "yes", "y", "t", "on", "1"}};
    for (int value = 0; value < 2; value++)
        for (size_t i = 0; i < countof(words[value]); i++)
            if (word.len == strlen(words[value][i]) &&
                strncasecmp(word.at, words[value][i], word.len) == 0)
                return value;
    return -1;
}

/* False: it has another number of them, or one that says neither. */
static bool truths_read(const char *value, struct buf *out)
{
    struct str rest = str_of(value), word;
    size_t n = 0;
    for (; rest.len > 0 && str_next(&rest, ',', &word); n++) {
        int truth = truth_of(str_trim(word));
        if (truth < 0)
            return false;
        buf_addf(out, "%s%d", n > 0 ? "," : "", truth);
    }
    return n == OVERRIDES;
}

/* A new text; NULL: the value cannot be read, or is the same. */
static char *value_read(enum value_type type, const char *value)
{
    struct buf out = BUF_INIT;
    uint64_t whole;
    double real;
    if (type == INTEGER && python_u64_parse(str_of(value), 0, UINT64_MAX, &whole, NULL) == 0)
        buf_addf(&out, "%lu", whole);
    else if (type == REAL && double_parse(str_of(value), &real, NULL) == 0)
        buf_add_json_double(&out, real);
    else if (type == BOOLEAN)
        buf_add_text(&out, *value ? "True" : "False");
    else if (type == TRUTH && truth_of(str_of(value)) >= 0)
        buf_addf(&out, "%d", truth_of(str_of(value)));
    else if (type == TRUTHS && !truths_read(value, &out))
        buf_release(&out);
    return out.len > 0 ? buf_steal(&out) : NULL;
}

void accelerate_plugins_read(struct accelerate_plugins *typed, struct env_list *texts)
{
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++) {
        char *text = typed->values[i] ? value_read(rows[i].type, typed->values[i]) : NULL;
        if (!text)
            continue;
        env_list_add(texts, text);
        typed->values[i] = text;
    }
}

/* ---- what is refused ---- */

/* Of whole numbers; others may be any. */
static const struct {
    enum plugin_option option;
    uint64_t min, max;
} ranges[] = {
    {PLUGIN_VERSION, 1, 2},
    {PLUGIN_ZERO_STAGE, 0, 3},
    {PLUGIN_ACCUMULATION, 1, UINT64_MAX},
    {PLUGIN_TP_DEGREE, 1, UINT64_MAX},
    {PLUGIN_PP_DEGREE, 1, UINT64_MAX},
};

static const struct choice fp8_backends[] = {{"te"}, {"ao"}, {"msamp"}, {0}};
static const struct choice fp8_formats[] = {{"HYBRID"}, {"E4M3"}, {"E5M2"}, {0}};
static const struct choice fp8_algorithms[] = {{"max"}, {"most_recent"}, {0}};
static const struct choice fp8_levels[] = {{"O1"}, {"O2"}, {0}};

/* A file has the first in capital letters. */
static const struct {
    enum plugin_option option;
    const struct choice *words;
} choices[] = {
    {PLUGIN_FP8_BACKEND, fp8_backends},
    {PLUGIN_FP8_FORMAT, fp8_formats},
    {PLUGIN_FP8_ALGORITHM, fp8_algorithms},
    {PLUGIN_FP8_LEVEL, fp8_levels},
};

static int number_check(size_t option, const char *value, struct err *err)
{
    uint64_t min = 0, max = UINT64_MAX, ignored;
    if (option == PLUGIN_ACCUMULATION && strcmp(value, "auto") == 0)
        return 0;
    for (size_t i = 0; i < countof(ranges); i++)
        if (ranges[i].option == option)
            min = ranges[i].min, max = ranges[i].max;
    return python_u64_parse(str_of(value), min, max, &ignored, err);
}

static int real_check(size_t option, const char *value, struct err *err)
{
    double ignored;
    bool is_auto = option == PLUGIN_CLIPPING && strcmp(value, "auto") == 0;
    return is_auto ? 0 : double_parse(str_of(value), &ignored, err);
}

static int text_check(size_t option, const char *value, struct err *err)
{
    const struct choice *words = NULL;
    cleanup_buf struct buf list = BUF_INIT;
    for (size_t i = 0; i < countof(choices); i++)
        if (choices[i].option == option)
            words = choices[i].words;
    for (const struct choice *word = words; word && word->word; word++)
        if (strcasecmp(word->word, value) == 0)
            return 0;
    if (!words)
        return 0;
    choices_list(words, &list);
    return fail(err, ERR_USAGE, "expected %s, found '%s'", buf_text(&list), value);
}

static int truth_check(size_t option, const char *value, struct err *err)
{
    (void)option;
    return truth_of(str_of(value)) >= 0
               ? 0
               : fail(err, ERR_USAGE, "expected true or false, found '%s'", value);
}

static int truths_check(size_t option, const char *value, struct err *err)
{
    cleanup_buf struct buf ignored = BUF_INIT;
    (void)option;
    return truths_read(value, &ignored) ? 0
                                        : fail(err, ERR_USAGE,
                                               "expected true or false for fprop, dgrad and wgrad, "
                                               "as true,false,false, found '%s'",
                                               value);
}

static int value_check(size_t option, const char *value, struct err *err)
{
    static int (*const checks[])(size_t option, const char *value, struct err *err) = {
        [TEXT] = text_check,     [INTEGER] = number_check, [REAL] = real_check,
        [BOOLEAN] = truth_check, [TRUTH] = truth_check,    [TRUTHS] = truths_check};
    cleanup_free char *typed = typed_new(&rows[option]);
    int rc = value ? checks[rows[option].type](option, value, err) : 0;
    return rc ? wrap(err, rc, "%s", typed) : 0;
}

static int launcher_check(const struct accelerate_plugins *plugins, struct err *err)
{
    const char *launcher = plugins->values[PLUGIN_LAUNCHER];
    if (!plugins->uses[OF_DEEPSPEED] || !launcher || strcmp(launcher, "standard") == 0)
        return 0;
    return fail(err, ERR_USAGE,
                "--deepspeed_multinode_launcher %s: expected standard, with which the same "
                "command is started on each machine; or --hosts in place of --num_machines, "
                "which starts the ranks of all",
                launcher);
}

int accelerate_plugins_check(const struct accelerate_plugins *plugins, bool are_several_machines,
                             struct err *err)
{
    for (enum plugin other = 0; other < OF_FP8; other++)
        if (other != OF_DEEPSPEED && plugins->uses[other] && plugins->uses[OF_DEEPSPEED])
            return fail(err, ERR_USAGE, "%s and --use_deepspeed exclude each other",
                        plugin_table[other].typed);
    int rc = are_several_machines ? launcher_check(plugins, err) : 0;
    for (size_t i = 0; rc == 0 && i < PLUGIN_OPTIONS; i++)
        rc = value_check(i, plugins->values[i], err);
    return rc;
}

/* ---- variables ---- */

static void truths_export(const struct plugin_row *row, const char *value, const char *typed,
                          plugin_variable_fn *add, void *context)
{
    static const char *const what[OVERRIDES] = {"FPROP", "DGRAD", "WGRAD"};
    struct str rest = str_of(value), word;
    for (size_t i = 0; i < OVERRIDES && rest.len > 0 && str_next(&rest, ',', &word); i++) {
        cleanup_free char *name = xasprintf("%s%s", row->variable, what[i]);
        cleanup_free char *truth = xstrndup(str_trim(word).at, str_trim(word).len);
        add(context, typed, name, truth);
    }
}

static void row_export(const struct plugin_row *row, const char *given, plugin_variable_fn *add,
                       void *context)
{
    const char *value = given ? given : row->usual;
    if (!value || !row->variable)
        return;
    cleanup_free char *written = xstrdup(value), *typed = typed_new(row);
    for (char *c = written; *c && row->form == LOWER; c++)
        *c = (char)tolower((unsigned char)*c);
    if (row->type == TRUTHS)
        truths_export(row, value, given ? typed : NULL, add, context);
    else
        add(context, given ? typed : NULL, row->variable, written);
}

void accelerate_plugins_export(const struct accelerate_plugins *plugins, const char *fields,
                               plugin_variable_fn *add, void *context)
{
    for (size_t i = 0; i < PLUGINS; i++)
        if (plugins->uses[i] && plugin_table[i].variable)
            add(context, plugin_table[i].typed, plugin_table[i].variable, "true");
    if (plugins->uses[OF_DEEPSPEED])
        add(context, NULL, "ACCELERATE_CONFIG_DS_FIELDS", fields);
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++)
        if (plugins->uses[plugin_of(i)])
            row_export(&rows[i], plugins->values[i], add, context);
    if (plugins->uses[OF_FP8])
        add(context, plugins->evaluates_in_fp8 ? EVALUATES : NULL,
            "ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL",
            plugins->evaluates_in_fp8 ? "True" : "False");
}
