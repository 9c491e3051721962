/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that muster add gives to a graph that runs. Later sessions find them in added.jsonl.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/plan_outs.h"

enum {
    ADDED_BYTES_MAX = 64 << 20
};

static const char *const *texts_take(struct graph *graph, const json_t *array)
{
    size_t n = json_array_size(array);
    const char **out = plan_alloc(&graph->added, (n + 1) * sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(array, i));
        out[i] = plan_text(&graph->added, str_of(text ? text : ""));
    }
    return out;
}

static uint64_t number_of(const json_t *object, const char *key)
{
    return (uint64_t)MAX(json_integer_value(json_object_get(object, key)), (json_int_t)0);
}

static int needs_take(struct graph *graph, const json_t *array, struct plan_job *job,
                      struct err *err)
{
    size_t n = json_array_size(array);
    uint32_t *needs = plan_alloc(&graph->added, (n + 1) * sizeof(*needs));
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(array, i));
        needs[i] = name ? graph_find(graph, name) : UINT32_MAX;
        if (needs[i] == UINT32_MAX)
            return job_unknown(graph, name ? name : "", err);
    }
    job->needs = needs;
    job->n_needs = (uint32_t)n;
    return 0;
}

static void outs_take(struct graph *graph, const json_t *array, struct plan_job *job)
{
    size_t n = json_array_size(array);
    const char *const *paths = texts_take(graph, array);
    struct plan_out *outs = plan_alloc(&graph->added, (n + 1) * sizeof(*outs));
    for (size_t i = 0; i < n; i++)
        outs[i].path = paths[i];
    job->outs = outs;
    job->n_outs = (uint32_t)n;
}

/* The name is shown, becomes the name of log files, and is typed in orders, each of which is one line. */
static int name_check(const char *name, struct err *err)
{
    bool is_good = name[0] && strlen(name) <= PLAN_NAME_BYTES_MAX;
    for (const char *at = name; *at; at++)
        is_good = is_good && (unsigned char)*at >= ' ' && *at != 0x7f;
    return is_good
               ? 0
               : fail(err, ERR_USAGE, "--name: a name has 1 to %d bytes, and no control characters",
                      PLAN_NAME_BYTES_MAX);
}

/* muster add has checked this, and the dag relies on it. */
static bool is_within_limits(const json_t *root)
{
    json_int_t priority = json_integer_value(json_object_get(root, "priority"));
    return json_array_size(json_object_get(root, "argv")) > 0 && priority >= -DAG_PRIORITY_MAX &&
           priority <= DAG_PRIORITY_MAX && number_of(root, "share") <= DAG_SHARE_WHOLE;
}

/* Names by n_added, so that a job that is left out in this session, but may come back in the next, keeps its name. */
static char *usual_name_new(const struct graph *graph)
{
    for (uint32_t n = graph->n_added + 1;; n++) {
        cleanup_free char *name = xasprintf("added/%u", n);
        if (graph_find(graph, name) == UINT32_MAX)
            return steal_ptr(&name);
    }
}

/* A job that adds jobs and runs again adds the same jobs again. */
static bool is_added_again(const struct graph *graph, uint32_t number, const struct plan_job *job)
{
    const struct plan_job *there = graph->jobs[number].plan;
    cleanup_free char *before = definition_new(graph, there), *now = definition_new(graph, job);
    return number >= graph->plan->n_jobs && strcmp(before, now) == 0 &&
           there->n_needs == job->n_needs &&
           (job->n_needs == 0 ||
            memcmp(there->needs, job->needs, job->n_needs * sizeof(*job->needs)) == 0);
}

