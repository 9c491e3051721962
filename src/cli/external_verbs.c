/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/external_verbs.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

const struct external_verb external_verbs[] = {
    {"kge", "graph embeddings: which training triples made a prediction"},
    {0},
};

/* Programs of muster's own that are called like verbs and are none. */
static bool is_no_verb(const char *name)
{
    return strchr(name, '/') || strcmp(name, "guard") == 0;
}

static bool is_known(const char *name)
{
    for (const struct external_verb *verb = external_verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return true;
    return false;
}

int external_verb_run(const struct app *app, char **argv, struct err *err)
{
    if (is_no_verb(argv[0]))
        return 0;
    cleanup_free char *name = xasprintf("muster-%s", argv[0]);
    cleanup_free char *beside = program_find_beside(app->self_path, name);
    /* What is ignored stays so in the program, and one in a pipe would not end with its reader. */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (beside)
        execv(beside, argv);
    else
        execvp(name, argv);
    if (beside || (errno != ENOENT && errno != ENOTDIR))
        return fail_errno_as(err, ERR_UNAVAILABLE, "run %s", beside ? beside : name);
    return is_known(argv[0])
               ? fail(err, ERR_UNAVAILABLE,
                      "%s is not installed: it is neither beside %s nor in libexec or PATH", name,
                      app->self_path)
               : 0;
}
