/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accelerate_config.h"

#include <ctype.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/xalloc.h"
#include "cli/accelerate_arg.h"
#include "graph/file/yaml.h"

enum {
    CONFIG_BYTES_MAX = 1 << 20
};

/* What an entry becomes. Entries of accelerate 0.20 to 1.x (its ClusterConfig). */
enum entry_kind {
    ENTRY_VALUE,   /* the option of the key's name, with this value */
    ENTRY_FLAG,    /* the option `option`, if it is true */
    ENTRY_TYPE,    /* the kind of parallelism */
    ENTRY_MACHINE, /* a value that counts only with several machines */
    ENTRY_PLACE,   /* only this machine itself is accepted */
    ENTRY_DYNAMO,  /* a mapping of further entries */
    ENTRY_PLUGIN,  /* a mapping of options of a plugin */
    ENTRY_IDLE,    /* changes nothing without a TPU */
    ENTRY_REFUSED, /* refused unless the value is empty */
};

static const struct entry {
    const char *key;
    enum entry_kind kind;
    enum plugin plugin;
    const char *option; /* NULL: that of the key's name; of a plugin, what its keys may lack */
} entries[] = {
    {"num_processes", ENTRY_VALUE},
    {"gpu_ids", ENTRY_VALUE},
    {"mixed_precision", ENTRY_VALUE},
    {"fp16", ENTRY_FLAG, .option = "mixed-precision=fp16"}, /* of old, as is the next */
    {"dynamo_backend", ENTRY_VALUE},
    {"num_machines", ENTRY_MACHINE},
    {"machine_rank", ENTRY_MACHINE},
    {"main_process_ip", ENTRY_MACHINE},
    {"main_process_port", ENTRY_VALUE},
    {"rdzv_backend", ENTRY_MACHINE},
    {"use_cpu", ENTRY_FLAG, .option = "cpu"},
    {"debug", ENTRY_FLAG},
    {"enable_cpu_affinity", ENTRY_FLAG},
    {"distributed_type", ENTRY_TYPE},
    {"compute_environment", ENTRY_PLACE},
    {"dynamo_config", ENTRY_DYNAMO},
    {"same_network", ENTRY_IDLE},
    {"main_training_function", ENTRY_IDLE},
    {"downcast_bf16", ENTRY_IDLE},
    {"tpu_use_cluster", ENTRY_IDLE},
    {"tpu_use_sudo", ENTRY_IDLE},
    {"tpu_env", ENTRY_REFUSED},
    {"tpu_name", ENTRY_REFUSED},
    {"tpu_zone", ENTRY_REFUSED},
    {"tpu_vm", ENTRY_REFUSED},
    {"command_file", ENTRY_REFUSED},
    {"commands", ENTRY_REFUSED},
    {"deepspeed_config", ENTRY_PLUGIN, OF_DEEPSPEED, ""},
    {"fsdp_config", ENTRY_PLUGIN, OF_FSDP, "fsdp_"},
    {"megatron_lm_config", ENTRY_PLUGIN, OF_MEGATRON_LM, ""},
    {"fp8_config", ENTRY_PLUGIN, OF_FP8, "fp8_"},
    {"parallelism_config", ENTRY_REFUSED},
    {"tp_config", ENTRY_REFUSED},
    {"ipex_config", ENTRY_REFUSED},
    {"mpirun_config", ENTRY_REFUSED},
};

static const struct entry dynamo_entries[] = {
    {"dynamo_backend", ENTRY_VALUE},
    {"dynamo_mode", ENTRY_VALUE},
    {"dynamo_use_fullgraph", ENTRY_FLAG},
    {"dynamo_use_dynamic", ENTRY_FLAG},
    {"dynamo_use_regional_compilation", ENTRY_FLAG},
};

struct reading {
    struct accelerate_config *config;
    bool has_machines; /* several */
};

static bool is_one_of(struct str text, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        if (text.len == strlen(words[i]) && strncasecmp(text.at, words[i], text.len) == 0)
            return true;
    return false;
}

