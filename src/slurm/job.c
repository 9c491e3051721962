/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "slurm/command.h"
#include "slurm/node_names.h"

/* ---- what Slurm says ---- */

/* The output of the command; "" if the command fails. */
static char *output_new(const char *const *argv)
{
    struct buf out = BUF_INIT;
    if (slurm_command(argv, &out, NULL) != 0)
        buf_reset(&out);
    return buf_steal(&out);
}

int slurm_job_read(struct slurm_job *job, struct err *err)
{
    const char *id = getenv("SLURM_JOB_ID"), *nodes = getenv("SLURM_JOB_NODELIST");
    *job = (struct slurm_job){0};
    if (!id || !nodes)
        return fail(err, ERR_UNAVAILABLE,
                    "--hosts slurm takes the nodes of a Slurm job, and this is none (salloc, "
                    "sbatch)");
    int rc = slurm_node_names(nodes, &job->nodes, err);
    if (rc)
        return wrap(err, rc, "SLURM_JOB_NODELIST");
    const char *argv[] = {"scontrol", "show", "job", "-d", id, NULL};
    job->id = xstrdup(id);
    job->description = output_new(argv);
    return 0;
}

void slurm_job_release(struct slurm_job *job)
{
    free(job->id);
    free(job->description);
    env_list_release(&job->nodes);
    *job = (struct slurm_job){0};
}

/* ---- GPUs ---- */

/* The value of "NAME=value" in a line of words; {NULL, 0} if NAME is not there. */
static struct str value_of(struct str line, struct str name)
{
    struct str word;
    while (line.at && str_next(&line, ' ', &word))
        if (str_starts_with(word, name))
            return (struct str){word.at + name.len, word.len - name.len};
    return (struct str){NULL, 0};
}

static bool has_node(struct str list, const char *node)
{
    cleanup_free char *text = xstrndup(list.at, list.len);
    struct env_list names = {0};
    struct err err = {0};
    bool has = false;
    if (slurm_node_names(text, &names, &err) == 0)
        for (size_t i = 0; i < names.len; i++)
            has = has || strcmp(names.at[i], node) == 0;
    env_list_release(&names);
    return has;
}

/* The GPUs of one entry. "gpu:h200:8(IDX:0-7)" and "gpu:2" have GPUs, "license:x:1" has none. */
static unsigned gpus_of_entry(struct str entry)
{
    const char *bracket = memchr(entry.at, '(', entry.len);
    entry.len = bracket ? (size_t)(bracket - entry.at) : entry.len;
    const char *colon = memrchr(entry.at, ':', entry.len);
    uint64_t count = 1;
    if (!str_starts_with(entry, STR("gpu")) || (entry.len > 3 && entry.at[3] != ':'))
        return 0;
    if (colon && u64_parse((struct str){colon + 1, entry.len - (size_t)(colon + 1 - entry.at)}, 0,
                           4096, &count, NULL) != 0)
        count = 1; /* "gpu:h200" */
    return (unsigned)count;
}

/* The GPUs of all entries. A comma inside "(IDX:0,2)" does not separate entries. */
static unsigned gpus_of_gres(struct str gres)
{
    unsigned n = 0;
    while (gres.len > 0) {
        size_t len = 0, depth = 0;
        for (; len < gres.len && (depth > 0 || gres.at[len] != ','); len++)
            depth += (size_t)(gres.at[len] == '(') - (size_t)(gres.at[len] == ')' && depth > 0);
        n += gpus_of_entry((struct str){gres.at, len});
        gres.at += MIN(len + 1, gres.len);
        gres.len -= MIN(len + 1, gres.len);
    }
    return n;
}

unsigned slurm_gpus(const char *description, const char *node)
{
    struct str rest = str_of(description), line;
    while (rest.at && str_next(&rest, '\n', &line)) {
        line = str_trim(line);
        struct str nodes = value_of(line, STR("Nodes=")), gres = value_of(line, STR("GRES="));
        if (nodes.at && gres.at && has_node(nodes, node))
            return gpus_of_gres(gres);
    }
    return 0;
}

/* ---- a step ---- */

/*
 * With --gpus, the steps on a third node wait for ever in Slurm 23.11. With --gpus-per-node, Slurm 22.05 refuses a
 * step if the job has asked for a total of GPUs; such a job has another text in its description.
 */
static const char *gpus_option(const char *description)
{
    return strstr(description, "TresPerJob=gres:gpu") ? "--gpus" : "--gpus-per-node";
}