static int job_parse(struct graph *graph, const json_t *root, struct plan_job *job, struct err *err)
{
    const char *name = json_string_value(json_object_get(root, "name"));
    const char *cwd = json_string_value(json_object_get(root, "cwd"));
    uint64_t n_devices = number_of(root, "gpus");
    cleanup_free char *usual = name ? NULL : usual_name_new(graph);
    if (!is_within_limits(root))
        return fail(err, ERR_DATA, "an order that cannot be understood");
    int rc = name ? name_check(name, err) : 0;
    if (rc)
        return rc;
    if (n_devices > DAG_JOB_DEVICES_MAX)
        return fail(err, ERR_USAGE, "--gpus %lu: a job has at most %d", n_devices,
                    DAG_JOB_DEVICES_MAX);
    *job = (struct plan_job){
        .name = plan_text(&graph->added, str_of(name ? name : usual)),
        .stage = graph->plan->n_stages,
        .argv = texts_take(graph, json_object_get(root, "argv")),
        .env = texts_take(graph, json_object_get(root, "env")),
        .cwd = cwd ? plan_text(&graph->added, str_of(cwd)) : NULL,
        .devices = {.n_min = (uint32_t)n_devices,
                    .n_max = (uint32_t)n_devices,
                    .share = (uint32_t)number_of(root, "share"),
                    .mem_bytes = number_of(root, "mem_bytes")},
        .n_cpus = (uint32_t)number_of(root, "cpus"),
        .priority = (int32_t)json_integer_value(json_object_get(root, "priority")),
        .n_retries = (uint32_t)number_of(root, "retries"),
        .timeout_ms = number_of(root, "timeout_ms"),
    };
    outs_take(graph, json_object_get(root, "outs"), job);
    rc = needs_take(graph, json_object_get(root, "needs"), job, err);
    uint32_t there = graph_find(graph, job->name);
    if (rc == 0 && there != UINT32_MAX && !is_added_again(graph, there, job))
        return fail(err, ERR_UNAVAILABLE, "there is a job %s already", job->name);
    return rc;
}

/* Parses a job and appends it, unless it was added before. *number: its position. */
static int job_append(struct graph *graph, struct str text, uint32_t *number, struct err *err)
{
    json_t *root = json_loadb(text.at, text.len, 0, NULL);
    struct plan_job *job = plan_alloc(&graph->added, sizeof(*job));
    int rc = json_is_object(root) ? job_parse(graph, root, job, err)
                                  : fail(err, ERR_DATA, "an order that cannot be understood");
    json_decref(root);
    if (rc || (*number = graph_find(graph, job->name)) != UINT32_MAX)
        return rc;
    if (graph->n_jobs == graph->jobs_cap) {
        graph->jobs_cap = MAX(2 * graph->jobs_cap, 64u);
        graph->jobs = xrealloc(graph->jobs, graph->jobs_cap * sizeof(*graph->jobs));
    }
    *number = graph->n_jobs;
    graph->jobs[graph->n_jobs++] = (struct graph_job){.plan = job, .is_wanted = true};
    return 0;
}

static char *added_path_new(const struct graph *graph)
{
    return path_join(shell_run_dir(graph->shell), "added.jsonl");
}

/* Is the last line incomplete, as after a full disk? The next line must not be joined to it. */
static bool is_cut(int fd)
{
    char last = '\n';
    off_t len = lseek(fd, 0, SEEK_END);
    return len > 0 && pread(fd, &last, 1, len - 1) == 1 && last != '\n';
}

