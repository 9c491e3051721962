/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job runs: `run`, or one of muster's own verbs with its options.
 */
#include "base/cleanup.h"
#include "base/shell.h"
#include "graph/file/file_job.h"

enum {
    COMMAND_MAX_BYTES = 1 << 20 /* before it is split into words */
};

void words_add(struct words *words, const char *text)
{
    if (words->len == words->cap) {
        words->cap = MAX(words->cap * 2, (size_t)16);
        words->at = xrealloc(words->at, words->cap * sizeof(*words->at));
    }
    words->at[words->len++] = text;
}

const char *const *words_take(struct graph_file *file, struct words *words)
{
    const char **out = plan_alloc(file->plan, (words->len + 1) * sizeof(*out));
    if (words->len > 0)
        memcpy(out, words->at, words->len * sizeof(*out));
    file->text_bytes += words->len * sizeof(*out);
    words->len = 0;
    return out;
}

/* ---- leaves ---- */

/* A text that is split as a shell would, or a list of words. */
static int words_read(struct graph_file *file, const struct file_stage *stage,
                      const struct yaml_node *node, const char *what, enum text_mode mode,
                      struct text_list *out)
{
    struct env_list words = {0};
    struct err why = {0};
    int rc = 0;
    if (node->kind != YAML_SCALAR || yaml_is_empty(node))
        rc = text_list_read(file, stage, node, what, mode, out);
    else if (node->text.len > COMMAND_MAX_BYTES)
        rc = file_fail(file, node, "the command is longer than %d KiB; put it into a file",
                       COMMAND_MAX_BYTES / 1024);
    else if (shell_words(node->text.at, &words, &why))
        rc = file_fail(file, node, "%s", why.text);
    if (rc == 0 && node->kind == YAML_SCALAR) {
        out->len = (uint32_t)words.len;
        out->at = arena_alloc(&file->arena, (out->len + 1) * sizeof(*out->at));
        for (uint32_t i = 0; i < out->len && rc == 0; i++)
            rc = text_compile(file, stage, node,
                              str_of(arena_text(&file->arena, str_of(words.at[i]))), mode,
                              &out->at[i]);
    }
    env_list_release(&words);
    if (rc == 0 && out->len == 0)
        rc = file_fail(file, node, "'%s': no command stands here", what);
    return rc;
}

static int words_leaf(struct graph_file *file, struct file_stage *stage,
                      const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct text_list *list = arena_alloc(&file->arena, sizeof(*list));
    *leaf = list;
    return words_read(file, stage, node, kind->name, TEXT_TEMPLATE, list);
}

static int worker_leaf(struct graph_file *file, struct file_stage *stage,
                       const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct text_list *list = arena_alloc(&file->arena, sizeof(*list));
    *leaf = list;
    return words_read(file, stage, node, kind->name, TEXT_WORKER, list);
}

/* The whole text for sh -c. */
static int shell_leaf(struct graph_file *file, struct file_stage *stage,
                      const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct text_list *list = arena_alloc(&file->arena, sizeof(*list));
    *leaf = list;
    if (node->kind != YAML_SCALAR)
        return file_fail(file, node, "with `shell: true`, '%s' is one text, found %s", kind->name,
                         yaml_kind_name(node));
    return text_list_read(file, stage, node, kind->name, TEXT_TEMPLATE, list);
}

/* An option of a verb: true and false are flags; NULL texts. */
struct option_value {
    bool is_flag, is_set;
    struct text_list texts;
};

static int option_leaf(struct graph_file *file, struct file_stage *stage,
                       const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct option_value *value = arena_alloc(&file->arena, sizeof(*value));
    bool is_true =
        node->kind == YAML_SCALAR && node->is_plain && str_equal(node->text, STR("true"));
    bool is_false =
        node->kind == YAML_SCALAR && node->is_plain && str_equal(node->text, STR("false"));
    *leaf = value;
    value->is_flag = is_true || is_false;
    value->is_set = is_true;
    return value->is_flag
               ? 0
               : text_list_read(file, stage, node, kind->name, TEXT_TEMPLATE, &value->texts);
}

