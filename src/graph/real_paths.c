/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/real_paths.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/xalloc.h"

void real_paths_release(struct real_paths *real)
{
    for (size_t i = 0; i < real->there.len; i++)
        free(real->targets[i]);
    free(real->targets);
    name_index_release(&real->there);
    buf_release(&real->absent);
}

/* ---- folders ---- */

/* The target of a link, a new string; NULL: it does not exist. */
static char *target_new(const char *link)
{
    char *target = realpath(link, NULL);
    if (target && strcmp(target, "/") == 0)
        target[0] = '\0';
    return target;
}

/* The number of an existing folder, or NAME_NONE. */
static size_t folder_look(struct real_paths *real, const struct buf *path)
{
    char byte, *target = NULL;
    bool is_link = readlink(buf_text(path), &byte, 1) >= 0;
    if (is_link)
        target = target_new(buf_text(path));
    if (is_link ? !target : errno != EINVAL)
        return NAME_NONE;
    if (real->there.len == real->cap) {
        real->cap = MAX(2 * real->cap, (size_t)64);
        real->targets = xrealloc(real->targets, real->cap * sizeof(*real->targets));
    }
    real->targets[real->there.len] = target;
    real->has_links = real->has_links || is_link;
    return name_index_add(&real->there, buf_str(path));
}

/* Follows `path` if it is a link; the links above it were followed before. False: it does not exist. */
static bool folder_enter(struct real_paths *real, struct buf *path)
{
    size_t i = name_index_find(&real->there, buf_str(path));
    if (i == NAME_NONE && real->absent.len > 0 && str_equal(buf_str(&real->absent), buf_str(path)))
        return false;
    if (i == NAME_NONE)
        i = folder_look(real, path);
    if (i == NAME_NONE) {
        buf_reset(&real->absent);
        buf_add_str(&real->absent, buf_str(path));
        return false;
    }
    if (real->targets[i]) {
        buf_reset(path);
        buf_add_text(path, real->targets[i]);
    }
    return true;
}

/* ---- paths ---- */

/* Removes the last part of a path. */
static void part_drop(struct buf *path)
{
    while (path->len > 0 && path->at[path->len - 1] != '/')
        path->len--;
    path->len -= path->len > 0;
    if (path->at)
        path->at[path->len] = '\0';
}

/* Adds the part, or goes along "." and "..". True if it is a name. */
static bool part_add(struct buf *path, struct str part)
{
    if (part.len == 0 || str_equal(part, STR(".")))
        return false;
    if (str_equal(part, STR(".."))) {
        part_drop(path);
        return false;
    }
    buf_add_char(path, '/');
    buf_add_str(path, part);
    return true;
}

/* real NULL: no link is followed. *is_there: the beginning of the path that is in `path` exists. */
static void parts_add(struct real_paths *real, struct str text, bool follows_last, bool *is_there,
                      struct buf *path)
{
    struct str part;
    while (text.len > 0 && text.at[text.len - 1] == '/')
        text.len--;
    const char *end = text.at + text.len;
    while (text.len > 0 && str_next(&text, '/', &part)) {
        bool is_last = part.at + part.len == end, is_name = part_add(path, part);
        if (is_name && real && *is_there && (follows_last || !is_last))
            *is_there = folder_enter(real, path);
        else if (!is_name && real) /* the parent may exist: the next name is looked up */
            *is_there = true;
    }
}

void real_path(struct real_paths *real, const char *cwd, const char *path, struct buf *out)
{
    bool is_there = true;
    buf_reset(out);
    if (path[0] != '/' && cwd)
        parts_add(real, str_of(cwd), true, &is_there, out);
    else if (path[0] != '/')
        parts_add(NULL, str_of(real->cwd ? real->cwd : ""), true, &is_there, out);
    parts_add(real, str_of(path), str_ends_with(str_of(path), STR("/")), &is_there, out);
}

void written_path(const struct real_paths *real, const char *cwd, const char *path, struct buf *out)
{
    const char *folder = cwd ? cwd : real->cwd ? real->cwd : "";
    bool is_there = false;
    buf_reset(out);
    if (path[0] != '/')
        parts_add(NULL, str_of(folder), true, &is_there, out);
    parts_add(NULL, str_of(path), false, &is_there, out);
}
