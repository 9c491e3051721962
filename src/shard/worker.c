/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt at one shard. What may take long (writing the shard's input, checking its files) is
 * done on another thread, which touches only the attempt's own fields.
 */
#include "shard/attempt.h"

#include <errno.h>
#include <fnmatch.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "map/environment.h"

static const uint64_t COMPARED_MAX =
    1000; /* how many other shards' patterns each file is compared with */

static void input_drop(struct worker *worker)
{
    struct shard_worker *shard = shard_worker_of(worker);
    if (shard->input_path)
        unlink(shard->input_path);
    free(steal_ptr(&shard->input_path));
}

static void close_handles(struct worker *worker)
{
    if (shard_worker_of(worker)->phase != SHARD_IDLE)
        background_close(&shard_worker_of(worker)->background, worker_handle_closed);
}

static void release(struct worker *worker)
{
    struct shard_worker *shard = shard_worker_of(worker);
    for (size_t i = 0; i < shard->n_takings; i++) {
        struct shard_taking *taking = &shard->takings[i];
        buf_release(&taking->pattern);
        file_traces_release(&taking->before);
        collected_release(&taking->found);
    }
    free(shard->takings);
    free(shard->folder);
    buf_release(&shard->text);
    shard_command_free(shard->command);
    free(shard);
}

static const char *const *command_of(const struct worker *worker)
{
    return (const char *const *)shard_worker_of(worker)->command;
}

static const struct node_files *files_of(const struct worker *worker)
{
    return shard_worker_of(worker)->files;
}

static void describe(const struct worker *worker, struct buf *out)
{
    if (shard_worker_of(worker)->phase == SHARD_IDLE)
        return;
    buf_add_text(out, " at ");
    shard_name(shards_of(worker_session(worker)), shard_worker_of(worker)->shard, out);
}

/* ---- birth ---- */

static void spawn(struct session *s, uint32_t seat, uint64_t batch)
{
    struct shard_worker *shard = xcalloc(1, sizeof(*shard));
    worker_new(s, seat, shard);
    shard->batch = batch > 0 ? batch : session_request(s)->schedule.batch;
    session_event(s, (struct feed_event){.kind = EV_STARTED, .worker = seat});
    session_event(s, (struct feed_event){.kind = EV_READY, .worker = seat, .count = 1});
}

static void batch(struct worker *worker, uint64_t size)
{
    if (shard_worker_of(worker)->phase == SHARD_IDLE)
        shard_worker_of(worker)->batch = size;
}

static const char *value(const struct shard_worker *shard, enum placeholder which)
{
    return shard->values.of[which].at;
}

void shard_ask(const struct session *s, uint64_t number, size_t which,
               const struct template_values *values, struct buf *pattern, struct collect *ask)
{
    const struct shard_kind *kind = &shards_of(s)->kinds[which];
    *ask = (struct collect){
        .left = {.option = shard_kind_option(which), .path = values->of[PLACE_OUTPUT].at},
        .is_counted = kind->is_counted,
        .takes_any = kind->takes_any,
        .uncounted = shard_kind_uncounted(which),
        .tensors = kind->tensors,
        .is_as_it_is = output_is_folder(kind->out_path),
        .rules = &session_request(s)->merge.rules,
        .rules_path = session_request(s)->merge.rules_path,
        .format = kind->format,
        .expect = shard_share(shards_of(s), number).count};
    if (!kind->glob)
        return;
    buf_reset(pattern);
    template_fill_glob(str_of(kind->glob), values, pattern);
    ask->left.pattern = buf_text(pattern);
}

static void collect_plan(const struct session *s, struct shard_worker *shard)
{
    shard->n_takings = shards_of(s)->n_kinds;
    if (!shard->takings)
        shard->takings = xcalloc(shard->n_takings, sizeof(*shard->takings));
    for (size_t i = 0; i < shard->n_takings; i++)
        shard_ask(s, shard->shard, i, &shard->values, &shard->takings[i].pattern,
                  &shard->takings[i].collect);
}

static int output_clear(const struct shards *shards, struct shard_worker *shard)
{
    const char *path = value(shard, PLACE_OUTPUT);
    int rc = mkdir_parents(shards->output_dir, 0775, &shard->err);
    if (rc == 0 && unlink(path) != 0 && errno != ENOENT)
        rc = fail_errno(&shard->err, "remove %s", path);
    return rc;
}

static void prepare_run(void *context)
{
    struct worker *worker = context;
    struct shard_worker *shard = shard_worker_of(worker);
    const struct shards *shards = shards_of(worker_session(worker));
    shard->rc = shards->uses & 1u << PLACE_OUTPUT ? output_clear(shards, shard) : 0;
    if (shard->rc == 0 && shards->uses & 1u << PLACE_INPUT)
        shard->rc = shard_input_write(worker_session(worker), shard->shard,
                                      value(shard, PLACE_INPUT), &shard->err);
    for (size_t i = 0; shard->rc == 0 && i < shard->n_takings; i++)
        shard->rc =
            collect_before(&shard->takings[i].collect, &shard->takings[i].before, &shard->err);
}

void shard_attempt_start(struct worker *worker)
{
    struct shard_worker *shard = shard_worker_of(worker);
    cleanup_buf struct buf command = BUF_INIT;
    shard->phase = SHARD_RUNNING;
    shard->started_ms = shell_last_now(worker_shell(worker));
    if (!shard->files) /* otherwise the host's time is taken */
        shard->since_ns = clock_file_ns();
    shard_command_format(command_of(worker), &command);
    log_add(session_log(worker_session(worker)), LOG_DEBUG, "worker", "%s: shard %lu runs %s",
            worker_label(worker), shard->shard, buf_text(&command));
    worker_start(worker, shard->batch);
}

static void on_prepared(void *context)
{
    struct worker *worker = context;
    struct shard_worker *shard = shard_worker_of(worker);
    shell_now(worker_shell(worker));
    shard->phase = SHARD_RUNNING;
    if (worker_was_ended(worker))
        worker_over(worker);
    else if (shard->rc)
        worker_start_failed(worker, shard->rc, &shard->err);
    else if (!shard_transfer_begin(worker))
        shard_attempt_start(worker);
}

static void parsers_set(struct shard_worker *shard, uint64_t n_items)
{
    uint64_t batch = shard->batch;
    for (size_t i = 0; i < countof(shard->parsers); i++) {
        shard->parsers[i].n_items = n_items;
        shard->parsers[i].n_batches = batch > 0 ? (n_items - 1) / batch + 1 : 0;
    }
}

void shard_attempt_fill(struct worker *worker, const char *folder)
{
    struct session *s = worker_session(worker);
    struct shard_worker *shard = shard_worker_of(worker);
    const struct shard_at at = {.shard = shard->shard,
                                .seat = worker_seat(worker),
                                .number = worker_number(worker),
                                .batch = shard->batch,
                                .folder = folder};
    buf_reset(&shard->text);
    shard_values(s, &at, &shard->values, &shard->text);
    shard_command_free(shard->command);
    shard->command = shard_command_new(s, &shard->values);
    collect_plan(s, shard);
}

static void give(struct worker *worker, const struct feed_action *a)
{
    struct session *s = worker_session(worker);
    struct shard_worker *shard = shard_worker_of(worker);
    ASSERT(shard->phase == SHARD_IDLE);
    shard->phase = SHARD_PREPARING;
    shard->shard = a->item;
    shard->attempt = a->detail;
    parsers_set(shard, shard_share(shards_of(s), a->item).count);
    worker_attempt_begin(worker);
    shard_attempt_fill(worker, NULL);
    if (shards_of(s)->uses & 1u << PLACE_INPUT)
        shard->input_path = xstrdup(value(shard, PLACE_INPUT));
    shell_now(session_shell(s));
    worker_first_result(worker); /* muster cannot see when the model is loaded */
    worker_sent(worker, 1);
    background_open(&shard->background, shell_uv_loop(session_shell(s)), worker);
    worker_handle_opened(worker);
    background_start(&shard->background, prepare_run, on_prepared);
}

static void environment(const struct worker *worker, struct env_list *env)
{
    static const struct {
        const char *name;
        enum placeholder which;
    } variables[] = {{"MUSTER_SHARD", PLACE_SHARD},
                     {"MUSTER_SHARDS", PLACE_SHARDS},
                     {"MUSTER_START", PLACE_START},
                     {"MUSTER_COUNT", PLACE_COUNT}};
    for (size_t i = 0; i < countof(variables); i++)
        env_set(env, xasprintf("%s=%s", variables[i].name,
                               value(shard_worker_of(worker), variables[i].which)));
    if (shard_worker_of(worker)->folder)
        env_set(env, xasprintf("MUSTER_RUN_DIR=%s", shard_worker_of(worker)->folder));
}

/* ---- what it says ---- */

static void printed(struct worker *worker, bool to_stderr, struct str bytes, struct buf *shown)
{
    struct progress_parser *progress_parser = &shard_worker_of(worker)->parsers[to_stderr];
    if (bytes.len > 0)
        progress_parser_feed(progress_parser, bytes, shown);
    else
        progress_parser_end(progress_parser, shown);
}

/* The progress that stdout or stderr shows; a marker counts more than a bar. */
struct shard_progress shard_progress_of(const struct worker *worker)
{
    const struct progress_parser *best = &shard_worker_of(worker)->parsers[0],
                                 *other = &shard_worker_of(worker)->parsers[1];
    bool is_other =
        other->is_marked != best->is_marked ? other->is_marked : other->total > best->total;
    if (is_other)
        best = other;
    return (struct shard_progress){progress_parser_items_done(best), best->correct, best->seen};
}

/* ---- the end ---- */

/* A worker without a shard goes at once; any other ends by itself, or is being ended. */
static void retire(struct worker *worker)
{
    const struct shard_worker *shard = shard_worker_of(worker);
    if (shard->phase == SHARD_STAGING)
        shard_transfer_drop(worker);
    else if (shard->phase != SHARD_IDLE)
        return;
    worker_ended_by_us(worker);
    worker_over(worker);
}

static void collect_run(void *context)
{
    struct worker *worker = context;
    struct shard_worker *shard = shard_worker_of(worker);
    shard->rc = 0;
    for (size_t i = 0; shard->rc == 0 && i < shard->n_takings; i++) {
        struct shard_taking *taking = &shard->takings[i];
        taking->collect.passing_path = shard->input_path;
        shard->rc = collect_find(&taking->collect, &taking->before, &taking->found, &shard->err);
    }
}

void shard_attempt_settle(struct worker *worker)
{
    shell_now(worker_shell(worker));
    shard_worker_of(worker)->phase = SHARD_SETTLED;
    worker_over(worker);
}

static void on_collected(void *context)
{
    shard_attempt_settle(context);
}

/* Adds the worker's seat, attempt, time and metrics. */
static void work_describe(const struct worker *worker, struct buf *out)
{
    const struct shard_worker *shard = shard_worker_of(worker);
    struct shard_progress progress = shard_progress_of(worker);
    buf_add_text(out, "\"device\":");
    buf_add_json(out, str_of(worker_label(worker)));
    buf_addf(out, ",\"attempt\":%u,\"seconds\":%.3f", shard->attempt,
             (double)(shell_last_now(worker_shell(worker)) - shard->started_ms) / 1000.0);
    if (progress.seen > 0)
        buf_addf(out, ",\"metrics\":{\"correct\":%lu,\"seen\":%lu}", progress.correct,
                 progress.seen);
}

static void result_describe(struct worker *worker, const struct shard_result *result,
                            struct buf *out)
{
    const struct shards *shards = shards_of(worker_session(worker));
    buf_add_char(out, '{');
    shard_members_add(shards, shard_worker_of(worker)->shard, out);
    buf_add_char(out, ',');
    shard_files_add(shards, result, out);
    buf_add_char(out, ',');
    work_describe(worker, out);
    buf_add_char(out, '}');
}

static void end_note(struct worker *worker)
{
    const struct shard_worker *shard = shard_worker_of(worker);
    cleanup_buf struct buf work = BUF_INIT;
    work_describe(worker, &work);
    shard_end_note(worker_session(worker),
                   &(struct shard_end){.shard = shard->shard,
                                       .values = &shard->values,
                                       .since_ns = shard->since_ns,
                                       .host = shard->files ? shard_host_name(worker) : NULL,
                                       .work_json = buf_str(&work)});
}

/*
 * Collects the files of a program that has ended well, even if its device has been lost since.
 * Returns false while the files are collected.
 */
static bool settle(struct worker *worker, enum death *death)
{
    struct shard_worker *shard = shard_worker_of(worker);
    /* If the files could not be fetched, an attempt on another host may succeed. */
    if (shard->phase == SHARD_SETTLED)
        *death = shard->files && shard->rc == ERR_UNAVAILABLE ? DEATH_ENDED_BY_US : DEATH_CLEAN;
    else if (shard->files && shard->rc == ERR_UNAVAILABLE && *death != DEATH_CLEAN)
        *death = DEATH_ENDED_BY_US; /* the host had no room for the files */
    if (shard->phase == SHARD_COLLECTING)
        return false;
    if (shard->phase != SHARD_RUNNING || *death != DEATH_CLEAN)
        return true;
    shard->phase = SHARD_COLLECTING;
    session_event(worker_session(worker),
                  (struct feed_event){.kind = EV_ENDED, .worker = worker_seat(worker)});
    end_note(worker);
    if (shard->files)
        shard_transfer_collect(worker);
    else
        background_start(&shard->background, collect_run, on_collected);
    return false;
}

/* After a lack of memory, the next attempt's batch is half as large. */
static void ended(struct worker *worker, bool was_out_of_memory)
{
    uint64_t size = shard_worker_of(worker)->batch;
    if (was_out_of_memory && size > 1)
        session_event(
            worker_session(worker),
            (struct feed_event){.kind = EV_OOM, .worker = worker_seat(worker), .count = size / 2});
    node_unstage(steal_ptr(&shard_worker_of(worker)->files));
    input_drop(worker); /* the next attempt at the shard makes a file of the same name */
}

/* Fills in the pattern for the first COMPARED_MAX shards, with which files are compared. */
static void patterns_fill(const struct session *s, struct shard_kind *kind)
{
    kind->n_patterns = MIN(shards_of(s)->n_shards, COMPARED_MAX);
    kind->patterns = xcalloc(kind->n_patterns, sizeof(*kind->patterns));
    for (uint64_t k = 0; k < kind->n_patterns; k++) {
        cleanup_buf struct buf text = BUF_INIT;
        struct buf pattern = BUF_INIT;
        struct template_values values;
        shard_values(s, &(struct shard_at){.shard = k}, &values, &text);
        template_fill_glob(str_of(kind->glob), &values, &pattern);
        kind->patterns[k] = buf_steal(&pattern);
    }
}

uint64_t shard_other_owner(const struct session *s, uint64_t own, size_t of_kind,
                           const struct collected *found)
{
    struct shard_kind *kind = &shards_of(s)->kinds[of_kind];
    if (!kind->glob)
        return UINT64_MAX;
    const char *place = found->origin ? found->origin : found->path;
    uint64_t owner = shard_claim(shards_of(s), of_kind, place, own);
    if (owner != UINT64_MAX)
        return owner;
    if (!kind->patterns)
        patterns_fill(s, kind);
    for (uint64_t k = 0; k < kind->n_patterns; k++)
        if (k != own && fnmatch(kind->patterns[k], found->name, FNM_PATHNAME | FNM_PERIOD) == 0)
            return k;
    return UINT64_MAX;
}

static bool is_refused(struct worker *worker, char how[END_TEXT_BYTES])
{
    struct shard_worker *shard = shard_worker_of(worker);
    if (shard->rc == ERR_STOPPED) /* the next attempt would meet the same full disk */
        shell_abort(worker_shell(worker), &shard->err);
    for (size_t i = 0; i < shard->n_takings; i++)
        shards_of(worker_session(worker))->n_unnamed += shard->takings[i].found.is_absent;
    if (shard->rc) {
        snprintf(how, END_TEXT_BYTES, "%s", shard->err.text);
        return true;
    }
    for (size_t i = 0; i < shard->n_takings; i++) {
        const struct shard_taking *taking = &shard->takings[i];
        uint64_t owner = shard_other_owner(worker_session(worker), shard->shard, i, &taking->found);
        if (owner == UINT64_MAX)
            continue;
        snprintf(
            how, END_TEXT_BYTES,
            "%s matches %s, but it may be the file of shard %lu; let the pattern tell them apart",
            taking->found.name, shard_kind_option(i), owner);
        return true;
    }
    return false;
}

/* Moves the files into a result. */
static struct shard_result result_take(struct shard_worker *shard)
{
    struct shard_result result = {.files = xcalloc(shard->n_takings, sizeof(*result.files))};
    for (size_t i = 0; i < shard->n_takings; i++) {
        struct shard_taking *taking = &shard->takings[i];
        result.files[i] = collected_take(&taking->found);
    }
    return result;
}

static void items_count(struct session *s, uint32_t seat, uint64_t n_items)
{
    shards_of(s)->n_items_done += n_items;
    shards_of(s)->n_items_here += n_items;
    shards_of(s)->seat_items[seat] += n_items;
}

/* Hands the result to the feeder. False: there is none, and `how` says why. */
static bool result_give(struct worker *worker, char how[END_TEXT_BYTES])
{
    struct session *s = worker_session(worker);
    struct shard_worker *shard = shard_worker_of(worker);
    struct shard_progress progress = shard_progress_of(worker);
    cleanup_buf struct buf line = BUF_INIT, metrics = BUF_INIT;
    if (is_refused(worker, how) || !worker_part_ready(worker))
        return false;
    struct shard_result *result = &shards_of(s)->results[shard->shard];
    *result = result_take(shard);
    result_describe(worker, result, &line);
    items_count(s, worker_seat(worker), shard_share(shards_of(s), shard->shard).count);
    if (progress.seen > 0)
        buf_addf(&metrics, "{\"correct\":%lu,\"seen\":%lu}", progress.correct, progress.seen);
    worker_answered(worker, 1);
    worker_result(worker, shard->shard, buf_str(&line), buf_str(&metrics));
    return true;
}

/* Checks that a program whose exit status was 0 has left its files. */
static void judge(struct worker *worker, char how[END_TEXT_BYTES])
{
    struct log *log = session_log(worker_session(worker));
    cleanup_buf struct buf work = BUF_INIT;
    describe(worker, &work);
    if (result_give(worker, how)) {
        log_add(log, LOG_INFO, "worker", "%s is done%s", worker_label(worker), buf_text(&work));
        return;
    }
    worker_died(worker, how);
    log_add(log, LOG_WARN, "worker", "%s failed%s: %s", worker_label(worker), buf_text(&work), how);
}

const struct worker_ops shard_worker_ops = {.spawn = spawn,
                                            .send = give,
                                            .batch = batch,
                                            .retire = retire,
                                            .command = command_of,
                                            .files = files_of,
                                            .environment = environment,
                                            .printed = printed,
                                            .describe = describe,
                                            .settle = settle,
                                            .judge = judge,
                                            .ended = ended,
                                            .close = close_handles,
                                            .release = release};
