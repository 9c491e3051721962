/* SPDX-License-Identifier: Apache-2.0 */
#include "map/output_identity.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"

enum {
    NOTE_MAX_BYTES = 512 /* two lines */
};

/* Adds the properties that a file keeps when it is renamed. */
static void identity_add(const struct stat *st, struct buf *out)
{
    buf_addf(out, "device %lu inode %lu bytes %ld written %ld.%09ld\n", st->st_dev, st->st_ino,
             st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* The path of the note about one output; a run may have several. */
static char *note_path_new(const char *run_dir, size_t output)
{
    return output == 0 ? path_join(run_dir, "output.id")
                       : xasprintf("%s/output-%zu.id", run_dir, output);
}

/* Reads the note of the output, and the identity of the file at `path` now. False: one of them is missing. */
static bool both_read(const char *run_dir, size_t output, const char *path, struct buf *noted,
                      struct buf *found)
{
    cleanup_free char *note = note_path_new(run_dir, output);
    struct stat st;
    if (stat(path, &st) != 0 || plain_file_read(note, NOTE_MAX_BYTES, noted, NULL) != 0)
        return false;
    identity_add(&st, found);
    return true;
}

/* Adds the file at `path` if it is one that was noted. */
static bool noted_add(const char *run_dir, size_t output, const char *path, struct buf *out)
{
    cleanup_buf struct buf noted = BUF_INIT, found = BUF_INIT;
    if (!both_read(run_dir, output, path, &noted, &found))
        return false;
    bool is_noted = memmem(noted.at, noted.len, found.at, found.len) != NULL;
    if (is_noted)
        buf_add_str(out, buf_str(&found));
    return is_noted;
}

int output_identity_note(const char *run_dir, size_t output, const char *path, int fd,
                         struct err *err)
{
    cleanup_free char *note = note_path_new(run_dir, output);
    cleanup_buf struct buf text = BUF_INIT;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "look at the output");
    noted_add(run_dir, output, path, &text);
    identity_add(&st, &text);
    return file_replace_fast(note, buf_str(&text), err);
}

bool output_identity_is(const char *run_dir, size_t output, const char *path)
{
    cleanup_buf struct buf found = BUF_INIT;
    return noted_add(run_dir, output, path, &found);
}

bool output_identity_differs(const char *run_dir, size_t output, const char *path)
{
    cleanup_buf struct buf noted = BUF_INIT, found = BUF_INIT;
    if (!both_read(run_dir, output, path, &noted, &found))
        return false;
    const char *size_and_time = strstr(buf_text(&found), " bytes ");
    return !strstr(buf_text(&noted), size_and_time);
}

static char *begun_path_new(const char *run_dir, size_t output)
{
    return output == 0 ? path_join(run_dir, "folder.begun")
                       : xasprintf("%s/folder-%zu.begun", run_dir, output);
}

int output_folder_begin(const char *run_dir, size_t output, struct err *err)
{
    cleanup_free char *path = begun_path_new(run_dir, output);
    return file_replace(path, STR(""), err);
}

bool output_folder_is_begun(const char *run_dir, size_t output)
{
    cleanup_free char *path = begun_path_new(run_dir, output);
    return path_exists(path);
}
