/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything before the first worker, after the request has been checked (request.c): seats, input, the
 * run's folder, what earlier sessions did, the feeder.
 */
#include <assert.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "data/inputs.h"
#include "map/outputs.h"
#include "map/session_impl.h"
#include "map/summary.h"
#include "map/work.h"
#include "shell/hosts.h"
#include "store/manifest.h"
#include "store/runs.h"
#include "version.h"

enum {
    /* even with --grace 0, workers that have done their work get this time to end */
    END_LIMIT_MIN_MS = 1000
};

/* ---- input ---- */

/* Says that muster reads from a terminal, because the user may be waiting for muster. */
static void terminal_note(struct session *s)
{
    for (size_t i = 0; i < s->request->n_inputs; i++)
        if (strcmp(s->request->inputs[i], "-") == 0 && isatty(STDIN_FILENO))
            log_add(shell_log(s->shell), LOG_WARN, "map",
                    "the items are read from the terminal; Ctrl-D on a line of its own ends them");
}

static int source_take(struct session *s, struct err *err)
{
    const struct map_request *r = s->request;
    cleanup_free char *spool_dir = path_join(shell_run_dir(s->shell), "input");
    struct source_opts opts = {.paths = r->inputs,
                               .n_paths = r->n_inputs,
                               .format = r->format,
                               .is_raw = r->is_raw,
                               .limit = r->limit,
                               .spool_dir = spool_dir,
                               .reuse_spool = s->is_resumed,
                               .streams_are_typed = r->is_typed_again,
                               .in_any_order =
                                   r->schedule.longest_first || r->schedule.weight_field,
                               .weight_field = r->schedule.weight_field,
                               .scratch = s->scratch};
    s->inputs = inputs_new(r->inputs, r->n_inputs);
    if (r->n_inputs == 0) /* --items */
        return 0;
    if (!s->is_resumed)
        terminal_note(s);
    int rc = source_open(&s->source, &opts, err);
    if (rc == 0 && r->key_field && !source_is_json(s->source))
        rc = fail(err, ERR_USAGE, "--key needs items with fields: JSONL, JSON or CSV");
    if (rc == 0 && r->schedule.weight_field && !source_is_json(s->source))
        rc = fail(err, ERR_USAGE, "--weight needs items with fields: JSONL, JSON or CSV");
    return rc;
}

/* ---- the run's folder ---- */

static int manifest_make(struct session *s, struct err *err)
{
    const struct map_request *r = s->request;
    cleanup_buf struct buf identity = BUF_INIT, options = BUF_INIT;
    cleanup_free const char **inputs = xcalloc(r->n_inputs + 1, sizeof(*inputs));
    cleanup_free char *cwd = path_cwd();
    cleanup_free char *output = output_name_new(r->out_path);
    for (size_t i = 0; i < r->n_inputs; i++)
        inputs[i] = strcmp(r->inputs[i], "-") == 0 ? xstrdup("-") : path_absolute(r->inputs[i]);
    if (s->source)
        source_identity(s->source, &identity);
    request_work(r, &options);
    struct manifest manifest = {.verb = "map",
                                .argv = r->run.words,
                                .command = r->command,
                                .cwd = cwd,
                                .inputs = inputs,
                                .output = output,
                                .version = MUSTER_VERSION,
                                .options_json = buf_text(&options),
                                .input_json = identity.len > 0 ? buf_text(&identity) : NULL,
                                .seed = s->base_seed,
                                .started_wall_ms = clock_wall_ms()};
    int rc = shell_manifest_write(s->shell, &manifest, &s->allocation, err);
    for (size_t i = 0; i < r->n_inputs; i++)
        free((void *)(uintptr_t)inputs[i]);
    return rc;
}

static void ledger_failed(void *context, const struct err *why)
{
    struct session *s = context;
    struct err err = *why;
    if (err.code == ERR_STOPPED)
        shell_end_with(s->shell, 75);
    if (errno_means_full(why->sys))
        fail(&err, ERR_STOPPED, "the run's results in %s: %s", shell_run_dir(s->shell),
             errno_room(why->sys));
    shell_abort(s->shell, &err);
}

static void ledger_crowded(void *context, bool is_crowded)
{
    session_backpressure(context, is_crowded);
}

static int run_take(struct session *s, struct err *err)
{
    const struct map_request *r = s->request;
    const struct folder_wish wish = {r->resume_dir, r->run.run_dir, r->run.runs_dir};
    int rc = shell_folder_take(s->shell, &wish, err);
    if (rc == 0) {
        s->named = *r;
        rc = outputs_settle(&s->named, shell_run_dir(s->shell), &s->output_name, err);
        s->request = &s->named;
    }
    if (rc == 0)
        rc = shell_store_open(s->shell, s->is_resumed ? STORE_RESUME : STORE_CREATE, err);
    return rc == 0 && s->is_resumed ? shell_orphans_await(s->shell, err) : rc;
}

