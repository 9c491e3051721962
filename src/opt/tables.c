/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated from the tables: shell completion, and the option lists of the man pages.
 */
#include "opt/program.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "opt/say.h"

struct completion_request {
    bool unused;
};

static const struct opt completion_opts[] = {
    {OPT_END},
};

static void verbs_list(const struct program *program, struct buf *out)
{
    for (const struct cmd *const *cmd = program->verbs; *cmd; cmd++)
        if (!(*cmd)->is_hidden)
            buf_addf(out, "%s%s", out->len > 0 ? " " : "", (*cmd)->name);
    for (const struct external_verb *verb = program->external_verbs; verb && verb->name; verb++)
        buf_addf(out, " %s", verb->name);
}

static void options_list(const struct cmd *cmd, struct buf *out)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++)
        if (opt->name)
            buf_addf(out, "--%s ", opt->name);
}

static void words_list(const struct choice *choices, struct buf *out)
{
    for (; choices->word; choices++)
        buf_addf(out, "%s ", choices->word);
}

/* Part of a verb's case: the words that the option before the cursor may have. */
static void bash_choices(const struct cmd *cmd, struct buf *out)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        const struct opt *target = opt_target(cmd, opt);
        if (!target->choices)
            continue;
        buf_addf(out, "            [ \"$before\" != --%s ] || values='", opt->name);
        words_list(target->choices, out);
        buf_add_text(out, "'\n");
    }
}

/* Part of the case of a verb in whose names `_` is the same as `-`: they are completed as they are typed. */
static void bash_underscores(struct buf *out)
{
    buf_add_text(
        out,
        "            case $before in --*) before=${before#--}; before=--${before//_/-} ;; esac\n"
        "            case $cur in --*_*)\n"
        "                words=\" $words\" words=${words//-/_} words=${words// __/ --} ;;\n"
        "            esac\n");
}

/* "_muster", "_muster_kge" */
static char *function_name(const struct program *program)
{
    return program->family ? xasprintf("_muster_%s", program->family) : xstrdup("_muster");
}

/* Part of muster's function: hands `muster kge …` to the function of muster-kge, if the shell has it. */
static void bash_external(const struct program *program, struct buf *out)
{
    for (const struct external_verb *verb = program->external_verbs; verb && verb->name; verb++)
        buf_addf(out,
                 "    if [ \"${COMP_WORDS[1]}\" = %s ] && [ \"$COMP_CWORD\" -gt 1 ]; then\n"
                 "        declare -F _muster_%s >/dev/null && _muster_%s; return\n"
                 "    fi\n",
                 verb->name, verb->name, verb->name);
}

/* bash makes three words of --name=VALUE, since = is in COMP_WORDBREAKS; zsh, and a bash without it there, make one, of
 * which each reply must then repeat the `stem`. */
