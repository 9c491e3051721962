/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/gain.h"

#include <dirent.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "store/jobs.h"
#include "store/lock.h"
#include "store/runs.h"

static uint64_t items_count(const char *run_dir)
{
    struct run_summary run = {0};
    uint64_t n = 0;
    if (run_inspect(run_dir, &run, NULL) == 0)
        n = run.items_done + run.items_failed;
    run_summary_release(&run);
    return n;
}

static uint64_t attempts_count(const char *run_dir)
{
    struct store *store;
    struct row_reader *reader = NULL;
    struct job_attempt_row row;
    uint64_t n = 0;
    enum store_mode mode = run_is_locked(run_dir, NULL) ? STORE_READ : STORE_PEEK;
    if (store_open(&store, run_dir, mode, NULL) != 0)
        return 0;
    if (job_attempt_reader_open(&reader, store, NULL) == 0)
        while (job_attempt_reader_next(reader, &row, NULL) > 0)
            n += row.is_well;
    row_reader_close(reader);
    store_close(store);
    return n;
}

static uint64_t runs_count(const char *root)
{
    struct run_names runs;
    uint64_t n = 0;
    if (runs_list(root, &runs, NULL) != 0)
        return 0;
    for (size_t i = 0; i < runs.len; i++) {
        cleanup_free char *run = path_join(root, runs.at[i]);
        n += items_count(run);
    }
    run_names_release(&runs);
    return n;
}

/* The gain of the runs of a graph's jobs that are muster commands: these are in runs/<job>-<digest>/. */
static uint64_t runs_below_count(const char *run_dir)
{
    cleanup_free char *below = path_join(run_dir, "runs");
    uint64_t n = 0;
    DIR *folder = opendir(below);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        cleanup_free char *of_job = path_join(below, entry->d_name);
        n += entry->d_name[0] != '.' ? runs_count(of_job) : 0;
    }
    closedir(folder);
    return n;
}

static bool is_graph(const char *run_dir)
{
    struct run_summary run = {0};
    bool is = run_inspect(run_dir, &run, NULL) == 0 && run_is_graph(&run);
    run_summary_release(&run);
    return is;
}

uint64_t gain_count(const char *run_dir)
{
    return is_graph(run_dir) ? attempts_count(run_dir) + runs_below_count(run_dir)
                             : items_count(run_dir);
}
