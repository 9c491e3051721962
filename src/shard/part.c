/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that several runs share. Each run does a part of the shards (--part) in a folder and a
 * ledger of its own, and one run takes the results (--take). A shard that is taken is committed as
 * if it had been run here: its line goes into a part of the output, and a row names it. Its files
 * stay where they are. Shards that no run has done are left to do.
 */
#include <dirent.h>
#include <limits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/named_files.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "shard/shard.h"
#include "store/lock.h"
#include "store/manifest.h"
#include "store/runs.h"

bool shards_own(const struct session *s, struct item_span *out, uint64_t *n_shards)
{
    const struct shard_request *r = &session_request(s)->shards;
    if (r->n_parts == 0)
        return false;
    struct share share = share_of(shards_of(s)->n_shards, r->n_parts, r->part);
    *out = (struct item_span){share.start, share.count};
    *n_shards = shards_of(s)->n_shards;
    return true;
}

/* ---- is it a part of this work? ---- */

static bool lists_equal(const char *const *a, const char *const *b)
{
    while (a && b && *a && *b && strcmp(*a, *b) == 0)
        a++, b++;
    return a && b && !*a && !*b;
}

static bool is_number(struct store *store, const char *key, uint64_t wanted)
{
    cleanup_free char *value = NULL, *text = xasprintf("%lu", wanted);
    return store_get(store, key, &value, NULL) == 0 && value && strcmp(value, text) == 0;
}

/*
 * Compares a command with that of this run: the one that was typed, or in a resume also the one
 * with which the run began.
 */
static int command_compare(const struct session *s, const char *const *command, bool *is_same,
                           struct err *err)
{
    struct manifest own;
    *is_same = lists_equal(command, session_request(s)->command);
    if (*is_same || !session_is_resumed(s))
        return 0;
    int rc = manifest_read(session_run_dir(s), &own, err);
    if (rc)
        return rc;
    *is_same = lists_equal(command, own.command);
    manifest_release(&own);
    return 0;
}

static int work_compare(const struct session *s, struct store *store, const char *dir,
                        struct err *err)
{
    struct manifest manifest;
    bool is_same = false;
    int rc = manifest_read(dir, &manifest, err);
    if (rc)
        return rc;
    rc = command_compare(s, manifest.command, &is_same, err);
    is_same = is_same && manifest.seed == session_base_seed(s) &&
              is_number(store, "shard_items", shards_of(s)->n_items) &&
              is_number(store, "shards", shards_of(s)->n_shards);
    manifest_release(&manifest);
    return rc || is_same
               ? rc
               : fail(err, ERR_USAGE,
                      "--take: the run in %s is about other shards, another command or another "
                      "seed; nothing was taken",
                      dir);
}

/* ---- its results ---- */

/* Marks the shards for which this run has a result, or which it has set aside as failed. */
static int known_read(struct session *s, bool *known, struct err *err)
{
    struct row_reader *reader;
    struct range_row row;
    struct failed_item_row aside;
    int rc = range_reader_open(&reader, session_store(s), RANGES_BY_ITEM, err);
    while (rc == 0 && (rc = range_reader_next(reader, &row, err)) > 0) {
        for (uint64_t k = row.first; k < row.first + row.count && k < shards_of(s)->n_shards; k++)
            known[k] = true;
        rc = 0;
    }
    row_reader_close(reader);
    if (rc == 0)
        rc = failed_item_reader_open(&reader, session_store(s), err);
    if (rc)
        return rc;
    while ((rc = failed_item_reader_next(reader, &aside, err)) > 0)
        if (aside.item < shards_of(s)->n_shards)
            known[aside.item] = true;
    row_reader_close(reader);
    return rc;
}

static int result_take(struct session *s, const char *dir, const struct range_row *theirs,
                       struct err *err)
{
    cleanup_buf struct buf line = BUF_INIT;
    struct range_row row = {
        .first = theirs->first, .count = 1, .metrics = theirs->metrics, .attempt = theirs->attempt};
    int rc = shard_line_read(dir, theirs, shards_of(s)->n_shards, &line, err);
    if (rc)
        return rc;
    buf_add_char(&line, '\n');
    row.part = (uint32_t)store_next_part(session_store(s));
    row.bytes = line.len;
    cleanup_free char *path = xasprintf("%s/parts/%u.part", session_run_dir(s), row.part);
    rc = file_replace(path, buf_str(&line), err);
    return rc ? rc
              : store_commit(session_store(s), &(struct store_batch){.ranges = &row, .n_ranges = 1},
                             err);
}

