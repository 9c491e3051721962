/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes files of shards whose programs ended well, but left files under other names than --collect
 * or --also said. A resume with corrected options finds these files, and runs no shard again for
 * that.
 *
 * The end of such a program is an event of the run. It holds the program's values and the time of
 * its start: a file that is older was not written by the program. A file that is found is committed
 * like a result: a line goes into a part, and a row names it.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/json_bytes.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "node/background.h"
#include "node/node.h"
#include "shard/shard.h"

/* ---- how a program ended ---- */

/* The values that differ between attempts at a shard. */
static const struct {
    const char *name;
    enum placeholder which;
} told[] = {
    {"gpu", PLACE_GPU},
    {"gpu_uuid", PLACE_GPU_UUID},
    {"batch", PLACE_BATCH},
    {"number", PLACE_ATTEMPT},
};

void shard_end_note(struct session *s, const struct shard_end *end)
{
    cleanup_buf struct buf json = BUF_INIT;
    buf_add_char(&json, '{');
    shard_members_add(shards_of(s), end->shard, &json);
    buf_addf(&json, ",\"since_ns\":%ld", end->since_ns);
    if (end->host) {
        buf_add_text(&json, ",\"host\":");
        buf_add_json(&json, str_of(end->host));
    }
    for (size_t i = 0; i < countof(told); i++) {
        buf_addf(&json, ",\"%s\":", told[i].name);
        buf_add_json(&json, end->values->of[told[i].which]);
    }
    buf_addf(&json, ",\"work\":{%.*s}}", (int)end->work_json.len, end->work_json.at);
    session_record_json(s, "shard", buf_text(&json));
}

/* What earlier sessions know of one shard. */
struct past {
    char *end; /* its latest event of this kind; NULL: no program for it has ended well */
    bool is_committed;
    char *metrics; /* from its row */
    char *why;     /* the reason why its files were not found */
    struct shard_result result;
};

static int ends_read(struct session *s, struct past *pasts, struct err *err)
{
    struct row_reader *reader;
    struct event_row row;
    struct str value;
    uint64_t shard;
    int rc = event_reader_open(&reader, session_store(s), "shard", err);
    if (rc)
        return rc;
    while ((rc = event_reader_next(reader, &row, err)) > 0) {
        struct str json = str_of(row.json ? row.json : "");
        if (!json_get(json, "shard", &value) || !json_to_u64(value, &shard) ||
            shard >= shards_of(s)->n_shards)
            continue;
        free(pasts[shard].end);
        pasts[shard].end = xstrdup(row.json);
    }
    row_reader_close(reader);
    return rc;
}

static int committed_read(struct session *s, struct past *pasts, struct err *err)
{
    struct row_reader *reader;
    struct range_row row;
    int rc = range_reader_open(&reader, session_store(s), RANGES_BY_ITEM, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0) {
        if (row.first >= shards_of(s)->n_shards)
            continue; /* shard_rows_read reports what is wrong */
        pasts[row.first].is_committed = true;
        pasts[row.first].metrics = row.metrics ? xstrdup(row.metrics) : NULL;
    }
    row_reader_close(reader);
    return rc;
}

static void pasts_free(struct session *s, struct past *pasts)
{
    for (uint64_t k = 0; k < shards_of(s)->n_shards; k++) {
        free(pasts[k].end);
        free(pasts[k].metrics);
        free(pasts[k].why);
        shard_result_free(shards_of(s), &pasts[k].result);
    }
    free(pasts);
}

/* ---- its files ---- */

/* False: the text is not one that muster writes. */
static bool values_recall(const struct session *s, uint64_t shard, const char *end,
                          struct template_values *values, struct buf texts[countof(told)],
                          struct buf *text)
{
    struct str value;
    shard_values(s, &(struct shard_at){.shard = shard}, values, text);
    for (size_t i = 0; i < countof(told); i++) {
        if (!json_get(str_of(end), told[i].name, &value) || !json_to_text(value, &texts[i]))
            return false;
        values->of[told[i].which] = (struct str){buf_text(&texts[i]), texts[i].len};
    }
    return true;
}

