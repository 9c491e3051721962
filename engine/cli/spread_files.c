/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "cli/kge_verbs.h"
#include "cli/tracin_settings.h"

enum {
    MEMORY_BYTES = 768 << 20 /* the most that muster kge tracin takes without --memory */
};

/* ---- options ---- */

int spread_options_add(const struct tracin_request *ask, struct buf *out, struct err *err)
{
    return tracin_settings_add(ask, NULL, 0, out, err);
}

int spread_options_read(struct tracin_request *ask, const char *dir, struct buf *bytes,
                        struct err *err)
{
    cleanup_free char *path = path_join(dir, SPREAD_OPTIONS);
    cleanup_free char **argv = NULL;
    int argc = 1; /* the first is the verb's name */
    int rc = file_read(path, SIZE_MAX / 2, bytes, err);
    *ask = (struct tracin_request){0};
    cmd_kge_tracin.defaults(ask);
    argv = xcalloc(bytes->len + 1, sizeof(*argv));
    buf_text(bytes); /* ends the last word, should the file be damaged */
    for (char *word = bytes->at; word < bytes->at + bytes->len; word += strlen(word) + 1)
        argv[argc++] = word;
    return rc ? rc : cmd_overlay(&cmd_kge_tracin, argc, argv, ask, err);
}

/* ---- the plan ---- */

int spread_plan_make(struct spread_plan *plan, const struct tracin_request *ask,
                     struct kge_models *models, const struct spread_tests *tests, size_t n_train,
                     struct err *err)
{
    struct tracin_plan at_once;
    if (n_train > UINT32_MAX)
        return fail(err, ERR_USAGE, "%zu training triples are more than %u", n_train, UINT32_MAX);
    if (models->opts.memory_bytes == 0)
        models->opts.memory_bytes = MEMORY_BYTES;
    int rc = tracin_plan(models->checkpoints, models->n, &models->opts, tests->n, n_train, &at_once,
                         err);
    const struct spread_sizes sizes = {.n_train = n_train,
                                       .top_k = (size_t)ask->top_k,
                                       .tests_max = at_once.tests_at_once,
                                       .is_matrix = tracin_is_matrix(ask)};
    if (rc == 0)
        spread_plan_init(plan, &sizes, tests->at, tests->n);
    return rc;
}

/* ---- the folder ---- */

static const char *const names[] = {SPREAD_PLACING, SPREAD_OPTIONS, SPREAD_TRAIN,   SPREAD_TESTS,
                                    SPREAD_ITEMS,   SPREAD_MAP,     SPREAD_VALUES,  SPREAD_WHY,
                                    SPREAD_ANSWERS, SPREAD_LOCK,    SPREAD_REPLACES};

/* True too for NAME.new, a file being written, and for what muster puts beside its output. */
static bool is_of_a_run(const char *name)
{
    if (strncmp(name, SPREAD_ANSWERS ".", strlen(SPREAD_ANSWERS ".")) == 0)
        return true;
    for (size_t i = 0; i < countof(names); i++) {
        size_t len = strlen(names[i]);
        if (strncmp(name, names[i], len) == 0 &&
            (name[len] == '\0' || strcmp(name + len, ".new") == 0))
            return true;
    }
    return false;
}

static bool is_no_entry(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int spread_files_check(const char *dir, struct err *err)
{
    DIR *folder = opendir(dir);
    int rc = folder ? 0 : fail_errno_as(err, ERR_USAGE, "open %s", dir);
    for (const struct dirent *entry; rc == 0 && (entry = readdir(folder));) {
        cleanup_free char *path = path_join(dir, entry->d_name);
        if (strcmp(entry->d_name, SPREAD_MAP) == 0)
            rc = ours_check_folder(path, err);
        else if (is_of_a_run(entry->d_name))
            rc = ours_check_owner(path, err); /* some files are made as outputs are, so only the
                                               * owner is checked */
    }
    if (folder)
        closedir(folder);
    return rc ? wrap(err, rc, "nothing to go on with (--force begins anew)") : 0;
}

int spread_file_compare(const char *path, struct str bytes, bool *is_same, struct err *err)
{
    struct stat st;
    cleanup_buf struct buf found = BUF_INIT;
    cleanup_fd int fd = -1;
    int rc = plain_file_open(path, &fd, err);
    *is_same = false;
    if (rc == 0 && fstat(fd, &st) != 0)
        rc = fail_errno(err, "look at %s", path);
    if (rc || (uint64_t)st.st_size != bytes.len)
        return rc;
    rc = file_read_fd(fd, path, bytes.len, &found, err);
    *is_same = rc == 0 && str_equal(buf_str(&found), bytes);
    return rc;
}

/*
 * Removes the options first: without them there is no run. Removes the lock last: a folder that has
 * it is recognized as a run's by spread_files_are_all().
 */
int spread_files_remove(const char *dir, struct err *err)
{
    cleanup_free char *options = path_join(dir, SPREAD_OPTIONS);
    cleanup_free char *lock = path_join(dir, SPREAD_LOCK);
    int rc = remove_tree(options, err);
    DIR *folder = rc == 0 ? opendir(dir) : NULL;
    const struct dirent *entry;
    while (rc == 0 && folder && (entry = readdir(folder))) {
        cleanup_free char *path = path_join(dir, entry->d_name);
        if (is_of_a_run(entry->d_name) && strcmp(entry->d_name, SPREAD_LOCK) != 0)
            rc = remove_tree(path, err);
    }
    if (folder)
        closedir(folder);
    if (rc == 0)
        rc = remove_tree(lock, err);
    if (rc == 0 && rmdir(dir) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
        rc = fail_errno(err, "remove %s", dir);
    return rc;
}

bool spread_files_are_all(const char *dir)
{
    cleanup_free char *lock = path_join(dir, SPREAD_LOCK);
    DIR *folder = path_exists(lock) ? opendir(dir) : NULL;
    bool are_all = folder != NULL;
    const struct dirent *entry;
    while (are_all && (entry = readdir(folder)))
        are_all = is_no_entry(entry->d_name) || is_of_a_run(entry->d_name);
    if (folder)
        closedir(folder);
    return are_all || folder_is_empty(dir);
}
