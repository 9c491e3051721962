/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of an attempt on another host. For each attempt, muster tries whether the host shares
 * the run's folder, by a file in that folder. If the host does, nothing is sent. If it does not,
 * the host has a folder of its own. The input goes there, and the files that the program left come
 * into the run's folder. The names there are made by muster: only the last part of a path from the
 * host is used, and only if the pattern names it.
 */
#include <errno.h>
#include <fnmatch.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "shard/attempt.h"

enum {
    NAME_BYTES_MAX = 240 /* so that there is room for an extension */
};

/* ---- the probe ---- */

int shard_probe_make(struct shard_probe *probe, const char *folder, struct err *err)
{
    unsigned char random[(sizeof(probe->token) - 1) / 2];
    cleanup_buf struct buf token = BUF_INIT;
    if (probe->path)
        return 0;
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return fail_errno(err, "draw a random number");
    buf_add_hex(&token, (struct str){(const char *)random, sizeof(random)});
    cleanup_free char *path = xasprintf("%s/muster-shared-%.8s", folder, buf_text(&token));
    int rc = mkdir_parents(folder, 0775, err);
    if (rc == 0)
        rc = file_replace_fast(path, buf_str(&token), err);
    if (rc)
        return rc;
    snprintf(probe->token, sizeof(probe->token), "%s", buf_text(&token));
    probe->path = steal_ptr(&path);
    return 0;
}

void shard_probe_drop(struct shard_probe *probe)
{
    if (probe->path)
        unlink(probe->path);
    free(steal_ptr(&probe->path));
    free(steal_ptr(&probe->told));
    probe->n_told = 0;
}

/* The host of the attempt's seat. */
static uint32_t part_of(const struct worker *worker)
{
    const struct allocation *a = session_allocation(worker_session(worker));
    return allocation_host_of(a, a->device_of[worker_seat(worker)]);
}

const char *shard_host_name(const struct worker *worker)
{
    return session_allocation(worker_session(worker))->hosts[part_of(worker)].name;
}

static const char *const sharing_words[] = {
    "it does not share the run's folder; files of shards go there and come back through the "
    "connection",
    "it shares the run's folder"};

/* Logs once for each host whether it shares the folder. */
static void sharing_log(const struct worker *worker, bool is_shared)
{
    struct session *s = worker_session(worker);
    struct shard_probe *probe = &shards_of(s)->probe;
    uint32_t part = part_of(worker);
    for (; probe->n_told <= part; probe->n_told++) { /* hosts may come later */
        probe->told = xrealloc(probe->told, probe->n_told + 1);
        probe->told[probe->n_told] = 0;
    }
    if (probe->told[part] != 1 + is_shared)
        log_add(session_log(s), LOG_INFO, "host", "%s: %s", shard_host_name(worker),
                sharing_words[is_shared]);
    probe->told[part] = (uint8_t)(1 + is_shared);
}

/* ---- failures ---- */

static void start_failed(struct worker *worker)
{
    struct shard_worker *shard = shard_worker_of(worker);
    bool is_away = session_seat_is_away(worker_session(worker), worker_seat(worker));
    if (is_away)
        worker_ended_by_us(worker);
    if (worker_was_ended(worker))
        worker_over(worker);
    else
        worker_start_failed(worker, shard->rc, &shard->err);
}

/*
 * The first time, another file may have been chance. A program whose file is another one each time
 * would be run for ever.
 */
static int code_of(const struct worker *worker, const struct err *why)
{
    bool *had = &shards_of(worker_session(worker))->had_other_file[shard_worker_of(worker)->shard];
    bool is_again = *had && left_file_is_other(why);
    *had = *had || left_file_is_other(why);
    return is_again ? ERR_DATA : why->code;
}

/* Ends the attempt because its files cannot be made ready or fetched. */
static void give_up(struct worker *worker, const struct err *why)
{
    struct shard_worker *shard = shard_worker_of(worker);
    cleanup_buf struct buf name = BUF_INIT;
    shell_now(worker_shell(worker));
    shard->err = *why;
    shard->takings[0].found.is_absent = why->code == ERR_DATA && why->sys == ENOENT;
    shard->rc = wrap(&shard->err, code_of(worker, why), "%s", shard_host_name(worker));
    if (shard->phase == SHARD_STAGING) {
        start_failed(worker);
        return;
    }
    shard_name(shards_of(worker_session(worker)), shard->shard, &name);
    if (shard->rc == ERR_UNAVAILABLE)
        log_add(session_log(worker_session(worker)), LOG_WARN, "worker", "%s: %s is run again: %s",
                worker_label(worker), buf_text(&name), shard->err.text);
    if (shard->phase == SHARD_COLLECTING)
        shard_attempt_settle(worker);
}

