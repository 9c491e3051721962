/* SPDX-License-Identifier: Apache-2.0
 *
 * The run's folder and its authoritative record, run.db (SQLite with a WAL; on network file systems with a rollback
 * journal and exclusive locking). Results are bytes in parts/. A row of `ranges` names consecutive items whose
 * results are in [offset, offset+bytes) of a part, in order, one per line. The tail of a part that no row names is
 * ignored, which makes kill -9 harmless. There is one row per range, not per item.
 *
 * A store is used by one thread at a time; the caller serialises.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/lock.h"

struct store;

struct range_row {
    uint64_t first, count;
    uint32_t part; /* parts/<part>.part */
    uint64_t offset, bytes;
    uint32_t seat;       /* the seat that computed it, for reports */
    uint32_t attempt;    /* highest attempt among its items */
    const char *metrics; /* JSON object with the sums over the range, or NULL */
};

/* An item that was set aside. Strings are borrowed during the call. */
struct failed_item_row {
    uint64_t item;
    uint32_t attempts;
    const char *reason;      /* "killed its worker (SIGSEGV) on gpu 0 and gpu 1" */
    const char *stderr_tail; /* may be NULL */
    const char *position;    /* "train.jsonl line 812" */
};

/* One process of a worker. */
struct attempt_row {
    uint64_t id; /* the part number it writes */
    uint32_t seat;
    const char *label;
    pid_t pid;
    int64_t started_wall_ms, ended_wall_ms; /* ended 0: running */
    const char *end;                        /* "status 7", "SIGSEGV", "stopped", NULL */
    uint64_t items_done;
    uint64_t load_ms, busy_ms;
    const char *times; /* a struct hist as text */
    uint64_t mem_peak_bytes;
};

struct event_row {
    int64_t wall_ms;
    const char *kind; /* "died", "oom", "bench" …: see docs/run-folder.md */
    const char *json; /* details, an object */
};

struct sample_row {
    int64_t wall_ms;
    uint32_t device;
    uint64_t mem_used_bytes;
    int busy_percent, temperature_c;
    double power_w;
};

enum store_mode {
    STORE_CREATE,
    STORE_RESUME,
    STORE_READ,
    STORE_PEEK
};

/*
 * Opens run.db in the run folder `dir` (absolute).
 *
 *   CREATE  makes the folder, parts/, logs/ and the schema, and takes the run's lock. Leaves no
 *           run.db if it fails. ERR_USAGE if there is a run already; a run that was killed before
 *           it had a manifest or a part does not count.
 *   RESUME  takes the run's lock.
 *   READ    never writes, and works while a run is going on.
 *   PEEK    a short look at a run whose lock nobody holds. It leaves the folder as it is, while
 *           SQLite's ordinary readers leave -wal and -shm files.
 *
 * ERR_UNAVAILABLE, naming the holder's pid, if another muster has the lock; ERR_DATA if the file is
 * not a database of muster's, or has a schema that is newer than this program.
 */
MUST_CHECK int store_open(struct store **out, const char *dir, enum store_mode mode,
                          struct err *err);
void store_close(struct store *store);
const char *store_dir(const struct store *store);
/* run_lock_place() of the folder, for a store that has the run's lock. */
enum run_place store_place(const struct store *store, char **now_at);
/* True when the folder lies on a network file system and the careful settings are in use. */
bool store_is_networked(const struct store *store);

/*
 * A group commit: all rows or none. With ranges or failed items among the rows, the commit is
 * durable when store_commit() returns; attempts, events, samples and facts alone become durable
 * with the next durable commit, or at store_close(). ERR_DATA for a range that overlaps a committed
 * one or contains an item that was set aside. ERR_STOPPED for a full disk; the store stays usable
 * and the same batch may be tried again.
 */
struct store_batch {
    const struct range_row *ranges;
    size_t n_ranges;
    const struct failed_item_row *failed_items;
    size_t n_failed_items;
    const struct attempt_row *attempts; /* inserted, or replaced by id */
    size_t n_attempts;
    const struct event_row *events;
    size_t n_events;
    const struct sample_row *samples;
    size_t n_samples;
    /* Do not commit yet: the rows, and facts set meanwhile, can be read through this store only,
     * and are gone if the process dies before store_commit_held(). For the last batch of a run,
     * whose results are about to be synced and put in place as the output. */
    bool is_held;
};
MUST_CHECK int store_commit(struct store *store, const struct store_batch *batch, struct err *err);