static int store_begin(struct session *s, struct err *err)
{
    const struct work *work = s->request->work;
    cleanup_free char *log_path = path_join(shell_run_dir(s->shell), "orchestrator.log");
    bool has_earlier = false;
    int rc = log_open(shell_log(s->shell), log_path, err);
    if (rc == 0)
        rc = s->is_resumed ? earlier_work_match(s, err) : 0;
    if (rc == 0 && work->begin)
        rc = work->begin(s, err);
    if (rc == 0 && !s->is_resumed)
        rc = manifest_make(s, err);
    if (rc == 0 && work->take)
        rc = work->take(s, &has_earlier, err);
    has_earlier = has_earlier || s->is_resumed;
    if (rc == 0 && has_earlier)
        rc = earlier_take(s, err);
    if (rc)
        return rc;
    earlier_limit(s);
    s->next_number = (uint32_t)store_next_part(shell_store(s->shell));
    s->ledger = ledger_new(&(struct ledger_opts){.store = shell_store(s->shell),
                                                 .loop = shell_uv_loop(s->shell),
                                                 .is_prompt = !work->keeps_workers,
                                                 .failed = ledger_failed,
                                                 .crowded = ledger_crowded,
                                                 .context = s});
    s->results.are_json =
        !work->keeps_workers || (source_is_json(s->source) && !s->request->is_raw);
    cleanup_free char *json_before = NULL;
    rc = store_get(shell_store(s->shell), "results_json", &json_before, err);
    if (rc)
        return rc;
    s->results.are_json = s->results.are_json || json_before;
    if (s->results.are_json && !json_before)
        ledger_fact(s->ledger, "results_json", "1");
    enum out_format out = s->request->format_out;
    out = out == OUT_AUTO ? out_format_of_path(s->request->out_path) : out;
    s->results.need_utf8 = !s->results.are_json && out != OUT_LINES;
    return has_earlier ? ledger_metrics_restore(s->ledger, err) : 0;
}

/*
 * How long a worker may take to end after the end of its input. A shard's program has no limit (0): it ends only when
 * its work is done.
 */
static uint64_t end_limit_ms(const struct map_request *r)
{
    return r->work->keeps_workers ? MAX(r->run.grace_ms, (uint64_t)END_LIMIT_MIN_MS) : 0;
}

/* The hosts of the devices, and the round trips of the seats. */
static void places_find(const struct allocation *a, uint32_t *host_of, uint64_t *round_trip_ms)
{
    for (const struct allocation_host *of = a->hosts; of < a->hosts + a->n_hosts; of++) {
        for (uint32_t i = of->first_chosen; i < of->first_chosen + of->n_chosen; i++)
            host_of[i] = of->node;
        for (uint32_t p = of->first_seat; p < of->first_seat + of->n_seats; p++)
            round_trip_ms[p] = of->round_trip_ms;
    }
}

static int feed_make(struct session *s, struct err *err)
{
    const struct map_request *r = s->request;
    int rc = earlier_check(s, err);
    if (rc == 0 && s->is_resumed)
        rc = store_check_parts(shell_store(s->shell), err);
    if (rc)
        return rc;
    cleanup_free uint64_t *round_trip_ms = xcalloc(s->n_seats, sizeof(*round_trip_ms));
    cleanup_free uint32_t *host_of = xcalloc(s->allocation.n_chosen + 1, sizeof(*host_of));
    places_find(&s->allocation, host_of, round_trip_ms);
    struct feed_config config = {.n_workers = s->n_seats,
                                 .n_devices = (uint32_t)s->allocation.n_chosen,
                                 .n_workers_max = s->allocation.n_seats_max,
                                 .n_devices_max = s->allocation.n_devices_max,
                                 .first_of = s->allocation.first_of,
                                 .device_of = s->allocation.device_of,
                                 .host_of = host_of,
                                 .round_trip_ms = round_trip_ms,
                                 .retries = (uint32_t)r->schedule.retries,
                                 .batch = (uint32_t)r->schedule.batch,
                                 .fixed_batches = r->schedule.fixed_batches,
                                 .no_reissue = r->schedule.no_reissue || !r->work->keeps_workers,
                                 .loading_max = (uint32_t)r->schedule.loading_max,
                                 .stagger_ms = r->schedule.stagger_ms,
                                 .item_limit_ms = r->schedule.item_limit_ms,
                                 .start_limit_ms = r->schedule.start_limit_ms,
                                 .silence_limit_ms = r->schedule.silence_limit_ms,
                                 .end_limit_ms = end_limit_ms(r),
                                 .failures_max = r->schedule.failures_max,
                                 .failures_percent = r->schedule.failures_percent,
                                 .seed = s->base_seed,
                                 .failed_before = s->earlier.n_failed,
                                 .only_failed_left = s->earlier.only_failed_left,
                                 .had_results = s->earlier.has_results,
                                 .done = (const struct item_interval *)s->earlier.done,
                                 .n_done = s->earlier.n_done,
                                 .order = s->order,
                                 .n_order = s->order ? source_known(s->source) : 0};
    static_assert(sizeof(struct item_interval) == sizeof(struct item_span),
                  "the ledger's spans are the feeder's intervals");
    s->feed = feed_new(&config);
    return s->feed ? 0 : fail(err, ERR_STOPPED, "out of memory for the feeder");
}

