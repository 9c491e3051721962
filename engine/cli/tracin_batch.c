/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_batch.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/batch_settings.h"
#include "cli/tracin_job.h"
#include "cli/tracin_tests.h"
#include "cli/triple_json.h"
#include "graph/lines.h"

enum {
    NAME_BYTES_MAX = 80 /* bytes of an entity's name in a file's name, which may have 255 in all */
};

static const char summary_name[] = "batch_tracin_summary.json";

enum fate {
    FATE_WAITS,
    FATE_LONELY,  /* no training triple is near the test triple */
    FATE_SKIPPED, /* its files are there already, or only the filter was wanted */
    FATE_DONE
};

struct batch_entry {
    char *base_name, *json, *csv, *filtered;
    struct triple triple;
    size_t index;
    enum fate fate;
};

struct batch {
    const struct tracin_request *ask;
    const struct app *app;
    const struct kge_data *data;
    struct tracin_spread *spread;
    struct batch_entry *entries;
    size_t n;
    uint64_t begin_ms;
};

/* ---- names ---- */

static void clean_add(struct buf *out, struct str name)
{
    size_t len = console_text_cut(name, NAME_BYTES_MAX);
    for (size_t i = 0; i < len; i++)
        buf_add_char(out, strchr(":/ ", name.at[i]) ? '_' : name.at[i]); /* NUL too */
}

char *tracin_base_name(size_t index, struct str head, struct str tail)
{
    struct buf name = BUF_INIT;
    buf_addf(&name, "triple_%03zu_", index);
    clean_add(&name, head);
    buf_add_char(&name, '_');
    clean_add(&name, tail);
    return buf_steal(&name);
}

static void entry_name(struct batch *batch, struct batch_entry *entry)
{
    const char *dir = batch->ask->output_dir;
    entry->base_name = tracin_base_name(entry->index, kge_entity(batch->data, entry->triple.head),
                                        kge_entity(batch->data, entry->triple.tail));
    entry->json = xasprintf("%s/%s_tracin.json", dir, entry->base_name);
    entry->csv = xasprintf("%s/%s_tracin.csv", dir, entry->base_name);
    entry->filtered =
        xasprintf("%s/filtered_training/%s_filtered_train.txt", dir, entry->base_name);
}

static void batch_release(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        free(batch->entries[i].base_name);
        free(batch->entries[i].json);
        free(batch->entries[i].csv);
        free(batch->entries[i].filtered);
    }
    free(batch->entries);
}

/* ---- what is there already ---- */

static bool ends_with_bracket(const char *path)
{
    char end[2] = {0};
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    return size >= 2 && pread(fd, end, 2, size - 2) == 2 && memcmp(end, "]\n", 2) == 0;
}

bool tracin_files_are_whole(const char *json, const char *csv, size_t n_influences)
{
    cleanup_lines struct lines lines = LINES_INIT;
    struct str line;
    int rc = lines_open(&lines, csv, NULL);
    while (rc == 0 && (rc = lines_next(&lines, &line, NULL)) > 0)
        rc = 0;
    return rc == 0 && lines.number == n_influences + 1 && lines.n_crlf == lines.number &&
           ends_with_bracket(json);
}

static size_t influences_expected(const struct batch *batch, const struct tracin_job_test *test)
{
    uint64_t top_k = batch->ask->top_k;
    return top_k > 0 ? MIN((size_t)top_k, test->n_train_indices) : test->n_train_indices;
}

static int exists_fail(const char *path, struct err *err)
{
    return fail(err, ERR_USAGE,
                "%s exists; --skip-existing goes on with what is missing, --force replaces it",
                path);
}

static const char *base_name_get(const void *context, size_t index)
{
    const struct batch *batch = context;
    size_t first = (size_t)batch->ask->start_index;
    return index >= first && index - first < batch->n ? batch->entries[index - first].base_name
                                                      : NULL;
}

/*
 * Checks the places of the outputs before anything is computed, so that a failure does not replace
 * the earlier summary.
 */
static int places_check(const struct batch *batch, struct err *err)
{
    const struct tracin_request *ask = batch->ask;
    const struct batch_names names = {base_name_get, batch};
    cleanup_free char *summary = path_join(ask->output_dir, summary_name);
    int rc = ask->skip_tracin ? 0 : batch_settings_check(ask, batch->data, &names, err);
    if (rc || ask->overwrite || ask->skip_existing || tracin_spread_may_replace(batch->spread))
        return rc;
    for (size_t i = 0; i < batch->n && !ask->skip_tracin; i++) {
        const struct batch_entry *entry = &batch->entries[i];
        const char *found = path_exists(entry->json) ? entry->json : entry->csv;
        if (path_exists(found))
            return exists_fail(found, err);
    }
    /* A batch that was interrupted has written a summary too. */
    return path_exists(summary) && !tracin_spread_goes_on(batch->spread) ? exists_fail(summary, err)
                                                                         : 0;
}

