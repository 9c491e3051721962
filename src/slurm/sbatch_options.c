/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/sbatch_options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/suggest.h"
#include "base/xalloc.h"

enum value_kind {
    NONE,
    REQUIRED,
    OPTIONAL /* only in the same word: "--nice=5", "-koff" */
};

struct option {
    const char *name;
    char letter;
    enum value_kind value;
    const char *same_as; /* the usual name, for one that is another */
};

/* sbatch(1) of Slurm 22.05 to 26.05. What a version does not have, its sbatch refuses. */
static const struct option options[] = {
    {"account", 'A', REQUIRED, NULL},
    {"acctg-freq", 0, REQUIRED, NULL},
    {"array", 'a', REQUIRED, NULL},
    {"autocomplete", 0, REQUIRED, NULL},
    {"batch", 0, REQUIRED, NULL},
    {"bb", 0, REQUIRED, NULL},
    {"bbf", 0, REQUIRED, NULL},
    {"begin", 'b', REQUIRED, NULL},
    {"chdir", 'D', REQUIRED, NULL},
    {"cluster", 0, REQUIRED, "clusters"},
    {"cluster-constraint", 0, REQUIRED, NULL},
    {"clusters", 'M', REQUIRED, NULL},
    {"comment", 0, REQUIRED, NULL},
    {"consolidate-segments", 0, NONE, NULL},
    {"constraint", 'C', REQUIRED, NULL},
    {"container", 0, REQUIRED, NULL},
    {"container-id", 0, REQUIRED, NULL},
    {"container-type", 0, REQUIRED, NULL},
    {"context", 0, REQUIRED, NULL},
    {"contiguous", 0, NONE, NULL},
    {"core-spec", 'S', REQUIRED, NULL},
    {"cores-per-socket", 0, REQUIRED, NULL},
    {"cpu-freq", 0, REQUIRED, NULL},
    {"cpus-per-gpu", 0, REQUIRED, NULL},
    {"cpus-per-task", 'c', REQUIRED, NULL},
    {"deadline", 0, REQUIRED, NULL},
    {"delay-boot", 0, REQUIRED, NULL},
    {"dependency", 'd', REQUIRED, NULL},
    {"distribution", 'm', REQUIRED, NULL},
    {"error", 'e', REQUIRED, NULL},
    {"exclude", 'x', REQUIRED, NULL},
    {"exclusive", 0, OPTIONAL, NULL},
    {"export", 0, REQUIRED, NULL},
    {"export-file", 0, REQUIRED, NULL},
    {"external", 0, NONE, NULL},
    {"extra", 0, REQUIRED, NULL},
    {"extra-node-info", 'B', REQUIRED, NULL},
    {"get-user-env", 0, OPTIONAL, NULL},
    {"gid", 0, REQUIRED, NULL},
    {"gpu-bind", 0, REQUIRED, NULL},
    {"gpu-freq", 0, REQUIRED, NULL},
    {"gpus", 'G', REQUIRED, NULL},
    {"gpus-per-node", 0, REQUIRED, NULL},
    {"gpus-per-socket", 0, REQUIRED, NULL},
    {"gpus-per-task", 0, REQUIRED, NULL},
    {"gres", 0, REQUIRED, NULL},
    {"gres-flags", 0, REQUIRED, NULL},
    {"help", 'h', NONE, NULL},
    {"hint", 0, REQUIRED, NULL},
    {"hold", 'H', NONE, NULL},
    {"ignore-pbs", 0, NONE, NULL},
    {"input", 'i', REQUIRED, NULL},
    {"job-name", 'J', REQUIRED, NULL},
    {"kill-on-invalid-dep", 0, REQUIRED, NULL},
    {"licenses", 'L', REQUIRED, NULL},
    {"mail-type", 0, REQUIRED, NULL},
    {"mail-user", 0, REQUIRED, NULL},
    {"mcs-label", 0, REQUIRED, NULL},
    {"mem", 0, REQUIRED, NULL},
    {"mem-bind", 0, REQUIRED, NULL},
    {"mem-per-cpu", 0, REQUIRED, NULL},
    {"mem-per-gpu", 0, REQUIRED, NULL},
    {"mem-update", 0, REQUIRED, NULL},
    {"mincpus", 0, REQUIRED, NULL},
    {"network", 0, REQUIRED, NULL},
    {"nice", 0, OPTIONAL, NULL},
    {"no-kill", 'k', OPTIONAL, NULL},
    {"no-requeue", 0, NONE, NULL},
    {"nodefile", 'F', REQUIRED, NULL},
    {"nodelist", 'w', REQUIRED, NULL},
    {"nodes", 'N', REQUIRED, NULL},
    {"ntasks", 'n', REQUIRED, NULL},
    {"ntasks-per-core", 0, REQUIRED, NULL},
    {"ntasks-per-gpu", 0, REQUIRED, NULL},
    {"ntasks-per-node", 0, REQUIRED, NULL},
    {"ntasks-per-socket", 0, REQUIRED, NULL},
    {"ntasks-per-tres", 0, REQUIRED, NULL},
    {"oom-kill-step", 0, OPTIONAL, NULL},
    {"open-mode", 0, REQUIRED, NULL},
    {"output", 'o', REQUIRED, NULL},
    {"overcommit", 'O', NONE, NULL},
    {"oversubscribe", 's', NONE, NULL},
    {"parsable", 0, NONE, NULL},
    {"partition", 'p', REQUIRED, NULL},
    {"power", 0, REQUIRED, NULL},
    {"prefer", 0, REQUIRED, NULL},
    {"priority", 0, REQUIRED, NULL},
    {"profile", 0, REQUIRED, NULL},
    {"propagate", 0, OPTIONAL, NULL},
    {"qos", 'q', REQUIRED, NULL},
    {"quiet", 'Q', NONE, NULL},
    {"reboot", 0, NONE, NULL},
    {"requeue", 0, OPTIONAL, NULL},
    {"reservation", 0, REQUIRED, NULL},
    {"resources", 0, REQUIRED, NULL},
    {"resv-ports", 0, OPTIONAL, NULL},
    {"segment", 0, REQUIRED, NULL},
    {"signal", 0, REQUIRED, NULL},
    {"sockets-per-node", 0, REQUIRED, NULL},
    {"spread-job", 0, NONE, NULL},
    {"spread-segments", 0, NONE, NULL},
    {"stepmgr", 0, NONE, NULL},
    {"switches", 0, REQUIRED, NULL},
    {"tasks-per-node", 0, REQUIRED, "ntasks-per-node"},
    {"test-only", 0, NONE, NULL},
    {"thread-spec", 0, REQUIRED, NULL},
    {"threads-per-core", 0, REQUIRED, NULL},
    {"time", 't', REQUIRED, NULL},
    {"time-min", 0, REQUIRED, NULL},
    {"tmp", 0, REQUIRED, NULL},
    {"tres-bind", 0, REQUIRED, NULL},
    {"tres-per-task", 0, REQUIRED, NULL},
    {"uid", 0, REQUIRED, NULL},
    {"usage", 0, NONE, NULL},
    {"use-min-nodes", 0, NONE, NULL},
    {"verbose", 'v', NONE, NULL},
    {"version", 'V', NONE, NULL},
    {"wait", 'W', NONE, NULL},
    {"wait-all-nodes", 0, REQUIRED, NULL},
    {"wckey", 0, REQUIRED, NULL},
    {"wrap", 0, REQUIRED, NULL},
};

