/* SPDX-License-Identifier: Apache-2.0
 *
 * The run to go on with: the newest one of the same file, however it ended; or the newest one of the same command
 * line, unless it has done all its jobs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "store/manifest.h"
#include "store/runs.h"

enum {
    BEGIN_TRIES_MAX = 1000, /* ten seconds: who holds it needs milliseconds, or is stopped */
    BEGIN_PAUSE_NS = 10 * 1000 * 1000,
    OTHERS_LOOKED_AT = 50 /* bounds the time spent on other users' run folders */
};

static bool is_same(const struct graph_request *request, const struct manifest *manifest)
{
    if (strcmp(manifest->verb, "graph") != 0)
        return false;
    if (request->file)
        return manifest->inputs && manifest->inputs[0] &&
               strcmp(manifest->inputs[0], request->file) == 0;
    return !(manifest->inputs && manifest->inputs[0]) &&
           strcmp(manifest->options_json, request->identity) == 0;
}

/* How a run relates to what was typed. */
enum run_match {
    RUN_OF_ANOTHER,  /* graph, or its folder cannot be read */
    RUN_TO_CONTINUE, /* is of the same graph */
    RUN_DONE /* is of the same command line, which begins anew, whatever is left of older runs */
};

/* Of a run that is of the same graph. */
static enum run_match state_match(const struct graph_request *request, const char *dir)
{
    struct run_summary run = {0};
    if (run_inspect(dir, &run, NULL) != 0)
        return RUN_OF_ANOTHER;
    bool is_done = !request->file && run.state == RUN_FINISHED;
    run_summary_release(&run);
    return is_done ? RUN_DONE : RUN_TO_CONTINUE;
}

/*
 * An enum run_match, or an error. Folders of other users, and those without a readable manifest, are passed over. A
 * run of this graph that is ours and is damaged is an error: a new run would do all jobs twice.
 */
static int run_look(const struct graph_request *request, const char *dir, struct err *err)
{
    struct manifest manifest;
    if (ours_check_folder(dir, NULL) != 0 || manifest_read(dir, &manifest, NULL) != 0)
        return 0;
    bool is_one = is_same(request, &manifest);
    manifest_release(&manifest);
    int rc = is_one ? run_check_ours(dir, err) : 0;
    if (rc)
        return wrap(err, rc, "the last run of this graph, %s (--fresh begins a new one)",
                    path_basename(dir));
    return is_one ? (int)state_match(request, dir) : RUN_OF_ANOTHER;
}

/*
 * Warns of a run of this graph that is never continued, because another user owns it or anybody can
 * write to it. True: the folder is such a one.
 */
static bool others_look(const struct graph_request *request, const char *dir, size_t *n_others)
{
    struct manifest manifest;
    struct stat st;
    char owner[80];
    struct err why = {0};
    if (ours_check_folder(dir, &why) == 0)
        return false;
    if ((*n_others)++ >= OTHERS_LOOKED_AT || request->is_quiet || stat(dir, &st) != 0 ||
        manifest_read(dir, &manifest, NULL) != 0)
        return true;
    owner_name(owner, st.st_uid);
    bool is_one = is_same(request, &manifest) && state_match(request, dir) == RUN_TO_CONTINUE;
    if (is_one && st.st_uid != geteuid())
        talk("run %s of %s is of the same graph; it is not yours to go on with", path_basename(dir),
             owner);
    else if (is_one)
        talk("run %s is of the same graph, and is not gone on with: %s", path_basename(dir),
             why.text);
    manifest_release(&manifest);
    return true;
}

static int named_look(const struct graph_request *request, char **out, struct err *err)
{
    cleanup_free char *dir = path_absolute(request->run_dir);
    if (!path_exists(dir) || folder_is_empty(dir))
        return 0;
    int rc = run_check_ours(dir, err);
    if (rc)
        return rc;
    rc = run_look(request, dir, err);
    if (rc == RUN_TO_CONTINUE)
        *out = steal_ptr(&dir);
    return MIN(rc, 0);
}

/* The run that `muster resume` names. */
static int resumed_look(const struct graph_request *request, char **out, struct err *err)
{
    int rc = run_look(request, request->resume.dir, err);
    if (rc == RUN_OF_ANOTHER || rc == RUN_DONE)
        return fail(err, ERR_USAGE,
                    "the commands of run %s are others now: a file of arguments that its command "
                    "line names has changed; to begin anew, give that command line to muster graph",
                    path_basename(request->resume.dir));
    if (rc == RUN_TO_CONTINUE)
        *out = xstrdup(request->resume.dir);
    return MIN(rc, 0);
}

int graph_run_find(const struct graph_request *request, char **out, struct err *err)
{
    cleanup_free char *root = runs_root(request->runs_dir);
    struct run_names names = {0};
    size_t n_others = 0;
    *out = NULL;
    if (request->resume.dir)
        return resumed_look(request, out, err);
    if (request->run_dir)
        return request->fresh ? 0 : named_look(request, out, err);
    if (request->fresh || !path_exists(root))
        return 0;
    int rc = runs_list(root, &names, err);
    if (rc)
        return wrap(err, rc, "look for an earlier run");
    for (size_t i = 0; rc == RUN_OF_ANOTHER && i < names.len; i++) {
        cleanup_free char *dir = path_join(root, names.at[i]);
        if (others_look(request, dir, &n_others))
            continue;
        rc = run_look(request, dir, err);
        if (rc == RUN_TO_CONTINUE)
            *out = steal_ptr(&dir);
    }
    run_names_release(&names);
    return MIN(rc, 0);
}

void graph_runs_each(const struct graph_request *request,
                     void (*take)(void *context, const char *dir), void *context)
{
    cleanup_free char *root = runs_root(request->runs_dir);
    struct run_names names = {0};
    if (runs_list(root, &names, NULL) == 0)
        for (size_t i = 0; i < names.len; i++) {
            cleanup_free char *dir = path_join(root, names.at[i]);
            struct manifest manifest;
            if (run_check_ours(dir, NULL) != 0 || manifest_read(dir, &manifest, NULL) != 0)
                continue;
            if (is_same(request, &manifest))
                take(context, dir);
            manifest_release(&manifest);
        }
    run_names_release(&names);
}

int graph_begin_lock(const struct graph_request *request)
{
    cleanup_free char *root = runs_root(request->runs_dir);
    if (request->run_dir || request->resume.dir || mkdir_parents(root, 0777, NULL) != 0)
        return -1;
    cleanup_fd int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && i < BEGIN_TRIES_MAX; i++) {
        if (errno != EWOULDBLOCK)
            return -1;
        nanosleep(&(struct timespec){.tv_nsec = BEGIN_PAUSE_NS}, NULL);
    }
    return steal_fd(&fd);
}