/* As PyYAML reads them: None, False and True. */
static bool is_null(const struct yaml_node *value)
{
    static const char *const words[] = {"", "null", "~"};
    return value->kind == YAML_SCALAR && value->is_plain &&
           is_one_of(value->text, words, countof(words));
}

static bool is_false(const struct yaml_node *value)
{
    static const char *const words[] = {"false", "no", "off", "0"};
    return value->kind == YAML_SCALAR && is_one_of(value->text, words, countof(words));
}

static bool is_true(const struct yaml_node *value)
{
    static const char *const words[] = {"true", "yes", "on", "1"};
    return value->kind == YAML_SCALAR && is_one_of(value->text, words, countof(words));
}

/* True for an empty value, also for {ipex: false}, which accelerate config writes for processors. */
static bool is_nothing(const struct yaml_node *value)
{
    bool is_it = value->kind != YAML_SCALAR || is_null(value);
    for (uint32_t i = 0; is_it && i < value->len; i++)
        is_it = is_null(value->items[i].value) || is_false(value->items[i].value);
    return is_it;
}

static void word_add(const struct entry *entry, const char *value, struct env_list *words)
{
    char *word = value ? xasprintf("--%s=%s", entry->option ? entry->option : entry->key, value)
                       : xasprintf("--%s", entry->option ? entry->option : entry->key);
    for (char *c = word; *c && *c != '='; c++)
        *c = *c == '_' ? '-' : *c;
    env_list_add(words, word);
}

/* ---- entries ---- */

/* Without --multi_gpu or --cpu, accelerate starts one process; num_processes is then 1 as well. */
static int type_take(const struct yaml_node *value, struct env_list *words, struct err *err)
{
    if (str_equal(value->text, STR("NO")))
        return 0;
    static const struct {
        const char *type, *option;
    } types[] = {{"MULTI_GPU", "multi-gpu"},
                 {"MULTI_CPU", "cpu"},
                 {"FSDP", "use-fsdp"},
                 {"DEEPSPEED", "use-deepspeed"},
                 {"MEGATRON_LM", "use-megatron-lm"}};
    size_t i = 0;
    while (i < countof(types) && !str_equal(value->text, str_of(types[i].type)))
        i++;
    if (i == countof(types))
        return yaml_fail(err, value,
                         "distributed_type: expected NO, MULTI_GPU, MULTI_CPU, FSDP, DEEPSPEED or "
                         "MEGATRON_LM, found %s",
                         value->text.at);
    word_add(&(struct entry){.key = types[i].option}, NULL, words);
    return 0;
}

/* ---- plugins ---- */

/* The text that Python prints for a value as PyYAML reads it: yes, on and true are True. NULL: the value is empty. */
static const char *python_text(const struct yaml_node *value)
{
    static const char *const trues[] = {"true", "yes", "on"}, *const falses[] = {"false", "no",
                                                                                 "off"};
    if (is_null(value))
        return NULL;
    if (value->is_plain && is_one_of(value->text, trues, countof(trues)))
        return "True";
    return value->is_plain && is_one_of(value->text, falses, countof(falses)) ? "False"
                                                                              : value->text.at;
}

static void name_add(struct buf *names, const char *between, const char *name)
{
    buf_addf(names, "%s%s", names->len > 0 ? between : "", name);
}

/* Three values in a list, or in what Python would call a tuple: "(false, false, false)". A new text; NULL: it is neither. */
static char *values_new(const struct yaml_node *value)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct str text = value->text;
    if (value->kind == YAML_SCALAR && text.len > 1 && text.at[0] == '(' &&
        text.at[text.len - 1] == ')')
        return xstrndup(text.at + 1, text.len - 2);
    for (uint32_t i = 0; value->kind == YAML_LIST && i < value->len; i++) {
        const struct yaml_node *item = value->items[i].value;
        if (item->kind != YAML_SCALAR || !python_text(item))
            return NULL;
        name_add(&out, ",", python_text(item));
    }
    return value->kind == YAML_LIST ? buf_steal(&out) : NULL;
}