static int results_take(struct session *s, struct store *store, const char *dir, bool *known,
                        struct err *err)
{
    struct row_reader *reader;
    struct range_row row;
    int rc = range_reader_open(&reader, store, RANGES_BY_ITEM, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0) {
        if (row.first < shards_of(s)->n_shards && known[row.first])
            continue;
        rc = result_take(s, dir, &row, err);
        if (rc)
            break;
        known[row.first] = true;
    }
    row_reader_close(reader);
    return rc;
}

static int failed_take(struct session *s, struct store *store, bool *known, struct err *err)
{
    struct row_reader *reader;
    struct failed_item_row row;
    if (session_request(s)->retry_failed)
        return 0;
    int rc = failed_item_reader_open(&reader, store, err);
    if (rc)
        return rc;
    while ((rc = failed_item_reader_next(reader, &row, err)) > 0) {
        if (row.item >= shards_of(s)->n_shards || known[row.item])
            continue;
        rc = store_commit(session_store(s),
                          &(struct store_batch){.failed_items = &row, .n_failed_items = 1}, err);
        if (rc)
            break;
        known[row.item] = true;
    }
    row_reader_close(reader);
    return rc;
}

static int run_take(struct session *s, const char *dir, bool *known, struct err *err)
{
    struct store *store;
    struct run_holder holder;
    int rc = run_check_ours(dir, err);
    if (rc == 0 && run_is_locked(dir, &holder))
        rc = fail(err, ERR_UNAVAILABLE, "--take: process %d on %s works on %s; wait for its end",
                  (int)holder.pid, holder.host, dir);
    if (rc == 0)
        rc = store_open(&store, dir, STORE_PEEK, err);
    if (rc)
        return rc;
    rc = work_compare(s, store, dir, err);
    if (rc == 0)
        rc = results_take(s, store, dir, known, err);
    if (rc == 0)
        rc = failed_take(s, store, known, err);
    store_close(store);
    return rc;
}

/* ---- all of them ---- */

/* Is it a link to another name of its folder, as `latest` is? Then that name is listed, unless it begins with a dot. */
static bool is_second_name(const char *path)
{
    char target[NAME_MAX + 1];
    ssize_t len = readlink(path, target, sizeof(target));
    return len > 0 && target[0] != '.' && !memchr(target, '/', (size_t)len);
}

/*
 * Lists the folders of --take that have a ledger, in the order of their names. This run is left out: it may be in
 * there as well.
 */
static int folders_list(const struct session *s, struct env_list *out, struct err *err)
{
    const char *dir = session_request(s)->shards.take;
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, alphasort);
    if (n < 0)
        return fail_errno_as(err, ERR_USAGE, "--take %s", dir);
    for (int i = 0; i < n; i++) {
        cleanup_free char *run = path_join(dir, entries[i]->d_name);
        cleanup_free char *ledger = path_join(run, "run.db");
        if (entries[i]->d_name[0] != '.' && path_exists(ledger) && !is_second_name(run) &&
            !path_is_same(run, session_run_dir(s)))
            env_list_add(out, path_absolute(run));
        free(entries[i]);
    }
    free(entries);
    return 0;
}

int shards_take(struct session *s, bool *has_taken, struct err *err)
{
    struct env_list runs = {0};
    if (!session_request(s)->shards.take)
        return 0;
    *has_taken = true;
    cleanup_free bool *known = xcalloc(shards_of(s)->n_shards, sizeof(*known));
    int rc = folders_list(s, &runs, err);
    if (rc == 0)
        rc = known_read(s, known, err);
    for (size_t i = 0; rc == 0 && i < runs.len; i++) {
        struct err why = {0};
        rc = run_take(s, runs.at[i], known, &why);
        if (rc == ERR_DATA) { /* this run was killed as it began, or its ledger is damaged */
            log_add(session_log(s), LOG_WARN, "map", "--take passes over %s: %s", runs.at[i],
                    why.text);
            rc = 0;
        }
        if (rc)
            *err = why;
    }
    if (rc == 0)
        log_add(session_log(s), LOG_INFO, "map", "the results of %zu run%s are taken from %s",
                runs.len, plural(runs.len), session_request(s)->shards.take);
    env_list_release(&runs);
    return rc;
}

void shards_taken_drop(const struct session *s)
{
    static const char *const kept[] = {"parts", "shard-input", "shard-output"};
    struct env_list runs = {0};
    struct err err = {0};
    if (!session_request(s)->shards.take || folders_list(s, &runs, &err) != 0)
        return;
    cleanup_free char *own = path_join(session_run_dir(s), "");
    for (size_t i = 0; i < runs.len; i++)
        for (size_t k = 0; k < countof(kept); k++) {
            cleanup_free char *path = path_join(runs.at[i], kept[k]);
            if (str_starts_with(str_of(path), str_of(own)) && remove_tree(path, &err) != 0)
                log_add(session_log(s), LOG_WARN, "map", "%s", err.text);
        }
    env_list_release(&runs);
}