static void on_failed(void *context, const struct err *why)
{
    give_up(context, why);
}

/* ---- before the start ---- */

/*
 * Returns the part of a path below the run's folder, which is the same below the host's folder; ""
 * if the placeholder is not used.
 */
static const char *name_below(const struct worker *worker, enum placeholder which)
{
    const struct shard_worker *shard = shard_worker_of(worker);
    bool is_used = shards_of(worker_session(worker))->uses & 1u << which;
    return is_used ? shard->values.of[which].at + strlen(shard->folder) + 1 : "";
}

static void prepare(struct worker *worker)
{
    struct shard_worker *shard = shard_worker_of(worker);
    cleanup_free struct left_ask *asks = xcalloc(shard->n_takings, sizeof(*asks));
    struct err err = {0};
    for (size_t i = 0; i < shard->n_takings; i++)
        asks[i] = shard->takings[i].collect.left;
    const struct prepare_request request = {.input_path = shard->input_path,
                                            .input_name = name_below(worker, PLACE_INPUT),
                                            .output_name = name_below(worker, PLACE_OUTPUT),
                                            .asks = asks,
                                            .n_asks = shard->n_takings};
    if (node_prepare(shard->files, &request, &err) != 0)
        give_up(worker, &err);
}

static void on_staged(void *context, const char *folder)
{
    struct worker *worker = context;
    struct shard_worker *shard = shard_worker_of(worker);
    shell_now(worker_shell(worker));
    sharing_log(worker, folder == NULL);
    if (!folder) {
        node_unstage(steal_ptr(&shard->files));
        shard_attempt_start(worker);
        return;
    }
    shard->folder = xstrdup(folder);
    shard_attempt_fill(worker, shard->folder);
    prepare(worker);
}

static void on_ready(void *context, int64_t since_ns)
{
    struct worker *worker = context;
    shell_now(worker_shell(worker));
    shard_worker_of(worker)->since_ns = since_ns;
    shard_attempt_start(worker);
}

void shard_transfer_drop(struct worker *worker)
{
    node_unstage(steal_ptr(&shard_worker_of(worker)->files));
}

/* ---- after the end ---- */

static void count_run(void *context)
{
    struct worker *worker = context;
    struct shard_worker *shard = shard_worker_of(worker);
    shard->rc = 0;
    for (size_t i = 0; shard->rc == 0 && i < shard->n_takings; i++)
        shard->rc =
            collect_count(&shard->takings[i].collect, &shard->takings[i].found, &shard->err);
}

static void on_counted(void *context)
{
    shard_attempt_settle(context);
}

static void fetch_next(struct worker *worker)
{
    struct shard_worker *shard = shard_worker_of(worker);
    size_t next = shard->n_fetched;
    if (next < shard->n_takings)
        node_fetch(shard->files, next, shard->takings[next].found.path);
    else
        background_start(&shard->background, count_run, on_counted);
}

static void on_fetched(void *context)
{
    struct worker *worker = context;
    shard_worker_of(worker)->n_fetched++;
    fetch_next(worker);
}

/* True if the pattern can have matched the name, and if the last part is the name of a file. */
static bool name_is_good(const struct left_ask *ask, const char *name)
{
    const char *last = path_basename(name);
    if (!ask->pattern)
        return strcmp(name, ask->path) == 0;
    return fnmatch(ask->pattern, name, FNM_PATHNAME | FNM_PERIOD) == 0 && last[0] &&
           strcmp(last, ".") != 0 && strcmp(last, "..") != 0 && strlen(last) <= NAME_BYTES_MAX;
}

bool shard_found_take(const struct shards *shards, uint64_t shard, size_t kind,
                      const struct left_ask *ask, const char *host, const struct left_file *file,
                      struct collected *found)
{
    const char *last = path_basename(file->name);
    if (!name_is_good(ask, file->name))
        return false;
    /*
     * A file of {output} lies where those of this machine do. Others lie in a folder for each kind
     * and shard.
     */
    *found = (struct collected){
        .path = ask->pattern ? xasprintf("%s/%zu/%lu/%s", shards->output_dir, kind, shard, last)
                             : path_join(shards->output_dir, last),
        .name = xstrdup(file->name),
        .origin = xasprintf("%s:%s", host, file->trace.path),
        .bytes = file->trace.bytes};
    return true;
}

