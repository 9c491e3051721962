/* SPDX-License-Identifier: Apache-2.0
 *
 * Naming runs and finding them. inspect.c finds out the state of a run.
 */
#include "store/runs.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/suggest.h"
#include "base/xalloc.h"

enum {
    CLASHES_MAX = 10000,
    RECENT_MAX = 5,
    HEAD_BYTES = 512 /* only the first members of a file are read: there may be thousands of runs */
};

char *runs_root(const char *given)
{
    const char *env = getenv("MUSTER_RUNS_DIR");
    return path_absolute(given ? given : env && *env ? env : "muster-runs");
}

char *run_typed_new(const char *dir, const char *root)
{
    cleanup_free char *parent = path_dirname(dir);
    struct buf word = BUF_INIT;
    /* The runs of a graph's job are in the graph's folder, so their names alone would mean nothing to the user. */
    bool is_usual = !getenv("MUSTER_JOB") && strcmp(parent, root) == 0;
    buf_add_typed_word(&word, is_usual ? path_basename(dir) : dir);
    return buf_steal(&word);
}

int run_create(const char *root, const char *verb, int64_t wall_ms, char **dir_out, struct err *err)
{
    char stamp[20];
    clock_stamp(stamp, wall_ms);
    int rc = mkdir_parents(root, 0777, err);
    for (int number = 1; rc == 0 && number < CLASHES_MAX; number++) {
        cleanup_free char *name = number == 1 ? xasprintf("%s-%s", stamp, verb)
                                              : xasprintf("%s-%s-%d", stamp, verb, number);
        cleanup_free char *dir = path_join(root, name);
        if (mkdir(dir, 0775) == 0) {
            *dir_out = steal_ptr(&dir);
            return 0;
        }
        if (errno != EEXIST)
            rc = fail_errno(err, "create run folder %s", dir);
    }
    return rc ? rc : fail(err, ERR_SYS, "%s is full of runs of %s", root, stamp);
}

int run_mark_latest(const char *dir, struct err *err)
{
    cleanup_free char *root = path_dirname(dir);
    cleanup_free char *link = path_join(root, "latest");
    /* This name is hidden from the list of runs, and the same for every muster: one that is killed
     * here leaves a single link, which the next one replaces. Of two musters at the same moment,
     * one may rename the other's link; either run may count as the latest. */
    cleanup_free char *beside = path_join(root, ".latest.new");
    unlink(beside);
    if (symlink(path_basename(dir), beside) != 0 && errno != EEXIST)
        return fail_errno(err, "link %s", beside);
    if (rename(beside, link) == 0 || errno == ENOENT)
        return 0;
    int rc = fail_errno(err, "point %s at this run", link);
    unlink(beside);
    return rc;
}

static bool is_run(const char *dir)
{
    cleanup_free char *database = path_join(dir, "run.db"),
                      *manifest = path_join(dir, "manifest.json"),
                      *jobs = path_join(dir, "jobs.jsonl"); /* before its first job has begun */
    return path_exists(database) || path_exists(manifest) || path_exists(jobs);
}

/* The time at the beginning of a name of the usual form; 0: another form. */
static int64_t name_wall_ms(const char *name)
{
    struct tm at = {.tm_isdst = -1};
    const char *rest = strptime(name, "%Y%m%d_%H%M%S", &at);
    return rest && *rest == '-' ? (int64_t)mktime(&at) * 1000 : 0;
}

/* The number of the first of two keys that is in the head of a file; 0: neither is. */
static int64_t head_number(const char *dir, const char *file, const char *key, const char *other)
{
    cleanup_free char *path = path_join(dir, file);
    cleanup_fd int fd = -1;
    char head[HEAD_BYTES];
    uint64_t number;
    ssize_t n = plain_file_open(path, &fd, NULL) == 0 ? read(fd, head, sizeof(head)) : 0;
    const char *at = n > 0 ? memmem(head, (size_t)n, key, strlen(key)) : NULL;
    if (!at && n > 0 && other) {
        key = other;
        at = memmem(head, (size_t)n, key, strlen(key));
    }
    if (!at)
        return 0;
    struct str rest = {at + strlen(key), (size_t)(head + n - at) - strlen(key)}, value;
    bool is_one = str_next(&rest, ',', &value) && rest.len > 0 &&
                  u64_parse(str_trim(value), 1, INT64_MAX, &number, NULL) == 0;
    return is_one ? (int64_t)number : 0;
}