void slurm_step_words(const struct slurm_job *job, const char *node, struct env_list *out)
{
    /*
     * The step is one task beside everything else that runs in the job. It survives the loss of other nodes, and its
     * output comes at once instead of line by line. The defaults of the cluster have no effect on it.
     */
    static const char *const words[] = {"--overlap",
                                        "-N1",
                                        "-n1",
                                        "--mem=0",
                                        "--cpu-bind=none",
                                        "--mpi=none",
                                        "--no-kill",
                                        "--wait=0",
                                        "--unbuffered",
                                        "-Q",
                                        "-J",
                                        "muster",
                                        "--kill-on-bad-exit=0",
                                        NULL};
    unsigned n_gpus = slurm_gpus(job->description, node);
    env_list_add(out, xstrdup("srun"));
    env_list_add(out, xasprintf("--jobid=%s", job->id));
    env_list_add(out, xasprintf("--nodelist=%s", node));
    env_list_add_words(out, words);
    if (n_gpus > 0)
        env_list_add(out, xasprintf("%s=%u", gpus_option(job->description), n_gpus));
}

int slurm_job_words(const char *args, const char *name, struct env_list *out, struct err *err)
{
    static const char *const before[] = {"srun", "--cpu-bind=none", "--mpi=none", "-J", NULL};
    /* Behind those of the user, of which the same may come from a script: the agents of several tasks would write into one
     * stream, or one agent into a file. */
    static const char *const after[] = {"-N1",      "-n1",          "--input=all", "--output=all",
                                        "--wait=0", "--unbuffered", "-Q",          NULL};
    int rc = 0;
    env_list_add_words(out, before);
    env_list_add(out, xstrdup(name));
    if (args)
        rc = shell_words(args, out, err);
    else
        env_list_add(out, xstrdup("--exclusive"));
    env_list_add_words(out, after);
    return rc ? wrap(err, rc, "--slurm-args") : 0;
}

void slurm_jobs_cancel(const char *name)
{
    cleanup_free char *option = xasprintf("--name=%s", name);
    const char *argv[] = {"scancel", "--me", "--state=PENDING", option, NULL};
    cleanup_buf struct buf nothing = BUF_INIT;
    struct env_list env = {0};
    slurm_cancel_environment(&env);
    if (slurm_command_in(argv, &env, 0, &nothing, NULL) != 0)
        buf_reset(&nothing); /* a failure is ignored: nothing else can be done */
    env_list_release(&env);
}

void slurm_cancel_environment(struct env_list *env)
{
    env_inherit(env);
    env_unset_beginning(env, "SCANCEL_", NULL);
    env_unset(env, "SLURM_CLUSTERS");
    env_end(env);
}

void slurm_step_environment(struct env_list *env)
{
    static const char *const prefixes[] = {"SLURM_", "SRUN_", "SALLOC_", "SBATCH_", "SQUEUE_"};
    for (size_t i = 0; i < countof(prefixes); i++)
        env_unset_beginning(env, prefixes[i], "SLURM_CONF");
}

/* ---- its time ---- */

uint64_t slurm_job_own(void)
{
    const char *text = getenv("SLURM_JOB_ID");
    uint64_t id = 0;
    return text && u64_parse(str_of(text), 1, UINT32_MAX, &id, NULL) == 0 ? id : 0;
}

void slurm_time_words(const char *jobs, struct env_list *out)
{
    static const char *const words[] = {"squeue", "--noheader", "--states=RUNNING",
                                        "--format=%A %S %e", NULL};
    env_list_add_words(out, words);
    env_list_add(out, xasprintf("--jobs=%s", jobs));
}

/* Makes Slurm print times in seconds, which do not depend on the time zone. */
void slurm_time_environment(struct env_list *env)
{
    slurm_step_environment(env);
    env_set(env, xstrdup("SLURM_TIME_FORMAT=%s"));
}

bool slurm_time_next(struct str *answer, struct slurm_time *out)
{
    enum {
        NUMBERS = 3
    };
    struct str line, word;
    while (answer->len > 0 && str_next(answer, '\n', &line)) {
        uint64_t numbers[NUMBERS];
        size_t n = 0;
        line = str_trim(line);
        while (n < NUMBERS && line.len > 0 && str_next(&line, ' ', &word) &&
               u64_parse(word, 1, INT64_MAX / 1000, &numbers[n], NULL) == 0) {
            line = str_trim(line);
            n++;
        }
        if (n < NUMBERS || line.len > 0 || numbers[2] < numbers[1])
            continue;
        *out = (struct slurm_time){numbers[0], numbers[1], numbers[2]};
        return true;
    }
    return false;
}