enum {
    OWN_MAX = 64
};

/* The words that are left, and the options that there are: the caller's, then sbatch's. */
struct reader {
    struct option all[OWN_MAX + countof(options)];
    size_t n_own, n_all;
    char **argv;
    int argc, at;
    struct sbatch_words *out;
};

static const char *usual_name(const struct option *option)
{
    return option->same_as ? option->same_as : option->name;
}

static void option_store(struct reader *reader, const struct option *option, const char *value)
{
    bool is_own = (size_t)(option - reader->all) < reader->n_own;
    const char *name = usual_name(option);
    env_list_add(is_own ? &reader->out->own : &reader->out->options,
                 value ? xasprintf("--%s=%s", name, value) : xasprintf("--%s", name));
}

/* ---- names ---- */

static int name_unknown(const struct reader *reader, struct str typed, struct err *err)
{
    const char *names[OWN_MAX + countof(options)];
    cleanup_free char *name = xstrndup(typed.at, typed.len);
    for (size_t i = 0; i < reader->n_all; i++)
        names[i] = reader->all[i].name;
    const char *near = suggest(name, names, reader->n_all);
    if (near)
        return fail(err, ERR_USAGE, "unknown option '--%s' (did you mean '--%s'?)", name, near);
    return fail(err, ERR_USAGE,
                "unknown option '--%s': sbatch has none of this name; see muster submit --help",
                name);
}

