/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/memo.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cache_file.h"
#include "base/cleanup.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "map/template.h"

#define MEMO_FILE "fit.json"

/* ---- what a result is about ---- */

static void file_identify(const char *path, struct buf *out)
{
    struct stat st;
    cleanup_free char *real = realpath(path, NULL);
    if (real && stat(real, &st) == 0 && S_ISREG(st.st_mode))
        buf_addf(out, "%s%s %ld %ld.%09ld", out->len > 0 ? "; " : "", real, (long)st.st_size,
                 (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* Looks for a program in PATH; NULL if no folder of PATH has it. */
static char *program_path_new(const char *name)
{
    const char *list = getenv("PATH");
    struct str rest = str_of(list ? list : "/usr/local/bin:/usr/bin:/bin"), folder;
    if (strchr(name, '/'))
        return xstrdup(name);
    while (str_next(&rest, ':', &folder)) {
        cleanup_free char *path = xasprintf("%.*s/%s", (int)MAX(folder.len, (size_t)1),
                                            folder.len > 0 ? folder.at : ".", name);
        if (path_is_executable(path))
            return steal_ptr(&path);
    }
    return NULL;
}

/* Identifies the program, and the first word of the command that is a file, such as the script of an interpreter. */
static void program_identify(const char *const *command, struct buf *out)
{
    cleanup_free char *program = command[0] ? program_path_new(command[0]) : NULL;
    struct stat st;
    if (program)
        file_identify(program, out);
    for (const char *const *word = command + 1; command[0] && *word; word++) {
        if (template_uses(str_of(*word)) != 0 || stat(*word, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        file_identify(*word, out);
        return;
    }
}

void fit_signature_make(struct fit_signature *out, const char *const *command,
                        const struct environment_wish *environment, const char *device,
                        uint64_t device_bytes)
{
    struct buf words = BUF_INIT, program = BUF_INIT;
    for (size_t i = 0; i < environment->env.len; i++) {
        buf_add_shell_word(&words, environment->env.at[i]);
        buf_add_char(&words, ' ');
    }
    if (environment->setup)
        buf_addf(&words, "%s; ", environment->setup);
    for (const char *const *word = command; *word; word++) {
        /* muster fit writes {{output}} where a command of shards has {output}: both become the same text. */
        cleanup_buf struct buf bare = BUF_INIT;
        template_bare(str_of(*word), &bare);
        buf_add_text(&words, word > command ? " " : "");
        buf_add_shell_word(&words, buf_text(&bare));
    }
    program_identify(command, &program);
    buf_reserve(&program, 0);
    *out = (struct fit_signature){.command = buf_steal(&words),
                                  .program = buf_steal(&program),
                                  .device = xstrdup(device),
                                  .device_bytes = device_bytes};
}

static bool is_same(const struct fit_signature *a, const struct fit_signature *b)
{
    return strcmp(a->command, b->command) == 0 && strcmp(a->program, b->program) == 0 &&
           strcmp(a->device, b->device) == 0 && a->device_bytes == b->device_bytes;
}

/* ---- the file ---- */

/*
 * Reads the file. ERR_DATA, ERR_USAGE if the file must be ignored, with the cause. A file that does not exist is no
 * error.
 */
static int memos_load(struct fit_memos *out, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    *out = (struct fit_memos){0};
    int rc = cache_file_read(MEMO_FILE, FIT_MEMO_BYTES_MAX, &text, err);
    if (rc == 1 && !fit_memos_parse(buf_str(&text), out))
        rc = cache_file_damaged(MEMO_FILE, err);
    return MIN(rc, 0);
}

void fit_memos_read(struct fit_memos *out)
{
    struct err err = {0};
    if (memos_load(out, &err) != 0)
        talk("what muster fit remembers is not used: %s", err.text);
}

/* Takes the lock of the file and reads it, for a change. */
static int memos_open(int *lock_fd, struct fit_memos *memos, struct err *err)
{
    struct err why = {0};
    *memos = (struct fit_memos){0};
    int rc = cache_file_lock(MEMO_FILE, lock_fd, err);
    if (rc == 0 && memos_load(memos, &why) != 0)
        talk("what muster fit remembers is begun anew: %s", why.text);
    return rc;
}

static void memo_drop(struct fit_memos *memos, size_t i)
{
    ASSERT(memos->at && i < memos->len);
    fit_memo_release(&memos->at[i]);
    memos->len--;
    memmove(&memos->at[i], &memos->at[i + 1], (memos->len - i) * sizeof(memos->at[0]));
}

static int memos_store(struct fit_memos *memos, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    fit_memos_format(memos, &text);
    while (text.len > FIT_MEMO_BYTES_MAX) { /* a larger file could not be read again */
        memo_drop(memos, 0);
        buf_reset(&text);
        fit_memos_format(memos, &text);
    }
    return cache_file_write(MEMO_FILE, buf_str(&text), false, err);
}

/* ---- recall, remember, forget ---- */

static struct fit_memo memo_copy(const struct fit_memo *memo)
{
    struct fit_memo copy = *memo;
    copy.of.command = xstrdup(memo->of.command);
    copy.of.program = xstrdup(memo->of.program);
    copy.of.device = xstrdup(memo->of.device);
    copy.wish = xstrdup(memo->wish);
    copy.when = xstrdup(memo->when);
    return copy;
}

bool fit_recall(const struct fit_signature *signature, const char *wish, struct fit_memo *out)
{
    struct fit_memos memos;
    const struct fit_memo *found = NULL;
    fit_memos_read(&memos);
    for (size_t i = 0; i < memos.len; i++)
        if (is_same(&memos.at[i].of, signature) && (!wish || strcmp(memos.at[i].wish, wish) == 0))
            found = &memos.at[i];
    *out = found ? memo_copy(found) : (struct fit_memo){0};
    fit_memos_release(&memos);
    return out->batch > 0;
}

static bool is_long(const char *text)
{
    return strlen(text) > FIT_TEXT_BYTES_MAX;
}

int fit_remember(const struct fit_memo *memo, struct err *err)
{
    cleanup_fd int lock_fd = -1;
    struct fit_memos memos = {0};
    if (is_long(memo->of.command) || is_long(memo->of.program) || is_long(memo->wish))
        return fail(err, ERR_USAGE, "the command is longer than %d bytes", FIT_TEXT_BYTES_MAX);
    int rc = memos_open(&lock_fd, &memos, err);
    if (rc == 0) {
        for (size_t i = memos.len; i-- > 0;)
            if (is_same(&memos.at[i].of, &memo->of) && strcmp(memos.at[i].wish, memo->wish) == 0)
                memo_drop(&memos, i);
        if (memos.len == FIT_MEMOS_MAX)
            memo_drop(&memos, 0);
        memos.at = xrealloc(memos.at, (memos.len + 1) * sizeof(*memos.at));
        memos.at[memos.len++] = memo_copy(memo);
        rc = memos_store(&memos, err);
    }
    fit_memos_release(&memos);
    return rc;
}

int fit_forget(const struct fit_signature *signature, size_t *n_forgotten, struct err *err)
{
    cleanup_fd int lock_fd = -1;
    struct fit_memos memos = {0};
    *n_forgotten = 0;
    int rc = memos_open(&lock_fd, &memos, err);
    for (size_t i = memos.len; rc == 0 && i-- > 0;) {
        if (signature && strcmp(memos.at[i].of.command, signature->command) != 0)
            continue;
        memo_drop(&memos, i);
        ++*n_forgotten;
    }
    if (rc == 0)
        rc = memos_store(&memos, err);
    fit_memos_release(&memos);
    return rc;
}
