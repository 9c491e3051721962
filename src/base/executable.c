/* SPDX-License-Identifier: Apache-2.0 */
#include "base/executable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

bool path_is_executable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *program_find_beside(const char *self_path, const char *name)
{
    static const char *const places[] = {".", "../libexec", "../libexec/muster", "../bin",
                                         "../../bin"};
    cleanup_free char *folder = path_dirname(self_path);
    for (size_t i = 0; i < countof(places); i++) {
        char *path =
            i == 0 ? path_join(folder, name) : xasprintf("%s/%s/%s", folder, places[i], name);
        if (path_is_executable(path))
            return path;
        free(path);
    }
    return NULL;
}

bool path_finds(const char *path_list, const char *program)
{
    struct str rest = str_of(path_list), folder;
    while (str_next(&rest, ':', &folder)) {
        cleanup_free char *name = folder.len > 0 ? xstrndup(folder.at, folder.len) : xstrdup(".");
        cleanup_free char *path = path_join(name, program);
        if (path_is_executable(path))
            return true;
    }
    return false;
}

int program_check(const char *program, struct err *err)
{
    if (strchr(program, '/')) {
        if (path_is_executable(program))
            return 0;
        return fail(err, ERR_UNAVAILABLE, "the worker's program %s is %s", program,
                    path_exists(program) ? "not executable (chmod +x, or name its interpreter)"
                                         : "not there");
    }
    const char *path = getenv("PATH");
    if (path_finds(path ? path : "/usr/local/bin:/usr/bin:/bin", program))
        return 0;
    return fail(err, ERR_UNAVAILABLE, "the worker's program '%s' is not in PATH", program);
}

/* Interpreters, and their options that bring what is run with them. */
static const struct {
    const char *name, *code_options;
} interpreters[] = {
    {"python", "cm"}, {"pypy", "cm"}, {"bash", "c"}, {"sh", "c"},     {"dash", "c"},
    {"perl", "eE"},   {"ruby", "e"},  {"lua", "e"},  {"julia", "eE"}, {"Rscript", "e"},
};

/* NULL: the program is no interpreter. "python3.11" is one. */
static const char *code_options(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < countof(interpreters); i++) {
        size_t len = strlen(interpreters[i].name);
        bool begins = strncmp(name, interpreters[i].name, len) == 0;
        if (begins && !name[len + strspn(name + len, ".0123456789")])
            return interpreters[i].code_options;
    }
    return NULL;
}

const char *program_script(const char *const *command)
{
    struct stat file;
    const char *bring_code = code_options(command[0]);
    for (size_t i = 1; bring_code && command[i]; i++) {
        const char *word = command[i];
        if (word[0] != '-')
            return stat(word, &file) == 0 && S_ISREG(file.st_mode) ? word : NULL;
        if (strpbrk(word, bring_code))
            return NULL;
    }
    return NULL;
}

int script_check(const char *script, struct err *err)
{
    cleanup_free char *folder = path_cwd();
    if (access(script, R_OK) == 0)
        return 0;
    if (script[0] == '/')
        return fail_errno(err, "the worker's script %s (copy it to that host)", script);
    return fail_errno(
        err, "the worker's script %s in %s (copy it to that host, or name it by its whole path)",
        script, folder ? folder : ".");
}
