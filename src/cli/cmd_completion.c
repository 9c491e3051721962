/* SPDX-License-Identifier: Apache-2.0
 *
 * What is generated from the tables: shell completion, and the option lists of the man pages.
 */
#include "cli/verbs.h"

struct completion_request {
    bool unused;
};

static const struct opt completion_opts[] = {
    {OPT_END},
};

static void verbs_list(struct buf *out, const char *separator)
{
    for (const struct cmd *const *cmd = commands; *cmd; cmd++)
        if (!(*cmd)->is_hidden)
            buf_addf(out, "%s%s", out->len > 0 ? separator : "", (*cmd)->name);
}

static void options_list(const struct cmd *cmd, struct buf *out)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++)
        if (opt->name)
            buf_addf(out, "--%s ", opt->name);
}

static void bash_print(struct buf *out)
{
    cleanup_buf struct buf verbs = BUF_INIT;
    verbs_list(&verbs, " ");
    buf_addf(out,
             "_muster() {\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} words\n"
             "    if [ \"$COMP_CWORD\" -eq 1 ]; then words='%s'; else\n"
             "        case ${COMP_WORDS[1]} in\n",
             buf_text(&verbs));
    for (const struct cmd *const *cmd = commands; *cmd; cmd++) {
        if ((*cmd)->is_hidden)
            continue;
        buf_addf(out, "        %s) words='", (*cmd)->name);
        options_list(*cmd, out);
        buf_add_text(out, "' ;;\n");
    }
    buf_add_text(
        out,
        "        esac\n    fi\n"
        "    case $cur in\n"
        "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
        "    *) if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "       else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n"
        "    esac\n}\n"
        "complete -o filenames -F _muster muster\n");
}

static void zsh_print(struct buf *out)
{
    buf_add_text(out, "#compdef muster\nautoload -U +X bashcompinit && bashcompinit\n");
    bash_print(out);
}

static void fish_print(struct buf *out)
{
    for (const struct cmd *const *cmd = commands; *cmd; cmd++) {
        if ((*cmd)->is_hidden)
            continue;
        buf_addf(out, "complete -c muster -n __fish_use_subcommand -a %s -d '%s'\n", (*cmd)->name,
                 (*cmd)->summary);
        for (const struct opt *opt = (*cmd)->opts; opt->kind != OPT_END; opt++)
            if (opt->name)
                buf_addf(out, "complete -c muster -n '__fish_seen_subcommand_from %s' -l %s%s\n",
                         (*cmd)->name, opt->name, opt->arg ? " -r" : "");
    }
}

static const struct {
    const char *shell;
    void (*print)(struct buf *out);
} shells[] = {{"bash", bash_print}, {"zsh", zsh_print}, {"fish", fish_print}};

static int completion_run(struct app *app, void *request, int argc, char **argv, char **command,
                          struct err *err)
{
    (void)app, (void)request, (void)command;
    for (size_t i = 0; argc == 1 && i < countof(shells); i++) {
        if (strcmp(argv[0], shells[i].shell) != 0)
            continue;
        cleanup_buf struct buf out = BUF_INIT;
        shells[i].print(&out);
        fputs(buf_text(&out), stdout);
        return 0;
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

static int mdoc_page_run(struct app *app, void *request, int argc, char **argv, char **command,
                         struct err *err)
{
    (void)app, (void)request, (void)command;
    for (const struct cmd *const *cmd = commands; argc == 1 && *cmd; cmd++) {
        if (strcmp((*cmd)->name, argv[0]) != 0)
            continue;
        cleanup_buf struct buf out = BUF_INIT;
        cmd_mdoc(*cmd, &out);
        fputs(buf_text(&out), stdout);
        return 0;
    }
    return fail(err, ERR_USAGE, "expected the name of a verb");
}

const struct cmd cmd_mdoc_page = {
    .name = "mdoc-options",
    .args = "VERB",
    .summary = "print the option list of a man page",
    .opts = completion_opts,
    .is_hidden = true,
    .request_size = sizeof(struct completion_request),
    .run = mdoc_page_run,
};
