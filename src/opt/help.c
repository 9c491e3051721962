/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of options as text: --help, and the list of the man page.
 */
#include <ctype.h>

#include "opt/cmd_impl.h"

enum {
    HELP_COLUMN = 28,
    HELP_WIDTH = 79
};

/* Adds the words of `text` from column HELP_COLUMN on, wrapped at HELP_WIDTH; the line has `column` columns. */
static void wrapped(struct buf *out, const char *text, size_t column, size_t indent)
{
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column + word > HELP_WIDTH && column > indent) {
            buf_addf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        buf_add(out, text, word);
        column += word;
        text += word;
        if (*text == ' ') {
            buf_add_char(out, ' ');
            column++;
            text++;
        }
    }
    buf_add_char(out, '\n');
}

static void option_help(const struct cmd *cmd, const struct opt *opt, struct buf *out)
{
    char left[64];
    char letter[8] = "";
    const char *arg = opt_target(cmd, opt)->arg;
    if (opt->letter)
        snprintf(letter, sizeof(letter), "-%c, ", opt->letter);
    int len = snprintf(left, sizeof(left), "  %s--%s%s%s", letter, opt->name, arg ? " " : "",
                       arg ? arg : "");
    buf_addf(out, "%-*s", HELP_COLUMN - 1, left);
    if (len >= HELP_COLUMN - 1)
        buf_addf(out, "\n%*s", HELP_COLUMN - 1, "");
    buf_add_char(out, ' ');
    if (opt->kind == OPT_ALIAS)
        buf_addf(out, "the same as --%s\n", opt->same_as);
    else
        wrapped(out, opt->help, HELP_COLUMN, HELP_COLUMN);
}

void cmd_help(const struct cmd *cmd, struct buf *out)
{
    buf_addf(out, "usage: muster %s%s%s %s\n\n", cmd_family(cmd), cmd_family_space(cmd), cmd->name,
             cmd->args);
    buf_addf(out, "%c%s.\n", toupper((unsigned char)cmd->summary[0]), cmd->summary + 1);
    if (cmd->details) {
        buf_add_char(out, '\n');
        wrapped(out, cmd->details, 0, 0);
    }
    buf_add_char(out, '\n');
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        if (opt->kind == OPT_HEADING)
            buf_addf(out, "%s%s\n", opt == cmd->opts ? "" : "\n", opt->help);
        else if (!opt_is_hidden(opt))
            option_help(cmd, opt, out);
    }
    for (const char *const *pair = cmd->examples; pair && pair[0]; pair += 2)
        buf_addf(out, "%s  # %s\n  %s\n", pair == cmd->examples ? "\nExamples\n" : "", pair[1],
                 pair[0]);
    buf_addf(out, "\nSee muster-%s(1); exit status in muster(1).\n",
             cmd->family ? cmd->family : cmd->name);
}

/* Text for mdoc: backslashes and a leading dot or quote must not be taken for markup. */
static void mdoc_text(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            buf_add_text(out, "\\e");
        else if (*c == '-')
            buf_add_text(out, "\\-");
        else if ((*c == '.' || *c == '\'') && c == text)
            buf_addf(out, "\\&%c", *c);
        else
            buf_add_char(out, *c);
    }
}

void cmd_mdoc(const struct cmd *cmd, struct buf *out)
{
    bool list_open = false;
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        if (opt->kind == OPT_HEADING) {
            buf_addf(out, "%s.Ss %s\n", list_open ? ".El\n" : "", opt->help);
            list_open = false;
            continue;
        }
        if (opt_is_hidden(opt))
            continue;
        if (!list_open)
            buf_add_text(out, ".Bl -tag -width Ds\n");
        list_open = true;
        buf_add_text(out, ".It ");
        if (opt->letter)
            buf_addf(out, "Fl %c , ", opt->letter);
        buf_addf(out, "Fl \\-%s", opt->name);
        if (opt_target(cmd, opt)->arg)
            buf_addf(out, " Ar %s", opt_target(cmd, opt)->arg);
        buf_add_char(out, '\n');
        if (opt->kind == OPT_ALIAS)
            buf_addf(out, "the same as\n.Fl \\-%s", opt->same_as);
        else
            mdoc_text(out, opt->help);
        buf_add_char(out, '\n');
    }
    if (list_open)
        buf_add_text(out, ".El\n");
}
