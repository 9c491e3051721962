/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the output of ranks goes: to the terminal as it is; with --redirects, into files instead; with --tee, into
 * files and to the terminal, with the rank before each line. Paths of files are torchrun's: LOG_DIR/RUN-
 * ID_RANDOM/attempt_N/LOCAL-RANK/stdout.log, stderr.log, and the error.json of a script that has torch's @record.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"

enum {
    TAIL_BYTES = 4096,
    TAIL_KEPT_BYTES = 2 * TAIL_BYTES,
    HELD_MAX_BYTES = 64 * 1024 /* of an unfinished line that may become an echo */
};

/* ---- what was asked for ---- */

static int bits_parse(struct str text, uint8_t *out, struct err *err)
{
    uint64_t bits = 0;
    int rc = u64_parse(text, 0, STD_OUT | STD_ERR, &bits, err);
    *out = (uint8_t)bits;
    return rc ? wrap(err, rc, "0 is none, 1 stdout, 2 stderr, 3 both") : 0;
}

int std_choice_parse(struct str text, struct std_choice *out, struct err *err)
{
    struct str piece, rank;
    *out = (struct std_choice){0};
    if (text.len > 0 && !memchr(text.at, ':', text.len))
        return bits_parse(text, &out->all, err);
    while (text.len > 0 && str_next(&text, ',', &piece)) {
        uint64_t number;
        if (!str_next(&piece, ':', &rank) || out->n_named == STD_CHOICES_MAX)
            return fail(err, ERR_USAGE, "expected 0 to 3, or such as 0:3,1:2 for local ranks");
        int rc = u64_parse(rank, 0, UINT16_MAX, &number, err);
        uint16_t at = out->n_named++;
        out->named[at].local_rank = (uint16_t)number;
        rc = rc ? rc : bits_parse(piece, &out->named[at].bits, err);
        if (rc)
            return rc;
    }
    return 0;
}

uint8_t std_choice_of(const struct std_choice *choice, uint32_t local_rank)
{
    uint8_t bits = choice->all;
    for (uint16_t i = 0; i < choice->n_named; i++)
        if (choice->named[i].local_rank == local_rank)
            bits = choice->named[i].bits;
    return bits;
}

static bool any_file(const struct launch_request *request)
{
    const struct std_choice *choices[] = {&request->redirects, &request->tee};
    bool any = request->copied.out || request->copied.errors;
    for (size_t c = 0; c < countof(choices); c++)
        any = any || choices[c]->all || choices[c]->n_named > 0;
    return any;
}

static int copies_parse(struct launch *launch, struct err *err)
{
    const struct launch_request *request = launch->request;
    int rc = line_copy_parse(request->copied.out, &launch->copies.out, err);
    if (rc)
        return wrap(err, rc, "--duplicate-stdout-filters");
    rc = line_copy_parse(request->copied.errors, &launch->copies.errors, err);
    return rc ? wrap(err, rc, "--duplicate-stderr-filters") : 0;
}

static int shown_ranks_parse(struct launch *launch, struct err *err)
{
    const char *text = launch->request->shown.ranks;
    launch->shown.are_all = !text || !*text;
    if (launch->shown.are_all)
        return 0;
    int rc = idlist_parse(str_of(text), UINT16_MAX, launch->shown.at, countof(launch->shown.at),
                          &launch->shown.len, err);
    return rc ? wrap(err, rc, "--local-ranks-filter") : 0;
}

int output_parse(struct launch *launch, struct err *err)
{
    int rc = shown_ranks_parse(launch, err);
    return rc ? rc : copies_parse(launch, err);
}

static bool is_to_be_shown(const struct rank *rank)
{
    const struct launch *launch = rank->launch;
    bool is_named = launch->shown.are_all;
    for (size_t i = 0; i < launch->shown.len; i++)
        is_named = is_named || launch->shown.at[i] == rank->local_rank;
    return is_named;
}

/* ---- files ---- */

int logs_begin(struct launch *launch, struct err *err)
{
    const struct launch_request *request = launch->request;
    const char *tmp = getenv("TMPDIR");
    cleanup_free char *base = path_absolute(request->log_dir ? request->log_dir
                                            : tmp && *tmp    ? tmp
                                                             : "/tmp");
    const char *kind = request->log_dir ? "" : "muster-launch-";
    cleanup_free char *id = xstrdup(request->run_id);
    for (char *c = id; *c; c++)
        *c = *c == '/' ? '_' : *c;
    int rc = request->log_dir ? mkdir_parents(base, 0777, err) : 0;
    if (rc)
        return wrap(err, rc == ERR_STOPPED ? rc : ERR_USAGE,
                    "--log-dir"); /* but a full disk is no usage error */
    launch->log_root = xasprintf("%s/%s%s_XXXXXX", base, kind, id);
    if (!mkdtemp(launch->log_root))
        return fail_errno_as(err, ERR_UNAVAILABLE, "make a folder in %s", base);
    launch->is_temporary = !request->log_dir && !any_file(request);
    if (!launch->is_temporary && !request->log_dir)
        log_add(shell_log(launch->shell), LOG_WARN, "launch", "the logs are in %s",
                launch->log_root);
    return 0;
}