/* ---- the filter's files ---- */

static int filtered_write(const struct batch *batch, const struct batch_entry *entry,
                          const struct tracin_job_test *test, struct err *err)
{
    struct outfile file = OUTFILE_INIT;
    int rc = outfile_open(&file, entry->filtered, true, err);
    for (size_t i = 0; rc == 0 && i < test->n_train_indices; i++) {
        kge_triple_line(batch->data, batch->data->train.at[test->train_indices[i]], &file.pending);
        rc = outfile_pump(&file, err);
    }
    if (rc == 0)
        rc = outfile_place(&file, err);
    outfile_close(&file);
    return rc;
}

/* Decides the fate of each entry. The job keeps those entries that are to be computed. */
static int entries_sort(struct batch *batch, struct tracin_job *job, const bool *lonely,
                        struct err *err)
{
    size_t n_kept = 0;
    int rc = 0;
    for (size_t i = 0; i < batch->n; i++) {
        struct batch_entry *entry = &batch->entries[i];
        struct tracin_job_test *test = &job->tests[i];
        bool is_there =
            !lonely[i] && batch->ask->skip_existing &&
            tracin_files_are_whole(entry->json, entry->csv, influences_expected(batch, test));
        if (rc == 0 && !lonely[i])
            rc = filtered_write(batch, entry, test, err);
        entry->fate = lonely[i]                             ? FATE_LONELY
                      : is_there || batch->ask->skip_tracin ? FATE_SKIPPED
                                                            : FATE_WAITS;
        if (rc == 0 && entry->fate == FATE_WAITS) {
            test->own[0] = xstrdup(entry->json);
            test->own[1] = xstrdup(entry->csv);
            struct tracin_job_test kept = *test;
            *test = (struct tracin_job_test){0};
            job->tests[n_kept++] = kept;
        } else {
            free(test->train_indices);
            *test = (struct tracin_job_test){0};
        }
    }
    job->n_tests = n_kept;
    return rc;
}

/* ---- the summary ---- */

static void entry_json(struct json_out *json, const struct batch *batch,
                       const struct batch_entry *entry)
{
    const struct kge_data *data = batch->data;
    bool is_there = entry->fate == FATE_SKIPPED && !batch->ask->skip_tracin;
    json_out_element(json);
    json_out_open(json, '{');
    json_out_u64(json, "index", entry->index);
    json_out_key(json, "triple");
    json_out_open(json, '{');
    json_out_text(json, "head", kge_entity(data, entry->triple.head));
    json_out_text(json, "relation", kge_relation(data, entry->triple.relation));
    json_out_text(json, "tail", kge_entity(data, entry->triple.tail));
    json_out_close(json, '}');
    json_out_text(json, "base_name", str_of(entry->base_name));
    json_out_bool(json, "filtering_success", entry->fate != FATE_LONELY);
    json_out_key(json, "tracin_success");
    if (entry->fate == FATE_SKIPPED && !is_there)
        buf_add_text(json->to, "null");
    else
        buf_add_text(json->to, entry->fate == FATE_DONE || is_there ? "true" : "false");
    json_out_text(json, "filtered_train_file", str_of(entry->filtered));
    json_out_text(json, "output_csv", str_of(entry->csv));
    if (is_there) {
        json_out_bool(json, "skipped", true);
        json_out_text(json, "reason", STR("output_exists"));
    } else {
        json_out_text(json, "filter_method", STR("pyg"));
    }
    if (entry->fate == FATE_LONELY)
        json_out_text(json, "reason", STR("no training triple near it"));
    json_out_close(json, '}');
}

static size_t fate_count(const struct batch *batch, enum fate fate)
{
    size_t count = 0;
    for (size_t i = 0; i < batch->n; i++)
        count += batch->entries[i].fate == fate;
    return count;
}

static int summary_write(const struct batch *batch, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_free char *path = path_join(batch->ask->output_dir, summary_name);
    struct json_out json = {.to = &text, .is_indented = true};
    uint64_t elapsed_ms = clock_now_ms() - batch->begin_ms, elapsed_s = elapsed_ms / 1000;
    json_out_open(&json, '{');
    json_out_u64(&json, "total_triples", batch->n);
    json_out_u64(&json, "successful", fate_count(batch, FATE_DONE));
    json_out_u64(&json, "failed_filtering", fate_count(batch, FATE_LONELY));
    json_out_u64(&json, "failed_tracin", fate_count(batch, FATE_WAITS));
    json_out_u64(&json, "skipped", fate_count(batch, FATE_SKIPPED));
    json_out_text(&json, "filter_method", STR("pyg"));
    json_out_key(&json, "results");
    json_out_open(&json, '[');
    for (size_t i = 0; i < batch->n; i++)
        entry_json(&json, batch, &batch->entries[i]);
    json_out_close(&json, ']');
    json_out_double(&json, "elapsed_time_seconds", (double)elapsed_ms / 1000);
    json_out_key(&json, "elapsed_time_formatted");
    buf_addf(&text, "\"%luh %lum %lus\"", (unsigned long)(elapsed_s / 3600),
             (unsigned long)(elapsed_s / 60 % 60), (unsigned long)(elapsed_s % 60));
    json_out_close(&json, '}');
    buf_add_char(&text, '\n');
    return outfile_put(path, buf_str(&text), err);
}

