/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of resuming: run.db with 10,000,000 items in 1,000,000 ranges is written (in random
 * order of blocks, every 97th range missing), then opened as `muster resume` does and asked what is
 * done. Bar: at most 2 s and 128 MiB for the opening.
 *
 *     bench_ledger FOLDER [RANGES]
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "store/store.h"

enum {
    ITEMS_A_RANGE = 10,
    RANGES_A_COMMIT = 100,
    HOLE_EVERY = 97
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
    struct range_reader *reader;
    struct range_row row;
    uint64_t begin_ns = clock_now_ns(), n_rows = 0;
    int rc = range_reader_open(&reader, store, order, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0)
        n_rows++;
    range_reader_close(reader);
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

int main(int argc, char **argv)
{
    struct err err = {0};
    uint64_t n_ranges = 1000000;
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
