/* SPDX-License-Identifier: Apache-2.0
 *
 * What failed first. When one rank dies, the others fail too, with errors about broken connections; only the error of
 * the first one is of use.
 */
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "launch/launch_impl.h"

enum {
    ERROR_FILE_MAX = 256 * 1024, /* the same as for other machines */
    MESSAGE_MAX = 2000,
    END_SEEN_LATE_MS = 200, /* at most; 50 was measured on a busy machine */
    LINES_SHOWN = 12,       /* if the terminal has them already, among lines of other ranks */
    LINES_UNSEEN = 40       /* if they went into a file */
};
#define RECORD_MAX_S (UINT64_MAX / 2000) /* so that its milliseconds fit */
/* Of our own time-outs. */
#define HUNG_STATUS 124

/*
 * When the error was recorded. The record has whole seconds. Torch writes the file at once, so its mtime is finer, if
 * it is by our clock.
 */
static uint64_t record_ms(const struct rank *rank, uint64_t time_s)
{
    struct stat st;
    uint64_t ahead_s = (uint64_t)MAX(rank->clock_ahead_s, (int64_t)0);
    uint64_t behind_s = (uint64_t)MAX(-rank->clock_ahead_s, (int64_t)0);
    if (!rank->host && stat(rank->error_path, &st) == 0 && (uint64_t)st.st_mtim.tv_sec == time_s &&
        !is_network_fs(rank->error_path))
        return time_s * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
    return (time_s - MIN(time_s, ahead_s) + behind_s) * 1000 + 999;
}

/* Takes what torch's @record wrote: {"message": {"message": "ValueError: …", "extraInfo": {"timestamp": "1795"}}} */
static void record_take(struct rank *rank, struct str text)
{
    struct str message, extra;
    if (!json_get(text, "message", &message))
        return;
    if (json_kind_of(message) != JSON_OBJECT) {
        rank->message = json_text_new(text, "message", MESSAGE_MAX);
        return;
    }
    rank->message = json_text_new(message, "message", MESSAGE_MAX);
    if (json_get(message, "extraInfo", &extra)) {
        cleanup_free char *time = json_text_new(extra, "timestamp", 32);
        uint64_t time_s = time ? strtoull(time, NULL, 10) : 0;
        if (rank->message && time_s > 0 && time_s <= RECORD_MAX_S)
            rank->recorded_ms = record_ms(rank, time_s);
    }
}

void rank_record_read(struct rank *rank)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct err ignored = {0};
    /* plain_file_read: the script may have made anything at that path. */
    if (rank->status != 0 && rank->error_path &&
        plain_file_read(rank->error_path, ERROR_FILE_MAX, &text, &ignored) == 0)
        record_take(rank, buf_str(&text));
}