static void on_found(void *context, const struct left_file *files, size_t n_files)
{
    struct worker *worker = context;
    struct shard_worker *shard = shard_worker_of(worker);
    bool is_good = n_files == shard->n_takings;
    struct err err = {0};
    shell_now(worker_shell(worker));
    for (size_t i = 0; is_good && i < n_files; i++)
        is_good = shard_found_take(shards_of(worker_session(worker)), shard->shard, i,
                                   &shard->takings[i].collect.left, shard_host_name(worker),
                                   &files[i], &shard->takings[i].found);
    if (is_good) {
        fetch_next(worker);
        return;
    }
    fail(&err, ERR_DATA, "it has found other files than were asked for");
    give_up(worker, &err);
}

void shard_transfer_collect(struct worker *worker)
{
    node_collect(shard_worker_of(worker)->files);
}

/* ---- the beginning ---- */

static const struct node_files_handlers handlers = {.staged = on_staged,
                                                    .ready = on_ready,
                                                    .found = on_found,
                                                    .fetched = on_fetched,
                                                    .failed = on_failed};

bool shards_have_relative(const struct shards *shards)
{
    bool have = false;
    for (size_t i = 0; i < shards->n_kinds; i++)
        have = have || (shards->kinds[i].glob && shards->kinds[i].glob[0] != '/');
    return have;
}

bool shard_transfer_begin(struct worker *worker)
{
    struct session *s = worker_session(worker);
    struct shard_worker *shard = shard_worker_of(worker);
    struct shard_probe *probe = &shards_of(s)->probe;
    struct err err = {0};
    if (session_seat(s, worker_seat(worker))->host == 0)
        return false;
    int rc = shard_probe_make(probe, shards_of(s)->output_dir, &err);
    const struct stage_request request = {.seat = session_seat(s, worker_seat(worker)),
                                          .probe_path = probe->path,
                                          .probe_token = probe->token,
                                          .needs_cwd = shards_have_relative(shards_of(s)),
                                          .handlers = &handlers,
                                          .context = worker};
    if (rc == 0)
        rc = node_stage(shell_node(session_shell(s)), &request, &shard->files, &err);
    if (rc == 0 && !shard->files)
        return false;
    shard->phase = SHARD_STAGING;
    if (rc)
        give_up(worker, &err);
    return true;
}

/* ---- --dry-run ---- */

/* What one host answers. */
struct answer {
    bool is_there, is_shared;
    char words[512]; /* why there is no answer */
};

static void on_answer(void *context, const char *folder)
{
    *(struct answer *)context = (struct answer){.is_there = true, .is_shared = folder == NULL};
}

static void on_no_answer(void *context, const struct err *why)
{
    struct answer *answer = context;
    *answer = (struct answer){.is_there = true};
    snprintf(answer->words, sizeof(answer->words), "%s", why->text);
}

static void host_ask(struct session *s, const struct seat *seat, const struct shard_probe *probe,
                     struct answer *answer)
{
    static const struct node_files_handlers asking = {.staged = on_answer, .failed = on_no_answer};
    const struct stage_request request = {.seat = seat,
                                          .probe_path = probe->path,
                                          .probe_token = probe->token,
                                          .needs_cwd = shards_have_relative(shards_of(s)),
                                          .handlers = &asking,
                                          .context = answer};
    struct node_files *files = NULL;
    struct err err = {0};
    if (node_stage(shell_node(session_shell(s)), &request, &files, &err) != 0)
        on_no_answer(answer, &err);
    while (!answer->is_there && !shell_is_to_end(session_shell(s))) {
        node_flush(shell_node(session_shell(s)));
        shell_turn(session_shell(s));
        node_look(shell_node(session_shell(s)));
    }
    node_unstage(files);
}

/* --dry-run does not make the run's folder: the nearest folder above it that exists is tried. */
void shards_print_sharing(struct session *s)
{
    const struct allocation *a = session_allocation(s);
    struct shard_probe probe = {0};
    struct err err = {0};
    cleanup_free char *folder = xstrdup(session_run_dir(s));
    while (a->n_hosts > 1 && !folder_exists(folder)) {
        char *parent = path_dirname(folder);
        free(folder);
        folder = parent;
    }
    if (a->n_hosts > 1 && shard_probe_make(&probe, folder, &err) != 0)
        print_line("whether hosts share the run's folder cannot be tried: %s", err.text);
    for (size_t h = 1; h < a->n_hosts && probe.path; h++) {
        struct answer answer = {0};
        host_ask(s, &a->seats[a->hosts[h].first_seat], &probe, &answer);
        print_line("%s: %s", a->hosts[h].name,
                   answer.words[0] ? answer.words : sharing_words[answer.is_shared]);
    }
    shard_probe_drop(&probe);
}