/* Checks that no other shard may own the file, which lies here or was fetched. */
static int file_judge(struct session *s, uint64_t shard, size_t kind, struct collected *found,
                      struct shard_file *out, struct err *err)
{
    uint64_t owner = shard_other_owner(s, shard, kind, found);
    int rc = owner == UINT64_MAX
                 ? 0
                 : fail(err, ERR_DATA, "%s matches %s, but it may be the file of shard %lu",
                        found->name, shard_kind_option(kind), owner);
    *out = collected_take(found);
    collected_release(found);
    return rc;
}

/* Counts the records of a fetched file on another thread. */
struct counting {
    struct background beside;
    const struct collect *ask;
    struct collected *found;
    int rc;
    struct err *err;
    bool is_over, is_closed;
};

static void count_run(void *context)
{
    struct counting *c = context;
    c->rc = collect_count(c->ask, c->found, c->err);
}

static void on_counted(void *context)
{
    ((struct counting *)context)->is_over = true;
}

static void on_closed(uv_handle_t *handle)
{
    ((struct counting *)handle->data)->is_closed = true;
}

/* Runs the loop until the count is done, because agents give up a head that is silent. */
static int fetched_count(struct session *s, const struct collect *ask, struct collected *found,
                         struct err *err)
{
    struct counting c = {.ask = ask, .found = found, .err = err};
    background_open(&c.beside, shell_uv_loop(session_shell(s)), &c);
    background_start(&c.beside, count_run, on_counted);
    for (bool is_closing = false; !c.is_closed;) {
        if (c.is_over && !is_closing) {
            background_close(&c.beside, on_closed);
            is_closing = true;
        }
        node_flush(shell_node(session_shell(s)));
        shell_turn(session_shell(s));
        node_look(shell_node(session_shell(s)));
    }
    return c.rc;
}

/* `fetched` is a file from another host. Its path is NULL if the file is looked for here. */
static int file_take(struct session *s, const struct shard_end *end, size_t kind,
                     struct collected *fetched, struct shard_file *out, struct err *err)
{
    const struct file_traces none = {0};
    cleanup_buf struct buf pattern = BUF_INIT;
    struct collect ask;
    struct collected found = {0};
    shard_ask(s, end->shard, kind, end->values, &pattern, &ask);
    if (fetched->path) {
        found = *fetched;
        *fetched = (struct collected){0};
        int rc = fetched_count(s, &ask, &found, err);
        if (rc) {
            collected_release(&found);
            return rc;
        }
        return file_judge(s, end->shard, kind, &found, out, err);
    }
    /* The time of a file that was fetched before is by the clock of this machine. */
    ask.left.since_ns = end->host && !ask.left.pattern ? 0 : end->since_ns;
    int rc = collect_find(&ask, &none, &found, err);
    return rc ? rc : file_judge(s, end->shard, kind, &found, out, err);
}

static int end_files_take(struct session *s, const struct shard_end *end, struct shard_result *out,
                          struct err *err)
{
    size_t n_kinds = shards_of(s)->n_kinds;
    cleanup_free struct collected *fetched = xcalloc(n_kinds, sizeof(*fetched));
    bool is_shared = false;
    int rc = end->host ? shard_fetch_again(s, end, fetched, &is_shared, err) : 0;
    for (size_t kind = 0; rc == 0 && kind < n_kinds; kind++)
        rc = file_take(s, end, kind, &fetched[kind], &out->files[kind], err);
    for (size_t kind = 0; kind < n_kinds; kind++)
        collected_release(&fetched[kind]);
    return rc;
}

