/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/program.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ignored_signals.h"
#include "base/suggest.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "opt/say.h"
#include "version.h"

char *program_typed(const struct program *program)
{
    return program->family ? xasprintf("muster %s", program->family) : xstrdup("muster");
}

static const struct cmd *verb_find(const struct program *program, const char *name)
{
    for (const struct cmd *const *cmd = program->verbs; *cmd; cmd++)
        if (strcmp((*cmd)->name, name) == 0)
            return *cmd;
    return NULL;
}

static void usage_print(const struct program *program, FILE *to)
{
    cleanup_free char *typed = program_typed(program);
    fprintf(to, "usage: %s VERB [OPTION]...\n\n%s\n", typed, program->about);
    for (const struct cmd *const *cmd = program->verbs; *cmd; cmd++)
        if (!(*cmd)->is_hidden)
            fprintf(to, "  %-10s %s\n", (*cmd)->name, (*cmd)->summary);
    for (const struct external_verb *verb = program->external_verbs; verb && verb->name; verb++)
        fprintf(to, "  %-10s %s\n", verb->name, verb->summary);
    fprintf(to,
            "\n  %s VERB --help   options and examples\n"
            "  %s --version\n\n"
            "See muster%s%s(1).\n",
            typed, typed, program->family ? "-" : "", program->family ? program->family : "");
}

static int unknown_verb(const struct program *program, const char *name)
{
    cleanup_free char *typed = program_typed(program);
    const char *names[64];
    size_t n_names = 0;
    for (const struct cmd *const *cmd = program->verbs; *cmd && n_names < countof(names); cmd++)
        if (!(*cmd)->is_hidden)
            names[n_names++] = (*cmd)->name;
    for (const struct external_verb *verb = program->external_verbs; verb && verb->name; verb++)
        if (n_names < countof(names))
            names[n_names++] = verb->name;
    const char *near = suggest(name, names, n_names);
    if (near)
        talk_as(typed, "unknown verb '%s' (did you mean '%s'?)", name, near);
    else
        talk_as(typed, "unknown verb '%s'; see %s --help", name, typed);
    return 2;
}

static bool wants_color(void)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

/* Prints the message of a failure, and returns its exit status. In a folder that was deleted, nothing is found. */
static int failure_print(const struct program *program, const char *verb, const struct err *err,
                         int rc)
{
    cleanup_free char *typed = program_typed(program);
    cleanup_free char *speaker = xasprintf("%s%s%s", typed, program->family ? " " : ": ", verb);
    bool is_lost = err->sys == ENOENT && cwd_is_deleted();
    talk_as(speaker, "%s%s", err->text,
            is_lost ? "; the current folder was deleted: change to another one (cd)" : "");
    return err_exit_status(rc);
}

static int help_put(const struct cmd *cmd, struct err *err)
{
    cleanup_buf struct buf help = BUF_INIT;
    cmd_help(cmd, &help);
    return stdout_put(buf_str(&help), err);
}

static int verb_run(const struct cmd *cmd, struct app *app, int argc, char **argv)
{
    struct err err = {0};
    if (cmd_wants_help(cmd, argc, argv)) {
        int put = help_put(cmd, &err);
        return put ? failure_print(app->program, cmd->name, &err, put) : 0;
    }
    cleanup_free void *request = xcalloc(1, cmd->request_size + 1);
    cleanup_free char **words = cmd_words_copy(argc, argv);
    int n_operands;
    char **operands, **command;
    int rc = cmd_parse(cmd, argc, words, request, &n_operands, &operands, &command, &err);
    bool is_parsed = rc == 0;
    rc = rc ? rc : cmd_needs_check(cmd, request, &err);
    if (cmd->command) /* the verb runs a command, and its results so far are kept */
        xalloc_cure("; a run can be resumed (muster resume)");
    if (rc == 0 && !(app->program->family && getenv(PROGRAM_PARSES_ONLY)))
        rc = cmd->run(app, request, n_operands, operands, command, &err);
    cmd_release(cmd, request);
    if (is_parsed && rc == ERR_USAGE)
        cmd_variables_tell(cmd, argc, argv, &err);
    return rc >= 0 ? rc : failure_print(app->program, cmd->name, &err, rc);
}

static int external_run(const struct app *app, char **argv)
{
    struct err err = {0};
    int rc = app->program->run_external ? app->program->run_external(app, argv, &err) : 0;
    return rc ? failure_print(app->program, argv[0], &err, rc)
              : unknown_verb(app->program, argv[0]);
}

static char *self_path_new(const char *argv0)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    return len > 0 ? xstrndup(path, (size_t)len) : xstrdup(argv0);
}

/*
 * If the caller closed a standard descriptor, a file of ours would get its number, and messages for the user would
 * be written into that file. So each is opened in a way that fails like a closed one: the first cannot be read,
 * the others cannot be written.
 */
static void standard_fds_fill(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            exit(1); /* there is no /dev/null, and no place for a message */
}

/* `help`, `help VERB`, --help and --version; -1 if argv[1] is to be taken for a verb. */
static int help_or_version(const struct program *program, int argc, char **argv)
{
    static char help[] = "--help";
    if (argc < 2) {
        usage_print(program, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        cleanup_free char *typed = program_typed(program);
        printf("%s %s\n", typed, MUSTER_VERSION);
        if (program->about_version)
            program->about_version();
        return 0;
    }
    bool is_help = strcmp(argv[1], "help") == 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (is_help && argc == 2)) {
        usage_print(program, stdout);
        return 0;
    }
    if (is_help) {
        argv[1] = argv[2];
        argv[2] = help;
    }
    return -1;
}

/* An exit status. A write that failed earlier is known by the state of the stream alone: its reason is not kept. */
static int stdout_finish(void)
{
    struct err err = {0};
    int rc = fflush(stdout) != 0 ? fail_errno(&err, "write standard output")
             : ferror(stdout)    ? fail(&err, ERR_SYS, "part of standard output was not written")
                                 : 0;
    if (rc)
        talk("%s", err.text);
    return rc ? err_exit_status(rc) : 0;
}

int program_main(const struct program *program, int argc, char **argv)
{
    standard_fds_fill();
    signals_ignore();
    json_set_alloc_funcs(xmalloc, free); /* without memory it would leave members out */
    cleanup_free char *self_path = self_path_new(argv[0]);
    struct app app = {.program = program,
                      .log = LOG_INIT,
                      .color = wants_color(),
                      .self_path = self_path,
                      .argv = argv,
                      .argc = argc};
    int status = help_or_version(program, argc, argv);
    if (status < 0) {
        const struct cmd *cmd = verb_find(program, argv[1]);
        status = cmd ? verb_run(cmd, &app, argc - 1, argv + 1) : external_run(&app, argv + 1);
    }
    return status ? status : stdout_finish();
}