/* Numbers such as 0.10 are read and written again, as Python does. A new text; NULL: it is none. */
static char *number_new(const struct yaml_node *value)
{
    cleanup_buf struct buf out = BUF_INIT;
    double number;
    bool is_number = value->kind == YAML_SCALAR && value->is_plain && strchr(value->text.at, '.') &&
                     double_parse(value->text, &number, NULL) == 0;
    if (is_number)
        buf_add_json_double(&out, number);
    return is_number ? buf_steal(&out) : NULL;
}

/* An option without a value if it is true. */
#define EVALUATES "fp8_use_autocast_during_eval"

static int option_take(struct reading *reading, const char *name, const struct yaml_node *value,
                       struct err *err)
{
    bool has_several = strcmp(name, "fp8_override_linear_precision") == 0;
    cleanup_free char *values = has_several ? values_new(value) : NULL;
    if (value->kind != YAML_SCALAR && !values)
        return yaml_fail(err, value, "%s: expected %s, found %s", name,
                         has_several ? "three of true and false" : "a text", yaml_kind_name(value));
    cleanup_free char *number = number_new(value);
    const char *text = values ? values : number ? number : python_text(value);
    bool is_flag = strcmp(name, EVALUATES) == 0;
    if (text && is_flag && !is_true(value) && !is_false(value))
        return yaml_fail(err, value, "%s: expected true or false, found '%s'", name, text);
    if (text && (!is_flag || is_true(value)))
        word_add(&(struct entry){.key = name}, is_flag ? NULL : text, &reading->config->words);
    return 0;
}

/* accelerate hands over what its launcher does not know. */
static bool fp8_variable_add(const char *name, const struct yaml_node *value, struct env_list *out)
{
    if (value->kind != YAML_SCALAR || !python_text(value))
        return false;
    char *variable = xasprintf("ACCELERATE_%s=%s", name, python_text(value));
    for (char *c = variable; *c && *c != '='; c++)
        *c = (char)toupper((unsigned char)*c);
    env_list_add(out, variable);
    return true;
}

static int plugin_take(struct reading *reading, const struct entry *entry,
                       const struct yaml_node *mapping, struct err *err)
{
    struct accelerate_config *config = reading->config;
    const char *prefix = entry->option;
    int rc = 0;
    if (mapping->kind == YAML_SCALAR && is_null(mapping))
        return 0;
    if (mapping->kind != YAML_MAPPING)
        return yaml_fail(err, mapping, "%s: expected a mapping, found %s", entry->key,
                         yaml_kind_name(mapping));
    for (uint32_t i = 0; rc == 0 && i < mapping->len; i++) {
        const struct yaml_node *key = mapping->items[i].key, *value = mapping->items[i].value;
        /* Without the `_`: accelerate looks for "fsdp". */
        bool is_short = *prefix && strncmp(key->text.at, prefix, strlen(prefix) - 1) != 0;
        cleanup_free char *name = xasprintf("%s%s", is_short ? prefix : "", key->text.at);
        if (entry->plugin == OF_DEEPSPEED)
            name_add(&config->fields, ",", name);
        if (accelerate_plugin_has(name) || strcmp(name, EVALUATES) == 0)
            rc = option_take(reading, name, value, err);
        else if (entry->plugin != OF_FP8 || !fp8_variable_add(name, value, &config->fp8))
            name_add(&config->unknown, ", ", name);
    }
    return rc;
}

/* NOLINTBEGIN(misc-no-recursion): two deep */
static int entry_take(struct reading *reading, const struct entry *entry,
                      const struct yaml_node *value, struct err *err);