/* ---- the run ---- */

static int entries_make(struct batch *batch, size_t **places, struct err *err)
{
    int rc = tracin_places_find(batch->ask, batch->data, batch->app, places, &batch->n, err);
    if (rc)
        return rc;
    batch->entries = xcalloc(batch->n, sizeof(*batch->entries));
    for (size_t i = 0; i < batch->n; i++) {
        struct batch_entry *entry = &batch->entries[i];
        entry->index = (*places)[i];
        entry->triple = batch->data->test.at[entry->index];
        entry_name(batch, entry);
    }
    return 0;
}

static int folders_prepare(const struct batch *batch, struct err *err)
{
    cleanup_free char *filtered = path_join(batch->ask->output_dir, "filtered_training");
    int rc = mkdir_parents(filtered, 0777, err);
    return rc == 0 && !batch->ask->skip_tracin ? batch_settings_begin(batch->ask, batch->data, err)
                                               : rc;
}

static void done_mark(struct batch *batch, const struct tracin_job *job)
{
    ASSERT(batch->entries);
    for (size_t i = 0; i < job->n_tests; i++)
        if (job->tests[i].is_done)
            batch->entries[job->tests[i].index - batch->ask->start_index].fate = FATE_DONE;
}

static int batch_compute(struct batch *batch, struct kge_models *models, const size_t *places,
                         struct err *err)
{
    const struct proximity_opts filter = kge_filter_opts(&batch->ask->filter);
    cleanup_free bool *lonely = xcalloc(batch->n, sizeof(*lonely));
    struct tracin_job job;
    tracin_job_init(&job, batch->app, batch->data, models, places, batch->n);
    job.own_forms[0] = INFLUENCES_SINGLE;
    job.own_forms[1] = INFLUENCES_CSV;
    job.scene.top_k = (size_t)batch->ask->top_k;
    job.order = batch->ask->order;
    job.overwrite = batch->ask->overwrite || batch->ask->skip_existing ||
                    tracin_spread_may_replace(batch->spread);
    job.spread = batch->spread;
    int rc = tracin_job_filter(&job, &filter, lonely, err);
    if (rc == 0)
        rc = entries_sort(batch, &job, lonely, err);
    if (rc == 0 && job.n_tests > 0)
        rc = tracin_job_run(&job, err);
    else if (rc == 0 && batch->spread) /* an earlier command has computed all of it */
        rc = tracin_spread_end(batch->spread, err);
    done_mark(batch, &job);
    tracin_job_release(&job);
    return rc;
}

static void batch_say(const struct batch *batch)
{
    say(batch->app,
        "%zu test triple%s: %zu computed, %zu skipped, %zu with nothing near them, in %s", batch->n,
        plural(batch->n), fate_count(batch, FATE_DONE), fate_count(batch, FATE_SKIPPED),
        fate_count(batch, FATE_LONELY), batch->ask->output_dir);
}

int tracin_batch_run(const struct tracin_request *ask, const struct app *app,
                     const struct kge_data *data, struct kge_models *models,
                     struct tracin_spread *spread, struct err *err)
{
    struct batch batch = {
        .ask = ask, .app = app, .data = data, .spread = spread, .begin_ms = clock_now_ms()};
    cleanup_free size_t *places = NULL;
    int rc = entries_make(&batch, &places, err);
    if (rc == 0)
        rc = places_check(&batch, err);
    if (rc == 0)
        rc = folders_prepare(&batch, err);
    if (rc == 0) {
        rc = batch_compute(&batch, models, places, err);
        /* A batch that failed writes a summary, too, because some results may be in place. */
        int summary_rc = summary_write(&batch, rc ? NULL : err);
        rc = rc ? rc : summary_rc;
    }
    if (rc == 0)
        batch_say(&batch);
    size_t n_lonely = fate_count(&batch, FATE_LONELY);
    if (rc == 0 && n_lonely > 0)
        rc = fail(err, ERR_FAILED,
                  "%zu of %zu test triples have no training triple near them (more --n-hops or a "
                  "smaller --min-degree lets some in); the others are in place",
                  n_lonely, batch.n);
    batch_release(&batch);
    return rc;
}
