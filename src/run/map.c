/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster map` and `muster resume`: from the request to the exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "proc/front.h"
#include "run/again.h"
#include "run/claim.h"
#include "run/hook.h"
#include "run/outname.h"
#include "run/placed.h"
#include "run/prepare.h"
#include "run/session.h"
#include "run/shard.h"
#include "store/lock.h"
#include "store/runs.h"

enum {
    RESERVED_BYTES = 512 * 1024,
    RESERVED_BYTES_PER_PLACE = 128 * 1024 /* lines on their way to a worker and back */
};

/* ---- leaving the terminal ---- */

/*
 * The child goes on in a session of its own; the parent stays until the child is ready (a byte in the
 * pipe), so that what is wrong with the request is still said here, with its status.
 */
static int detach(int *ready_fd, struct err *err)
{
    int ends[2], wait_status = 0;
    char byte;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(err, "leave the terminal");
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return fail_errno(err, "leave the terminal");
    if (pid == 0) {
        close(ends[0]);
        *ready_fd = ends[1];
        setsid();
        signal(SIGHUP, SIG_IGN);
        return 0;
    }
    close(ends[1]);
    ssize_t got;
    while ((got = read(ends[0], &byte, 1)) < 0 && errno == EINTR)
        ;
    if (got == 1) {
        talk("running as process %d; see: muster status --watch", (int)pid);
        _exit(0);
    }
    waitpid(pid, &wait_status, 0);
    if (WIFEXITED(wait_status)) /* it has said why, on the terminal that it still had */
        _exit(WEXITSTATUS(wait_status));
    talk("the detached process was killed before the run began (signal %d)", WTERMSIG(wait_status));
    _exit(1);
}

static bool reads_stdin(const struct map_request *r)
{
    bool found = false;
    for (size_t i = 0; i < r->n_inputs; i++)
        found = found || strcmp(r->inputs[i], "-") == 0;
    return found;
}

/* From here on the orchestrator's log is the only place for words. */
static void detach_finish(struct session *s, int ready_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (write_all(ready_fd, "r", 1, NULL) != 0)
        log_add(s->log, LOG_WARN, "map", "the terminal's side is gone already");
    close(ready_fd);
    for (int fd = reads_stdin(s->request) ? 1 : 0; fd <= 2 && null_fd >= 0; fd++)
        dup2(null_fd, fd);
    s->is_quiet = true;
    s->is_tty = false;
}

static int plan_print(struct session *s)
{
    for (uint32_t p = 0; p < s->n_places; p++) {
        const struct seat *seat = &s->places[p].seat;
        printf("worker %u: %s", p, seat->label);
        for (size_t d = 0; d < seat->n_devices; d++)
            printf(" %s", s->devices.at[seat->devices[d]].uuid);
        printf(", %u threads%s", seat->threads, s->shards ? "" : ":");
        for (const char *const *arg = s->request->command; *arg && !s->shards; arg++)
            printf(" %s", *arg);
        printf("\n");
    }
    if (s->shards)
        shards_print(s);
    return 0;
}

static int dry_run(struct session *s, struct err *err)
{
    int rc = session_plan(s, err);
    if (rc == 0 && shard_is_asked(s->request))
        rc = session_plan_shards(s, err);
    if (rc == 0 && s->request->resume_dir)
        rc = session_plan_left(s, err);
    if (rc == 0)
        rc = plan_print(s);
    session_plan_release(s);
    return rc;
}

/* What a run of this input can come to need; files of shards pass us by. */
static void memory_take(const struct session *s)
{
    size_t bytes = RESERVED_BYTES + (size_t)s->n_places * RESERVED_BYTES_PER_PLACE;
    uint64_t input_bytes = s->shards ? 0 : source_bytes_total(s->source);
    xalloc_trim(); /* of what the start needed */
    if (!s->shards)
        xalloc_reserve(input_bytes > 0 ? MIN(bytes, (size_t)(2 * input_bytes)) : bytes);
}

/* Another muster has the output. Its run has a name, which says more than the process does. */
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

/* What is asked for, as it is after a look at what is there: an earlier run, the output's name. */
static int request_settle(struct map_request *r, bool quiet, char **again, char **named,
                          struct err *err)
{
    int rc = run_again_find(r, quiet, again, err);
    if (rc == 0 && r->resume_dir && r->out_path)
        rc = outname_settle(r, r->resume_dir, named, err);
    if (rc == 0 && r->resume_dir && r->out_path &&
        (placed_is(r->resume_dir, 0, r->out_path) || shard_folder_is_begun(r->resume_dir, 0)))
        r->overwrite =
            true; /* put there by the run itself, which was killed before it could say so */
    if (rc == 0)
        rc = request_check(r, err);
    if (rc == 0 && *again && !quiet)
        talk("going on with %s (%s starts over)", path_basename(*again),
             r->run_dir ? "another --run-dir" : "--fresh");
    return rc;
}

static int session_run(struct session *s, struct output_claim *claim, struct err *err)
{
    const struct map_request *r = s->request;
    int ready_fd = -1;
    int rc = r->detach ? detach(&ready_fd, err) : front_begin(&s->front_fd, err);
    if (rc == 0) /* a fork may have it now */
        output_claim_renew(claim);
    if (rc == 0)
        rc = session_prepare(s, err);
    cleanup_free char *unmade = rc && s->made_run ? xstrdup(s->run_dir) : NULL;
    cleanup_free char *stays = steal_ptr(&s->folder_stays);
    if (rc == 0 && r->detach)
        detach_finish(s, ready_fd);
    if (rc == 0)
        memory_take(s);
    if (rc == 0)
        rc = session_loop(s, err);
    if (rc == 0)
        rc = session_finish(s, err);
    session_release(s);
    fd_close(&s->front_fd);
    log_close(s->log);
    if (unmade)
        session_unmake(unmade, stays, s->folder_was_empty);
    return rc;
}

int map_run(struct log *log, const char *self_path, int argc, char **argv, bool quiet, bool color,
            const struct map_request *request, struct err *err)
{
    struct map_request r = *request;
    struct output_claim claim = OUTPUT_CLAIM_INIT;
    cleanup_free char *again = NULL, *named = NULL, *usual_root = runs_root(NULL);
    if (!r.usual_root)
        r.usual_root = usual_root;
    log->console_quiet = quiet;
    log->console_level = r.explain ? LOG_DEBUG : LOG_WARN;
    log->file_level = r.explain ? MAX(r.log_level, LOG_DEBUG) : r.log_level;
    xalloc_share_heap();
    struct session s = {.request = &r,
                        .log = log,
                        .self_path = self_path,
                        .argc = argc,
                        .argv = argv,
                        .is_quiet = quiet,
                        .has_color = color,
                        .is_tty = isatty(STDERR_FILENO) && !quiet,
                        .front_fd = -1};
    int rc = session_files_check(err);
    /* Before the look at what is there: what another muster is about to put there is not seen yet. */
    if (rc == 0 && !r.dry_run && (rc = output_claim_take(&claim, &r, err)) == ERR_UNAVAILABLE)
        rc = claim_refused(&r, err);
    if (rc == 0)
        rc = request_settle(&r, quiet, &again, &named, err);
    if (rc == 0)
        rc = r.dry_run ? dry_run(&s, err) : session_run(&s, &claim, err);
    output_claim_release(&claim);
    if (s.hook_input.len > 0)
        hook_run(r.on_finish, buf_str(&s.hook_input));
    buf_release(&s.hook_input);
    return rc;
}
