/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/sbatch_options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/suggest.h"
#include "base/xalloc.h"
#include "slurm/sbatch_help.h"

struct option {
    const char *name;
    char letter;
    enum sbatch_value_kind value;
    const char *same_as; /* the usual name, if `name` is a second one; else NULL */
};

/*
 * The options in sbatch(1) of Slurm 22.05 to 26.05. If a version lacks one of them, its sbatch refuses the option. A
 * version may also have options that this table lacks.
 */
static const struct option options[] = {
    {"account", 'A', SBATCH_VALUE, NULL},
    {"acctg-freq", 0, SBATCH_VALUE, NULL},
    {"array", 'a', SBATCH_VALUE, NULL},
    {"autocomplete", 0, SBATCH_VALUE, NULL},
    {"batch", 0, SBATCH_VALUE, NULL},
    {"bb", 0, SBATCH_VALUE, NULL},
    {"bbf", 0, SBATCH_VALUE, NULL},
    {"begin", 'b', SBATCH_VALUE, NULL},
    {"chdir", 'D', SBATCH_VALUE, NULL},
    {"cluster", 0, SBATCH_VALUE, "clusters"},
    {"cluster-constraint", 0, SBATCH_VALUE, NULL},
    {"clusters", 'M', SBATCH_VALUE, NULL},
    {"comment", 0, SBATCH_VALUE, NULL},
    {"consolidate-segments", 0, SBATCH_NO_VALUE, NULL},
    {"constraint", 'C', SBATCH_VALUE, NULL},
    {"container", 0, SBATCH_VALUE, NULL},
    {"container-id", 0, SBATCH_VALUE, NULL},
    {"container-type", 0, SBATCH_VALUE, NULL},
    {"context", 0, SBATCH_VALUE, NULL},
    {"contiguous", 0, SBATCH_NO_VALUE, NULL},
    {"core-spec", 'S', SBATCH_VALUE, NULL},
    {"cores-per-socket", 0, SBATCH_VALUE, NULL},
    {"cpu-freq", 0, SBATCH_VALUE, NULL},
    {"cpus-per-gpu", 0, SBATCH_VALUE, NULL},
    {"cpus-per-task", 'c', SBATCH_VALUE, NULL},
    {"deadline", 0, SBATCH_VALUE, NULL},
    {"delay-boot", 0, SBATCH_VALUE, NULL},
    {"dependency", 'd', SBATCH_VALUE, NULL},
    {"distribution", 'm', SBATCH_VALUE, NULL},
    {"error", 'e', SBATCH_VALUE, NULL},
    {"exclude", 'x', SBATCH_VALUE, NULL},
    {"exclusive", 0, SBATCH_MAYBE_VALUE, NULL},
    {"export", 0, SBATCH_VALUE, NULL},
    {"export-file", 0, SBATCH_VALUE, NULL},
    {"external", 0, SBATCH_NO_VALUE, NULL},
    {"extra", 0, SBATCH_VALUE, NULL},
    {"extra-node-info", 'B', SBATCH_VALUE, NULL},
    {"get-user-env", 0, SBATCH_MAYBE_VALUE, NULL},
    {"gid", 0, SBATCH_VALUE, NULL},
    {"gpu-bind", 0, SBATCH_VALUE, NULL},
    {"gpu-freq", 0, SBATCH_VALUE, NULL},
    {"gpus", 'G', SBATCH_VALUE, NULL},
    {"gpus-per-node", 0, SBATCH_VALUE, NULL},
    {"gpus-per-socket", 0, SBATCH_VALUE, NULL},
    {"gpus-per-task", 0, SBATCH_VALUE, NULL},
    {"gres", 0, SBATCH_VALUE, NULL},
    {"gres-flags", 0, SBATCH_VALUE, NULL},
    {"help", 'h', SBATCH_NO_VALUE, NULL},
    {"hint", 0, SBATCH_VALUE, NULL},
    {"hold", 'H', SBATCH_NO_VALUE, NULL},
    {"ignore-pbs", 0, SBATCH_NO_VALUE, NULL},
    {"input", 'i', SBATCH_VALUE, NULL},
    {"job-name", 'J', SBATCH_VALUE, NULL},
    {"kill-on-invalid-dep", 0, SBATCH_VALUE, NULL},
    {"licenses", 'L', SBATCH_VALUE, NULL},
    {"mail-type", 0, SBATCH_VALUE, NULL},
    {"mail-user", 0, SBATCH_VALUE, NULL},
    {"mcs-label", 0, SBATCH_VALUE, NULL},
    {"mem", 0, SBATCH_VALUE, NULL},
    {"mem-bind", 0, SBATCH_VALUE, NULL},
    {"mem-per-cpu", 0, SBATCH_VALUE, NULL},
    {"mem-per-gpu", 0, SBATCH_VALUE, NULL},
    {"mem-update", 0, SBATCH_VALUE, NULL},
    {"mincpus", 0, SBATCH_VALUE, NULL},
    {"network", 0, SBATCH_VALUE, NULL},
    {"nice", 0, SBATCH_MAYBE_VALUE, NULL},
    {"no-kill", 'k', SBATCH_MAYBE_VALUE, NULL},
    {"no-requeue", 0, SBATCH_NO_VALUE, NULL},
    {"nodefile", 'F', SBATCH_VALUE, NULL},
    {"nodelist", 'w', SBATCH_VALUE, NULL},
    {"nodes", 'N', SBATCH_VALUE, NULL},
    {"ntasks", 'n', SBATCH_VALUE, NULL},
    {"ntasks-per-core", 0, SBATCH_VALUE, NULL},
    {"ntasks-per-gpu", 0, SBATCH_VALUE, NULL},
    {"ntasks-per-node", 0, SBATCH_VALUE, NULL},
    {"ntasks-per-socket", 0, SBATCH_VALUE, NULL},
    {"ntasks-per-tres", 0, SBATCH_VALUE, NULL},
    {"oom-kill-step", 0, SBATCH_MAYBE_VALUE, NULL},
    {"open-mode", 0, SBATCH_VALUE, NULL},
    {"output", 'o', SBATCH_VALUE, NULL},
    {"overcommit", 'O', SBATCH_NO_VALUE, NULL},
    {"oversubscribe", 's', SBATCH_NO_VALUE, NULL},
    {"parsable", 0, SBATCH_NO_VALUE, NULL},
    {"partition", 'p', SBATCH_VALUE, NULL},
    {"power", 0, SBATCH_VALUE, NULL},
    {"prefer", 0, SBATCH_VALUE, NULL},
    {"priority", 0, SBATCH_VALUE, NULL},
    {"profile", 0, SBATCH_VALUE, NULL},
    {"propagate", 0, SBATCH_MAYBE_VALUE, NULL},
    {"qos", 'q', SBATCH_VALUE, NULL},
    {"quiet", 'Q', SBATCH_NO_VALUE, NULL},
    {"reboot", 0, SBATCH_NO_VALUE, NULL},
    {"requeue", 0, SBATCH_MAYBE_VALUE, NULL},
    {"reservation", 0, SBATCH_VALUE, NULL},
    {"resources", 0, SBATCH_VALUE, NULL},
    {"resv-ports", 0, SBATCH_MAYBE_VALUE, NULL},
    {"segment", 0, SBATCH_VALUE, NULL},
    {"signal", 0, SBATCH_VALUE, NULL},
    {"sockets-per-node", 0, SBATCH_VALUE, NULL},
    {"spread-job", 0, SBATCH_NO_VALUE, NULL},
    {"spread-segments", 0, SBATCH_NO_VALUE, NULL},
    {"stepmgr", 0, SBATCH_NO_VALUE, NULL},
    {"switches", 0, SBATCH_VALUE, NULL},
    {"tasks-per-node", 0, SBATCH_VALUE, "ntasks-per-node"},
    {"test-only", 0, SBATCH_NO_VALUE, NULL},
    {"thread-spec", 0, SBATCH_VALUE, NULL},
    {"threads-per-core", 0, SBATCH_VALUE, NULL},
    {"time", 't', SBATCH_VALUE, NULL},
    {"time-min", 0, SBATCH_VALUE, NULL},
    {"tmp", 0, SBATCH_VALUE, NULL},
    {"tres-bind", 0, SBATCH_VALUE, NULL},
    {"tres-per-task", 0, SBATCH_VALUE, NULL},
    {"uid", 0, SBATCH_VALUE, NULL},
    {"usage", 0, SBATCH_NO_VALUE, NULL},
    {"use-min-nodes", 0, SBATCH_NO_VALUE, NULL},
    {"verbose", 'v', SBATCH_NO_VALUE, NULL},
    {"version", 'V', SBATCH_NO_VALUE, NULL},
    {"wait", 'W', SBATCH_NO_VALUE, NULL},
    {"wait-all-nodes", 0, SBATCH_VALUE, NULL},
    {"wckey", 0, SBATCH_VALUE, NULL},
    {"wrap", 0, SBATCH_VALUE, NULL},
};