static int inputs_leaf(struct graph_file *file, struct file_stage *stage,
                       const struct yaml_node *node, const struct leaf_kind *kind, void **leaf)
{
    struct text_list *list = arena_alloc(&file->arena, sizeof(*list));
    *leaf = list;
    return text_list_read(file, stage, node, kind->name, TEXT_TEMPLATE, list);
}

#define COMMAND_TEXT "a command as a text, or a list of words"
static const struct leaf_kind run_kind = {"run", COMMAND_TEXT, NULL, words_leaf, NULL};
static const struct leaf_kind shell_kind = {"run", "a command as a text", NULL, shell_leaf, NULL};
static const struct leaf_kind worker_kind = {"worker", COMMAND_TEXT, NULL, worker_leaf, NULL};
static const struct leaf_kind script_kind = {"script", COMMAND_TEXT, NULL, words_leaf, NULL};
static const struct leaf_kind input_kind = {"input", "a text or a list of texts", NULL, inputs_leaf,
                                            NULL};
static const struct leaf_kind output_kind = {"output", "a text", NULL, text_compile_leaf, NULL};
static const struct leaf_kind option_kind = {"option", "a text, a list of texts, true or false",
                                             NULL, option_leaf, NULL};

/* ---- verbs ---- */

static const struct verb {
    enum job_key key;
    enum plan_kind kind;
    const char *worker[3]; /* keys of the command; NULL-terminated */
    bool has_files;        /* inputs and an output */
} verbs[] = {
    {KEY_MAP, PLAN_MAP, {"worker", NULL}, true},
    {KEY_LAUNCH, PLAN_LAUNCH, {"script", "command", NULL}, false},
    {KEY_MERGE, PLAN_MERGE, {NULL}, true},
};

static bool is_option_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && (i == 0 || (c != '-' && c != '_')))
            return false;
    }
    return name.len > 0;
}

static int option_add(struct graph_file *file, struct file_stage *stage,
                      const struct yaml_item *item, const char *verb, struct command *command)
{
    if (!is_option_name(item->key->text))
        return file_fail(file, item->key, "'%.64s' is no long option of muster %s (without dashes)",
                         item->key->text.at, verb);
    if (str_equal(item->key->text, STR("gpus")))
        return file_fail(file, item->key,
                         "the devices of a job are the job's own key `gpus`, beside `%s`", verb);
    struct err why = {0};
    if (file->opts.option_check && file->opts.option_check(verb, item->key->text.at, &why) != 0)
        return file_fail(file, item->key, "%s", why.text);
    struct option *option = &command->options[command->n_options++];
    option->name = item->key->text;
    return choice_compile(file, stage, item->value, &option_kind, &option->value);
}

/* Keys that are no options. 1: it was one of them. */
static int member_compile(struct graph_file *file, struct file_stage *stage,
                          const struct verb *verb, const struct yaml_item *item,
                          struct command *command)
{
    struct str key = item->key->text;
    int rc;
    for (size_t i = 0; verb->worker[i]; i++) {
        if (!str_equal(key, str_of(verb->worker[i])))
            continue;
        if (command->worker)
            return file_fail(file, item->key, "'%s' and '%s' exclude each other", verb->worker[0],
                             verb->worker[1]);
        command->is_program = i > 0;
        rc = choice_compile(file, stage, item->value,
                            verb->kind == PLAN_MAP ? &worker_kind : &script_kind, &command->worker);
        return rc ? rc : 1;
    }
    bool is_input = str_equal(key, STR("input")) || str_equal(key, STR("inputs"));
    if (verb->has_files && is_input) {
        if (command->inputs)
            return file_fail(file, item->key, "'input' and 'inputs' are two names of one key");
        rc = choice_compile(file, stage, item->value, &input_kind, &command->inputs);
        return rc ? rc : 1;
    }
    if (verb->has_files && str_equal(key, STR("output"))) {
        rc = choice_compile(file, stage, item->value, &output_kind, &command->output);
        return rc ? rc : 1;
    }
    return 0;
}