static void log_failed(struct launch *launch, const char *what, int failed)
{
    if (failed)
        log_add(shell_log(launch->shell), LOG_WARN, "launch", "the log of %s is not complete: %s",
                what, errno_text(failed));
}

void logs_end(struct launch *launch)
{
    struct err err = {0};
    log_failed(launch, "filtered lines", line_copies_close(&launch->copies));
    if (launch->log_root && launch->is_temporary && remove_tree(launch->log_root, &err) != 0)
        log_add(shell_log(launch->shell), LOG_WARN, "launch", "%s", err.text);
    free(launch->log_root);
}

void logs_forget(const struct launch *launch, uint32_t generation)
{
    if (!launch->is_temporary)
        return;
    cleanup_free char *folder = xasprintf("%s/attempt_%u", launch->log_root, generation);
    struct err ignored = {0};
    (void)!remove_tree(folder, &ignored);
}

static int stream_open(struct rank *rank, struct rank_stream *stream, const char *folder,
                       bool is_err, struct err *err)
{
    const struct launch_request *request = rank->launch->request;
    uint8_t bit = is_err ? STD_ERR : STD_OUT;
    bool is_copied = std_choice_of(&request->tee, rank->local_rank) & bit;
    bool is_redirected = !is_copied && (std_choice_of(&request->redirects, rank->local_rank) & bit);
    stream->shown.fd = is_err ? STDERR_FILENO : STDOUT_FILENO;
    stream->shown.before = is_copied ? rank->before : NULL;
    stream->is_shown = !is_redirected && is_to_be_shown(rank);
    if (is_copied && stream->is_shown)
        stream->copy = is_err ? &rank->launch->copies.errors : &rank->launch->copies.out;
    if (!is_copied && !is_redirected)
        return 0;
    cleanup_free char *path = path_join(folder, is_err ? "stderr.log" : "stdout.log");
    return logfile_open(&stream->file,
                        &(struct logfile_opts){.path = path, .cap_bytes = UINT64_MAX}, err);
}

/* `number`: the number by which lines and files name the rank. */
static char *line_prefix_new(const struct rank *rank, uint32_t number)
{
    const struct launch_request *request = rank->launch->request;
    char local_rank[16], global_rank[16], host[HOST_NAME_BYTES];
    if (!request->line_prefix)
        return xasprintf("[%s%u]:", request->role, number);
    snprintf(local_rank, sizeof(local_rank), "%u", rank->local_rank);
    snprintf(global_rank, sizeof(global_rank), "%u", rank->number);
    host_name(host);
    const struct macro macros[] = {{"role_name", request->role},
                                   {"local_rank", local_rank},
                                   {"rank", global_rank},
                                   {"hostname", rank->host ? rank->host : host}};
    return macros_fill(request->line_prefix, macros, countof(macros));
}

int rank_output_open(struct rank *rank, uint32_t generation, struct err *err)
{
    struct launch *launch = rank->launch;
    uint32_t number = launch->fleet ? rank->number : rank->local_rank; /* unique in this run */
    rank->before = line_prefix_new(rank, number);
    cleanup_free char *attempt = xasprintf("%s/attempt_%u", launch->log_root, generation);
    cleanup_free char *folder = xasprintf("%s/%u", attempt, number);
    int rc = mkdir_parents(folder, 0777, err);
    rank->error_path = path_join(folder, "error.json");
    rc = rc ? rc : line_copies_open(&launch->copies, attempt, generation, err);
    if (rc == 0)
        rc = stream_open(rank, &rank->out, folder, false, err);
    rc = rc ? rc : stream_open(rank, &rank->errors, folder, true, err);
    rank->shows_errors = rank->errors.is_shown;
    return rc;
}

/* ---- lines that several ranks print ---- */

/* Begins to fold lines, by default only on a terminal: a file or a pipe gets all lines of all ranks. */
void fold_begin(struct launch *launch)
{
    enum launch_fold when = launch->request->shown.fold;
    bool is_wanted = when == FOLD_ALWAYS || (when == FOLD_ON_TERMINAL && isatty(STDERR_FILENO));
    fold_free(launch->fold);
    launch->fold = is_wanted && launch->n_ranks > 1 ? fold_new(launch->n_ranks) : NULL;
}