enum {
    OWN_MAX = 64
};

/* The words that are still to be read, and all known options: first the caller's, then sbatch's. */
struct reader {
    struct option all[OWN_MAX + countof(options)];
    size_t n_own, n_all;
    bool (*help)(struct buf *out);
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

/* The known name that is most like the typed one; NULL: none is like it. */
static const char *name_near(const struct reader *reader, struct str typed)
{
    const char *names[OWN_MAX + countof(options)];
    cleanup_free char *name = xstrndup(typed.at, typed.len);
    for (size_t i = 0; i < reader->n_all; i++)
        names[i] = reader->all[i].name;
    return suggest(name, names, reader->n_all);
}

static int name_unknown(const struct reader *reader, struct str typed, struct err *err)
{
    const char *near = name_near(reader, typed);
    cleanup_free char *name = xstrndup(typed.at, typed.len);
    if (near)
        return fail(err, ERR_USAGE, "unknown option '--%s' (did you mean '--%s'?)", name, near);
    return fail(err, ERR_USAGE,
                "unknown option '--%s': sbatch has none of this name; see muster submit --help",
                name);
}

/* The option of exactly that name; NULL: there is none. */
static const struct option *name_find(const struct reader *reader, struct str typed)
{
    for (size_t i = 0; i < reader->n_all; i++)
        if (str_equal(str_of(reader->all[i].name), typed))
            return &reader->all[i];
    return NULL;
}

/* Finds the one option whose name begins with `typed`. */
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

/* Takes the next word as the value of an option, which needs a value and has none in its own word. */
static int value_take(struct reader *reader, const char *dashes, struct str name,
                      const char **value, struct err *err)
{
    if (reader->at >= reader->argc)
        return fail(err, ERR_USAGE, "option '%s%.*s' needs a value", dashes, (int)name.len,
                    name.at);
    *value = reader->argv[reader->at++];
    return 0;
}

/*
 * True if `typed` is an option of a plugin or of a newer Slurm, which the table lacks: sbatch's help names it. If
 * sbatch cannot be asked, a word of the form --name=value is taken for such an option, unless the name looks
 * misspelt.
 */
static bool is_of_site(const struct reader *reader, struct str typed, bool has_value,
                       enum sbatch_value_kind *kind)
{
    cleanup_buf struct buf help = BUF_INIT;
    struct err err = {0};
    if (!reader->help || typed.len == 0)
        return false;
    if (reader->help(&help))
        return sbatch_help_find(buf_str(&help), typed, kind);
    const struct option *completed = NULL;
    *kind = SBATCH_VALUE;
    return has_value && name_complete(reader, typed, &completed, &err) != 0 &&
           !name_near(reader, typed);
}

static int site_read(struct reader *reader, struct str name, enum sbatch_value_kind kind,
                     const char *value, struct err *err)
{
    int rc = kind == SBATCH_VALUE && !value ? value_take(reader, "--", name, &value, err) : 0;
    if (rc == 0)
        env_list_add(&reader->out->options,
                     value ? xasprintf("--%.*s=%s", (int)name.len, name.at, value)
                           : xasprintf("--%.*s", (int)name.len, name.at));
    return rc;
}

static int long_read(struct reader *reader, const char *word, struct err *err)
{
    struct str name = {word, strcspn(word, "=")};
    const char *value = word[name.len] == '=' ? word + name.len + 1 : NULL;
    const struct option *option = name_find(reader, name);
    enum sbatch_value_kind kind;
    if (!option && is_of_site(reader, name, value, &kind))
        return site_read(reader, name, kind, value, err);
    if (!option && name_complete(reader, name, &option, err) != 0)
        return ERR_USAGE;
    ASSERT(option);
    if (option->value == SBATCH_NO_VALUE && value)
        return fail(err, ERR_USAGE, "option '--%s' takes no value", option->name);
    if (option->value == SBATCH_VALUE && !value &&
        value_take(reader, "--", str_of(option->name), &value, err) != 0)
        return ERR_USAGE;
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

/* Reads the option letters of one word, without its dash. */
static int letters_read(struct reader *reader, const char *letters, struct err *err)
{
    for (const char *at = letters; *at; at++) {
        const struct option *option = letter_find(reader, *at);
        const char *value = at[1] ? at + 1 : NULL;
        if (!option)
            return fail(err, ERR_USAGE, "unknown option '-%c'; see muster submit --help", *at);
        if (option->value == SBATCH_NO_VALUE) {
            option_store(reader, option, NULL);
            continue;
        }
        if (option->value == SBATCH_VALUE && !value &&
            value_take(reader, "-", (struct str){at, 1}, &value, err) != 0)
            return ERR_USAGE;
        option_store(reader, option, value);
        break;
    }
    return 0;
}

/* ---- all words ---- */

int sbatch_words_read(const struct sbatch_beside *beside, int argc, char **argv,
                      struct sbatch_words *out, struct err *err)
{
    static const struct sbatch_beside nothing;
    const struct sbatch_beside *b = beside ? beside : &nothing;
    struct reader reader = {
        .argv = argv, .argc = argc, .out = out, .n_own = b->n_own, .help = b->help};
    *out = (struct sbatch_words){0};
    ASSERT(b->n_own <= OWN_MAX);
    for (size_t i = 0; i < b->n_own; i++)
        reader.all[reader.n_all++] =
            (struct option){b->own[i].name, b->own[i].letter,
                            b->own[i].takes_value ? SBATCH_VALUE : SBATCH_NO_VALUE, NULL};
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

/* Variables whose names differ from the names of their options. */
static const struct {
    const char *variable, *name;
} variables[] = {
    {"timelimit", "time"},  {"array-inx", "array"},       {"mem-per-node", "mem"},
    {"burst-buffer", "bb"}, {"cpu-freq-req", "cpu-freq"}, {"segment-size", "segment"},
};

/* The option that a variable sets: "PARTITION" sets --partition. NULL: there is none. */
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

/* True for options that a submission handles itself (--array, and --follow in place of --wait). */
static bool is_own_matter(const struct option *option)
{
    static const char *const names[] = {"array", "wait"};
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(option->name, names[i]) == 0)
            return true;
    return false;
}

/* True if the command line has the opposite option: then a variable for --requeue or --no-requeue does not count. */
static bool is_contradicted(const struct option *option, const struct env_list *list)
{
    const char *other = strcmp(option->name, "requeue") == 0      ? "no-requeue"
                        : strcmp(option->name, "no-requeue") == 0 ? "requeue"
                                                                  : NULL;
    return other && sbatch_value(list, other);
}

/*
 * True if the variable's text is also the option's value. SBATCH_REQUEUE=1 only sets the option, whose one possible
 * value is "expedite".
 */
static bool takes_value(const struct option *option, struct str value)
{
    if (strcmp(option->name, "requeue") == 0)
        return str_equal(value, STR("expedite"));
    return option->value == SBATCH_VALUE || (option->value == SBATCH_MAYBE_VALUE && value.len > 0);
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
        if (is_contradicted(option, list))
            continue;
        env_list_add(list, takes_value(option, value)
                               ? xasprintf("--%s=%s", usual_name(option), value.at)
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
