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
#include "base/xalloc.h"
#include "run/outname.h"
#include "run/placed.h"
#include "run/prepare.h"
#include "run/session.h"
#include "run/shard.h"
#include "store/manifest.h"
#include "store/runs.h"

enum {
    RESERVED_BYTES = 512 * 1024,
    RESERVED_BYTES_PER_PLACE = 128 * 1024 /* lines on their way to a worker and back */
};

/* ---- the same command again ---- */

static bool lists_equal(const char *const *a, const char *const *b)
{
    while (a && b && *a && *b && strcmp(*a, *b) == 0) {
        a++;
        b++;
    }
    return a && b && !*a && !*b;
}

static bool are_same_inputs(const struct map_request *r, const char *const *inputs)
{
    for (size_t i = 0; i < r->n_inputs; i++) {
        cleanup_free char *input =
            strcmp(r->inputs[i], "-") == 0 ? xstrdup("-") : path_absolute(r->inputs[i]);
        if (!inputs || !inputs[i] || strcmp(inputs[i], input) != 0)
            return false;
    }
    return inputs && !inputs[r->n_inputs];
}

/* As the run in `dir` would call it. */
static char *output_of_run_new(const struct map_request *r, const char *dir)
{
    cleanup_free char *name = outname_has_run(r) ? outname_new(r->out_path, dir) : NULL;
    return output_name_new(name ? name : r->out_path);
}

static bool is_same_work(const struct map_request *r, const char *dir, const struct manifest *m)
{
    cleanup_free char *output = output_of_run_new(r, dir);
    cleanup_buf struct buf options = BUF_INIT;
    request_work(r, &options);
    return m->output && m->options_json && strcmp(m->output, output) == 0 &&
           lists_equal(m->command, r->command) && m->seed == r->seed &&
           strcmp(m->options_json, buf_text(&options)) == 0 && are_same_inputs(r, m->inputs);
}

enum {
    RUNS_LOOKED_AT = 50
};

static bool has_output(const struct map_request *r, const struct manifest *m)
{
    cleanup_free char *output = path_absolute(r->out_path);
    return strcmp(r->out_path, "-") != 0 && m->output && strcmp(m->output, output) == 0;
}

/* Is it somebody else's, broken, or gone meanwhile? Then it is none of ours; any other error is one. */
static bool is_no_matter(const struct err *err)
{
    static const int errnos[] = {ENOENT, ENOTDIR, EACCES, EPERM};
    bool is_one = err->code == ERR_DATA;
    for (size_t i = 0; i < countof(errnos); i++)
        is_one = is_one || err->sys == errnos[i];
    return is_one;
}

/* What is to be thought of a run that is there, whose manifest could be read. */
static int open_run_compare(const struct map_request *r, char **dir,
                            const struct manifest *manifest, bool is_running, char **unfinished,
                            struct err *err)
{
    if (is_running && has_output(r, manifest))
        return fail(err, ERR_UNAVAILABLE,
                    "run %s is going on and writes to %s; wait for it, end it by muster stop %s, "
                    "or name another output",
                    path_basename(*dir), r->out_path, run_typed(*dir, r->usual_root));
    if (!is_running && !*unfinished && is_same_work(r, *dir, manifest))
        *unfinished = steal_ptr(dir);
    return 0;
}

/* One of the runs there are: is it at work on our output, or is it ours to go on with? Not to see it
 * would mean to do everything again. */
static int run_compare(const struct map_request *r, char **dir, char **unfinished, struct err *err)
{
    struct run_summary summary = {0};
    struct manifest manifest;
    struct err why = {0};
    int rc = run_inspect(*dir, &summary, &why);
    bool is_running = summary.state == RUN_RUNNING;
    bool is_open = summary.state == RUN_STOPPED || summary.state == RUN_INTERRUPTED;
    run_summary_release(&summary);
    if (rc == 0 && (is_running || is_open))
        rc = manifest_read(*dir, &manifest, &why);
    if (rc && !is_no_matter(&why)) {
        *err = why;
        return rc;
    }
    if (rc || !(is_running || is_open))
        return 0;
    rc = open_run_compare(r, dir, &manifest, is_running, unfinished, err);
    manifest_release(&manifest);
    return rc;
}

/*
 * Among the newest runs, the folder of an unfinished one of the same command into the same output;
 * NULL if there is none. Fails if one that is going on has this output.
 */
