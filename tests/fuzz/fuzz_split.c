/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, split into parts. What is accepted gives parts that are accepted in their turn,
 * with as many records as was said, and all of them; windows of any size give the same. The
 * first byte chooses format and way, the second how many.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/xalloc.h"
#include "data/container.h"
#include "data/split/split_impl.h"

struct file {
    int fd;
    char path[64];
    const char *paths[1];
};

static void file_open(struct file *file)
{
    file->fd = memfd_create("fuzz", MFD_CLOEXEC);
    ASSERT(file->fd >= 0);
    snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
    file->paths[0] = file->path;
}

/* A line that stands first in a part may begin as a mark or a container does, and is no such record then. */
static bool begins_with_mark(const struct file *file)
{
    char head[CONTAINER_HEAD_BYTES];
    ssize_t len = pread(file->fd, head, sizeof(head), 0);
    const struct str text = {head, len > 0 ? (size_t)len : 0};
    return fuzz_has_mark(text) || container_refuse("part", text, false, NULL) != 0;
}

/* The part as a file: it is one of its format, with that many records. */
static void part_check(struct split *split, struct split_part *part)
{
    struct err err = {0};
    struct file file;
    file_open(&file);
    struct outfile out = {.fd = file.fd, .name = "part", .is_direct = true};
    if (split_copy(split, part, &out, &err) || outfile_finish(&out, false, &err))
        BUG("accepted, then not written: %s", err.text);
    ASSERT((uint64_t)lseek(file.fd, 0, SEEK_END) == part->n_bytes);
    const struct split_opts opts = {
        .paths = file.paths, .n_paths = 1, .format = split_format(split), .n_parts = 1};
    struct split *again = NULL;
    bool is_marked = part->first > 0 && begins_with_mark(&file);
    if (!is_marked && (split_open(&again, &opts, &err) || split_check(again, &err)))
        BUG("a part is malformed: %s", err.text);
    ASSERT(is_marked ||
           (split_n_records(again) == part->n_records && split_n_terminated(again) == 0));
    split_close(again);
    out.fd = -1;
    outfile_close(&out);
    close(file.fd);
}

static int split_look(struct split **split, const struct split_opts *opts, size_t window_bytes)
{
    struct err err = {0};
    int rc = split_open_tuned(split, opts, window_bytes, &err);
    if (rc == 0)
        rc = split_check(*split, &err);
    if (rc && (!err.text[0] || strstr(err.text, "changed while"))) /* nobody changes it */
        BUG("refused: %s", err.text);
    return rc;
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    uint64_t count = 1 + fuzz_choice(&text) % 40, sum = 0;
    struct file file;
    struct split *small = NULL, *large = NULL;
    file_open(&file);
    struct split_opts opts = {.paths = file.paths,
                              .n_paths = 1,
                              .format = (enum record_format)(FORMAT_LINES + choice % 5)};
    *(choice / 5 % 3 == 0   ? &opts.n_parts
      : choice / 5 % 3 == 1 ? &opts.records_max
                            : &opts.bytes_max) = count;
    if (write_all(file.fd, text.at, text.len, NULL) == 0) {
        int rc = split_look(&small, &opts, SCAN_BLOCK_BYTES);
        ASSERT(split_look(&large, &opts, WINDOW_BYTES) == rc);
        for (size_t i = 0; rc == 0 && i < small->n_parts; i++) {
            ASSERT(small->n_parts == large->n_parts);
            ASSERT(memcmp(&small->parts[i], &large->parts[i], sizeof(*small->parts)) == 0);
            ASSERT(small->parts[i].first == sum);
            sum += small->parts[i].n_records;
            part_check(small, &small->parts[i]);
        }
        ASSERT(rc || sum == split_n_records(small));
    }
    split_close(small);
    split_close(large);
    close(file.fd);
    return 0;
}
