/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host_look.h"

#include "base/talk.h"
#include "base/xalloc.h"

int look_open(struct app *app, const struct allocation_wish *wish, struct host_ask **out,
              struct err *err)
{
    const struct host_ask_opts opts = {.log = &app->log, .self_path = app->self_path, .wish = wish};
    return host_ask_open(&opts, out, err);
}

static void variables_add(const struct cmd *cmd, struct env_list *out)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        char variable[OPT_VARIABLE_MAX];
        if (!opt->name)
            continue;
        opt_variable(cmd, opt, variable);
        env_list_add(out, xstrdup(variable));
    }
    env_end(out);
}

int look_ask(struct host_ask *ask, const struct look *look)
{
    struct env_list variables = {0};
    variables_add(look->cmd, &variables);
    const struct host_question question = {.words = (const char *const *)look->words.at,
                                           .gpus = look->gpus,
                                           .variables = (const char *const *)variables.at,
                                           .limit_ms = look->limit_ms};
    int status = host_ask(ask, &question);
    env_list_release(&variables);
    return status;
}

void look_said_print(const struct app *app, const struct host_answer *answer)
{
    struct str rest = buf_str(&answer->said), line;
    const struct str own = STR("muster: ");
    if (app->quiet)
        return;
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        line = str_trim(line);
        if (str_starts_with(line, own))
            line = (struct str){line.at + own.len, line.len - own.len};
        bool is_said_again = memmem(answer->why.text, strlen(answer->why.text), line.at, line.len);
        if (line.len > 0 && !is_said_again)
            talk("%s: %.*s", answer->host->name, (int)line.len, line.at);
    }
    if (answer->is_said_cut)
        talk("%s: it said more, which is left out", answer->host->name);
}

bool look_devices_add(const struct app *app, const struct host_answer *answer, bool is_first,
                      struct gpus_rows *rows)
{
    struct err err = answer->why;
    const char *name = answer->host->name;
    if (is_first || err.code || answer->status != 0)
        look_said_print(app, answer);
    if (err.code == 0 && answer->status == 0)
        (void)!gpus_rows_parse(rows, name, buf_str(&answer->out), &err);
    if (err.code)
        talk("%s: cannot be had: %s", name, err.text);
    else if (answer->status != 0)
        talk("%s: cannot be had: muster gpus ended there with status %d", name, answer->status);
    return err.code == 0 && answer->status == 0;
}