static void bash_print(const struct program *program, struct buf *out)
{
    cleanup_buf struct buf verbs = BUF_INIT;
    cleanup_free char *function = function_name(program);
    int at = program->family ? 2 : 1; /* the index of the verb */
    verbs_list(program, &verbs);
    buf_addf(
        out,
        "%s() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} stem words values\n"
        "    case $cur in\n"
        "    =) cur= ;;\n"
        "    --*=*) before=${cur%%%%=*} stem=${cur%%%%=*}= cur=${cur#*=} ;;\n"
        "    *) [ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD-2]} ;;\n"
        "    esac\n",
        function);
    bash_external(program, out);
    buf_addf(out,
             "    if [ \"$COMP_CWORD\" -eq %d ]; then words='%s'; else\n"
             "        case ${COMP_WORDS[%d]} in\n",
             at, buf_text(&verbs), at);
    for (const struct cmd *const *cmd = program->verbs; *cmd; cmd++) {
        if ((*cmd)->is_hidden)
            continue;
        buf_addf(out, "        %s) words='", (*cmd)->name);
        options_list(*cmd, out);
        buf_add_text(out, "'\n");
        if ((*cmd)->is_like_argparse)
            bash_underscores(out);
        bash_choices(*cmd, out);
        buf_add_text(out, "            ;;\n");
    }
    buf_addf(
        out,
        "        esac\n    fi\n"
        "    if [ -n \"$values\" ]; then COMPREPLY=($(compgen -P \"$stem\" -W \"$values\" -- \"$cur\")); return; fi\n"
        "    case $cur in\n"
        "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
        "    *) if [ \"$COMP_CWORD\" -eq %d ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "       else COMPREPLY=($(compgen -P \"$stem\" -f -- \"$cur\")); fi ;;\n"
        "    esac\n}\n",
        at);
    if (!program->family)
        buf_addf(out, "complete -o filenames -F %s muster\n", function);
}

static void zsh_print(const struct program *program, struct buf *out)
{
    if (!program->family)
        buf_add_text(out, "#compdef muster\nautoload -U +X bashcompinit && bashcompinit\n");
    bash_print(program, out);
}

/* "__fish_use_subcommand", or that of the family's own verbs. */
static void fish_verb(const struct program *program, const char *name, const char *summary,
                      struct buf *out)
{
    if (program->family)
        buf_addf(out, "complete -c muster -n '__fish_seen_subcommand_from %s' -a %s -d '%s'\n",
                 program->family, name, summary);
    else
        buf_addf(out, "complete -c muster -n __fish_use_subcommand -a %s -d '%s'\n", name, summary);
}

static void fish_option(const struct cmd *cmd, const struct opt *opt, struct buf *out)
{
    const struct opt *target = opt_target(cmd, opt);
    buf_addf(out, "complete -c muster -n '__fish_seen_subcommand_from %s' -l %s%s", cmd->name,
             opt->name,
             target->choices ? " -x -a '"
             : target->arg   ? " -r"
                             : "");
    if (target->choices) {
        words_list(target->choices, out);
        buf_add_char(out, '\'');
    }
    buf_add_char(out, '\n');
}

static void fish_print(const struct program *program, struct buf *out)
{
    for (const struct cmd *const *cmd = program->verbs; *cmd; cmd++) {
        if ((*cmd)->is_hidden)
            continue;
        fish_verb(program, (*cmd)->name, (*cmd)->summary, out);
        for (const struct opt *opt = (*cmd)->opts; opt->kind != OPT_END; opt++)
            if (opt->name)
                fish_option(*cmd, opt, out);
    }
    for (const struct external_verb *verb = program->external_verbs; verb && verb->name; verb++)
        fish_verb(program, verb->name, verb->summary, out);
}

static const struct {
    const char *shell;
    void (*print)(const struct program *program, struct buf *out);
} shells[] = {{"bash", bash_print}, {"zsh", zsh_print}, {"fish", fish_print}};

static int completion_run(struct app *app, void *request, int argc, char **argv, char **command,
                          struct err *err)
{
    (void)request, (void)command;
    for (size_t i = 0; argc == 1 && i < countof(shells); i++) {
        if (strcmp(argv[0], shells[i].shell) != 0)
            continue;
        cleanup_buf struct buf out = BUF_INIT;
        shells[i].print(app->program, &out);
        return stdout_put(buf_str(&out), err);
    }
    return fail(err, ERR_USAGE, "expected one of bash, zsh, fish");
}

static const char *const completion_examples[] = {
    "eval \"$(muster completion bash)\"",
    "in this shell, or in ~/.bashrc",
    NULL,
};

const struct cmd cmd_completion = {
    .name = "completion",
    .args = "bash|zsh|fish",
    .summary = "print shell completion",
    .opts = completion_opts,
    .examples = completion_examples,
    .request_size = sizeof(struct completion_request),
    .run = completion_run,
};

static int mdoc_options_run(struct app *app, void *request, int argc, char **argv, char **command,
                            struct err *err)
{
    (void)request, (void)command;
    for (const struct cmd *const *cmd = app->program->verbs; argc == 1 && *cmd; cmd++) {
        if (strcmp((*cmd)->name, argv[0]) != 0)
            continue;
        cleanup_buf struct buf out = BUF_INIT;
        cmd_mdoc(*cmd, &out);
        return stdout_put(buf_str(&out), err);
    }
    return fail(err, ERR_USAGE, "expected the name of a verb");
}

const struct cmd cmd_mdoc_options = {
    .name = "mdoc-options",
    .args = "VERB",
    .summary = "print the option list of a man page",
    .opts = completion_opts,
    .is_hidden = true,
    .request_size = sizeof(struct completion_request),
    .run = mdoc_options_run,
};
