/* SPDX-License-Identifier: Apache-2.0
 *
 * Any words as a command line, for every verb. The words are lines; the first one is the verb.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "cli/verbs.h"
#include "fuzz.h"

enum {
    WORDS_MAX = 40
};

static bool has_words(const struct cmd *cmd)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++)
        if (opt->kind == OPT_PARSE && !opt->format)
            return false;
    return true;
}

/* The words that make a request make it again. */
static void check_words(const struct cmd *cmd, const void *request)
{
    struct env_list words = {0}, again = {0};
    char *other = xcalloc(1, cmd->request_size + 1);
    int n_operands = 0;
    char **operands = NULL, **command = NULL;
    struct err err = {0};
    env_list_add(&words, xstrdup(cmd->name));
    env_list_add(&again, xstrdup(cmd->name));
    cmd_words(cmd, request, &words);
    char **argv = xcalloc(words.len + 1, sizeof(*argv));
    memcpy(argv, words.at, words.len * sizeof(*argv));
    ASSERT(cmd_parse(cmd, (int)words.len, argv, other, &n_operands, &operands, &command, &err) ==
           0);
    ASSERT(n_operands == 0 && !command);
    cmd_words(cmd, other, &again);
    ASSERT(words.len == again.len);
    for (size_t i = 0; i < words.len; i++)
        ASSERT(strcmp(words.at[i], again.at[i]) == 0);
    cmd_release(cmd, other);
    free(other);
    free(argv);
    env_list_release(&words);
    env_list_release(&again);
}

static void check_parse(const struct cmd *cmd, int argc, char **argv)
{
    char *request = xcalloc(1, cmd->request_size + 1);
    int n_operands = 0;
    char **operands = NULL, **command = NULL;
    struct err err = {0};
    int rc = cmd_parse(cmd, argc, argv, request, &n_operands, &operands, &command, &err);
    if (rc)
        ASSERT(rc == ERR_USAGE && err.text[0]);
    else
        ASSERT(n_operands >= 0 && n_operands < argc);
    for (int i = 0; rc == 0 && i < n_operands; i++)
        ASSERT(operands[i][0] == '\0' || strlen(operands[i]) > 0);
    ASSERT(!command || cmd->command || cmd->is_like_argparse);
    if (rc == 0 && has_words(cmd))
        check_words(cmd, request);
    cmd_release(cmd, request);
    free(request);
}

static const struct cmd *verb_of(struct str name)
{
    for (size_t i = 0; commands[i]; i++)
        if (str_equal(name, str_of(commands[i]->name)))
            return commands[i];
    return commands[0];
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, word;
    char *words[WORDS_MAX + 1] = {NULL}, *argv[WORDS_MAX + 1];
    int argc = 0;
    if (size == 0 || memchr(data, '@', size)) /* a file, read at once: any file of this machine */
        return 0;
    while (argc < WORDS_MAX && str_next(&rest, '\n', &word))
        words[argc++] = xstrndup(word.at, word.len);
    memcpy(argv, words, sizeof(argv)); /* operands are moved to the front */
    check_parse(verb_of(str_of(words[0])), argc, argv);
    for (int i = 0; i < argc; i++)
        free(words[i]);
    return 0;
}
