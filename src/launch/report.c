/* SPDX-License-Identifier: Apache-2.0
 *
 * What failed first. When one rank dies, the others follow, with errors about connections that broke: of all that they
 * print, only what the first one says is of use.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "launch/launch_impl.h"

enum {
    ERROR_FILE_MAX = 1 << 20,
    MESSAGE_MAX = 2000,
    LINES_SHOWN = 12
};

/* What torch's @record wrote: {"message": {"message": "ValueError: …", "extraInfo": {"timestamp": "1795"}}} */
struct recorded {
    char *message; /* NULL: none */
    uint64_t time_s;
};

static struct recorded recorded_read(const char *path)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct recorded out = {0};
    struct str message, extra;
    struct stat st;
    /* The script may have made anything of that name. */
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        file_read_fd(fd, path, ERROR_FILE_MAX, &text, NULL) != 0 ||
        !json_get(buf_str(&text), "message", &message))
        return out;
    if (json_kind_of(message) != JSON_OBJECT) {
        out.message = json_text_new(buf_str(&text), "message", MESSAGE_MAX);
        return out;
    }
    out.message = json_text_new(message, "message", MESSAGE_MAX);
    if (json_get(message, "extraInfo", &extra)) {
        cleanup_free char *time = json_text_new(extra, "timestamp", 32);
        out.time_s = time ? strtoull(time, NULL, 10) : 0;
    }
    return out;
}

/*
 * The rank that ended first may have died of another one's error, which that one recorded in an earlier second. Errors that
 * were recorded after its end are echoes.
 */
static uint32_t cause_find(const struct launch *launch, uint32_t first, struct recorded *found)
{
    uint32_t rank = first;
    *found = recorded_read(launch->ranks[first].error_path);
    uint64_t time_s = found->time_s > 0 ? found->time_s : launch->ranks[first].gone_wall_s;
    for (uint32_t i = 0; i < launch->n_ranks; i++) {
        struct recorded other = {0};
        if (i != first && launch->ranks[i].status != 0)
            other = recorded_read(launch->ranks[i].error_path);
        if (other.message && other.time_s > 0 && other.time_s < time_s) {
            free(found->message);
            *found = other;
            time_s = other.time_s;
            rank = i;
        } else {
            free(other.message);
        }
    }
    return rank;
}

static void status_add(struct buf *out, const struct rank *rank)
{
    if (rank->exit_signal > 0)
        buf_addf(out, "signal %d (%s)", rank->exit_signal, strsignal(rank->exit_signal));
    else
        buf_addf(out, "status %d", rank->status);
}

/* The last lines, cleaned, each with a bar before it. */
static void tail_add(struct buf *out, const struct buf *tail)
{
    struct str rest = buf_str(tail), line;
    size_t n_lines = 0, n_left;
    for (size_t i = 0; i < rest.len; i++)
        n_lines += rest.at[i] == '\n' && i + 1 < rest.len;
    n_left = n_lines + (rest.len > 0);
    for (; rest.len > 0 && str_next(&rest, '\n', &line); n_left--) {
        if (n_left > LINES_SHOWN)
            continue;
        buf_add_text(out, "\n  | ");
        console_text_add(out, line, false);
    }
}

/* What the user has not seen, or what others have printed over. */
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

static void failure_report(struct launch *launch, uint32_t first)
{
    struct buf *out = &launch->report;
    struct recorded error;
    uint32_t n_others = 0, number = cause_find(launch, first, &error);
    const struct rank *rank = &launch->ranks[number];
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        n_others += i != number && launch->ranks[i].status != 0;
    launch->failed_status = launch->ranks[first].status;
    buf_addf(out, "rank %u (pid %d) failed first: ", number, (int)rank->pid);
    if (number == first)
        status_add(out, rank);
    if (error.message) {
        buf_add_text(out, number == first ? ": " : "");
        console_visible_add(out, str_of(error.message));
    }
    if (number != first) {
        buf_addf(out, "; rank %u ended first: ", first);
        status_add(out, &launch->ranks[first]);
    }
    if (is_buried(launch, rank))
        tail_add(out, &rank->tail);
    if (n_others > 0)
        buf_addf(out, "\n  %u other rank%s ended after it", n_others, plural(n_others));
    free(error.message);
}

void report_make(struct launch *launch)
{
    const struct gang_failure first = gang_view(launch->gang).first;
    buf_reset(&launch->report);
    if (first.cause == GANG_LINGERS)
        linger_report(launch, first.rank);
    else
        failure_report(launch, first.rank);
}

/* A line of the log is cut at a thousand bytes, and the end of a report says most. */
void report_print(struct launch *launch)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "muster: %s\n", buf_text(&launch->report));
    (void)log_say(launch->shell.log, buf_str(&text));
}
