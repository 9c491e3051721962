/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the words of a command line from a filled request.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "opt/cmd.h"

static bool choice_format(const struct opt *opt, int value, struct buf *out)
{
    const char *word = choice_word(opt->choices, value);
    buf_add_text(out, word ? word : "");
    return word != NULL;
}

/* Adds a field as the text of an option's value. Returns false, and adds nothing, if the field is not set. */
static bool value_format(const struct opt *opt, const void *field, struct buf *out)
{
    const char *text;
    switch (opt->kind) {
    case OPT_TEXT:
    case OPT_PATH:
        text = *(const char *const *)field;
        buf_add_text(out, text ? text : "");
        return text != NULL;
    case OPT_FLAG:
        return *(const bool *)field;
    case OPT_UNSET:
        return !*(const bool *)field;
    case OPT_U64:
    case OPT_SIZE:
        buf_addf(out, "%lu", *(const uint64_t *)field);
        return true;
    case OPT_DURATION:
        buf_addf(out, "%lums", *(const uint64_t *)field);
        return true;
    case OPT_PARSE:
        ASSERT(opt->format);
        return opt->format(field, out);
    case OPT_CHOICE:
        return choice_format(opt, *(const int *)field, out);
    case OPT_EITHER:
        return choice_format(opt, *(const bool *)field, out);
    case OPT_TEXTS:
    case OPT_WORDS:
    case OPT_END:
    case OPT_HEADING:
    case OPT_ALIAS:
        break;
    }
    BUG("option kind %d", (int)opt->kind);
}

static void texts_add(const struct opt *opt, const struct texts *texts, struct env_list *out)
{
    for (size_t i = 0; i < texts->len; i++)
        env_list_add(out, opt->kind == OPT_WORDS && i > 0
                              ? xstrdup(texts->at[i])
                              : xasprintf("--%s=%s", opt->name, texts->at[i]));
}

static void option_add(const struct opt *opt, const void *field, const void *usual,
                       struct env_list *out)
{
    cleanup_buf struct buf value = BUF_INIT, usual_value = BUF_INIT;
    bool is_set = value_format(opt, field, &value);
    bool is_usually = value_format(opt, usual, &usual_value);
    if (!is_set || (is_usually && str_equal(buf_str(&value), buf_str(&usual_value))))
        return;
    env_list_add(out, opt->arg ? xasprintf("--%s=%s", opt->name, buf_text(&value))
                               : xasprintf("--%s", opt->name));
}

void cmd_words(const struct cmd *cmd, const void *request, struct env_list *out)
{
    cleanup_free char *usual = xcalloc(1, cmd->request_size);
    if (cmd->defaults)
        cmd->defaults(usual);
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        const void *field = (const char *)request + opt->offset;
        if (opt->kind == OPT_HEADING || opt->kind == OPT_ALIAS)
            continue;
        if (opt->kind == OPT_TEXTS || opt->kind == OPT_WORDS)
            texts_add(opt, field, out);
        else
            option_add(opt, field, usual + opt->offset, out);
    }
}

void cmd_line(const struct cmd *cmd, const struct app *app, const void *request, int argc,
              char **argv, char **command, struct env_list *out)
{
    env_list_add(out, xstrdup(app->argv[0]));
    env_list_add(out, xstrdup(cmd->name));
    cmd_words(cmd, request, out);
    for (int i = 0; i < argc; i++)
        env_list_add(out, xstrdup(argv[i]));
    if (command) {
        env_list_add(out, xstrdup("--"));
        env_list_add_words(out, (const char *const *)command);
    }
    env_end(out);
}