/*
 * Commits what a held batch began. This commit is durable if an earlier batch was durable, or with results_are_here:
 * there is no copy of the results outside of the run's folder. Otherwise it is a short run, whose output was put in
 * place before anything else was synced: a power cut may lose the record of the run, but never the output. Does
 * nothing if no batch is held.
 */
MUST_CHECK int store_commit_held(struct store *store, bool results_are_here, struct err *err);

/* Makes durable what was committed so far. */
MUST_CHECK int store_sync(struct store *store, struct err *err);

/* Small facts about the run as a whole: "state", "items", "exit", "output", "seed" … */
MUST_CHECK int store_set(struct store *store, const char *key, const char *value, struct err *err);
/* *out is a new string, or NULL where there is no such fact. */
MUST_CHECK int store_get(struct store *store, const char *key, char **out, struct err *err);
/* Forgets all items that were set aside (resume --retry-failed). *n_out: their number. */
MUST_CHECK int store_clear_failed_items(struct store *store, uint64_t *n_out, struct err *err);
/* Forgets the result of an item, if there is one, so that the item is done again. ERR_DATA if the
 * row holds other items as well; then nothing is forgotten. */
MUST_CHECK int store_forget(struct store *store, uint64_t item, struct err *err);
/* The same for an item that was set aside. */
MUST_CHECK int store_forget_failed_item(struct store *store, uint64_t item, struct err *err);
/* A free part number, from 1, a new one at each call: parts that earlier processes of the run wrote
 * are never appended to. */
uint64_t store_next_part(struct store *store);

/* The items that have a result, as disjoint intervals in ascending order, adjacent ones joined.
 * Items that were set aside are not among them: see failed_item_reader_open(). */
struct item_span {
    uint64_t first, count;
};
/* *out: malloc'ed array. 1,000,000 rows in well under 2 s and 16 bytes an interval. */
MUST_CHECK int store_done(struct store *store, struct item_span **out, size_t *n_out,
                          struct err *err);

/* Streaming readers, one per table; *_next returns 1 with a row, 0 at the end, negative on error.
 * The texts of a row are valid until the next call. */
struct row_reader;
void row_reader_close(struct row_reader *reader);

enum range_order {
    RANGES_BY_ITEM,
    RANGES_AS_COMMITTED
};
MUST_CHECK int range_reader_open(struct row_reader **out, struct store *store,
                                 enum range_order order, struct err *err);
int range_reader_next(struct row_reader *reader, struct range_row *row, struct err *err);

MUST_CHECK int failed_item_reader_open(struct row_reader **out, struct store *store,
                                       struct err *err);
int failed_item_reader_next(struct row_reader *reader, struct failed_item_row *row,
                            struct err *err);

MUST_CHECK int attempt_reader_open(struct row_reader **out, struct store *store, struct err *err);
/* Fills only what a forecast needs of the row: id, seat, items_done, load_ms, busy_ms, times. */
int attempt_reader_next(struct row_reader *reader, struct attempt_row *row, struct err *err);

/* The events of one kind, in order. */
MUST_CHECK int event_reader_open(struct row_reader **out, struct store *store, const char *kind,
                                 struct err *err);
int event_reader_next(struct row_reader *reader, struct event_row *row, struct err *err);

/* How many events of one kind there are. */
MUST_CHECK int store_event_count(struct store *store, const char *kind, uint64_t *out,
                                 struct err *err);

/* Checks that each part exists and is at least as long as the rows say. ERR_DATA if not: results
 * are lost. */
MUST_CHECK int store_check_parts(struct store *store, struct err *err);

struct store_totals {
    uint64_t items_done, items_failed, ranges, attempts;
    uint64_t result_bytes;
};
MUST_CHECK int store_totals(struct store *store, struct store_totals *out, struct err *err);