static int entries_take(struct reading *reading, const struct entry *known, size_t n_known,
                        const struct yaml_node *mapping, struct err *err)
{
    const char *names[countof(entries)];
    int rc = 0;
    for (size_t i = 0; i < n_known; i++)
        names[i] = known[i].key;
    for (uint32_t i = 0; rc == 0 && i < mapping->len; i++) {
        const struct yaml_node *key = mapping->items[i].key;
        const struct entry *entry = known;
        while (entry < known + n_known && !str_equal(key->text, str_of(entry->key)))
            entry++;
        const char *near = suggest(key->text.at, names, n_known);
        rc = entry < known + n_known
                 ? entry_take(reading, entry, mapping->items[i].value, err)
                 : yaml_fail(err, key, "accelerate has no entry '%s'%s%s%s", key->text.at,
                             near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
    return rc;
}

static int entry_take(struct reading *reading, const struct entry *entry,
                      const struct yaml_node *value, struct err *err)
{
    if (entry->kind == ENTRY_PLUGIN)
        return plugin_take(reading, entry, value, err);
    if (is_nothing(value) || entry->kind == ENTRY_IDLE)
        return 0;
    if (entry->kind == ENTRY_REFUSED)
        return yaml_fail(err, value,
                         "%s: muster launch starts the ranks and leaves this to the script; "
                         "remove the entry, and set it up there, by Accelerator(...)",
                         entry->key);
    if (entry->kind == ENTRY_DYNAMO && value->kind == YAML_MAPPING)
        return entries_take(reading, dynamo_entries, countof(dynamo_entries), value, err);
    if (value->kind != YAML_SCALAR || entry->kind == ENTRY_DYNAMO)
        return yaml_fail(err, value, "%s: expected %s, found %s", entry->key,
                         entry->kind == ENTRY_DYNAMO ? "a mapping" : "a text",
                         yaml_kind_name(value));
    if (entry->kind == ENTRY_FLAG && !is_true(value) && !is_false(value))
        return yaml_fail(err, value, "%s: expected true or false, found '%s'", entry->key,
                         value->text.at);
    if (entry->kind == ENTRY_TYPE)
        return type_take(value, &reading->config->words, err);
    if (entry->kind == ENTRY_PLACE && !str_equal(value->text, STR("LOCAL_MACHINE")))
        return yaml_fail(err, value, "compute_environment: expected LOCAL_MACHINE, found %s",
                         value->text.at);
    /* accelerate takes -1 for an empty value. */
    bool is_wanted = (entry->kind == ENTRY_VALUE && !str_equal(value->text, STR("-1"))) ||
                     (entry->kind == ENTRY_MACHINE && reading->has_machines) ||
                     (entry->kind == ENTRY_FLAG && is_true(value));
    if (is_wanted)
        word_add(entry, entry->kind == ENTRY_FLAG ? NULL : value->text.at, &reading->config->words);
    return 0;
}
/* NOLINTEND(misc-no-recursion) */

/* accelerate tells the script that the precision comes from the file, so that it may differ from DeepSpeed's own. */
static void precision_note(const struct yaml_node *root, struct buf *fields)
{
    const struct yaml_node *precision = yaml_get(root, STR("mixed_precision"));
    const struct yaml_node *fp16 = yaml_get(root, STR("fp16"));
    if (precision ? !is_nothing(precision) : fp16 && is_true(fp16))
        name_add(fields, ",", "mixed_precision");
}

static int root_take(const struct yaml_node *root, struct accelerate_config *config,
                     struct err *err)
{
    if (root->kind != YAML_MAPPING)
        return yaml_fail(err, root, "expected entries of accelerate, as num_processes: 8, found %s",
                         yaml_kind_name(root));
    const struct yaml_node *n_machines = yaml_get(root, STR("num_machines"));
    struct reading reading = {.config = config,
                              .has_machines = n_machines && !is_nothing(n_machines) &&
                                              !str_equal(n_machines->text, STR("1"))};
    return entries_take(&reading, entries, countof(entries), root, err);
}

int accelerate_config_read(const char *path, bool has_precision, struct accelerate_config *config,
                           struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct arena arena = {0};
    const struct yaml_node *root = NULL;
    int rc = file_read(path, CONFIG_BYTES_MAX, &text, err);
    if (rc)
        return rc == ERR_SYS ? ERR_USAGE : rc;
    rc = yaml_parse(&arena, path, buf_str(&text), &root, err);
    if (rc == 0)
        rc = root_take(root, config, err);
    if (rc == 0 && !has_precision)
        precision_note(root, &config->fields);
    arena_release(&arena);
    return rc;
}

void accelerate_config_release(struct accelerate_config *config)
{
    env_list_release(&config->words);
    env_list_release(&config->fp8);
    buf_release(&config->fields);
    buf_release(&config->unknown);
}