static int files_take(struct session *s, uint64_t shard, const struct past *past,
                      struct shard_result *out, struct err *err)
{
    struct template_values values;
    struct buf texts[countof(told)] = {BUF_INIT};
    cleanup_buf struct buf text = BUF_INIT, host = BUF_INIT;
    struct str value;
    uint64_t since_ns = 0;
    out->files = xcalloc(shards_of(s)->n_kinds, sizeof(*out->files));
    bool is_read = json_get(str_of(past->end), "since_ns", &value) &&
                   json_to_u64(value, &since_ns) &&
                   values_recall(s, shard, past->end, &values, texts, &text);
    bool is_away = json_get(str_of(past->end), "host", &value);
    is_read = is_read && (!is_away || json_to_text(value, &host));
    const struct shard_end end = {.shard = shard,
                                  .values = &values,
                                  .since_ns = (int64_t)since_ns,
                                  .host = is_away ? buf_text(&host) : NULL};
    int rc = is_read ? 0
                     : fail(err, ERR_DATA, "%s/run.db is damaged: the end of shard %lu",
                            session_run_dir(s), shard);
    if (rc == 0)
        rc = end_files_take(s, &end, out, err);
    for (size_t i = 0; i < countof(texts); i++)
        buf_release(&texts[i]);
    if (rc)
        shard_result_free(shards_of(s), out);
    return rc;
}

/* ---- all of them ---- */

static int refuse(const struct session *s, uint64_t shard, const char *why, struct err *err)
{
    cleanup_buf struct buf name = BUF_INIT;
    shard_name(shards_of(s), shard, &name);
    return fail(err, ERR_USAGE,
                "%s: %s; nothing was changed; to continue with the old names, resume without "
                "--collect, --also and --also-counted",
                buf_text(&name), why);
}

/*
 * A shard that has a result must have all its files again. Of the other shards, those that have all
 * their files are taken.
 */
static int results_find(struct session *s, struct past *pasts, uint64_t *n_found, struct err *err)
{
    uint64_t first_lacking = UINT64_MAX, n_ended = 0;
    for (uint64_t k = 0; k < shards_of(s)->n_shards; k++) {
        struct past *past = &pasts[k];
        struct err why = {0};
        if (!past->end && !past->is_committed)
            continue;
        n_ended++;
        int rc = past->end ? files_take(s, k, past, &past->result, &why)
                           : fail(&why, ERR_DATA, "when its program began is not known");
        /*
         * The result is stored at once, because the files of the next shards are compared with it.
         */
        shards_of(s)->results[k].files = past->result.files;
        if (rc == 0) {
            ++*n_found;
            continue;
        }
        if (rc == ERR_STOPPED)
            return wrap(err, fail(err, rc, "%s", why.text), "take the shards' files");
        if (past->is_committed)
            return refuse(s, k, why.text, err);
        past->why = xstrdup(why.text);
        first_lacking = MIN(first_lacking, k);
    }
    if (n_ended == 0)
        return fail(err, ERR_USAGE,
                    "no shard's program has ended well, so there are no files to take; leave "
                    "--collect and --also out");
    return *n_found == 0 ? refuse(s, first_lacking, pasts[first_lacking].why, err) : 0;
}

static void line_make(const struct session *s, uint64_t shard, const struct past *past,
                      struct buf *out)
{
    struct str work;
    buf_add_char(out, '{');
    shard_members_add(shards_of(s), shard, out);
    buf_add_char(out, ',');
    shard_files_add(shards_of(s), &past->result, out);
    if (json_get(str_of(past->end), "work", &work) && json_is_object(work) && work.len > 2) {
        buf_add_char(out, ',');
        buf_add(out, work.at + 1, work.len - 2);
    }
    buf_add_text(out, "}\n");
}

/*
 * Returns the metrics in the shard's row. A shard without a result has them only in the event of
 * its program's end.
 */
static char *metrics_recall(const struct past *past)
{
    struct str work, metrics;
    if (past->is_committed)
        return past->metrics ? xstrdup(past->metrics) : NULL;
    if (!json_get(str_of(past->end), "work", &work) || !json_get(work, "metrics", &metrics))
        return NULL;
    return xstrndup(metrics.at, metrics.len);
}

static int result_commit(struct session *s, uint64_t shard, const struct past *past,
                         struct err *err)
{
    cleanup_buf struct buf line = BUF_INIT;
    cleanup_free char *metrics = metrics_recall(past);
    struct range_row row = {.first = shard, .count = 1, .metrics = metrics, .attempt = 1};
    row.part = (uint32_t)store_next_part(session_store(s));
    cleanup_free char *path = xasprintf("%s/parts/%u.part", session_run_dir(s), row.part);
    line_make(s, shard, past, &line);
    row.bytes = line.len;
    int rc = file_replace(path, buf_str(&line), err);
    if (rc == 0 && past->is_committed)
        rc = store_forget(session_store(s), shard, err);
    if (rc == 0)
        rc = store_forget_failed_item(session_store(s), shard, err);
    if (rc == 0)
        rc = store_commit(session_store(s), &(struct store_batch){.ranges = &row, .n_ranges = 1},
                          err);
    return rc;
}