/* NULL: none. */
static const struct option *name_find(const struct reader *reader, struct str typed)
{
    for (size_t i = 0; i < reader->n_all; i++)
        if (str_equal(str_of(reader->all[i].name), typed))
            return &reader->all[i];
    return NULL;
}

/* The option whose name begins so. */
static int name_complete(const struct reader *reader, struct str typed, const struct option **out,
                         struct err *err)
{
    const struct option *found = NULL;
    for (size_t i = 0; typed.len > 0 && i < reader->n_all; i++) {
        const struct option *option = &reader->all[i];
        if (!str_starts_with(str_of(option->name), typed))
            continue;
        if (found && strcmp(usual_name(found), usual_name(option)) != 0)
            return fail(err, ERR_USAGE, "option '--%.*s' may be --%s or --%s", (int)typed.len,
                        typed.at, found->name, option->name);
        found = option;
    }
    *out = found;
    return found ? 0 : name_unknown(reader, typed, err);
}

static int long_read(struct reader *reader, const char *word, struct err *err)
{
    size_t len = strcspn(word, "=");
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    const struct option *option = name_find(reader, (struct str){word, len});
    if (!option && name_complete(reader, (struct str){word, len}, &option, err) != 0)
        return ERR_USAGE;
    ASSERT(option);
    if (option->value == NONE && value)
        return fail(err, ERR_USAGE, "option '--%s' takes no value", option->name);
    if (option->value == REQUIRED && !value) {
        if (reader->at >= reader->argc)
            return fail(err, ERR_USAGE, "option '--%s' needs a value", option->name);
        value = reader->argv[reader->at++];
    }
    option_store(reader, option, value);
    return 0;
}

/* ---- letters ---- */

static const struct option *letter_find(const struct reader *reader, char letter)
{
    for (size_t i = 0; i < reader->n_all; i++)
        if (reader->all[i].letter == letter)
            return &reader->all[i];
    return NULL;
}

/* The letters of a word without its dash. */
static int letters_read(struct reader *reader, const char *letters, struct err *err)
{
    for (const char *at = letters; *at; at++) {
        const struct option *option = letter_find(reader, *at);
        const char *value = at[1] ? at + 1 : NULL;
        if (!option)
            return fail(err, ERR_USAGE, "unknown option '-%c'; see muster submit --help", *at);
        if (option->value == NONE) {
            option_store(reader, option, NULL);
            continue;
        }
        if (option->value == REQUIRED && !value) {
            if (reader->at >= reader->argc)
                return fail(err, ERR_USAGE, "option '-%c' needs a value", *at);
            value = reader->argv[reader->at++];
        }
        option_store(reader, option, value);
        break;
    }
    return 0;
}

/* ---- all words ---- */

