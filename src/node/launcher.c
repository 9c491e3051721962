/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launcher.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/xalloc.h"

/*
 * ssh must not ask for a password, which nobody could type; it notices a dead network after 15 s; it gets no
 * terminal, which would change bytes.
 */
static const char ssh[] = "ssh -T -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=5 "
                          "-o ServerAliveCountMax=3";

/* `word` with {host} and {port} filled in. */
static char *filled_new(const char *word, const struct host *host)
{
    struct buf out = BUF_INIT;
    for (const char *at = word; *at;) {
        if (strncmp(at, "{host}", 6) == 0) {
            buf_add_text(&out, host->target);
            at += 6;
        } else if (strncmp(at, "{port}", 6) == 0) {
            buf_addf(&out, "%u", host->port ? host->port : 22u);
            at += 6;
        } else {
            buf_add_char(&out, *at++);
        }
    }
    return buf_steal(&out);
}

static void ssh_host_add(const struct host *host, struct env_list *out)
{
    if (host->port) {
        env_list_add(out, xstrdup("-p"));
        env_list_add(out, xasprintf("%u", host->port));
    }
    env_list_add(out, xstrdup("--"));
    env_list_add(out, xstrdup(host->target));
}

/*
 * ssh hands the words behind the host to a shell there, which takes them apart again. Without a path, the program is
 * `sh`, whose script comes through its standard input. `exec` keeps the user's own shell from staying around it. With
 * --via there is no `exec`: words such as `nice` may stand before the program.
 */
static void agent_add(const struct launcher_opts *opts, bool is_ssh, struct env_list *out)
{
    if (!opts->agent_path) {
        env_list_add(out, xstrdup(is_ssh && !opts->via ? "exec sh" : "sh"));
        return;
    }
    struct buf word = BUF_INIT;
    if (is_ssh)
        buf_add_shell_word(&word, opts->agent_path);
    else
        buf_add_text(&word, opts->agent_path);
    env_list_add(out, buf_steal(&word));
    env_list_add(out, xstrdup("agent"));
}

static int via_add(const char *via, const struct host *host, struct env_list *out, struct err *err)
{
    struct env_list words = {0};
    int rc = shell_words(via, &words, err);
    if (rc)
        rc = wrap(err, rc, "--via");
    else if (words.len == 0)
        rc = fail(err, ERR_USAGE, "--via is empty");
    for (size_t i = 0; rc == 0 && i < words.len; i++)
        env_list_add(out, filled_new(words.at[i], host));
    env_list_release(&words);
    return rc;
}

int launcher_command(const struct launcher_opts *opts, const struct host *host,
                     struct env_list *out, struct env_list *env, struct err *err)
{
    bool is_step = host->is_slurm && !opts->via, is_job = host->is_job && !opts->via;
    int rc = 0;
    env_inherit(env);
    if (is_job || is_step) { /* srun hands its environment on */
        slurm_step_environment(env);
        env_unset_secrets(env);
    }
    if (is_job) {
        rc = slurm_job_words(opts->slurm_args, opts->job_name, out, err);
    } else if (is_step) {
        slurm_step_words(opts->job, host->target, out);
    } else {
        rc = via_add(opts->via ? opts->via : ssh, host, out, err);
    }
    if (rc)
        return rc;
    if (!is_step && !is_job && !opts->via)
        ssh_host_add(host, out);
    agent_add(opts, strcmp(path_basename(out->at[0]), "ssh") == 0, out);
    env_end(out);
    env_end(env);
    return 0;
}

/*
 * Lasting failures of ssh, kubectl and docker, which speak English whatever the locale is. Other failures may pass: a
 * server that is starting, or that refuses some of many connections.
 */
static const char *const lasting[] = {
    "Permission denied",
    "Host key verification failed",
    "Too many authentication failures",
    "Name or service not known",
    "No address associated with hostname",
    "Bad configuration option",
    "No such container",
    "(NotFound)",
    "(Forbidden)",
};

/* srun's words about the job that the host was a node of (Slurm's src/common/slurm_errno.c and srun's allocate.c). */
static const char *const over[] = {
    "Invalid job id specified", /* the controller has lost it, or forgotten it */
    "has expired",
    "already completing or completed",
};

static bool has_one_of(const char *line, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        if (strstr(line, words[i]))
            return true;
    return false;
}

bool launcher_failure_lasts(int exit_status, const char *last_line)
{
    bool is_no_program = exit_status == 126 || exit_status == 127; /* the program cannot be run */
    return is_no_program || has_one_of(last_line, lasting, countof(lasting)) ||
           launcher_host_is_over(last_line);
}

bool launcher_host_is_over(const char *last_line)
{
    return str_starts_with(str_of(last_line), STR("srun: error: ")) &&
           has_one_of(last_line, over, countof(over));
}
