/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of resuming: run.db with 10,000,000 items in 1,000,000 ranges is written (in random
 * order of blocks, every 97th range missing), then opened as `muster resume` does and asked what is
 * done. Bar: at most 2 s and 128 MiB for the opening.
 *
 *     bench_ledger FOLDER [RANGES]          in a folder that is made and removed
 *     bench_ledger --fill FOLDER RANGES     the same into the folder of a run that has begun, with
 *                                           results of two bytes an item in its parts
 */

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "store/store.h"

enum {
    ITEMS_A_RANGE = 10,
    RANGES_A_COMMIT = 100,
    HOLE_EVERY = 97,
    PARTS = 8,
    FILL_BYTES = 2 * ITEMS_A_RANGE
};

static int ledger_write(const char *dir, uint64_t n_ranges, struct err *err)
{
    struct store *store;
    int rc = store_open(&store, dir, STORE_CREATE, err);
    if (rc)
        return rc;
    struct range_row rows[RANGES_A_COMMIT];
    uint64_t n_commits = n_ranges / RANGES_A_COMMIT, begin_ns = clock_now_ns();
    for (uint64_t i = 0; rc == 0 && i < n_commits; i++) {
        /* Workers commit near the front, out of order within a window of 64 blocks. */
        uint64_t block = (i & ~63ull) | ((i * 37) & 63), n_rows = 0;
        if ((i | 63) >= n_commits)
            block = i;
        for (uint64_t j = block * RANGES_A_COMMIT; j < (block + 1) * RANGES_A_COMMIT; j++)
            if (j % HOLE_EVERY)
                rows[n_rows++] = (struct range_row){.first = j * ITEMS_A_RANGE,
                                                    .count = ITEMS_A_RANGE,
                                                    .part = (uint32_t)(j % 8) + 1,
                                                    .offset = j * 900,
                                                    .bytes = 900};
        rc = store_commit(store, &(struct store_batch){.ranges = rows, .n_ranges = n_rows}, err);
    }
    double seconds = (double)(clock_now_ns() - begin_ns) / 1e9;
    printf("write   %.2f s, %.0f durable commits/s, %.0f ranges/s\n", seconds,
           (double)n_commits / seconds, (double)n_ranges / seconds);
    store_close(store);
    return rc;
}

static int rows_read(struct store *store, enum range_order order, const char *name, struct err *err)
{
    struct row_reader *reader;
    struct range_row row;
    uint64_t begin_ns = clock_now_ns(), n_rows = 0;
    int rc = range_reader_open(&reader, store, order, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0)
        n_rows++;
    row_reader_close(reader);
    printf("%s %.3f s, %llu rows\n", name, (double)(clock_now_ns() - begin_ns) / 1e9,
           (unsigned long long)n_rows);
    return rc;
}

static int ledger_read(const char *dir, struct err *err)
{
    struct store *store;
    struct item_span *spans = NULL;
    size_t n_spans = 0;
    uint64_t begin_ns = clock_now_ns();
    int rc = store_open(&store, dir, STORE_RESUME, err);
    if (rc)
        return rc;
    rc = store_done(store, &spans, &n_spans, err);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("resume  %.3f s, %zu intervals, peak %ld MiB\n",
           (double)(clock_now_ns() - begin_ns) / 1e9, n_spans, usage.ru_maxrss / 1024);
    free(spans);
    if (rc == 0)
        rc = rows_read(store, RANGES_BY_ITEM, "by item", err);
    if (rc == 0)
        rc = rows_read(store, RANGES_AS_COMMITTED, "as committed", err);
    getrusage(RUSAGE_SELF, &usage);
    printf("peak    %ld MiB\n", usage.ru_maxrss / 1024);
    store_close(store);
    return rc;
}

/* The bytes of the parts that hold range 0, 8, 16 …; 1, 9, 17 …; and so on. */
static int parts_fill(const char *dir, uint64_t first_part, uint64_t n_ranges, struct err *err)
{
    static const char results[] = "0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n";
    struct buf bytes = BUF_INIT;
    int rc = 0;
    for (uint64_t i = 0; i < (n_ranges + PARTS - 1) / PARTS; i++)
        buf_add(&bytes, results, FILL_BYTES);
    for (uint64_t i = 0; rc == 0 && i < PARTS; i++) {
        cleanup_free char *path =
            xasprintf("%s/parts/%llu.part", dir, (unsigned long long)(first_part + i));
        rc = file_replace(path, buf_str(&bytes), err);
    }
    buf_release(&bytes);
    return rc;
}

static int run_fill(const char *dir, uint64_t n_ranges, struct err *err)
{
    struct store *store;
    struct range_row rows[RANGES_A_COMMIT];
    int rc = store_open(&store, dir, STORE_RESUME, err);
    if (rc)
        return rc;
    uint64_t first_part = store_next_part(store);
    for (uint64_t i = 1; i < PARTS; i++)
        (void)store_next_part(store);
    rc = parts_fill(dir, first_part, n_ranges, err);
    for (uint64_t begin = 0; rc == 0 && begin < n_ranges; begin += RANGES_A_COMMIT) {
        uint64_t n_rows = 0;
        for (uint64_t i = begin; i < MIN(begin + RANGES_A_COMMIT, n_ranges); i++)
            if (i % HOLE_EVERY)
                rows[n_rows++] = (struct range_row){.first = i * ITEMS_A_RANGE,
                                                    .count = ITEMS_A_RANGE,
                                                    .part = (uint32_t)(first_part + i % PARTS),
                                                    .offset = i / PARTS * FILL_BYTES,
                                                    .bytes = FILL_BYTES};
        rc = store_commit(store, &(struct store_batch){.ranges = rows, .n_ranges = n_rows}, err);
    }
    store_close(store);
    return rc;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    uint64_t n_ranges = 1000000;
    if (argc == 4 && strcmp(argv[1], "--fill") == 0) {
        cleanup_free char *dir = path_absolute(argv[2]);
        int rc = u64_parse(str_of(argv[3]), 1, 1u << 30, &n_ranges, &err);
        rc = rc ? rc : run_fill(dir, n_ranges, &err);
        if (rc)
            fprintf(stderr, "bench_ledger: %s\n", err.text);
        return rc ? 1 : 0;
    }
    if (argc < 2 || (argc > 2 && u64_parse(str_of(argv[2]), 1, 1u << 30, &n_ranges, &err) != 0)) {
        fprintf(stderr, "usage: %s FOLDER [RANGES]   FOLDER is made and removed\n", argv[0]);
        return 2;
    }
    /* Each in its own process, so that the peak of reading is reading's. */
    pid_t writer = fork();
    if (writer == 0) {
        int rc = ledger_write(argv[1], n_ranges, &err);
        fprintf(stderr, "%s%s", err.text, rc ? "\n" : "");
        fflush(stdout);
        _exit(rc ? 1 : 0);
    }
    int status = 1;
    waitpid(writer, &status, 0);
    int rc = status ? ERR_FAILED : ledger_read(argv[1], &err);
    if (rc)
        fprintf(stderr, "bench_ledger: %s\n", err.text);
    if (remove_tree(argv[1], &err) != 0)
        fprintf(stderr, "bench_ledger: %s\n", err.text);
    return rc ? 1 : 0;
}