void fold_say(struct launch *launch, bool is_end)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct fold_note note;
    if (!launch->fold || shell_is_mute(launch->shell) || shell_log(launch->shell)->console_quiet ||
        !fold_note(launch->fold, shell_now(launch->shell), is_end, &note))
        return;
    if (note.n_ranks == 1)
        buf_addf(&text, "muster: rank %u printed", launch->ranks[note.rank].number);
    else
        buf_addf(&text, "muster: %u ranks more printed", note.n_ranks);
    buf_addf(&text, " the same line%s", plural(note.n_most));
    if (note.n_least < note.n_most)
        buf_addf(&text, " (%u to %u)\n", note.n_least, note.n_most);
    else
        buf_addf(&text, note.n_most > 1 ? " (%u)\n" : "\n", note.n_most);
    (void)!log_say(shell_log(launch->shell), buf_str(&text));
}

/* ---- bytes ---- */

static void tail_add(struct buf *tail, struct str bytes)
{
    if (bytes.len > TAIL_BYTES)
        bytes = (struct str){bytes.at + bytes.len - TAIL_BYTES, TAIL_BYTES};
    buf_add_str(tail, bytes);
    if (tail->len > TAIL_KEPT_BYTES)
        buf_consume(tail, tail->len - TAIL_BYTES);
}

static void shown_print(struct rank *rank, struct rank_stream *stream, struct str bytes,
                        bool is_end)
{
    if (stream->is_shown)
        prefix_print(rank->launch->shell, &stream->shown, bytes, is_end);
}

/* Shows lines that are no echoes, and the rest of a line whose beginning is on the terminal already. */
static void folded_print(struct rank *rank, struct rank_stream *stream, struct str bytes,
                         bool is_end)
{
    cleanup_buf struct buf shown = BUF_INIT;
    uint32_t number = (uint32_t)(rank - rank->launch->ranks);
    uint64_t now_ms = shell_now(rank->launch->shell);
    buf_add_str(&stream->held, bytes);
    struct str rest = buf_str(&stream->held);
    for (const char *end; rest.len > 0 && (end = memchr(rest.at, '\n', rest.len)) != NULL;) {
        struct str line = {rest.at, (size_t)(end - rest.at)};
        bool is_echo = !stream->is_begun &&
                       fold_takes(rank->launch->fold, number, (uint32_t)rank->pid, line, now_ms);
        if (!is_echo)
            buf_add(&shown, line.at, line.len + 1);
        stream->is_begun = false;
        rest = (struct str){end + 1, rest.len - line.len - 1};
    }
    bool is_shown_now = is_end || stream->is_begun || rest.len > HELD_MAX_BYTES;
    if (is_shown_now && rest.len > 0) {
        buf_add_str(&shown, rest);
        stream->is_begun = true;
        rest.len = 0;
    }
    buf_consume(&stream->held, stream->held.len - rest.len);
    shown_print(rank, stream, buf_str(&shown), is_end);
}

static bool is_folded(const struct rank *rank, const struct rank_stream *stream)
{
    return stream == &rank->errors && stream->is_shown && rank->launch->fold;
}

static void shown_add(struct rank *rank, struct rank_stream *stream, struct str bytes, bool is_end)
{
    (is_folded(rank, stream) ? folded_print : shown_print)(rank, stream, bytes, is_end);
    if (stream->copy)
        line_copy_add(stream->copy, &stream->unfinished, stream->shown.before, bytes, is_end);
}

void rank_output_add(struct rank *rank, enum worker_stream which, struct str bytes)
{
    struct rank_stream *stream = which == STREAM_ERR ? &rank->errors : &rank->out;
    watch_spoke(rank, 0);
    if (which == STREAM_ERR)
        tail_add(&rank->tail, bytes);
    if (stream->file)
        logfile_add(stream->file, bytes);
    shown_add(rank, stream, bytes, false);
}

void rank_output_rest(struct rank *rank)
{
    struct rank_stream *streams[] = {&rank->out, &rank->errors};
    for (size_t i = 0; i < countof(streams); i++) {
        struct rank_stream *stream = streams[i];
        bool is_still = stream->shown.line.len + stream->held.len == stream->n_rest;
        if (is_still && stream->held.len > 0 && !stream->shown.before) {
            stream->is_begun = true;
            folded_print(rank, stream, STR(""), false);
        }
        if (is_still && stream->is_shown)
            prefix_rest_print(rank->launch->shell, &stream->shown);
        stream->n_rest = stream->shown.line.len + stream->held.len;
    }
}

static void stream_close(struct rank *rank, struct rank_stream *stream)
{
    shown_add(rank, stream, STR(""), true);
    prefix_release(&stream->shown);
    buf_release(&stream->unfinished);
    buf_release(&stream->held);
    cleanup_free char *name = xasprintf("rank %u", rank->number);
    log_failed(rank->launch, name, stream->file ? logfile_error(stream->file) : 0);
    if (stream->file)
        logfile_close(stream->file);
    *stream = (struct rank_stream){0};
}

void rank_output_close(struct rank *rank)
{
    stream_close(rank, &rank->out);
    stream_close(rank, &rank->errors);
}
