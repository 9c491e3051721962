/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/host_link.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "node/launcher.h"
#include "shell/shell_impl.h"
#include "version.h"

static int take_fill(const struct shell *shell, const struct allocation_wish *wish,
                     const struct host *host, struct wire_take *take, struct err *err)
{
    const char *run_id = shell->run_id;
    const char *gpus = host->gpus && !wish->without_devices ? host->gpus : wish->gpus;
    cleanup_free char *cwd = path_cwd();
    if (gpus && strcmp(gpus, WISH_NO_DEVICES) == 0 && !wish->without_devices)
        return allocation_no_seat(err);
    *take = (struct wire_take){.gpus_per_worker = wish->gpus_per_worker,
                               .workers_per_gpu = wish->workers_per_gpu,
                               .wait_ms = wish->wait_ms,
                               .visible = (uint8_t)wish->visible};
    snprintf(take->cwd, sizeof(take->cwd), "%s", cwd ? cwd : "");
    snprintf(take->program, sizeof(take->program), "%s", wish->program ? wish->program : "");
    snprintf(take->script, sizeof(take->script), "%s", wish->script ? wish->script : "");
    snprintf(take->run_id, sizeof(take->run_id), "%s", run_id ? run_id : "");
    if (wish->asks_presence)
        snprintf(take->presence, sizeof(take->presence), "%d-%lx-%lx", getpid(), clock_now_ns(),
                 (uintptr_t)host);
    if (snprintf(take->gpus, sizeof(take->gpus), "%s", gpus ? gpus : "") >= (int)sizeof(take->gpus))
        return fail(err, ERR_USAGE, "the list of devices is longer than %zu bytes",
                    sizeof(take->gpus) - 1);
    return 0;
}

/* The agent on this machine: no transport is needed. */
static void agent_here(const struct shell *shell, struct host_link *link)
{
    const char *const words[] = {shell->self_path, "agent", NULL};
    env_list_add_words(&link->command, words);
    env_end(&link->command);
    env_inherit(&link->environment);
    env_end(&link->environment);
}

static uint64_t timeout_ms(const struct allocation_wish *wish)
{
    return wish->host_timeout_ms ? wish->host_timeout_ms : HOST_TIMEOUT_MS;
}

int host_link_open(struct shell *shell, const struct slurm_job *job,
                   const struct allocation_wish *wish, struct host_link *link, struct err *err)
{
    const struct launcher_opts launcher = {.via = wish->via,
                                           .job = job,
                                           .slurm_args = wish->slurm_args,
                                           .job_name = link->job_name,
                                           .agent_path = wish->agent_path};
    bool is_local = link->host->is_local, is_there = is_local || wish->agent_path;
    int rc = 0;
    if (is_local)
        agent_here(shell, link);
    else
        rc = launcher_command(&launcher, link->host, &link->command, &link->environment, err);
    if (rc == 0 && is_there && !link->bundles->program[0])
        rc = program_hash(link->bundles->program, err);
    struct remote_opts opts = {.local = shell->machines.local,
                               .argv = (const char *const *)link->command.at,
                               .envp = (const char *const *)link->environment.at,
                               .version = MUSTER_VERSION,
                               .loop = &shell->loop,
                               .program = link->bundles->program,
                               /* The variable is for tests, whose hosts are this machine. */
                               .self_path = getenv("MUSTER_SEND_AGENT") ? NULL : shell->self_path,
                               .bundles = is_there ? NULL : link->bundles,
                               .silence_limit_ms = timeout_ms(wish),
                               .may_queue = link->host->is_job,
                               .handlers = link->handlers,
                               .context = link->context};
    if (rc == 0)
        rc = take_fill(shell, wish, link->host, &opts.take, err);
    if (rc)
        return rc;
    link->node = remote_open(&opts);
    return 0;
}

void host_link_release(struct host_link *link)
{
    env_list_release(&link->command);
    env_list_release(&link->environment);
}

uint64_t host_emptied_in_ms(const struct allocation_wish *wish, uint64_t grace_ms)
{
    return timeout_ms(wish) + grace_ms + GIVE_UP_SLACK_MS;
}
