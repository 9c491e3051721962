/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster map` and `muster resume`: from the request to the exit status.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "map/again.h"
#include "map/environment.h"
#include "map/output_identity.h"
#include "map/outputs.h"
#include "map/session_impl.h"
#include "map/work.h"
#include "proc/front.h"
#include "shell/claim.h"
#include "store/lock.h"
#include "store/runs.h"

enum {
    RESERVED_BYTES = 512 * 1024,
    RESERVED_BYTES_PER_PLACE = 128 * 1024 /* lines on their way to a worker and back */
};

static bool reads_stdin(const struct map_request *r)
{
    bool found = false;
    for (size_t i = 0; i < r->n_inputs; i++)
        found = found || strcmp(r->inputs[i], "-") == 0;
    return found;
}

static int dry_run(struct session *s, struct err *err)
{
    int rc = s->request->resume_dir ? run_unlocked_check(s->request->resume_dir, err) : 0;
    rc = rc ? rc : session_plan(s, err);
    if (rc == 0 && !s->request->work->keeps_workers)
        rc = session_plan_items(s, err);
    if (rc == 0 && s->request->resume_dir)
        rc = session_plan_left(s, err);
    if (rc == 0) {
        s->request->work->print(s);
        environment_sent_print(s);
    }
    shell_close(s->shell);
    session_plan_release(s);
    return rc;
}

/* Reserves the memory that a run of this input can need; the bytes of shards' files do not pass through muster. */
static void memory_take(const struct session *s)
{
    size_t bytes = RESERVED_BYTES + (size_t)s->n_seats * RESERVED_BYTES_PER_PLACE;
    xalloc_trim(); /* memory that only the start needed */
    if (!s->request->work->keeps_workers)
        return;
    uint64_t input_bytes = source_bytes_total(s->source);
    xalloc_reserve(input_bytes > 0 ? MIN(bytes, (size_t)(2 * input_bytes)) : bytes);
}

/* Another muster has the output: names its run, which says more than a pid. */
static int claim_refused(struct map_request *r, struct err *err)
{
    struct err of_run = {0};
    struct run_lock lock = RUN_LOCK_INIT;
    cleanup_free char *again = NULL;
    int rc = r->resume_dir ? run_lock_take(&lock, r->resume_dir, &of_run)
                           : run_again_find(r, true, &again, &of_run);
    run_lock_release(&lock);
    if (rc == ERR_UNAVAILABLE)
        *err = of_run;
    return ERR_UNAVAILABLE;
}

/* Completes the request: with the earlier run to resume, if there is one, and the output's name. */
static int request_settle(struct map_request *r, bool quiet, char **again, char **named,
                          struct err *err)
{
    int rc = run_again_find(r, quiet, again, err);
    if (rc == 0 && r->resume_dir && r->out_path)
        rc = outputs_settle(r, r->resume_dir, named, err);
    if (rc == 0 && r->resume_dir && r->out_path &&
        (output_identity_is(r->resume_dir, 0, r->out_path) ||
         output_folder_is_begun(r->resume_dir, 0)))
        /* The run itself has put the output in place, and was killed before it could record that. */
        r->overwrite = true;
    if (rc == 0)
        rc = request_check(r, err);
    if (rc == 0 && *again && !quiet)
        talk("going on with %s (%s starts over)", path_basename(*again),
             r->run.run_dir ? "another --run-dir" : "--fresh");
    return rc;
}

/* Claims all outputs of the request. A name with {run} differs in each run and needs no claim. */
static int outputs_claim(struct output_claim *claim, const struct map_request *r, struct err *err)
{
    if (!r->out_path || !r->out_path[0] || r->shards.n_parts > 0 ||
        (outputs_have_run(r) && !r->resume_dir))
        return 0;
    cleanup_free char *settled = r->resume_dir ? output_path_new(r->out_path, r->resume_dir) : NULL;
    int rc = output_claim_add(claim, settled ? settled : r->out_path, err);
    for (size_t i = 0; rc == 0 && i < also_len(r); i++) {
        const char *path = also_path(r, i);
        cleanup_free char *named =
            path && r->resume_dir ? output_path_new(path, r->resume_dir) : NULL;
        rc = path ? output_claim_add(claim, named ? named : path, err) : 0;
    }
    return rc;
}

static int session_run(struct session *s, const struct output_claim *claim, struct err *err)
{
    const struct map_request *r = s->request;
    int ready_fd = -1;
    int rc =
        r->run.detach ? shell_detach(s->shell, &ready_fd, err) : shell_front_begin(s->shell, err);
    if (rc == 0) /* this may be a forked process now */
        output_claim_renew(claim);
    if (rc == 0)
        rc = session_prepare(s, err);
    bool is_prepared = rc == 0;
    if (rc == 0 && r->run.detach)
        shell_detach_end(s->shell, ready_fd, reads_stdin(r));
    if (rc == 0)
        memory_take(s);
    if (rc == 0)
        rc = session_loop(s, err);
    if (rc == 0)
        rc = session_finish(s, err);
    session_release(s);
    log_close(shell_log(s->shell));
    if (!is_prepared)
        shell_folder_unmake(s->shell);
    return rc;
}

static int inputs_readable(const struct map_request *r, struct err *err)
{
    for (size_t i = 0; i < r->n_inputs; i++)
        if (access(r->inputs[i], R_OK) != 0)
            return fail_errno_as(err, ERR_USAGE, "open %s", r->inputs[i]);
    return 0;
}

int map_check(const struct map_request *request, bool quiet, char **again, struct err *err)
{
    struct map_request r = *request;
    cleanup_free char *named = NULL, *usual_root = runs_root(NULL);
    r.usual_root = usual_root;
    if (reads_stdin(&r))
        return fail(err, ERR_USAGE, "a job has no standard input: name a data file");
    if (r.out_path && strcmp(r.out_path, "-") == 0)
        return fail(err, ERR_USAGE,
                    "a job has no standard output of its own: name the output with -o FILE");
    int rc = request_settle(&r, quiet, again, &named, err);
    return rc ? rc : inputs_readable(&r, err);
}

int map_run(const struct map_caller *caller, const struct map_request *request, struct err *err)
{
    struct map_request r = *request;
    struct log *log = caller->log;
    struct output_claim claim = OUTPUT_CLAIM_INIT;
    cleanup_free char *again = NULL, *named = NULL, *usual_root = runs_root(NULL);
    if (!r.usual_root)
        r.usual_root = usual_root;
    log->console_quiet = caller->is_quiet;
    log->console_level = r.run.explain ? LOG_DEBUG : LOG_WARN;
    log->file_level = r.run.explain ? MAX(r.run.log_level, LOG_DEBUG) : r.run.log_level;
    xalloc_share_heap();
    cleanup_free char *scratch = xmalloc(SOURCE_SCAN_BYTES);
    struct session s = {.request = &r, .scratch = scratch};
    s.shell = shell_new(&(struct shell_setup){.verb = &map_shell,
                                              .context = &s,
                                              .log = log,
                                              .self_path = caller->self_path,
                                              .is_quiet = caller->is_quiet,
                                              .has_color = caller->has_color,
                                              .claim = &claim,
                                              .on_finish = r.run.on_finish,
                                              .limit_ms = r.run.limit_ms,
                                              .scratch = {scratch, SOURCE_SCAN_BYTES}});
    shell_front_take(s.shell, caller->front_fd);
    shell_verb_leave(s.shell);
    int rc = shell_files_check(err);
    /* Claim the outputs before looking whether they exist: another muster may be about to put one in place. */
    if (rc == 0 && !r.run.dry_run && (rc = outputs_claim(&claim, &r, err)) == ERR_UNAVAILABLE)
        rc = claim_refused(&r, err);
    if (rc == 0)
        rc = request_settle(&r, caller->is_quiet, &again, &named, err);
    if (rc == 0)
        rc = r.run.dry_run ? dry_run(&s, err) : session_run(&s, &claim, err);
    output_claim_release(&claim);
    shell_hook_run(s.shell);
    shell_free(s.shell);
    return rc;
}
