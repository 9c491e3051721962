/* SPDX-License-Identifier: Apache-2.0
 *
 * The run's folder: its name, and its removal if the run could not begin.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "shell/shell_impl.h"
#include "store/runs.h"

static void devices_describe(const struct allocation *allocation, struct manifest_device *out)
{
    for (size_t i = 0; i < allocation->n_chosen; i++) {
        const struct device *device = &allocation->devices.at[allocation->chosen[i]];
        out[i] = (struct manifest_device){device->name, device->uuid,
                                          (uint32_t)MAX(device->index, 0), device->mem_total_bytes};
    }
}

/* NULL: not known, as for CPU slots. */
static const char *driver_of(const struct allocation *allocation)
{
    const char *driver = NULL;
    for (size_t i = 0; i < allocation->n_chosen && !driver; i++) {
        const char *own = allocation->devices.at[allocation->chosen[i]].details.driver;
        driver = own[0] ? own : NULL;
    }
    return driver;
}

int shell_manifest_write(const struct shell *shell, const struct manifest *manifest,
                         const struct allocation *allocation, struct err *err)
{
    cleanup_free struct manifest_device *devices =
        xcalloc(allocation->n_chosen + 1, sizeof(*devices));
    struct manifest whole = *manifest;
    devices_describe(allocation, devices);
    whole.driver = driver_of(allocation);
    whole.devices = devices;
    whole.n_devices = allocation->n_chosen;
    if (whole.order_wall_ms == 0)
        whole.order_wall_ms = shell->folder.order_wall_ms;
    return manifest_write(shell->run_dir, &whole, err);
}

static int run_folder_refused(const struct folder_wish *wish, struct err *err)
{
    struct err inner = *err;
    return fail(err, ERR_USAGE, "the run's folder: %s; --%s DIR names another place", inner.text,
                wish->run_dir ? "run-dir" : "runs-dir");
}

/* The nearest existing folder: folders made below it are removed if the run cannot begin. */
static char *folder_standing(const char *dir)
{
    char *at = xstrdup(dir);
    while (!path_exists(at)) {
        char *parent = path_dirname(at);
        free(at);
        at = parent;
    }
    return at;
}

int shell_folder_take(struct shell *shell, const struct folder_wish *r, struct err *err)
{
    int rc = 0;
    if (r->resume_dir) {
        shell->run_dir = path_absolute(r->resume_dir);
    } else if (r->run_dir) {
        shell->run_dir = path_absolute(r->run_dir);
        cleanup_free char *db = path_join(shell->run_dir, "run.db");
        cleanup_free char *manifest = path_join(shell->run_dir, "manifest.json");
        if (path_exists(db) && path_exists(manifest))
            return fail(
                err, ERR_USAGE,
                "%s holds a run already, which nothing is written over; go on with it by muster "
                "resume %s, or choose another --run-dir",
                r->run_dir, r->run_dir);
        shell->folder.stays = folder_standing(shell->run_dir);
        shell->folder.was_empty =
            strcmp(shell->folder.stays, shell->run_dir) != 0 || folder_is_empty(shell->run_dir);
        rc = mkdir_parents(shell->run_dir, 0775, err);
    } else {
        cleanup_free char *root = runs_root(r->runs_dir);
        int64_t now_ms = clock_wall_ms(), newest_ms = runs_newest_wall_ms(root);
        shell->folder.order_wall_ms = newest_ms < now_ms ? 0 : MIN(newest_ms, INT64_MAX - 1) + 1;
        rc = run_create(root, shell->verb->name, now_ms, &shell->run_dir, err);
        shell->folder.is_made = rc == 0;
        shell->folder.stays = path_absolute(root);
    }
    if (rc == 0)
        shell_run_id_set(shell, path_basename(shell->run_dir));
    else if (err->sys == EACCES || err->sys == EROFS || err->sys == ENOTDIR)
        rc = run_folder_refused(r, err);
    return rc;
}

void shell_folder_name(struct shell *shell, char *run_dir)
{
    free(shell->run_dir);
    shell->run_dir = run_dir;
    shell_run_id_set(shell, path_basename(run_dir));
}

int shell_store_open(struct shell *shell, enum store_mode mode, struct err *err)
{
    int rc = store_open(&shell->store, shell->run_dir, mode, err);
    if (mode == STORE_PEEK)
        return rc;
    if (rc == 0)
        shell->folder.is_made = mode == STORE_CREATE;
    else if (shell->folder.was_empty)
        /* After other errors the files there may be those of another muster. */
        shell->folder.is_made = rc == ERR_STOPPED || rc == ERR_SYS;
    return rc;
}

void shell_store_borrow(struct shell *shell, struct store *store)
{
    shell_folder_name(shell, xstrdup(store_dir(store)));
    shell->store = store;
}

void shell_store_close(struct shell *shell)
{
    store_close(steal_ptr(&shell->store));
}

char *shell_folder_lost_new(const struct shell *shell, const char *usual_root, bool *is_removed)
{
    cleanup_free char *now_at = NULL;
    enum run_place place = store_place(shell->store, &now_at);
    *is_removed = place == RUN_REMOVED;
    if (place == RUN_IN_PLACE)
        return NULL;
    if (place == RUN_REMOVED)
        return xstrdup("the run's folder is gone, and what was done with it");
    cleanup_free char *typed = run_typed_new(now_at, usual_root);
    return xasprintf(
        "the run's folder was moved to %s while it went on; go on with: muster resume %s", now_at,
        typed);
}

/*
 * Removes the files that make the folder a run, so that the same command can be started again. A folder that the user
 * named may hold other files, which stay.
 */
static void traces_remove(const char *run_dir, bool was_empty)
{
    static const char *const traces[] = {
        "run.db",
        "run.db-wal",
        "run.db-shm",
        "manifest.json",
        "logs",
        "parts",
        "input",
        "stdin",
        /* the following only if the folder was empty before: */
        "lock",
        "orchestrator.log",
        "status.json",
    };
    size_t n = was_empty ? countof(traces) : countof(traces) - 3;
    for (size_t i = 0; i < n; i++) {
        cleanup_free char *path = path_join(run_dir, traces[i]);
        if (remove(path) != 0) /* a folder that is not empty stays */
            errno = 0;
    }
}

void shell_folder_unmake(const struct shell *shell)
{
    const char *run_dir = shell->run_dir, *stays = shell->folder.stays;
    struct err err = {0};
    if (!shell->folder.is_made)
        return;
    if (strcmp(run_dir, stays) == 0) {
        traces_remove(run_dir, shell->folder.was_empty);
        return;
    }
    if (remove_tree(run_dir, &err) != 0)
        talk("%s", err.text);
    char *at = path_dirname(run_dir);
    while (strcmp(at, stays) != 0 && strlen(at) > strlen(stays) && rmdir(at) == 0) {
        char *parent = path_dirname(at);
        free(at);
        at = parent;
    }
    free(at);
}