/* Rounds the difference of clocks to whole seconds, in which they are compared. */
void record_keep(struct rank *rank, struct str bytes, int64_t clock_ahead_ms)
{
    struct err err = {0};
    rank->clock_ahead_s = (clock_ahead_ms + (clock_ahead_ms < 0 ? -500 : 500)) / 1000;
    cleanup_fd int fd =
        open(rank->error_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int rc = fd >= 0 ? 0 : fail_errno(&err, "create it");
    if (rc == 0)
        rc = write_all(fd, bytes.at, bytes.len, &err);
    if (rc)
        log_add(shell_log(rank->launch->shell), LOG_WARN, "launch", "%s: %s", rank->error_path,
                err.text);
}

/*
 * Did a record its error, or end, before b? Ranks of other machines, whose clocks differ and whose messages take
 * time, are compared by whole seconds. The end of a rank without a record is seen a moment late: before it is seen, a
 * rank that failed because of it may have recorded an error.
 */
static bool is_earlier(const struct rank *a, const struct rank *b)
{
    bool are_here = !a->host && !b->host;
    uint64_t lag_ms = a->message && !b->message ? END_SEEN_LATE_MS : 0;
    return are_here ? a->recorded_ms + lag_ms < b->recorded_ms
                    : a->recorded_ms / 1000 < b->recorded_ms / 1000;
}

/*
 * The rank that caused the failure. The rank that ended first may have failed because of another one, which recorded
 * its error earlier. Errors that were recorded after the first end are consequences.
 */
static const struct rank *cause_find(const struct launch *launch, const struct rank *first)
{
    const struct rank *cause = first;
    for (uint32_t i = 0; i < launch->n_ranks; i++) {
        const struct rank *other = &launch->ranks[i];
        if (other->status != 0 && other->message && is_earlier(other, cause))
            cause = other;
    }
    return cause;
}

static void status_add(struct buf *out, const struct rank *rank)
{
    if (rank->exit_signal > 0)
        buf_addf(out, "signal %d (%s)", rank->exit_signal, strsignal(rank->exit_signal));
    else
        buf_addf(out, "status %d", rank->status);
}

void quote_add(struct buf *out, struct str text, size_t n_lines_max, bool is_tail)
{
    struct str line;
    size_t n_lines = text.len > 0 && text.at[text.len - 1] != '\n';
    n_lines += text.len > 0 ? count_newlines(text) : 0;
    size_t begin = is_tail && n_lines > n_lines_max ? n_lines - n_lines_max : 0;
    for (size_t i = 0; text.len > 0 && str_next(&text, '\n', &line); i++) {
        if (i < begin || i - begin >= n_lines_max)
            continue;
        buf_add_text(out, "\n  | ");
        console_text_add(out, line, false);
    }
}

/* Is the rank's stderr not on the terminal, or among lines of other ranks? */
static bool is_buried(const struct launch *launch, const struct rank *rank)
{
    bool is_buried = !rank->shows_errors;
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        is_buried = is_buried || (&launch->ranks[i] != rank && launch->ranks[i].tail.len > 0);
    return is_buried;
}

static void linger_report(struct launch *launch, uint32_t number)
{
    buf_addf(&launch->report, "rank %u had not ended, long after another rank had", number);
    launch->failed_status = 1;
}

void rank_name_add(struct buf *out, const struct rank *rank)
{
    char own[HOST_NAME_BYTES];
    bool has_others = rank->launch->rendezvous || rank->host;
    host_name(own);
    buf_addf(out, "rank %u (", rank->number);
    if (rank->pid > 0)
        buf_addf(out, "pid %d", (int)rank->pid);
    else
        buf_add_text(out, "pid not known");
    if (has_others)
        buf_addf(out, " on %s", rank->host ? rank->host : own);
    buf_add_text(out, ")");
}

static void others_add(struct buf *out, const struct launch *launch, const struct rank *cause)
{
    uint32_t n_others = 0, n_alike = 0;
    for (uint32_t i = 0; i < launch->n_ranks; i++) {
        const struct rank *other = &launch->ranks[i];
        if (other == cause || other->status == 0)
            continue;
        n_others++;
        n_alike += fold_ends_alike(buf_str(&cause->tail), (uint32_t)cause->pid,
                                   buf_str(&other->tail), (uint32_t)other->pid, LINES_SHOWN);
    }
    if (n_others == 0)
        return;
    buf_addf(out, "\n  %u other rank%s ended after it", n_others, plural(n_others));
    if (n_alike > 0)
        buf_addf(out, ", %u with the same words", n_alike);
}

static void failure_report(struct launch *launch, const struct rank *first)
{
    struct buf *out = &launch->report;
    const struct rank *cause = cause_find(launch, first);
    launch->failed_status = first->status;
    rank_name_add(out, cause);
    buf_add_text(out, " failed first: ");
    if (cause == first)
        status_add(out, cause);
    if (cause->message) {
        struct str rest = str_of(cause->message), line = rest;
        (void)!str_next(&rest, '\n', &line);
        buf_add_text(out, cause == first ? ": " : "");
        console_visible_add(out, line);
        buf_add_text(out, rest.len > 0 ? " ..." : "");
    }
    if (cause != first) {
        buf_addf(out, "; rank %u ended first: ", first->number);
        status_add(out, first);
    }
    if (is_buried(launch, cause))
        quote_add(out, buf_str(&cause->tail), cause->shows_errors ? LINES_SHOWN : LINES_UNSEEN,
                  true);
    others_add(out, launch, cause);
}

static void hung_report(struct launch *launch, const struct rank *rank)
{
    char silence[24];
    duration_format(silence, watch_silent_ms(launch));
    rank_name_add(&launch->report, rank);
    buf_addf(&launch->report, " stood still, and was ended with the others: nothing from it for %s",
             silence);
    launch->failed_status = HUNG_STATUS;
}

static void loss_report(struct launch *launch, const struct gang_failure *first)
{
    const char *host = launch->others.nodes[first->node].host;
    const char *left = launch->others.nodes[first->node].left;
    if (launch->fleet)
        buf_addf(&launch->report, "host %s was lost", host);
    else
        buf_addf(&launch->report, "machine %u (%s) was lost", first->node, host ? host : "?");
    buf_addf(&launch->report, " with rank %u and those after it: ", first->rank);
    console_visible_add(&launch->report, str_of(left ? left : "it is gone"));
    launch->failed_status = err_exit_status(ERR_UNAVAILABLE);
}

/* ---- for the caller of muster ---- */

/*
 * The rank that caused the failure; on a machine that follows, which does not know that rank, the first one here.
 * NULL: neither.
 */
static const struct rank *first_find(const struct launch *launch)
{
    const struct rank *found = NULL;
    if (launch->gang) {
        const struct gang_failure first = gang_view(launch->gang).first;
        return first.cause == GANG_STATUS ? cause_find(launch, &launch->ranks[first.rank]) : NULL;
    }
    for (uint32_t i = 0; i < launch->n_ranks; i++) {
        const struct rank *rank = &launch->ranks[i];
        if (rank->status != 0 && (!found || is_earlier(rank, found)))
            found = rank;
    }
    return found;
}

/* Completes the record as torchrun does: {"message": {…, "errorCode": 1}}; a signal has a negative code. */
static void record_complete(const struct rank *rank, struct str text, struct buf *out)
{
    struct str message, ignored;
    int code = rank->exit_signal > 0 ? -rank->exit_signal : rank->status;
    bool takes_code = json_get(text, "message", &message) && json_kind_of(message) == JSON_OBJECT &&
                      json_get(message, "message", &ignored) &&
                      !json_get(message, "errorCode", &ignored);
    size_t n_before = takes_code ? (size_t)(message.at - text.at) + message.len - 1 : text.len;
    buf_add(out, text.at, n_before);
    if (takes_code)
        buf_addf(out, ", \"errorCode\": %d", code);
    buf_add(out, text.at + n_before, text.len - n_before);
}

/* Writes into the existing file, and does not replace it: it may be a mount, such as Kubernetes' termination message. */
static int record_write(const char *path, struct str bytes, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno(err, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_USAGE, "%s is no regular file", path);
    if (ftruncate(fd, 0) != 0)
        return fail_errno(err, "empty %s", path);
    int rc = write_all(fd, bytes.at, bytes.len, err);
    return rc ? wrap(err, rc, "%s", path) : 0;
}

void record_hand_on(const struct launch *launch)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    const struct rank *rank = path && *path ? first_find(launch) : NULL;
    cleanup_buf struct buf text = BUF_INIT, whole = BUF_INIT;
    struct err err = {0};
    if (!rank || !rank->message || !rank->error_path)
        return;
    int rc = plain_file_read(rank->error_path, ERROR_FILE_MAX, &text, &err);
    if (rc == 0)
        record_complete(rank, buf_str(&text), &whole);
    rc = rc ? rc : record_write(path, buf_str(&whole), &err);
    if (rc)
        log_add(shell_log(launch->shell), LOG_WARN, "launch", "TORCHELASTIC_ERROR_FILE: %s",
                err.text);
}

void report_make(struct launch *launch)
{
    const struct gang_failure first = gang_view(launch->gang).first;
    buf_reset(&launch->report);
    if (first.cause == GANG_LINGERS)
        linger_report(launch, first.rank);
    else if (first.cause == GANG_LOST)
        loss_report(launch, &first);
    else if (first.cause == GANG_HUNG)
        hung_report(launch, &launch->ranks[first.rank]);
    else
        failure_report(launch, &launch->ranks[first.rank]);
}

/* Logs the report line by line, since the log cuts a line at a thousand bytes, and the end of a report says most. */
void report_print(struct launch *launch)
{
    cleanup_buf struct buf text = BUF_INIT;
    fold_say(launch, true);
    buf_addf(&text, "muster: %s\n", buf_text(&launch->report));
    (void)!log_say(shell_log(launch->shell), buf_str(&text));
}
