/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether it is safe to continue a run. In a folder that others can write to, somebody could plant a run whose rows
 * muster would take for results, and whose links muster would write to. So every file that muster reads or writes
 * there must be ours (base/ours.h). Other files in a folder that the user named are not looked at.
 */
#include <dirent.h>
#include <errno.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "store/runs.h"

static const char *const own_files[] = {
    "manifest.json", "run.db",       "run.db-wal",      "run.db-journal",
    "run.db-shm",    "lock",         "status.json",     "orchestrator.log",
    "output.id",     "folder.begun", "answers.json",    "stdin",
    "added.jsonl",   "jobs.json",    "open_jobs.jsonl", "jobs.jsonl",
};
static const char *const own_folders[] = {
    "parts", "logs", "input", "shard-input", "shard-output",
};

/* The files that workers left in shard-output are checked when joined (shard/collect.c). */
static bool holds_own_files(const char *name)
{
    return strcmp(name, "shard-output") != 0;
}

static int entries_check(const char *folder, struct err *err)
{
    DIR *entries = opendir(folder);
    int rc = 0;
    if (!entries)
        return errno == ENOENT ? 0 : fail_errno_as(err, ERR_USAGE, "open %s", folder);
    for (const struct dirent *entry; rc == 0 && (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        cleanup_free char *path = path_join(folder, entry->d_name);
        rc = ours_check_file(path, err);
    }
    closedir(entries);
    return rc;
}

int run_check_ours(const char *named, struct err *err)
{
    /* A link to the folder may belong to anybody: what is checked is the folder it leads to. */
    cleanup_free char *real = realpath(named, NULL);
    const char *dir = real ? real : named;
    int rc = ours_check_folder(dir, err);
    for (size_t i = 0; rc == 0 && i < countof(own_files); i++) {
        cleanup_free char *path = path_join(dir, own_files[i]);
        rc = ours_check_file(path, err);
    }
    cleanup_free char *failed = path_join(dir, "failed.jsonl"); /* written like an output */
    if (rc == 0)
        rc = plain_file_check(failed, err);
    for (size_t i = 0; rc == 0 && i < countof(own_folders); i++) {
        cleanup_free char *path = path_join(dir, own_folders[i]);
        rc = ours_check_folder(path, err);
        if (rc == 0 && holds_own_files(own_folders[i]))
            rc = entries_check(path, err);
    }
    return rc ? wrap(err, rc, "the run's folder is not safe to use") : 0;
}

int run_check_named(const char *dir, const char *path, struct err *err)
{
    struct stat of_run, of_file;
    if (stat(path, &of_file) != 0)
        return 0; /* opening the file will report this */
    if (!S_ISREG(of_file.st_mode))
        return fail(err, ERR_DATA, "the run in %s names %s, which is not a regular file", dir,
                    path);
    if (stat(dir, &of_run) != 0 || of_run.st_uid == of_file.st_uid || ours_is(&of_run, dir))
        return 0;
    char owner[80], other[80];
    owner_name(owner, of_run.st_uid);
    owner_name(other, of_file.st_uid);
    return fail(err, ERR_USAGE, "the run in %s belongs to %s but names %s, which belongs to %s",
                dir, owner, path, other);
}
