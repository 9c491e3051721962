/* SPDX-License-Identifier: Apache-2.0 */
#include "data/split/split_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"

/* The lines that follow end with a NUL, because a name may have a newline in it. */
static const char head[] =
    "Parts that muster split was about to name; the next cut into these names clears up.\n";

enum {
    JOURNAL_BYTES_MAX = 64 << 20
};

/* Adds the mark of a file, which tells it from another file that gets the same name later. */
static void mark_add(struct buf *out, const char *name, const struct stat *st)
{
    buf_addf(out, "%lu %ld %ld.%09ld %s", (unsigned long)st->st_ino, (long)st->st_size,
             (long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, path_basename(name));
}

static int mark_compare(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

bool split_journal_has(const struct split_journal *journal, const char *path, const struct stat *st)
{
    cleanup_buf struct buf text = BUF_INIT;
    mark_add(&text, path, st);
    const struct str mark = buf_str(&text);
    return journal->n_left > 0 &&
           bsearch(&mark, journal->left, journal->n_left, sizeof(mark), mark_compare);
}

/*
 * The path of the file that the mark describes, a new string. NULL if the file of that name is now
 * another one.
 */
static char *marked_path_new(struct str mark, const char *folder)
{
    cleanup_buf struct buf now = BUF_INIT;
    struct str name = mark, field;
    struct stat st;
    for (int i = 0; i < 3; i++)
        (void)str_next(&name, ' ', &field);
    cleanup_free char *base = xstrndup(name.at ? name.at : "", name.len);
    cleanup_free char *path = path_join(folder, base);
    if (name.len == 0 || strchr(base, '/') || lstat(path, &st) != 0)
        return NULL;
    mark_add(&now, path, &st);
    return str_equal(buf_str(&now), mark) ? steal_ptr(&path) : NULL;
}

/* Finds the parts that are in place. If all of them are, the split was killed after its work was
 * done. */
static void parts_find(struct split_journal *journal, const char *folder)
{
    struct str rest = buf_str(&journal->text), mark;
    size_t n_marks = 0, cap = 0;
    rest = (struct str){rest.at + sizeof(head) - 1, rest.len - (sizeof(head) - 1)};
    while (str_next(&rest, '\0', &mark) && mark.len > 0) {
        cleanup_free char *path = marked_path_new(mark, folder);
        n_marks++;
        if (!path)
            continue;
        if (journal->n_left == cap)
            journal->left = xrealloc(journal->left, (cap = 2 * cap + 16) * sizeof(*journal->left));
        journal->left[journal->n_left++] = mark;
    }
    if (journal->n_left == n_marks)
        journal->n_left = 0;
    if (journal->n_left > 0)
        qsort(journal->left, journal->n_left, sizeof(*journal->left), mark_compare);
}

int split_journal_read(struct split_journal *journal, const char *path, const char *folder,
                       struct err *err)
{
    *journal = (struct split_journal)SPLIT_JOURNAL_INIT;
    journal->path = path;
    if (!path)
        return 0;
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENAMETOOLONG ? fail_errno_as(err, ERR_USAGE, "%s", path) : 0;
    /* The journal names files that are removed, so it must not have been written by another
     * user. */
    int rc = ours_check_owner(path, err);
    if (rc == 0)
        rc = plain_file_open(path, &journal->fd, err);
    if (rc)
        return wrap(err, rc, "what an earlier cut left");
    if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail(err, ERR_USAGE, "another muster split is naming its parts: %s", path);
    rc = file_read_fd(journal->fd, path, JOURNAL_BYTES_MAX, &journal->text, err);
    if (rc == 0 && !str_starts_with(buf_str(&journal->text), STR(head)))
        rc = fail(err, ERR_USAGE,
                  "%s is there and is none of muster's; give the parts another name (-o)", path);
    if (rc == 0)
        parts_find(journal, folder);
    return rc;
}

int split_journal_clear(struct split_journal *journal, const char *folder, struct err *err)
{
    if (journal->fd < 0)
        return 0;
    for (size_t i = 0; i < journal->n_left; i++) {
        cleanup_free char *path = marked_path_new(journal->left[i], folder);
        if (path && unlink(path) != 0)
            return fail_errno(err, "remove %s", path);
    }
    if (unlink(journal->path) != 0)
        return fail_errno(err, "remove %s", journal->path);
    fd_close(&journal->fd);
    journal->n_left = 0;
    return fsync_parent(journal->path, err);
}

static int files_mark(struct buf *out, const struct outfile *files, const char *const *names,
                      size_t n_files, struct err *err)
{
    for (size_t i = 0; i < n_files; i++) {
        struct stat st;
        bool is_parked = files[i].fd < 0;
        if ((is_parked ? lstat(files[i].beside, &st) : fstat(files[i].fd, &st)) != 0)
            return fail_errno(err, "look at %s", names[i]);
        mark_add(out, names[i], &st);
        buf_add_char(out, '\0');
    }
    return 0;
}

int split_journal_begin(struct split_journal *journal, const struct outfile *files,
                        const char *const *names, size_t n_files, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (!journal->path || n_files < 2)
        return 0;
    buf_add_text(&text, head);
    int rc = files_mark(&text, files, names, n_files, err);
    if (rc == 0)
        rc = outfile_open(&journal->file, journal->path, false, err);
    if (rc == 0)
        rc = outfile_write(&journal->file, buf_str(&text), err);
    if (rc == 0)
        (void)flock(journal->file.fd,
                    LOCK_EX | LOCK_NB); /* some network file systems have no locks */
    if (rc == 0)
        rc = outfile_place(&journal->file, err);
    journal->is_placed = rc == 0;
    return rc ? rc : fsync_parent(journal->path, err);
}

int split_journal_end(struct split_journal *journal, struct err *err)
{
    if (journal->is_placed && unlink(journal->path) != 0 && errno != ENOENT)
        return fail_errno(err, "the parts are in place; remove %s", journal->path);
    journal->is_placed = false;
    return 0;
}

void split_journal_release(struct split_journal *journal)
{
    if (journal->is_placed)
        unlink(journal->path);
    outfile_close(&journal->file);
    fd_close(&journal->fd);
    buf_release(&journal->text);
    free(journal->left);
}