/* A line of added.jsonl; NULL: it cannot be written as JSON. */
static char *added_line_new(const char *name, struct str job)
{
    json_t *root = json_loadb(job.at, job.len, 0, NULL);
    json_object_set_new(root, "name", json_string(name));
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

/* Writes the job to added.jsonl (`fd`), so that the next session has it by the same name. */
static int added_write(int fd, const char *name, struct str job, struct err *err)
{
    cleanup_free char *line = added_line_new(name, job);
    cleanup_buf struct buf text = BUF_INIT;
    if (!line)
        return fail(err, ERR_DATA, "an order that cannot be understood");
    buf_addf(&text, "%s%s\n", is_cut(fd) ? "\n" : "", line);
    int rc = write_all(fd, text.at, text.len, err);
    if (rc == 0 && fsync(fd) != 0)
        rc = fail_errno(err, "sync");
    return rc;
}

/*
 * Puts the job into added.jsonl and into the dag, or into neither: a refused job does not run in the next session
 * either.
 */
static int added_keep(struct graph *graph, uint32_t number, struct str job, struct err *err)
{
    cleanup_free char *path = added_path_new(graph);
    cleanup_fd int fd = -1;
    int rc = ours_open(path, O_RDWR | O_CREAT | O_APPEND, &fd, err);
    if (rc)
        return wrap(err, rc, "keep the job in %s", path);
    off_t len_before = lseek(fd, 0, SEEK_END);
    rc = added_write(fd, graph->jobs[number].plan->name, job, err);
    if (rc)
        wrap(err, rc, "keep the job in %s", path);
    rc = rc ? rc : graph_dag_add(graph, number, err);
    if (rc && ftruncate(fd, len_before) != 0)
        log_add(shell_log(graph->shell), LOG_WARN, "graph",
                "%s is still in %s (%s), so the next session will run it",
                graph->jobs[number].plan->name, path, errno_text(errno));
    return rc;
}

/* The checks of outs that the jobs of a file pass before any of them runs. */
static int outs_check(const struct graph *graph, uint32_t number, struct err *err)
{
    cleanup_real_paths struct real_paths real = {.cwd = graph->cwd,
                                                 .has_links = graph->plan->has_links};
    const struct plan_job *job = graph->jobs[number].plan;
    int rc = 0;
    for (uint32_t i = 0; i < number && rc == 0; i++)
        rc = plan_outs_apart(graph->jobs[i].plan, job, &real, err);
    graph->plan->has_links = real.has_links; /* also if the job is refused: they are there */
    const char *existing = rc ? NULL : existing_out_find(graph, job);
    if (existing)
        rc = fail(err, ERR_USAGE,
                  "%s is there, and no run of this graph has made it; move it away, or give the "
                  "job another path",
                  existing);
    return rc;
}

int added_take(struct graph *graph, struct str text, struct buf *told, struct err *err)
{
    uint32_t number = 0;
    if (shell_is_to_end(graph->shell) || shell_end(graph->shell)->is_stopped)
        return fail(err, ERR_STOPPED, "the run is ending");
    const uint32_t n_before = graph->n_jobs;
    int rc = job_append(graph, text, &number, err);
    if (rc)
        return rc;
    if (graph->n_jobs == n_before) {
        buf_addf(told, "%s", graph->jobs[number].plan->name);
        return 0;
    }
    rc = outs_check(graph, number, err);
    rc = rc ? rc : added_keep(graph, number, text, err);
    if (rc == ERR_USAGE) /* the request is well-formed: another run might accept it */
        err->code = rc = ERR_UNAVAILABLE;
    if (rc) {
        graph->n_jobs--;
        return rc;
    }
    graph->n_added++;
    log_add(shell_log(graph->shell), LOG_INFO, "graph", "%s was added",
            graph->jobs[number].plan->name);
    if (graph_facts_set(graph, err) != 0) /* the number of jobs, for muster ls and muster status */
        log_add(shell_log(graph->shell), LOG_WARN, "graph", "%s", err->text);
    *err = (struct err){0};
    buf_addf(told, "%s", graph->jobs[number].plan->name);
    graph_tell(graph, (struct dag_event){.kind = DEV_TICK});
    return 0;
}

int added_read(struct graph *graph, struct err *err)
{
    cleanup_free char *path = added_path_new(graph);
    cleanup_buf struct buf text = BUF_INIT;
    struct str rest, line;
    uint32_t number;
    if (!path_exists(path))
        return 0;
    int rc = plain_file_read(path, ADDED_BYTES_MAX, &text, err);
    rest = buf_str(&text);
    while (rc == 0 && rest.len > 0 && str_next(&rest, '\n', &line)) {
        graph->n_added += line.len > 0;
        if (line.len > 0 && job_append(graph, line, &number, NULL) != 0)
            log_add(shell_log(graph->shell), LOG_WARN, "graph",
                    "a job that was added once is left out: %.*s", (int)MIN(line.len, (size_t)120),
                    line.at);
    }
    return rc;
}
