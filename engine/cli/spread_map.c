/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_map.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "cli/spread_files.h"

enum {
    LOG_BYTES_MAX = 64 << 20
};

char *muster_find(const char *self_path)
{
    cleanup_free char *folder = path_dirname(self_path);
    cleanup_free char *installed = path_join(folder, "../bin/muster");
    char *beside = program_find_beside(self_path, "muster");
    if (!beside && path_is_executable(installed))
        beside = steal_ptr(&installed);
    return beside ? beside : xstrdup("muster");
}

/* ---- its command and environment ---- */

/*
 * Variables with defaults of muster map's options. The user may have set them for other runs; here
 * they would change what an item or an answer is, so they are removed.
 */
static const char *const kept_from_map[] = {
    "MUSTER_OUTPUT",       "MUSTER_FORCE",         "MUSTER_FORMAT",        "MUSTER_FORMAT_OUT",
    "MUSTER_RAW",          "MUSTER_LIMIT",         "MUSTER_JOIN",          "MUSTER_KEY",
    "MUSTER_ORDER",        "MUSTER_ITEMS",         "MUSTER_SHARDS",        "MUSTER_COLLECT",
    "MUSTER_ALSO",         "MUSTER_FIXED_BATCHES", "MUSTER_LONGEST_FIRST", "MUSTER_WEIGHT",
    "MUSTER_MAX_FAILURES", "MUSTER_DETACH",        "MUSTER_ON_FINISH",     "MUSTER_FRESH",
    "MUSTER_DRY_RUN",      "MUSTER_RUNS_DIR",      "MUSTER_RETRY_FAILED",  "MUSTER_QUIET",
};

/* The command that continues the run: this one without --force, which would begin anew. */
static void command_typed_add(const struct app *app, struct buf *out)
{
    cleanup_buf struct buf command = BUF_INIT;
    buf_add_text(&command, "muster kge");
    for (int i = 1; i < app->argc; i++) {
        if (strcmp(app->argv[i], "--force") == 0)
            continue;
        buf_add_char(&command, ' ');
        buf_add_shell_word(&command, app->argv[i]);
    }
    console_text_add(out, buf_str(&command), false);
}

/*
 * Sets variables rather than options: muster keeps its options for later resumes, while a variable
 * applies to this command only.
 */
static int environment_prepare(const struct spread_map *map, struct err *err)
{
    cleanup_buf struct buf command = BUF_INIT;
    char n_threads[24];
    snprintf(n_threads, sizeof(n_threads), "%lu", (unsigned long)map->n_threads);
    for (size_t i = 0; i < countof(kept_from_map); i++)
        unsetenv(kept_from_map[i]);
    command_typed_add(map->app, &command);
    if (setenv("MUSTER_GO_ON", buf_text(&command), 1) != 0 ||
        (map->app->quiet && setenv("MUSTER_QUIET", "1", 1) != 0) ||
        (map->n_threads > 0 && setenv("MUSTER_KGE_THREADS", n_threads, 1) != 0))
        return fail_errno(err, "the environment of muster map");
    return 0;
}

/* ---- its process ---- */

/*
 * Runs between fork and exec. The child gets SIGTERM when this program ends in any way; muster then
 * ends, and what is done is kept.
 */
static NORETURN void child_become(const struct spread_map *map, const char *muster,
                                  const char *const *words, pid_t parent, const sigset_t *mask)
{
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        _exit(128 + SIGTERM);
    if (map->lock_fd >= 0 && fcntl(map->lock_fd, F_SETFD, 0) != 0)
        _exit(1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(muster, (char *const *)(uintptr_t)words);
    dprintf(STDERR_FILENO, "muster: run %s: %s\n", muster, errno_text(errno));
    _exit(err_exit_status(ERR_UNAVAILABLE));
}

static int wait_status_of(pid_t child)
{
    int status = 0;
    if (TEMP_FAILURE_RETRY(waitpid(child, &status, WNOHANG)) != child)
        return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/*
 * Passes on only signals sent by a process: those of a terminal reach the child without this
 * program, and a second signal would make muster kill its workers at once.
 */
static int child_await(pid_t child, const sigset_t *awaited)
{
    int status;
    siginfo_t info;
    while ((status = wait_status_of(child)) < 0) {
        int signal = sigwaitinfo(awaited, &info);
        if (signal > 0 && signal != SIGCHLD && info.si_code <= 0)
            kill(child, signal);
    }
    return status;
}

static int words_run(const struct spread_map *map, const char *muster, const char *const *words,
                     int *status, struct err *err)
{
    static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    sigset_t awaited, before;
    int rc = environment_prepare(map, err);
    if (rc)
        return rc;
    sigemptyset(&awaited);
    for (size_t i = 0; i < countof(passed_on); i++)
        sigaddset(&awaited, passed_on[i]);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &awaited, &before);
    fflush(NULL);
    pid_t self = getpid(), child = fork();
    if (child == 0)
        child_become(map, muster, words, self, &before);
    rc = child < 0 ? fail_errno(err, "start %s", muster) : 0;
    if (rc == 0)
        *status = child_await(child, &awaited);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}

bool spread_map_has_begun(const char *dir)
{
    cleanup_free char *db = path_join(dir, SPREAD_MAP "/run.db");
    cleanup_free char *manifest = path_join(dir, SPREAD_MAP "/manifest.json");
    return path_exists(db) && path_exists(manifest);
}

int spread_map_run(const struct spread_map *map, int *status, struct err *err)
{
    cleanup_free char *muster = muster_find(map->app->self_path);
    cleanup_free char *run_dir = path_join(map->dir, SPREAD_MAP);
    cleanup_free char *items = path_join(map->dir, SPREAD_ITEMS);
    cleanup_free char *answers = path_join(map->dir, SPREAD_ANSWERS);
    const char *const fresh[] = {"muster",
                                 "map",
                                 "--max-failures",
                                 "1",
                                 "--run-dir",
                                 run_dir,
                                 "-o",
                                 answers,
                                 "-g",
                                 map->gpus,
                                 items,
                                 "--",
                                 map->app->self_path,
                                 SPREAD_WORKER_VERB,
                                 NULL};
    const char *const again[] = {"muster",  "resume", run_dir,   "--retry-failed",
                                 "--force", "-g",     map->gpus, NULL};
    bool is_resumed = spread_map_has_begun(map->dir);
    int rc = is_resumed ? 0 : remove_tree(run_dir, err);
    return rc ? rc : words_run(map, muster, is_resumed ? again : fresh, status, err);
}

/* ---- its log ---- */

/*
 * Takes what follows time and level in a line of the log such as "2026-01-31T09:08:07.123+01:00
 * ERROR map: no device is left". True for errors and warnings.
 */
static bool is_trouble(struct str line, struct str *text)
{
    struct str time, level;
    if (!str_next(&line, ' ', &time) || !str_next(&line, ' ', &level))
        return false;
    *text = str_trim(line);
    return str_equal(level, STR("ERROR")) || str_equal(level, STR("WARN"));
}

void spread_map_last_words(const char *dir, struct buf *out)
{
    cleanup_free char *path = path_join(dir, SPREAD_MAP "/orchestrator.log");
    cleanup_buf struct buf log = BUF_INIT;
    struct str line, text, last = {0};
    if (file_read(path, LOG_BYTES_MAX, &log, NULL) != 0)
        return;
    struct str rest = buf_str(&log);
    while (str_next(&rest, '\n', &line))
        if (is_trouble(line, &text))
            last = text;
    buf_add_str(out, last);
}