static int verb_compile(struct graph_file *file, struct file_stage *stage, const struct verb *verb,
                        const struct yaml_node *node, struct command *command)
{
    const char *name = job_key_name(verb->key);
    command->kind = verb->kind;
    if (node->kind != YAML_MAPPING)
        return file_fail(file, node, "expected a mapping of options for `%s`, found %s", name,
                         yaml_kind_name(node));
    command->options = arena_alloc(&file->arena, (node->len + 1) * sizeof(*command->options));
    for (uint32_t i = 0; i < node->len; i++) {
        int rc = member_compile(file, stage, verb, &node->items[i], command);
        if (rc == 0)
            rc = option_add(file, stage, &node->items[i], name, command);
        if (rc < 0)
            return rc;
    }
    if (verb->worker[0] && !command->worker)
        return file_fail(file, node, "`%s` has no `%s`: the command that it starts", name,
                         verb->worker[0]);
    if (verb->kind == PLAN_MAP && !command->inputs)
        return file_fail(file, node, "`map` has no `input`: the file of its items");
    return 0;
}

static int shell_read(struct graph_file *file, const struct file_stage *stage, bool *out)
{
    const struct yaml_node *node = stage_key(file, stage, KEY_SHELL);
    bool is_text = node && node->kind == YAML_SCALAR;
    *out = is_text && str_equal(node->text, STR("true"));
    if (node && !*out && !(is_text && str_equal(node->text, STR("false"))))
        return file_fail(file, node, "'shell': expected true or false, found %s",
                         is_text ? node->text.at : yaml_kind_name(node));
    return 0;
}

int command_compile(struct graph_file *file, struct file_stage *stage, struct command *command)
{
    bool has_own = own_key(stage, KEY_RUN) != NULL;
    for (size_t i = 0; i < countof(verbs); i++)
        has_own = has_own || own_key(stage, verbs[i].key);
    for (size_t i = 0; i < countof(verbs); i++) {
        const struct yaml_node *node =
            has_own ? own_key(stage, verbs[i].key) : default_key(file, verbs[i].key);
        if (node)
            return verb_compile(file, stage, &verbs[i], node, command);
    }
    command->kind = PLAN_RUN;
    if (!stage_key(file, stage, KEY_RUN))
        return file_fail(file, stage->key, "'%s' has no `run`, `map`, `launch` or `merge`",
                         stage->name.at);
    int rc = shell_read(file, stage, &command->is_shell);
    if (rc)
        return rc;
    return setting_compile(file, stage, KEY_RUN, command->is_shell ? &shell_kind : &run_kind,
                           &command->words);
}

/* ---- jobs ---- */

static const char *escaped(struct graph_file *file, struct str text)
{
    buf_reset(&file->scratch);
    text_escape(&file->scratch, text, TEXT_TEMPLATE);
    return plan_text(file->plan, buf_str(&file->scratch));
}

static void texts_add(struct graph_file *file, const struct file_stage *stage,
                      const struct text_list *list, const uint32_t *row, struct words *words)
{
    for (uint32_t i = 0; list && i < list->len; i++)
        words_add(words, text_make(file, stage, &list->at[i], row));
}

static void option_words(struct graph_file *file, const struct file_stage *stage,
                         const struct option *option, const uint32_t *row, struct words *words)
{
    const struct option_value *value = choice_at(option->value, row);
    if (!value || (value->is_flag && !value->is_set))
        return;
    for (uint32_t i = 0; i < (value->is_flag ? 1 : value->texts.len); i++) {
        buf_reset(&file->scratch);
        buf_addf(&file->scratch, "--%s", option->name.at);
        if (!value->is_flag) {
            buf_add_char(&file->scratch, '=');
            text_render(file, stage, &value->texts.at[i], row, &file->scratch);
        }
        words_add(words, plan_text(file->plan, buf_str(&file->scratch)));
    }
}

