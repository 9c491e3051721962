/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "slurm/command.h"
#include "slurm/sbatch_help.h"
#include "slurm/sbatch_options.h"
#include "store/submission.h"

enum {
    NAME_MAX_BYTES = 64
};

/* It names a file and a folder. "job" and "tasks" are names of scripts. */
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

int stage_tie(const char *run_dir, const char *stage, uint64_t job, struct err *err)
{
    struct submission submission;
    int rc = submission_read(run_dir, &submission, err);
    const struct submitted_job *next = rc ? NULL : submission_stage_after(&submission, stage);
    if (next && next->event == JOB_SUBMITTED) {
        cleanup_free char *which = xasprintf("JobId=%llu", (unsigned long long)next->id);
        cleanup_free char *after = xasprintf("Dependency=afterok:%llu", (unsigned long long)job);
        const char *const argv[] = {"scontrol", "update", which, after, NULL};
        cleanup_buf struct buf nothing = BUF_INIT;
        rc = slurm_command(argv, &nothing, err);
    }
    submission_release(&submission);
    return rc;
}