static int others_look(const struct map_request *r, char **unfinished, struct err *err)
{
    cleanup_free char *root = runs_root(r->runs_dir);
    struct run_names names = {0};
    int rc = runs_list(root, &names, err);
    if (rc && is_no_matter(err))
        return 0; /* where no runs can be, the folder of this one will not be made either */
    if (rc)
        return wrap(err, rc, "look for an unfinished run");
    for (size_t i = 0; rc == 0 && i < names.len && i < RUNS_LOOKED_AT; i++) {
        char *dir = path_join(root, names.at[i]);
        rc = run_compare(r, &dir, unfinished, err);
        free(dir);
    }
    run_names_release(&names);
    return rc;
}

/* With --run-dir it is that folder or none. */
static int own_folder_look(const struct map_request *r, char **unfinished, struct err *err)
{
    char *dir = path_absolute(r->run_dir);
    free(steal_ptr(unfinished));
    int rc = path_exists(dir) ? run_compare(r, &dir, unfinished, err) : 0;
    free(dir);
    return rc;
}

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
        fprintf(stderr, "muster: running as process %d; see: muster status --watch\n", (int)pid);
        _exit(0);
    }
    waitpid(pid, &wait_status, 0);
    if (WIFEXITED(wait_status)) /* it has said why, on the terminal that it still had */
        _exit(WEXITSTATUS(wait_status));
    fprintf(stderr, "muster: the detached process was killed before the run began (signal %d)\n",
            WTERMSIG(wait_status));
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

/* Does the same command go on with a run? *again is its folder then. */
static int earlier_find(struct map_request *r, char **again, struct err *err)
{
    if (r->resume_dir || !r->out_path || !r->command)
        return 0;
    int rc = others_look(r, again, err);
    if (rc == 0 && r->run_dir)
        rc = own_folder_look(r, again, err);
    if (r->fresh)
        free(steal_ptr(again));
    r->resume_dir = *again;
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

int map_run(struct log *log, const char *self_path, int argc, char **argv, bool quiet, bool color,
            const struct map_request *request, struct err *err)
{
    struct map_request r = *request;
    cleanup_free char *again = NULL, *usual_root = runs_root(NULL);
    if (!r.usual_root)
        r.usual_root = usual_root;
    log->console_quiet = quiet;
    log->console_level = r.explain ? LOG_DEBUG : LOG_WARN;
    log->file_level = r.explain ? MAX(r.log_level, LOG_DEBUG) : r.log_level;
    xalloc_share_heap();
    int rc = session_files_check(err);
    if (rc == 0)
        rc = earlier_find(&r, &again, err);
    cleanup_free char *named = NULL;
    if (rc == 0 && r.resume_dir && r.out_path)
        rc = outname_settle(&r, r.resume_dir, &named, err);
    if (rc == 0 && r.resume_dir && r.out_path &&
        (placed_is(r.resume_dir, 0, r.out_path) || shard_folder_is_begun(r.resume_dir)))
        r.overwrite =
            true; /* put there by the run itself, which was killed before it could say so */
    if (rc == 0)
        rc = request_check(&r, err);
    if (rc)
        return rc;
    if (again && !quiet)
        fprintf(stderr, "muster: going on with %s (%s starts over)\n", path_basename(again),
                r.run_dir ? "another --run-dir" : "--fresh");
    struct session s = {.request = &r,
                        .log = log,
                        .self_path = self_path,
                        .argc = argc,
                        .argv = argv,
                        .is_quiet = quiet,
                        .has_color = color,
                        .is_tty = isatty(STDERR_FILENO) && !quiet};
    if (r.dry_run)
        return dry_run(&s, err);
    int ready_fd = -1;
    rc = r.detach ? detach(&ready_fd, err) : 0;
    if (rc == 0)
        rc = session_prepare(&s, err);
    cleanup_free char *unmade = rc && s.made_run ? xstrdup(s.run_dir) : NULL;
    cleanup_free char *stays = steal_ptr(&s.folder_stays);
    if (rc == 0 && r.detach)
        detach_finish(&s, ready_fd);
    if (rc == 0)
        memory_take(&s);
    if (rc == 0)
        rc = session_loop(&s, err);
    if (rc == 0)
        rc = session_finish(&s, err);
    session_release(&s);
    log_close(log);
    if (unmade)
        session_unmake(unmade, stays, s.folder_was_empty);
    return rc;
}
