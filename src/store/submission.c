/* SPDX-License-Identifier: Apache-2.0 */
#include "store/submission.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/ours.h"
#include "base/xalloc.h"

enum {
    /* In another user's file each line may name another job: these limits together bound the time of reading it. */
    FILE_MAX_BYTES = 4 << 20,
    JOBS_MAX = 8192,
    TEXT_MAX_BYTES = 65536
};

static const char *const event_names[] = {
#define X(id, name) [JOB_##id] = (name),
    JOB_EVENTS(X)
#undef X
};

/* ---- writing ---- */

static void text_add(struct buf *out, const char *key, const char *text)
{
    if (!text)
        return;
    buf_addf(out, ",\"%s\":", key);
    buf_add_json(out, str_of(text));
}

static void record_format(const struct job_record *record, struct buf *out)
{
    buf_addf(out, "{\"at\":%lld,\"job\":%llu,\"event\":\"%s\"", (long long)clock_wall_ms(),
             (unsigned long long)record->job, event_names[record->event]);
    text_add(out, "verb", record->verb);
    text_add(out, "role", record->role);
    text_add(out, "nodes", record->nodes);
    if (record->event == JOB_STARTED)
        buf_addf(out, ",\"restarts\":%llu", (unsigned long long)record->restarts);
    if (record->event == JOB_ENDED || record->event == JOB_INTERRUPTED)
        buf_addf(out, ",\"status\":%d", record->status);
    text_add(out, "why", record->why);
    buf_add_text(out, "}\n");
}

/* Is the last line cut off, as by a full disk? The next line must not be joined to it. */
static bool is_cut_off(int fd)
{
    struct stat st;
    char last;
    return fstat(fd, &st) == 0 && st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) == 1 &&
           last != '\n';
}

int submission_add(const char *dir, const struct job_record *record, struct err *err)
{
    cleanup_free char *path = path_join(dir, "jobs.jsonl");
    cleanup_buf struct buf line = BUF_INIT;
    cleanup_fd int fd = -1;
    int rc = ours_open(path, O_RDWR | O_APPEND | O_CREAT, &fd, err);
    if (rc == 0 && is_cut_off(fd))
        buf_add_char(&line, '\n');
    record_format(record, &line);
    if (rc == 0)
        rc = write_all(fd, line.at, line.len, err);
    if (rc == 0 && fsync(fd) != 0)
        rc = fail_errno(err, "sync %s", path);
    return rc;
}

/* ---- reading ---- */

static bool event_of(struct str line, enum job_event *out)
{
    cleanup_free char *name = json_text_new(line, "event", TEXT_MAX_BYTES);
    for (size_t i = 0; name && i < countof(event_names); i++)
        if (strcmp(name, event_names[i]) == 0) {
            *out = (enum job_event)i;
            return true;
        }
    return false;
}

static bool number_of(struct str line, const char *key, uint64_t *out)
{
    struct str value;
    return json_get(line, key, &value) && json_to_u64(value, out);
}

/*
 * A job whose first line is not "submitted" was submitted by the user. Its place is before the jobs with higher
 * numbers that still wait.
 */
static size_t place_find(const struct submission *submission, uint64_t id, bool is_noted)
{
    const struct submitted_job *jobs = submission->jobs;
    size_t place = submission->n_jobs;
    while (!is_noted && place > 0 && jobs[place - 1].id > id &&
           jobs[place - 1].event == JOB_SUBMITTED)
        place--;
    return place;
}

static struct submitted_job *job_of(struct submission *submission, uint64_t id, bool is_noted)
{
    for (size_t i = submission->n_jobs; i > 0; i--)
        if (submission->jobs[i - 1].id == id)
            return &submission->jobs[i - 1];
    size_t n = submission->n_jobs;
    if (n >= JOBS_MAX)
        return NULL;
    if ((n & (n - 1)) == 0)
        submission->jobs =
            xrealloc(submission->jobs, MAX(n * 2, (size_t)1) * sizeof(*submission->jobs));
    struct submitted_job *job = &submission->jobs[place_find(submission, id, is_noted)];
    memmove(job + 1, job, (size_t)(&submission->jobs[n] - job) * sizeof(*job));
    *job = (struct submitted_job){.id = id};
    submission->n_jobs++;
    return job;
}

static void text_take(struct str line, const char *key, char **field)
{
    char *text = json_text_new(line, key, TEXT_MAX_BYTES);
    if (!text)
        return;
    free(*field);
    *field = text;
}

static void line_read(struct submission *submission, struct str line)
{
    uint64_t id, at_ms = 0, status = 0;
    enum job_event event;
    if (!number_of(line, "job", &id) || id == 0 || !event_of(line, &event))
        return;
    struct submitted_job *job = job_of(submission, id, event == JOB_SUBMITTED);
    if (!job)
        return;
    (void)number_of(line, "at", &at_ms);
    (void)number_of(line, "status", &status);
    (void)number_of(line, "restarts", &job->restarts);
    int64_t changed_ms = (int64_t)MIN(at_ms, (uint64_t)INT64_MAX);
    job->changed_ms = MAX(job->changed_ms, changed_ms);
    if (event == JOB_SUBMITTED) { /* the job may have begun before this was written */
        struct str verb;
        job->submitted_ms = changed_ms;
        job->is_again = !json_get(line, "verb", &verb);
    } else {
        job->event = event;
    }
    job->status = (int)MIN(status, (uint64_t)255);
    text_take(line, "role", &job->role);
    text_take(line, "nodes", &job->nodes);
    text_take(line, "why", &job->why);
    text_take(line, "verb", &submission->verb);
}