/* The output of map and merge: their own, or the first of the job's. */
static int output_words(struct graph_file *file, const struct file_stage *stage,
                        const struct command *command, const uint32_t *row, struct plan_job *job,
                        struct words *words)
{
    const struct text_list *output = choice_at(command->output, row);
    if (output && output->len > 0 && job->n_outs == 0) {
        struct plan_out *out = plan_alloc(file->plan, sizeof(*out));
        out->path = text_make(file, stage, &output->at[0], row);
        job->outs = out;
        job->n_outs = 1;
    }
    if (job->n_outs == 0)
        return file_fail(file, stage->key, "'%s' has no output; say where it goes with `out`",
                         job->name);
    const char *path =
        output && output->len > 0 ? text_make(file, stage, &output->at[0], row) : job->outs[0].path;
    buf_reset(&file->scratch);
    buf_add_text(&file->scratch, "--output=");
    text_escape(&file->scratch, str_of(path), TEXT_TEMPLATE);
    words_add(words, plan_text(file->plan, buf_str(&file->scratch)));
    /* What is at the place of an output is the graph's own, or it was asked about. */
    words_add(words, "--force");
    return 0;
}

/* A merge without inputs takes what the jobs leave that it needs. */
static int needed_outs(struct graph_file *file, const struct file_stage *stage,
                       const struct plan_job *job, struct words *words)
{
    size_t n_before = words->len;
    for (uint32_t i = 0; i < job->n_needs; i++) {
        const struct plan_job *needed = &file->plan->jobs[job->needs[i]];
        for (uint32_t k = 0; k < needed->n_outs; k++) {
            bool is_beside = needed->outs[k].path[0] == '/' || !needed->cwd;
            struct buf path = BUF_INIT;
            buf_addf(&path, "%s%s%s", is_beside ? "" : needed->cwd, is_beside ? "" : "/",
                     needed->outs[k].path);
            words_add(words, escaped(file, buf_str(&path)));
            buf_release(&path);
        }
    }
    if (words->len == n_before)
        return file_fail(file, stage->key,
                         "'%s' has no `inputs`, and needs no job that leaves a file", job->name);
    return 0;
}

static int verb_words(struct graph_file *file, const struct file_stage *stage,
                      const struct command *command, const uint32_t *row, struct plan_job *job,
                      struct words *words)
{
    static const char *const names[] = {
        [PLAN_MAP] = "map", [PLAN_LAUNCH] = "launch", [PLAN_MERGE] = "merge"};
    const struct text_list *inputs = choice_at(command->inputs, row);
    const struct text_list *worker = choice_at(command->worker, row);
    int rc = 0;
    words_add(words, "{muster}");
    words_add(words, names[command->kind]);
    if (command->kind == PLAN_MAP || command->kind == PLAN_MERGE)
        rc = output_words(file, stage, command, row, job, words);
    for (uint32_t i = 0; i < command->n_options && rc == 0; i++)
        option_words(file, stage, &command->options[i], row, words);
    if (rc == 0 && command->kind != PLAN_MERGE && !worker)
        rc =
            file_fail(file, stage->key, "'%s' has no command for its values; add \"*\"", job->name);
    if (rc == 0 && command->kind == PLAN_MERGE && !inputs)
        rc = needed_outs(file, stage, job, words);
    if (rc)
        return rc;
    texts_add(file, stage, inputs, row, words);
    if (command->kind == PLAN_LAUNCH && command->is_program)
        words_add(words, "--no-python");
    if (command->kind == PLAN_MAP)
        words_add(words, "--");
    texts_add(file, stage, worker, row, words);
    return 0;
}

int command_make(struct graph_file *file, const struct file_stage *stage,
                 const struct command *command, const uint32_t *row, struct plan_job *job)
{
    struct words *words = &stage->def->words;
    job->kind = command->kind;
    if (command->kind != PLAN_RUN) {
        int rc = verb_words(file, stage, command, row, job, words);
        job->argv = rc ? NULL : words_take(file, words);
        return rc;
    }
    const struct text_list *list = setting_at(&command->words, row);
    if (!list)
        return file_fail(file, stage->key, "'%s' has no command for its values; add \"*\"",
                         job->name);
    if (command->is_shell) {
        words_add(words, "sh");
        words_add(words, "-c");
    }
    texts_add(file, stage, list, row, words);
    job->argv = words_take(file, words);
    return 0;
}
