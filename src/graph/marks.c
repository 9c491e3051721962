/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks of files as text, and whether the files are still as those marks say.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "graph/proof_impl.h"

enum {
    PATH_BYTES_MAX = 1 << 16
};

/* A path may have any bytes. One that is not UTF-8 is written in hexadecimal, since JSON would change it. */
static void path_format(const char *path, struct buf *out)
{
    bool is_text = utf8_is_valid(str_of(path));
    cleanup_buf struct buf hex = BUF_INIT;
    if (!is_text)
        buf_add_hex(&hex, str_of(path));
    buf_add_text(out, is_text ? "\"path\":" : "\"bytes\":");
    buf_add_json(out, is_text ? str_of(path) : buf_str(&hex));
}

void marks_format(const struct file_mark *marks, size_t n_marks, struct buf *out)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < n_marks; i++) {
        buf_add_text(out, i > 0 ? ",{" : "{");
        path_format(marks[i].path, out);
        buf_addf(out, ",\"size\":%lu,\"mtime_ns\":%ld,\"xxh3\":\"%016lx\"}", marks[i].n_bytes,
                 marks[i].mtime_ns, marks[i].hash);
    }
    buf_add_char(out, ']');
}

static bool path_parse(struct str object, char **out)
{
    cleanup_buf struct buf raw = BUF_INIT;
    cleanup_free char *bytes = json_text_new(object, "bytes", 2ul * PATH_BYTES_MAX);
    *out = json_text_new(object, "path", PATH_BYTES_MAX);
    if (!*out && bytes && buf_add_unhex(&raw, str_of(bytes)))
        *out = xstrdup(buf_text(&raw));
    return *out != NULL;
}

static bool number_parse(struct str object, const char *key, uint64_t *out)
{
    struct str value;
    return json_get(object, key, &value) && json_to_u64(value, out);
}

/* The path is a new string, also if the rest is malformed. */
static bool mark_parse(struct str object, struct file_mark *out)
{
    uint64_t mtime_ns = 0;
    cleanup_free char *hash = json_text_new(object, "xxh3", 64);
    *out = (struct file_mark){0};
    if (!path_parse(object, &out->path) || !hash || !number_parse(object, "size", &out->n_bytes) ||
        !number_parse(object, "mtime_ns", &mtime_ns))
        return false;
    out->mtime_ns = (int64_t)mtime_ns;
    out->hash = strtoull(hash, NULL, 16);
    return true;
}

void marks_paths(const char *text, struct name_index *out)
{
    struct str array = str_of(text), element;
    bool is_begun = false;
    if (!text || json_kind_of(array) != JSON_ARRAY || !json_is_value(array))
        return;
    while (json_element(&array, &is_begun, &element)) {
        cleanup_free char *path = NULL;
        if (path_parse(element, &path))
            name_index_number(out, str_of(path));
    }
}

static bool is_dated_as(const struct file_mark *now, const struct file_mark *before)
{
    return now->mtime_ns == before->mtime_ns &&
           (before->ctime_ns == 0 || now->ctime_ns == before->ctime_ns) &&
           (before->inodes == 0 || now->inodes == before->inodes);
}

enum mark_change mark_compare(const struct file_mark *before, const char *path,
                              const atomic_bool *is_given_up, struct file_mark *now)
{
    struct file_mark whole = {0};
    *now = (struct file_mark){.hash = before->hash};
    if (!path_exists(path))
        return MARK_GONE;
    if (mark_take(path, false, is_given_up, now, NULL) != 0)
        return MARK_UNKNOWN;
    if (now->n_bytes != before->n_bytes)
        return MARK_CHANGED;
    if (is_dated_as(now, before))
        return MARK_SAME;
    if (mark_take(path, true, is_given_up, &whole, NULL) != 0)
        return MARK_UNKNOWN;
    return whole.hash == before->hash ? MARK_SAME : MARK_CHANGED;
}

static bool is_file(const char *path, struct file_mark *now)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    *now = (struct file_mark){.n_bytes = (uint64_t)st.st_size,
                              .mtime_ns = nanoseconds(st.st_mtim),
                              .ctime_ns = nanoseconds(st.st_ctim),
                              .inodes = st.st_ino};
    return true;
}

bool mark_is_untouched(const struct file_mark *before, const char *path)
{
    struct file_mark now;
    return is_file(path, &now) && now.n_bytes == before->n_bytes && is_dated_as(&now, before);
}

bool mark_is_touched(const struct file_mark *before, const char *path)
{
    struct file_mark now;
    return is_file(path, &now) && !(now.n_bytes == before->n_bytes && is_dated_as(&now, before));
}

enum mark_change marks_renew(const char *text, char **path, struct file_mark *now, size_t n_now,
                             size_t *n_marks)
{
    enum mark_change change = MARK_SAME;
    struct str array = str_of(text), element;
    bool is_begun = false;
    *n_marks = 0;
    if (text && (json_kind_of(array) != JSON_ARRAY || !json_is_value(array)))
        return MARK_UNREADABLE;
    while (text && change == MARK_SAME && json_element(&array, &is_begun, &element)) {
        struct file_mark mark, renewed;
        change = mark_parse(element, &mark) ? mark_compare(&mark, mark.path, NULL, &renewed)
                                            : MARK_UNREADABLE;
        if (change != MARK_SAME)
            *path = steal_ptr(&mark.path);
        else if (*n_marks < n_now)
            now[*n_marks] = renewed;
        ++*n_marks;
        free(mark.path);
    }
    return change;
}

enum mark_change marks_compare(const char *text, char **path)
{
    size_t n_marks;
    return marks_renew(text, path, NULL, 0, &n_marks);
}