void submission_parse(struct str text, struct submission *out)
{
    struct str line;
    *out = (struct submission){0};
    while (text.len > 0 && str_next(&text, '\n', &line))
        line_read(out, line);
}

void submission_add_unnoted(struct submission *submission, uint64_t id, const char *role)
{
    size_t n_before = submission->n_jobs;
    struct submitted_job *job = job_of(submission, id, false);
    if (submission->n_jobs > n_before)
        job->role = role ? xstrdup(role) : NULL;
}

int submission_read(const char *dir, struct submission *out, struct err *err)
{
    cleanup_free char *path = path_join(dir, "jobs.jsonl");
    cleanup_buf struct buf text = BUF_INIT;
    *out = (struct submission){0};
    if (!path_exists(path))
        return 0;
    int rc = plain_file_read(path, FILE_MAX_BYTES, &text, err);
    if (rc == 0)
        submission_parse(buf_str(&text), out);
    return rc;
}

void submission_release(struct submission *submission)
{
    for (size_t i = 0; i < submission->n_jobs; i++) {
        free(submission->jobs[i].role);
        free(submission->jobs[i].nodes);
        free(submission->jobs[i].why);
    }
    free(submission->jobs);
    free(submission->verb);
    *submission = (struct submission){0};
}

static bool has_role(const struct submitted_job *job, const char *role)
{
    return job->role && role ? strcmp(job->role, role) == 0 : job->role == role;
}

const struct submitted_job *submission_stage_at(const struct submission *submission, size_t index)
{
    const struct submitted_job *jobs = submission->jobs, *last = &jobs[index];
    for (size_t i = 0; i < index; i++)
        if (has_role(&jobs[i], jobs[index].role))
            return NULL;
    for (size_t i = index + 1; i < submission->n_jobs; i++)
        if (has_role(&jobs[i], jobs[index].role))
            last = &jobs[i];
    return last;
}

const struct submitted_job *submission_stage_after(const struct submission *submission,
                                                   const char *role)
{
    bool is_behind = false;
    for (size_t i = 0; i < submission->n_jobs; i++) {
        const struct submitted_job *job = submission_stage_at(submission, i);
        if (job && is_behind)
            return job;
        is_behind |= has_role(&submission->jobs[i], role);
    }
    return NULL;
}

/* The job that submitted this array again, if it has ended: it submits what is behind an array before that. NULL: the next
 * job is about to come. */
static const struct submitted_job *job_gave_up(const struct submission *submission,
                                               const struct submitted_job *array)
{
    const struct submitted_job *job = array;
    while (job > submission->jobs && submitted_job_is_array(job))
        job--;
    return array->is_again && !job->role && job->event == JOB_ENDED ? job : NULL;
}

const struct submitted_job *submission_last(const struct submission *submission)
{
    if (submission->n_jobs == 0)
        return NULL;
    const struct submitted_job *last = &submission->jobs[submission->n_jobs - 1], *stage = NULL;
    if (submitted_job_is_array(last)) {
        const struct submitted_job *before = job_gave_up(submission, last);
        return before ? before : last;
    }
    if (!last->role)
        return last;
    for (size_t i = 0; i < submission->n_jobs; i++) {
        const struct submitted_job *job = submission_stage_at(submission, i);
        stage = job ? job : stage;
        if (job && (job->event != JOB_ENDED || job->status != 0))
            break;
    }
    return stage;
}

bool submitted_job_is_array(const struct submitted_job *job)
{
    return job->role && strcmp(job->role, "tasks") == 0;
}

uint64_t submission_array_before(const struct submission *submission, uint64_t id)
{
    uint64_t array = 0;
    for (size_t i = 0; i < submission->n_jobs; i++) {
        const struct submitted_job *job = &submission->jobs[i];
        if (job->id == id)
            return job->submitted_ms > 0 ? array : 0;
        array = submitted_job_is_array(job) ? job->id : array;
    }
    return 0;
}

int64_t submission_since_ms(const struct submission *submission, const char *role)
{
    bool has_begun = false;
    int64_t since_ms = 0;
    for (size_t i = 0; i < submission->n_jobs; i++) {
        const struct submitted_job *job = &submission->jobs[i];
        if (!has_role(job, role))
            continue;
        bool is_of_user = job->submitted_ms > 0 && !job->is_again;
        since_ms = is_of_user ? job->submitted_ms : since_ms;
        has_begun = (has_begun && !is_of_user) ||
                    (job->event != JOB_SUBMITTED && job->event != JOB_CANCELLED);
    }
    return has_begun ? since_ms : 0;
}

uint64_t submission_count_again(const struct submission *submission, const char *role)
{
    uint64_t n = 0;
    for (size_t i = 0; i < submission->n_jobs; i++)
        if (has_role(&submission->jobs[i], role))
            n = submission->jobs[i].is_again ? n + 1 : 0;
    return n;
}
