/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/preflight.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "slurm/cluster.h"
#include "slurm/command.h"
#include "slurm/job.h"
#include "slurm/judge.h"
#include "slurm/sbatch_options.h"

/* False: Slurm cannot be asked. */
static bool text_ask(enum cluster_text which, const struct env_list *env, struct buf *out)
{
    struct env_list words = {0};
    struct err err = {0};
    cluster_words(which, &words);
    env_end(&words);
    bool is_told = slurm_command_in((const char *const *)words.at, env, 0, out, &err) == 0;
    env_list_release(&words);
    return is_told;
}

/* Asks until the first question fails: the others would fail too. */
static void texts_ask(struct buf texts[CLUSTER_TEXTS])
{
    struct env_list env = {0};
    bool is_told = true;
    env_inherit(&env);
    slurm_step_environment(&env);
    env_unset_beginning(&env, "SINFO_", NULL);
    env_end(&env);
    for (size_t i = 0; is_told && i < CLUSTER_TEXTS; i++)
        is_told = text_ask((enum cluster_text)i, &env, &texts[i]);
    env_list_release(&env);
}

static int judge(const struct cluster *cluster, struct env_list *options, const char *array,
                 struct err *err)
{
    struct judgement found;
    struct env_list told = {0}, asked = {0};
    cluster_complete(cluster, options, &told);
    for (size_t i = 0; i < options->len; i++)
        env_list_add(&asked, xstrdup(options->at[i]));
    if (array)
        env_list_add(&asked, xasprintf("--array=%s", array));
    cluster_judge(cluster, &asked, &found);
    env_list_release(&asked);
    for (size_t i = 0; i < told.len; i++)
        talk("%s", told.at[i]);
    for (size_t i = 0; i < found.warnings.len; i++)
        talk("%s", found.warnings.at[i]);
    for (size_t i = 1; i < found.errors.len; i++)
        talk("%s", found.errors.at[i]);
    int rc = found.errors.len > 0 ? fail(err, ERR_UNAVAILABLE, "%s", found.errors.at[0]) : 0;
    env_list_release(&told);
    judgement_release(&found);
    return rc;
}

int preflight(struct env_list *options, const char *array, struct err *err)
{
    struct buf texts[CLUSTER_TEXTS] = {BUF_INIT};
    struct str views[CLUSTER_TEXTS];
    struct cluster cluster;
    sbatch_variables_read((const char *const *)environ, options);
    if (sbatch_value(options, "clusters"))
        return fail(err, ERR_USAGE,
                    "--clusters=%s: muster asks the cluster of this node about the job, and "
                    "ends it there; submit it on a node of the other cluster",
                    sbatch_value(options, "clusters"));
    texts_ask(texts);
    for (size_t i = 0; i < CLUSTER_TEXTS; i++)
        views[i] = (struct str){buf_text(&texts[i]), texts[i].len};
    cluster_read(views, &cluster);
    int rc = judge(&cluster, options, array, err);
    cluster_release(&cluster);
    for (size_t i = 0; i < CLUSTER_TEXTS; i++)
        buf_release(&texts[i]);
    return rc;
}