int sbatch_words_read(const struct sbatch_own *own, size_t n_own, int argc, char **argv,
                      struct sbatch_words *out, struct err *err)
{
    struct reader reader = {.argv = argv, .argc = argc, .out = out, .n_own = n_own};
    *out = (struct sbatch_words){0};
    ASSERT(n_own <= OWN_MAX);
    for (size_t i = 0; i < n_own; i++)
        reader.all[reader.n_all++] =
            (struct option){own[i].name, own[i].letter, own[i].takes_value ? REQUIRED : NONE, NULL};
    for (size_t i = 0; i < countof(options); i++)
        reader.all[reader.n_all++] = options[i];
    int rc = 0;
    while (rc == 0 && reader.at < argc && argv[reader.at][0] == '-' && argv[reader.at][1]) {
        const char *word = argv[reader.at++];
        if (strcmp(word, "--") == 0)
            break;
        rc = word[1] == '-' ? long_read(&reader, word + 2, err)
                            : letters_read(&reader, word + 1, err);
    }
    out->n_read = reader.at;
    if (rc == 0 && reader.at < argc && strcmp(argv[reader.at], ":") == 0)
        rc = fail(err, ERR_USAGE,
                  "':' separates the parts of a heterogeneous job, which has no one verb; use "
                  "--stage for jobs of different sizes");
    if (rc != 0)
        sbatch_words_release(out);
    return rc;
}

/* ---- variables ---- */

/* Variables that are not called as their options are. */
static const struct {
    const char *variable, *name;
} variables[] = {
    {"timelimit", "time"},  {"array-inx", "array"},       {"mem-per-node", "mem"},
    {"burst-buffer", "bb"}, {"cpu-freq-req", "cpu-freq"}, {"segment-size", "segment"},
};

/* "PARTITION" as an option of that name; NULL: there is none. */
static const struct option *variable_find(struct str variable)
{
    char name[32];
    if (variable.len == 0 || variable.len >= sizeof(name))
        return NULL;
    for (size_t i = 0; i < variable.len; i++)
        name[i] = variable.at[i] == '_' ? '-' : (char)tolower((unsigned char)variable.at[i]);
    name[variable.len] = '\0';
    const char *found = name;
    for (size_t i = 0; i < countof(variables); i++)
        if (strcmp(name, variables[i].variable) == 0)
            found = variables[i].name;
    for (size_t i = 0; i < countof(options); i++)
        if (strcmp(options[i].name, found) == 0)
            return &options[i];
    return NULL;
}

/* A submission has an array and a wait of its own (--array, --follow). */
static bool is_own_matter(const struct option *option)
{
    static const char *const names[] = {"array", "wait"};
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(option->name, names[i]) == 0)
            return true;
    return false;
}

void sbatch_variables_read(const char *const *environment, struct env_list *list)
{
    static const char before[] = "SBATCH_";
    for (const char *const *entry = environment; *entry; entry++) {
        struct str value = str_of(*entry), name;
        if (!str_starts_with(value, STR(before)) || !str_next(&value, '=', &name))
            continue;
        const struct option *option =
            variable_find((struct str){name.at + strlen(before), name.len - strlen(before)});
        if (!option || is_own_matter(option) || sbatch_value(list, usual_name(option)) ||
            str_equal(value, STR("0")) || str_equal(value, STR("no")))
            continue;
        bool has_value = option->value == REQUIRED || (option->value == OPTIONAL && value.len > 0);
        env_list_add(list, has_value ? xasprintf("--%s=%s", usual_name(option), value.at)
                                     : xasprintf("--%s", usual_name(option)));
    }
}

void sbatch_words_release(struct sbatch_words *words)
{
    env_list_release(&words->options);
    env_list_release(&words->own);
    *words = (struct sbatch_words){0};
}

const char *sbatch_value(const struct env_list *list, const char *name)
{
    for (size_t i = list->len; i-- > 0;) {
        const char *typed = list->at[i] + strlen("--");
        size_t len = strcspn(typed, "=");
        if (str_equal((struct str){typed, len}, str_of(name)))
            return typed[len] ? typed + len + 1 : "";
    }
    return NULL;
}