/* When a run began, or was submitted: by its manifest or jobs.jsonl, else by its name, else by its folder's time. */
static int64_t begun_wall_ms(const char *dir)
{
    struct stat st;
    int64_t wall_ms = head_number(dir, "manifest.json", "\"order_ms\":", "\"started_ms\":");
    wall_ms = wall_ms > 0 ? wall_ms : head_number(dir, "jobs.jsonl", "\"at\":", NULL);
    wall_ms = wall_ms > 0 ? wall_ms : name_wall_ms(path_basename(dir));
    return wall_ms > 0           ? wall_ms
           : stat(dir, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000
                                 : 0;
}

struct listed {
    char *name;
    int64_t begun_wall_ms;
};

/* Runs of the same moment are ordered by their names; numbers in them count as numbers, so that -10 follows -2. */
static int newest_first(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    return x->begun_wall_ms != y->begun_wall_ms ? (x->begun_wall_ms < y->begun_wall_ms ? 1 : -1)
                                                : strverscmp(y->name, x->name);
}

static void names_sort(struct run_names *names, const char *root)
{
    cleanup_free struct listed *listed = xcalloc(names->len + 1, sizeof(*listed));
    for (size_t i = 0; i < names->len; i++) {
        cleanup_free char *dir = path_join(root, names->at[i]);
        listed[i] = (struct listed){names->at[i], begun_wall_ms(dir)};
    }
    qsort(listed, names->len, sizeof(*listed), newest_first);
    for (size_t i = 0; i < names->len; i++)
        names->at[i] = listed[i].name;
}

static void names_add(struct run_names *names, const char *name)
{
    if ((names->len & (names->len - 1)) == 0)
        names->at = xrealloc(names->at, MAX(names->len * 2, (size_t)1) * sizeof(*names->at));
    names->at[names->len++] = xstrdup(name);
}

int runs_list(const char *root, struct run_names *out, struct err *err)
{
    *out = (struct run_names){0};
    DIR *folder = opendir(root);
    if (!folder)
        return errno == ENOENT ? 0 : fail_errno_as(err, ERR_USAGE, "open %s", root);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        cleanup_free char *dir = path_join(root, entry->d_name);
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "latest") != 0 && is_run(dir))
            names_add(out, entry->d_name);
    }
    closedir(folder);
    names_sort(out, root);
    return 0;
}

void run_names_release(struct run_names *names)
{
    for (size_t i = 0; i < names->len; i++)
        free(names->at[i]);
    free(names->at);
    *names = (struct run_names){0};
}

/* `latest` points at the run that began last, which comes first in runs_list(). */
int64_t runs_newest_wall_ms(const char *root)
{
    struct run_names names;
    cleanup_free char *link = path_join(root, "latest");
    if (is_run(link))
        return begun_wall_ms(link);
    if (runs_list(root, &names, NULL) != 0)
        return 0;
    cleanup_free char *newest = names.len > 0 ? path_join(root, names.at[0]) : NULL;
    run_names_release(&names);
    return newest ? begun_wall_ms(newest) : 0;
}

static void recent_add(struct buf *out, const struct run_names *names)
{
    for (size_t i = 0; i < MIN(names->len, (size_t)RECENT_MAX); i++)
        buf_addf(out, "%s%s", i ? ", " : "; recent: ", names->at[i]);
    if (names->len > RECENT_MAX)
        buf_addf(out, " … (%zu in all)", names->len);
}

static int not_found(const char *root, const char *text, const struct run_names *names,
                     struct err *err)
{
    if (names->len == 0)
        return fail(err, ERR_USAGE, "no run '%s': there are no runs in %s", text, root);
    cleanup_buf struct buf more = BUF_INIT;
    const char *near = suggest(text, (const char *const *)names->at, names->len);
    if (near)
        buf_addf(&more, " (did you mean '%s'?)", near);
    recent_add(&more, names);
    return fail(err, ERR_USAGE, "no run '%s' in %s%s", text, root, buf_text(&more));
}

static int find_prefix(const char *root, const char *text, const struct run_names *names,
                       char **dir_out, struct err *err)
{
    struct run_names matches = {0};
    for (size_t i = 0; i < names->len; i++)
        if (str_starts_with(str_of(names->at[i]), str_of(text)))
            names_add(&matches, names->at[i]);
    int rc = 0;
    if (matches.len == 1)
        *dir_out = path_join(root, matches.at[0]);
    else if (matches.len == 0)
        rc = not_found(root, text, names, err);
    else
        rc = fail(err, ERR_USAGE, "'%s' begins the names of %zu runs: %s, %s%s", text, matches.len,
                  matches.at[0], matches.at[1], matches.len > 2 ? " …" : "");
    run_names_release(&matches);
    return rc;
}

/* The target of `latest`; without the link, as on a file system without links, the newest run. */
static int find_latest(const char *root, const struct run_names *names, char **dir_out,
                       struct err *err)
{
    cleanup_free char *link = path_join(root, "latest");
    cleanup_free char *target = realpath(link, NULL);
    if (target && is_run(target))
        *dir_out = steal_ptr(&target);
    else if (names->len)
        *dir_out = path_join(root, names->at[0]);
    else
        return fail(err, ERR_USAGE, "there are no runs in %s", root);
    return 0;
}

int run_find(const char *root, const char *text, char **dir_out, struct err *err)
{
    bool wants_latest = !text || strcmp(text, "latest") == 0;
    if (!wants_latest && *text) {
        cleanup_free char *named = path_join(root, text);
        const char *at = strchr(text, '/') || is_run(text) ? text : named;
        if (is_run(at)) {
            *dir_out = realpath(at, NULL);
            return *dir_out ? 0 : fail_errno_as(err, ERR_USAGE, "open %s", at);
        }
        if (strchr(text, '/'))
            return fail(err, ERR_USAGE, "%s holds no run%s", text,
                        path_exists(text) ? "" : ": there is no such folder");
    }
    struct run_names names;
    int rc = runs_list(root, &names, err);
    if (rc)
        return rc;
    if (wants_latest)
        rc = find_latest(root, &names, dir_out, err);
    else if (*text)
        rc = find_prefix(root, text, &names, dir_out, err);
    else
        rc = not_found(root, text, &names, err);
    run_names_release(&names);
    return rc;
}
