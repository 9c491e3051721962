/* SPDX-License-Identifier: Apache-2.0 */
#include "store/git.h"

#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"

enum {
    SMALL_FILE = 4096,
    PACKED_REFS_MAX = 64 << 20,
    REF_DEPTH_MAX = 5
};

/* The trimmed content of folder/name, a new string, or NULL. */
static char *small_file(const char *folder, const char *name)
{
    cleanup_free char *path = path_join(folder, name);
    cleanup_buf struct buf text = BUF_INIT;
    if (plain_file_read(path, SMALL_FILE, &text, NULL) != 0)
        return NULL;
    struct str trimmed = str_trim(buf_str(&text));
    return xstrndup(trimmed.at, trimmed.len);
}

/* .git is a folder, or in a worktree a file "gitdir: <path>". */
static char *git_dir_in(const char *folder)
{
    cleanup_free char *path = path_join(folder, ".git");
    struct stat st;
    if (stat(path, &st) != 0)
        return NULL;
    if (S_ISDIR(st.st_mode))
        return steal_ptr(&path);
    cleanup_free char *text = small_file(folder, ".git");
    struct str prefix = STR("gitdir: ");
    return text && str_starts_with(str_of(text), prefix) ? path_join(folder, text + prefix.len)
                                                         : NULL;
}

static char *git_dir_around(const char *folder)
{
    cleanup_free char *at = path_absolute(folder);
    for (;;) {
        char *found = git_dir_in(at);
        if (found || strcmp(at, "/") == 0)
            return found;
        char *parent = path_dirname(at);
        free(at);
        at = parent;
    }
}

static bool is_commit(struct str text)
{
    return (text.len == 40 || text.len == 64) && strspn(text.at, "0123456789abcdef") >= text.len;
}

/* Lines "<commit> <ref>". */
static char *packed_ref(const char *common_dir, const char *ref)
{
    cleanup_free char *path = path_join(common_dir, "packed-refs");
    cleanup_buf struct buf text = BUF_INIT;
    if (plain_file_read(path, PACKED_REFS_MAX, &text, NULL) != 0)
        return NULL;
    struct str rest = {buf_text(&text), text.len}, line, commit;
    while (str_next(&rest, '\n', &line))
        if (str_next(&line, ' ', &commit) && line.at && str_equal(str_trim(line), str_of(ref)) &&
            is_commit(commit))
            return xstrndup(commit.at, commit.len);
    return NULL;
}

static char *common_dir_of(const char *git_dir)
{
    cleanup_free char *common = small_file(git_dir, "commondir");
    return common ? path_join(git_dir, common) : xstrdup(git_dir);
}

char *git_commit_of(const char *folder)
{
    cleanup_free char *git_dir = git_dir_around(folder);
    if (!git_dir)
        return NULL;
    cleanup_free char *common_dir = common_dir_of(git_dir);
    char *value = small_file(git_dir, "HEAD");
    struct str prefix = STR("ref: ");
    for (int depth = 0; value && str_starts_with(str_of(value), prefix); depth++) {
        cleanup_free char *ref = xstrdup(value + prefix.len);
        free(value);
        if (depth == REF_DEPTH_MAX || strstr(ref, ".."))
            return NULL;
        value = small_file(common_dir, ref);
        if (!value)
            value = packed_ref(common_dir, ref);
    }
    if (value && is_commit(str_of(value)))
        return value;
    free(value);
    return NULL;
}
