/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/external_verbs.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/ignored_signals.h"
#include "base/xalloc.h"

const struct external_verb external_verbs[] = {
    {"kge", "graph embeddings: find which training triples influenced a prediction"},
    {0},
};

/* True for muster's own programs that are named like external verbs, but are not verbs. */
static bool is_no_verb(const char *name)
{
    return strchr(name, '/') || strcmp(name, "guard") == 0 || strcmp(name, "devices") == 0;
}

static bool is_known(const char *name)
{
    for (const struct external_verb *verb = external_verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return true;
    return false;
}

/*
 * A folder of PATH that cannot be read gives the same error as a program that cannot be executed.
 */
static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    struct str rest = str_of(path ? path : ""), folder;
    bool is = false;
    while (!is && str_next(&rest, ':', &folder)) {
        cleanup_free char *file = xasprintf("%.*s/%s", (int)folder.len, folder.at, name);
        is = path_exists(file);
    }
    return is;
}

static bool exists(const struct app *app, const char *name)
{
    cleanup_free char *program = xasprintf("muster-%s", name);
    cleanup_free char *beside =
        is_no_verb(name) ? NULL : program_find_beside(app->self_path, program);
    return beside || (!is_no_verb(name) && is_in_path(program));
}

/* Starts this program to parse the words. That process prints what is wrong with them. */
static int parse_elsewhere(const struct app *app, char **argv, struct err *err)
{
    size_t n = 0;
    pid_t pid;
    int wait_status = 0;
    while (argv[n])
        n++;
    cleanup_free char **words = xcalloc(n + 2, sizeof(*words));
    cleanup_free char *self = xstrdup(app->self_path);
    words[0] = self;
    memcpy(words + 1, argv, n * sizeof(*words));
    setenv(PROGRAM_PARSES_ONLY, "1", true);
    int sys = posix_spawn(&pid, self, NULL, NULL, words, environ);
    unsetenv(PROGRAM_PARSES_ONLY);
    if (sys)
        return fail(err, ERR_SYS, "run %s: %s", self, errno_text(sys));
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

int external_verb_check(const struct app *app, char **argv, struct err *err)
{
    if (!exists(app, argv[0]))
        return is_known(argv[0])
                   ? fail(err, ERR_UNAVAILABLE, "muster-%s is not installed", argv[0])
                   : fail(err, ERR_USAGE, "unknown verb '%s'; see muster --help", argv[0]);
    return is_known(argv[0]) ? parse_elsewhere(app, argv, err) : 0;
}

int external_verb_run(const struct app *app, char **argv, struct err *err)
{
    if (is_no_verb(argv[0]))
        return 0;
    cleanup_free char *name = xasprintf("muster-%s", argv[0]);
    cleanup_free char *beside = program_find_beside(app->self_path, name);
    signals_put_back();
    if (beside)
        execv(beside, argv);
    else
        execvp(name, argv);
    bool is_missing = errno == ENOENT || errno == ENOTDIR || (errno == EACCES && !is_in_path(name));
    if (beside || !is_missing)
        return fail_errno_as(err, ERR_UNAVAILABLE, "run %s", beside ? beside : name);
    return is_known(argv[0])
               ? fail(err, ERR_UNAVAILABLE,
                      "%s is not installed: it is neither beside %s nor in libexec or PATH", name,
                      app->self_path)
               : 0;
}
