/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "slurm/command.h"
#include "slurm/queue.h"
#include "slurm/sbatch_help.h"
#include "slurm/sbatch_options.h"
#include "submit/queue_answer.h"

enum {
    NAME_MAX_BYTES = 64
};

/* Can it be the name of a stage? It names a file and a folder; "job" and "tasks" are taken, by other scripts. */
static bool is_name(struct str name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    cleanup_free char *text = xstrndup(name.at, name.len);
    return name.len > 0 && name.len <= NAME_MAX_BYTES && strspn(text, letters) == name.len &&
           text[0] != '-' && strcmp(text, "job") != 0 && strcmp(text, "tasks") != 0;
}

static void options_join(const struct env_list *common, const struct env_list *own,
                         struct env_list *out)
{
    for (size_t i = 0; i < common->len; i++) {
        cleanup_free char *name = xstrndup(common->at[i] + 2, strcspn(common->at[i] + 2, "="));
        if (!sbatch_value(own, name))
            env_list_add(out, xstrdup(common->at[i]));
    }
    for (size_t i = 0; i < own->len; i++)
        env_list_add(out, xstrdup(own->at[i]));
}

static int words_read(const char *text, const struct env_list *common, struct stage *out,
                      struct err *err)
{
    struct sbatch_words words;
    int rc = shell_words(text, &out->typed, err);
    if (rc)
        return rc;
    env_end(&out->typed);
    const struct sbatch_beside beside = {.help = sbatch_help_ask};
    rc = sbatch_words_read(&beside, (int)out->typed.len, out->typed.at, &words, err);
    if (rc)
        return rc;
    options_join(common, &words.options, &out->options);
    out->argv = out->typed.at + words.n_read;
    out->argc = (int)out->typed.len - words.n_read;
    sbatch_words_release(&words);
    return out->argc > 0 ? 0 : fail(err, ERR_USAGE, "it has no command; it stands behind --");
}

int stage_parse(const char *text, const struct env_list *common, struct stage *out, struct err *err)
{
    const char *colon = strchr(text, ':');
    struct str name = {text, colon ? (size_t)(colon - text) : 0};
    *out = (struct stage){0};
    if (!is_name(name))
        return fail(err, ERR_USAGE,
                    "--stage '%s': expected a name of letters and digits and its command, such as "
                    "'dump: --gpus 4 -- python dump.py'",
                    text);
    out->name = xstrndup(name.at, name.len);
    int rc = words_read(colon + 1, common, out, err);
    return rc ? wrap(err, rc, "--stage %s", out->name) : 0;
}

void stage_release(struct stage *stage)
{
    free(stage->name);
    env_list_release(&stage->options);
    env_list_release(&stage->typed);
    *stage = (struct stage){0};
}

/* ---- a stage that is submitted again ---- */

char *stage_script_new(const char *stage)
{
    return xasprintf("%s.sh", stage);
}

/* "afterok:7(unfulfilled)" waits for a good end of job 7. */
static bool waits_for(struct str part, uint64_t job)
{
    cleanup_free char *words = xasprintf("afterok:%llu", (unsigned long long)job);
    struct str rest = {part.at + strlen(words), part.len - strlen(words)};
    return str_starts_with(part, str_of(words)) &&
           (rest.len == 0 || rest.at[0] == '(' || rest.at[0] == '+');
}

bool stage_dependency_move(struct str text, uint64_t from, uint64_t to, struct buf *out)
{
    bool is_moved = false;
    while (text.len > 0) {
        size_t len = 0, shown = 0;
        while (len < text.len && text.at[len] != ',' && text.at[len] != '?')
            len++;
        const struct str part = {text.at, len};
        bool is_moving = waits_for(part, from);
        while (shown < len && part.at[shown] != '(')
            shown++;
        if (is_moving)
            buf_addf(out, "afterok:%llu", (unsigned long long)to);
        else
            buf_add_str(out, (struct str){part.at, shown});
        is_moved |= is_moving;
        if (len < text.len)
            buf_add_char(out, text.at[len++]);
        text = (struct str){text.at + len, text.len - len};
    }
    return is_moved;
}

static int dependency_set(uint64_t job, const char *dependency, struct err *err)
{
    cleanup_free char *which = xasprintf("JobId=%llu", (unsigned long long)job);
    cleanup_free char *after = xasprintf("Dependency=%s", dependency);
    const char *const argv[] = {"scontrol", "update", which, after, NULL};
    cleanup_buf struct buf nothing = BUF_INIT;
    return slurm_command(argv, &nothing, err);
}

/* squeue is asked, since the run's folder lacks jobs that the user has submitted by sbatch until they begin. */
int stage_tie(uint64_t job, uint64_t next, struct err *err)
{
    cleanup_buf struct buf answer = BUF_INIT;
    int rc = queue_waiting_ask(&answer, err);
    struct str lines = buf_str(&answer);
    struct queue_waiting waiting;
    while (rc == 0 && queue_waiting_next(&lines, &waiting)) {
        cleanup_buf struct buf dependency = BUF_INIT;
        if (stage_dependency_move(waiting.dependency, job, next, &dependency))
            rc = dependency_set(waiting.job, buf_text(&dependency), err);
    }
    return rc;
}