/* Stores the options for a later resume. */
static int words_write(struct session *s, struct err *err)
{
    const struct map_request *r = session_request(s);
    const struct {
        const char *option;
        const struct texts *texts;
    } lists[] = {{"--also", &r->shards.also}, {"--also-counted", &r->shards.also_counted}};
    cleanup_buf struct buf json = BUF_INIT;
    buf_add_text(&json, "[\"resume\"");
    if (r->shards.collect) {
        buf_add_text(&json, ",\"--collect\",");
        buf_add_json_bytes(&json, r->shards.collect);
    }
    for (size_t i = 0; i < countof(lists); i++)
        for (size_t k = 0; k < lists[i].texts->len; k++) {
            buf_addf(&json, ",\"%s\",", lists[i].option);
            buf_add_json_bytes(&json, lists[i].texts->at[k]);
        }
    buf_add_char(&json, ']');
    return store_set(session_store(s), "shard_words", buf_text(&json), err);
}

static int results_commit(struct session *s, struct past *pasts, struct err *err)
{
    int rc = store_set(session_store(s), "shard_words_taken", "0", err);
    if (rc == 0)
        rc = words_write(s, err);
    for (uint64_t k = 0; rc == 0 && k < shards_of(s)->n_shards; k++) {
        cleanup_buf struct buf name = BUF_INIT;
        shard_name(shards_of(s), k, &name);
        if (pasts[k].result.files)
            rc = result_commit(s, k, &pasts[k], err);
        else if (pasts[k].why)
            log_add(session_log(s), LOG_WARN, "map", "%s was not taken: %s", buf_text(&name),
                    pasts[k].why);
    }
    return rc ? rc : store_set(session_store(s), "shard_words_taken", "1", err);
}

int shards_retake(struct session *s, struct err *err)
{
    struct past *pasts = xcalloc(shards_of(s)->n_shards, sizeof(*pasts));
    uint64_t n_found = 0;
    int rc = ends_read(s, pasts, err);
    if (rc == 0)
        rc = committed_read(s, pasts, err);
    if (rc == 0)
        rc = results_find(s, pasts, &n_found, err);
    memset(shards_of(s)->results, 0, shards_of(s)->n_shards * sizeof(*shards_of(s)->results));
    if (rc == 0)
        rc = results_commit(s, pasts, err);
    if (rc == 0)
        log_add(session_log(s), LOG_INFO, "map",
                "the files of %lu of %lu shards are taken as they are", n_found,
                shards_of(s)->n_shards);
    pasts_free(s, pasts);
    return rc;
}

/* ---- what the run is told from now on ---- */

char **shard_words_read(const char *run_dir, bool *are_taken)
{
    struct store *store;
    cleanup_free char *json = NULL, *taken = NULL;
    char **words = NULL;
    size_t n_words = 0;
    bool is_begun = false;
    if (store_open(&store, run_dir, STORE_PEEK, NULL) != 0)
        return NULL; /* the resume itself will report the error in the folder */
    int rc = store_get(store, "shard_words", &json, NULL);
    if (rc == 0)
        rc = store_get(store, "shard_words_taken", &taken, NULL);
    store_close(store);
    *are_taken = taken && strcmp(taken, "1") == 0;
    struct str rest = str_of(rc == 0 && json ? json : "[]"), element;
    while (json_element(&rest, &is_begun, &element)) {
        struct buf word = BUF_INIT;
        words = xrealloc(words, (n_words + 2) * sizeof(*words));
        words[n_words++] = json_to_bytes(element, &word) ? buf_steal(&word) : xstrdup("");
        words[n_words] = NULL;
        buf_release(&word);
    }
    return words;
}
