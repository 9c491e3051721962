/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the verb, parses its options, runs it, prints the one sentence of a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/suggest.h"
#include "base/xalloc.h"
#include "cli/cmd.h"
#include "cli/verbs.h"
#include "proc/console_text.h"
#include "version.h"

static const struct cmd *command_find(const char *name)
{
    for (const struct cmd *const *cmd = commands; *cmd; cmd++)
        if (strcmp((*cmd)->name, name) == 0)
            return *cmd;
    return NULL;
}

static void usage_print(FILE *to)
{
    fputs("usage: muster VERB [OPTION]...\n\n"
          "Put machine-learning work on every GPU of a machine and bring back one result\n"
          "that can be trusted. Without a GPU the same commands run on CPU slots.\n\n",
          to);
    for (const struct cmd *const *cmd = commands; *cmd; cmd++)
        if (!(*cmd)->is_hidden)
            fprintf(to, "  %-10s %s\n", (*cmd)->name, (*cmd)->summary);
    fputs("\n  muster VERB --help   options and examples\n"
          "  muster --version\n\n"
          "See muster(1).\n",
          to);
}

static int unknown_verb(const char *name)
{
    const char *names[64];
    size_t n_names = 0;
    for (const struct cmd *const *cmd = commands; *cmd && n_names < countof(names); cmd++)
        if (!(*cmd)->is_hidden)
            names[n_names++] = (*cmd)->name;
    const char *near = suggest(name, names, n_names);
    if (near)
        fprintf(stderr, "muster: unknown verb '%s' (did you mean '%s'?)\n", name, near);
    else
        fprintf(stderr, "muster: unknown verb '%s'; see muster --help\n", name);
    return 2;
}

/* git's way: `muster kge` runs muster-kge beside this program or in PATH. */
static void external_exec(const char *self_path, char **argv)
{
    cleanup_free char *folder = path_dirname(self_path);
    cleanup_free char *name = xasprintf("muster-%s", argv[0]);
    cleanup_free char *beside = path_join(folder, name);
    if (strchr(argv[0], '/') || strcmp(argv[0], "guard") == 0)
        return;
    execv(beside, argv);
    execvp(name, argv);
}

static bool wants_color(void)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

static bool wants_help(const struct cmd *cmd, int argc, char **argv)
{
    for (int i = 1; i < argc && !(cmd->keeps_dashdash && strcmp(argv[i], "--") == 0); i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int command_run(const struct cmd *cmd, struct app *app, int argc, char **argv)
{
    if (wants_help(cmd, argc, argv)) {
        cleanup_buf struct buf help = BUF_INIT;
        cmd_help(cmd, &help);
        fputs(buf_text(&help), stdout);
        return 0;
    }
    cleanup_free void *request = xcalloc(1, cmd->request_size + 1);
    struct err err = {0};
    int n_operands;
    char **operands, **command;
    int rc = cmd_parse(cmd, argc, argv, request, &n_operands, &operands, &command, &err);
    if (cmd->keeps_dashdash) /* it runs a command: what is done is kept */
        xalloc_cure("; a run can be resumed (muster resume)");
    if (rc == 0)
        rc = cmd->run(app, request, n_operands, operands, command, &err);
    cmd_release(cmd, request);
    if (rc >= 0)
        return rc;
    cleanup_buf struct buf text = BUF_INIT; /* there may be words of the data in it */
    console_text_add(&text, str_of(err.text), false);
    fprintf(stderr, "muster: %s: %s\n", cmd->name, buf_text(&text));
    return err_exit_status(rc);
}

static char *self_path_new(const char *argv0)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    return len > 0 ? xstrndup(path, (size_t)len) : xstrdup(argv0);
}

/*
 * A standard descriptor that the caller closed would become the number of some file of ours, and what
 * is meant for the user would be written into it. So it is taken by one that fails as a closed one
 * does: nothing can be read from the first, nothing be written to the others.
 */
static void standard_fds_fill(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            exit(1); /* without /dev/null, and nobody to tell */
}

/* Without memory libuv aborts and jansson leaves members out: neither is for them to decide. */
static void libraries_settle(void)
{
    uv_replace_allocator(xmalloc, xrealloc, xcalloc, free);
    json_set_alloc_funcs(xmalloc, free);
}

int main(int argc, char **argv)
{
    standard_fds_fill();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error like a full disk */
    libraries_settle();
    cleanup_free char *self_path = self_path_new(argv[0]);
    struct app app = {.log = LOG_INIT,
                      .color = wants_color(),
                      .self_path = self_path,
                      .argv = argv,
                      .argc = argc};
    if (argc < 2) {
        usage_print(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("muster %s\n", MUSTER_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage_print(stdout);
        return 0;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) {
        static char help[] = "--help";
        argv[1] = argv[2];
        argv[2] = help;
    } else if (strcmp(argv[1], "help") == 0) {
        usage_print(stdout);
        return 0;
    }
    const struct cmd *cmd = command_find(argv[1]);
    if (!cmd)
        external_exec(self_path, argv + 1);
    int status = cmd ? command_run(cmd, &app, argc - 1, argv + 1) : unknown_verb(argv[1]);
    if (fflush(stdout) != 0 && status == 0) {
        struct err err = {0};
        status = err_exit_status(fail_errno(&err, "write standard output"));
        fprintf(stderr, "muster: %s\n", err.text);
    }
    return status;
}