/* Takes and locks the devices, and makes a state for each seat. With --wait this may take long. */
static int seats_take(struct session *s, struct err *err)
{
    struct allocation_wish wish = s->request->allocation;
    environment_program(&s->request->environment, s->request->command, &wish);
    int rc = shell_seats_take(s->shell, &wish, &s->allocation, err);
    if (rc)
        return rc;
    session_seats_make(s);
    devices_watch(s);
    return 0;
}

int session_plan(struct session *s, struct err *err)
{
    int rc = shell_guard_find(s->shell, err);
    if (rc == 0)
        rc = seats_take(s, err);
    return rc;
}

/*
 * For --dry-run: the items must be counted, but the run's folder, into which streams are copied, must not be
 * made. So they are copied into a temporary folder, which is removed when the items are counted.
 */
int session_plan_items(struct session *s, struct err *err)
{
    const struct map_request *r = s->request;
    const char *tmp = getenv("TMPDIR");
    cleanup_free char *spool = xasprintf("%s/muster-dry-run-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    char stamp[20];
    struct err ignored = {0};
    if (r->n_inputs > 0 && !mkdtemp(spool))
        return fail_errno(err, "make a folder in %s", tmp ? tmp : "/tmp");
    shell_folder_name(s->shell, xstrdup(spool));
    s->base_seed = r->schedule.seed;
    int rc = source_take(s, err);
    clock_stamp(stamp, clock_wall_ms());
    cleanup_free char *root = runs_root(r->run.runs_dir);
    const char *named = r->resume_dir ? r->resume_dir : r->run.run_dir;
    shell_folder_name(s->shell, named ? path_absolute(named) : xasprintf("%s/%s-map", root, stamp));
    if (rc == 0)
        rc = r->work->begin(s, err);
    if (r->n_inputs > 0 && remove_tree(spool, &ignored) != 0)
        log_add(shell_log(s->shell), LOG_WARN, "map", "%s", ignored.text);
    return rc;
}

void session_plan_release(struct session *s)
{
    free(s->earlier.done);
    source_close(s->source);
    inputs_free(s->inputs);
    if (s->request->work->release)
        s->request->work->release(s);
    free(s->output_name);
    allocation_release(&s->allocation);
    free(s->seats);
    device_watch_free(s->devices);
}

int session_prepare(struct session *s, struct err *err)
{
    int rc = shell_loop_open(s->shell, err);
    if (rc)
        return rc;
    s->base_seed = s->request->schedule.seed;
    s->is_resumed = s->request->resume_dir != NULL;
    shell_display_open(s->shell);
    /* A resumed run first waits until the workers of its last session are gone, so that their devices are free. */
    rc = s->is_resumed ? run_take(s, err) : 0;
    if (rc == 0)
        rc = session_plan(s, err);
    if (rc == 0 && !s->is_resumed)
        rc = run_take(s, err);
    device_locks_sign(&s->allocation.locks, shell_run_id(s->shell));
    if (rc == 0)
        rc = source_take(s, err);
    if (rc == 0)
        rc = store_begin(s, err);
    if (rc == 0)
        rc = feed_make(s, err);
    if (rc == 0)
        rc = shell_node_open(s->shell, err);
    /* Nothing is refused after this: a refused resume leaves the run as it was. */
    if (rc == 0)
        rc = earlier_begin(s, err);
    cleanup_free char *entry = xasprintf("MUSTER_RUN_DIR=%s", shell_run_dir(s->shell));
    if (rc == 0)
        shell_keeper_start(s->shell, &s->allocation, entry, s->request->run.grace_ms);
    if (rc == 0 && !s->request->run.run_dir && run_mark_latest(shell_run_dir(s->shell), err) != 0)
        log_add(shell_log(s->shell), LOG_WARN, "map", "%s", err->text);
    return rc;
}
