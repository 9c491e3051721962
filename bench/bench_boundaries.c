/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast record ends are found: source_scan over a CSV file with quoted newlines against read()
 * of the same file in the same process, as `cat` does it; then the way of plain lines out again.
 *
 *     bench_boundaries [MiB] [ROUNDS]      default 256 and 5
 *
 * One line a round: the case, tab, GB/s of cat, of read(), of the scan, of the lines out, and the
 * records.
 * The bar: 60 % of cat's speed. Files lie in TMPDIR or /tmp and are removed.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "data/source.h"

extern char **environ;

enum {
    CAT_BYTES = 128 * 1024
};

static void must(int rc, const struct err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench_boundaries: %s\n", err->text);
    exit(err_exit_status(rc));
}

/* A file of about `bytes` of the given rows, already without a name when this returns. */
static char *file_make(const char *rows, size_t bytes)
{
    const char *tmp = getenv("TMPDIR");
    char *path = xasprintf("%s/muster-bench-XXXXXX.csv", tmp ? tmp : "/tmp");
    struct err err = {0};
    struct buf block = BUF_INIT;
    int fd = mkostemps(path, 4, O_CLOEXEC);
    if (fd < 0)
        must(fail_errno(&err, "create %s", path), &err);
    while (block.len < 1 << 20)
        buf_add_text(&block, rows);
    must(write_all(fd, "a,b,c\n", 6, &err), &err);
    for (size_t done = 0; done < bytes; done += block.len)
        must(write_all(fd, block.at, block.len, &err), &err);
    buf_release(&block);
    close(fd);
    return path;
}

static double cat_seconds(const char *path)
{
    const char *argv[] = {"cat", path, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 1;
    uint64_t begin = clock_now_ns();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, "cat", &actions, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
        waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0)
        must(fail(NULL, ERR_FAILED, "cat"), &(struct err){.text = "cat failed"});
    return (double)(clock_now_ns() - begin) / 1e9;
}

static double read_seconds(const char *path, uint64_t *bytes)
{
    static char piece[CAT_BYTES];
    uint64_t begin = clock_now_ns();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *bytes = 0;
    for (ssize_t got; (got = read(fd, piece, sizeof(piece))) > 0;)
        *bytes += (uint64_t)got;
    close(fd);
    return (double)(clock_now_ns() - begin) / 1e9;
}

static struct source *scan(const char *path, enum record_format format, double *seconds)
{
    struct source *source = NULL;
    struct err err = {0};
    uint64_t begin = clock_now_ns();
    /* The rows are text: it is about boundaries, and nobody looks into the lines. */
    const struct source_opts opts = {
        .paths = &path, .n_paths = 1, .format = format, .is_raw = format == FORMAT_JSONL};
    must(source_open(&source, &opts, &err), &err);
    while (!source_is_complete(source))
        must(source_scan(source, 8 << 20, &err), &err);
    *seconds = (double)(clock_now_ns() - begin) / 1e9;
    return source;
}

/* Out again as lines, a few hundred a call, as workers are fed. */
static double lines_seconds(struct source *source)
{
    struct buf out = BUF_INIT;
    struct err err = {0};
    uint64_t begin = clock_now_ns();
    for (uint64_t first = 0, n_out; first < source_known(source); first += n_out) {
        buf_reset(&out);
        must(source_lines(source, first, source_known(source) - first, 64 * 1024, &out, &n_out,
                          &err),
             &err);
    }
    buf_release(&out);
    return (double)(clock_now_ns() - begin) / 1e9;
}

static void measure(const char *what, const char *rows, enum record_format format, size_t bytes,
                    uint64_t rounds)
{
    char *path = file_make(rows, bytes);
    for (uint64_t i = 0; i < rounds; i++) {
        double scan_s, lines_s = 0;
        uint64_t size;
        double cat_s = cat_seconds(path), read_s = read_seconds(path, &size);
        struct source *source = scan(path, format, &scan_s);
        if (format != FORMAT_CSV)
            lines_s = lines_seconds(source);
        double gb = (double)size / 1e9;
        printf("%s\t%.3f\t%.3f\t%.3f\t%.3f\t%lu\n", what, gb / cat_s, gb / read_s, gb / scan_s,
               lines_s > 0 ? gb / lines_s : 0, source_known(source));
        source_close(source);
    }
    unlink(path);
    free(path);
}

int main(int argc, char **argv)
{
    uint64_t mib = 256, rounds = 5;
    struct err err = {0};
    if (argc > 1)
        must(u64_parse(str_of(argv[1]), 1, 1 << 20, &mib, &err), &err);
    if (argc > 2)
        must(u64_parse(str_of(argv[2]), 1, 1000, &rounds, &err), &err);
    static const char *const csv =
        "1,\"a field with a\nnewline, a comma and \"\"quotes\"\"\",plain text of a "
        "row\n2,short,\"another, quoted\"\n";
    char line[102];
    memset(line, 'x', 99);
    memcpy(line + 99, "\n", 2);
    measure("csv with quoted newlines", csv, FORMAT_CSV, (size_t)mib << 20, rounds);
    measure("lines of 100 bytes", line, FORMAT_LINES, (size_t)mib << 20, rounds);
    measure("the same as jsonl",
            "{\"id\":17,\"text\":\"a sentence of some length in an object, to be read "
            "by a model, or two, or three\"}\n",
            FORMAT_JSONL, (size_t)mib << 20, rounds);
    return 0;
}
