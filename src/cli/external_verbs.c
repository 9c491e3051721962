/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/external_verbs.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
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

/* A folder of PATH that cannot be read gives the same error as a program that cannot be executed. */
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

bool external_verb_exists(const struct app *app, const char *name)
{
    cleanup_free char *program = xasprintf("muster-%s", name);
    cleanup_free char *beside =
        is_no_verb(name) ? NULL : program_find_beside(app->self_path, program);
    return beside || (!is_no_verb(name) && is_in_path(program));
}

int external_verb_run(const struct app *app, char **argv, struct err *err)
{
    if (is_no_verb(argv[0]))
        return 0;
    cleanup_free char *name = xasprintf("muster-%s", argv[0]);
    cleanup_free char *beside = program_find_beside(app->self_path, name);
    /* An ignored signal stays ignored in the program: its pipes would not end with their readers. */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
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
