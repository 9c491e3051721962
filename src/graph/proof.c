/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/proof_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/tree.h"
#include "base/xalloc.h"

enum {
    READ_BYTES = 1 << 20,
    LOOK_EVERY_MS = 250,
    JSON_BYTES_MAX = 256 << 20 /* of a file whose member is looked for */
};

/* ---- content ---- */

/* What the reading of one mark shares. */
struct reading {
    XXH3_state_t *hash;
    bool reads; /* content as well */
    const atomic_bool *is_given_up;
    struct file_mark *mark;
};

static bool is_given_up(const struct reading *reading)
{
    return reading->is_given_up && atomic_load(reading->is_given_up);
}

static int file_hash(const char *path, const struct reading *reading, struct err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    cleanup_free char *piece = xmalloc(READ_BYTES);
    ssize_t got = 0;
    if (fd < 0)
        return fail_errno(err, "open %s", path);
    while ((got = read(fd, piece, READ_BYTES)) > 0 || (got < 0 && errno == EINTR)) {
        if (got > 0)
            XXH3_64bits_update(reading->hash, piece, (size_t)got);
        if (is_given_up(reading))
            return fail(err, ERR_STOPPED, "%s was not read to its end", path);
    }
    return got < 0 ? fail_errno(err, "read %s", path) : 0;
}

/* Names count as well as content; links are not followed, and their targets count. */
static int entry_add(void *context, const struct tree_entry *entry, struct err *err)
{
    const struct reading *reading = context;
    struct file_mark *mark = reading->mark;
    char target[4096];
    if (is_given_up(reading))
        return fail(err, ERR_STOPPED, "%s was not read to its end", entry->path);
    mark->mtime_ns = MAX(mark->mtime_ns, nanoseconds(entry->st.st_mtim));
    mark->ctime_ns = MAX(mark->ctime_ns, nanoseconds(entry->st.st_ctim));
    mark->inodes += entry->st.st_ino;
    XXH3_64bits_update(reading->hash, entry->below, strlen(entry->below) + 1);
    if (S_ISLNK(entry->st.st_mode)) {
        ssize_t len = readlink(entry->path, target, sizeof(target));
        XXH3_64bits_update(reading->hash, target, (size_t)MAX(len, 0));
    }
    if (!S_ISREG(entry->st.st_mode))
        return 0;
    mark->n_bytes += (uint64_t)entry->st.st_size;
    return reading->reads ? file_hash(entry->path, reading, err) : 0;
}

int mark_take(const char *path, bool reads, const atomic_bool *given_up, struct file_mark *mark,
              struct err *err)
{
    struct reading reading = {XXH3_createState(), reads, given_up, mark};
    if (!reading.hash)
        return fail(err, ERR_STOPPED, "out of memory");
    XXH3_64bits_reset(reading.hash);
    int rc = tree_walk(path, entry_add, &reading, err);
    if (rc == 0 && reads)
        mark->hash = XXH3_64bits_digest(reading.hash);
    XXH3_freeState(reading.hash);
    return rc;
}

/* ---- what was to be left ---- */

char *out_path_new(const char *cwd, const char *path)
{
    char *whole = path_join(cwd, path);
    size_t len = strlen(whole);
    while (len > 1 && whole[len - 1] == '/')
        whole[--len] = '\0';
    return whole;
}

static char *path_of(const struct proof_ask *ask, const char *path)
{
    return out_path_new(ask->cwd, path);
}

static int lines_count(const char *path, uint64_t *out, struct err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    cleanup_free char *piece = xmalloc(READ_BYTES);
    ssize_t got;
    char last = '\n';
    if (fd < 0)
        return fail_errno(err, "open %s", path);
    *out = 0;
    while ((got = read(fd, piece, READ_BYTES)) > 0 || (got < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < got; i++)
            *out += piece[i] == '\n';
        last = got > 0 ? piece[got - 1] : last;
    }
    *out += last != '\n';
    return got < 0 ? fail_errno(err, "read %s", path) : 0;
}

struct counting {
    const char *pattern;
    uint64_t n;
};

static int entry_count(void *context, const struct tree_entry *entry, struct err *err)
{
    struct counting *counting = context;
    (void)err;
    counting->n += entry->depth == 1 && fnmatch(counting->pattern, entry->name, 0) == 0;
    return entry->depth == 1 ? TREE_SKIP : 0;
}

static int entries_count(const char *path, const char *pattern, uint64_t *out, struct err *err)
{
    struct counting counting = {pattern ? pattern : "*", 0};
    int rc = tree_walk(path, entry_count, &counting, err);
    *out = counting.n;
    return rc;
}

static int count_check(const struct plan_out *out, const char *path, bool is_folder,
                       struct err *err)
{
    uint64_t count = 0;
    if (out->count_min == 0)
        return 0;
    int rc =
        is_folder ? entries_count(path, out->pattern, &count, err) : lines_count(path, &count, err);
    if (rc || count >= out->count_min)
        return rc;
    return fail(err, ERR_DATA, "%s has %lu %s, and was to have %lu", out->path, count,
                is_folder ? "entries" : "lines", out->count_min);
}

static int json_check(const struct plan_out *out, const char *path, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str value;
    if (!out->json_has)
        return 0;
    int rc = file_read(path, JSON_BYTES_MAX, &text, err);
    if (rc)
        return rc;
    if (!json_is_object(str_trim(buf_str(&text))))
        return fail(err, ERR_DATA, "%s is no JSON object", out->path);
    if (!json_get(str_trim(buf_str(&text)), out->json_has, &value))
        return fail(err, ERR_DATA, "%s has no member \"%s\"", out->path, out->json_has);
    return 0;
}

static int out_check(const struct plan_out *out, const char *path, struct err *err)
{
    struct stat st;
    bool wants_folder = str_ends_with(str_of(out->path), STR("/"));
    if (stat(path, &st) != 0) {
        int sys = errno;
        int rc = sys == ENOENT ? fail(err, ERR_DATA, "it did not leave %s", out->path)
                               : fail_errno(err, "look at %s", out->path);
        err->sys = sys;
        return rc;
    }
    bool is_folder = S_ISDIR(st.st_mode);
    /* What is neither, such as a FIFO, is not even opened: that could take for ever. */
    if (wants_folder ? !is_folder : !S_ISREG(st.st_mode))
        return fail(err, ERR_DATA, "%s is %s", out->path,
                    wants_folder ? "no folder" : "no regular file");
    int rc = count_check(out, path, is_folder, err);
    return rc ? rc : json_check(out, path, err);
}

void outs_look(const struct proof_ask *ask, struct stat *before)
{
    for (uint32_t i = 0; i < ask->job->n_outs; i++) {
        cleanup_free char *path = path_of(ask, ask->job->outs[i].path);
        if (lstat(path, &before[i]) != 0)
            before[i] = (struct stat){0};
    }
}

/* Is it another file than before the job started? No clock is asked, since the file system's clock may differ. */
static bool is_other(const char *path, const struct stat *before)
{
    struct stat now;
    return lstat(path, &now) == 0 &&
           (before->st_nlink == 0 || now.st_ino != before->st_ino || now.st_dev != before->st_dev ||
            now.st_size != before->st_size ||
            nanoseconds(now.st_ctim) != nanoseconds(before->st_ctim));
}

struct search_since {
    int64_t since_ns;
    bool is_found;
};

static int entry_date(void *context, const struct tree_entry *entry, struct err *err)
{
    struct search_since *search = context;
    (void)err;
    search->is_found = nanoseconds(entry->st.st_ctim) >= search->since_ns;
    return search->is_found ? TREE_END : 0;
}

/* Was the file, or anything in the folder, written since? ctime tells, since no program can set it. */
static bool is_new(const char *path, int64_t since_ns)
{
    struct stat link;
    struct search_since search = {since_ns, false};
    if (lstat(path, &link) == 0 && nanoseconds(link.st_ctim) >= since_ns)
        return true;
    return tree_walk(path, entry_date, &search, NULL) == 0 && search.is_found;
}

static bool is_written(const struct proof_ask *ask, size_t number, const char *path)
{
    bool is_changed = ask->outs_before && is_other(path, &ask->outs_before[number]);
    return ask->since_ns <= 0 || is_changed || is_new(path, ask->since_ns);
}

static int out_take(const struct proof_ask *ask, size_t number, struct file_mark *mark,
                    struct err *err)
{
    const struct plan_out *out = &ask->job->outs[number];
    mark->path = path_of(ask, out->path);
    int rc = out_check(out, mark->path, err);
    if (rc == 0 && !is_written(ask, number, mark->path))
        rc = fail(err, ERR_DATA, "it did not write %s, which is as it was before", out->path);
    return rc ? rc : mark_take(mark->path, true, ask->is_given_up, mark, err);
}

static int entry_renew(void *context, const struct tree_entry *entry, struct err *err)
{
    (void)context, (void)err;
    if (S_ISREG(entry->st.st_mode))
        fd_close(&(int){open(entry->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)});
    return 0;
}

/* An NFS client may cache a file's attributes, or its absence, until the file and its folder are opened. */
static void out_renew(const struct proof_ask *ask, const struct plan_out *out)
{
    cleanup_free char *path = path_of(ask, out->path), *folder = path_dirname(path);
    fd_close(&(int){open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)});
    fd_close(&(int){open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)});
    if (tree_walk(path, entry_renew, NULL, NULL) != 0)
        errno = 0; /* it is not there yet */
}

static void mark_forget(struct file_mark *mark)
{
    free(mark->path);
    *mark = (struct file_mark){0};
}

static int out_prove(const struct proof_ask *ask, size_t number, struct file_mark *mark,
                     struct err *err)
{
    for (uint64_t waited_ms = 0;; waited_ms += LOOK_EVERY_MS) {
        if (ask->patience_ms > 0)
            out_renew(ask, &ask->job->outs[number]);
        int rc = out_take(ask, number, mark, err);
        bool is_given_up = ask->is_given_up && atomic_load(ask->is_given_up);
        if (rc == 0 || waited_ms >= ask->patience_ms || is_given_up)
            return rc;
        mark_forget(mark);
        *err = (struct err){0};
        nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_MS * 1000000L}, NULL);
    }
}

void job_proof_take(const struct proof_ask *ask, struct job_proof *out)
{
    const struct plan_job *job = ask->job;
    int rc = 0;
    out->outs = xcalloc(job->n_outs + 1, sizeof(*out->outs));
    for (; rc == 0 && out->n_outs < job->n_outs; out->n_outs++)
        rc = out_prove(ask, out->n_outs, &out->outs[out->n_outs], &out->why);
    size_t n_inputs = 0;
    while (job->inputs && job->inputs[n_inputs])
        n_inputs++;
    out->inputs = xcalloc(n_inputs + 1, sizeof(*out->inputs));
    for (; rc == 0 && out->n_inputs < n_inputs; out->n_inputs++) {
        struct file_mark *mark = &out->inputs[out->n_inputs];
        mark->path = path_of(ask, job->inputs[out->n_inputs]);
        rc = mark_take(mark->path, true, ask->is_given_up, mark, &out->why);
    }
}

static void marks_release(struct file_mark *marks, size_t n_marks)
{
    for (size_t i = 0; i < n_marks; i++)
        free(marks[i].path);
    free(marks);
}

struct file_mark *job_proof_steal(struct job_proof *proof)
{
    struct file_mark *marks = proof->n_outs > 0 ? proof->outs : NULL;
    for (size_t i = 0; i < proof->n_outs; i++)
        free(steal_ptr(&marks[i].path));
    if (marks) {
        proof->outs = NULL;
        proof->n_outs = 0;
    }
    return marks;
}

void job_proof_release(struct job_proof *proof)
{
    marks_release(proof->outs, proof->n_outs);
    marks_release(proof->inputs, proof->n_inputs);
    *proof = (struct job_proof){0};
}

uint64_t job_proof_digest(const struct job_proof *proof)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < proof->n_outs; i++) {
        const struct file_mark *mark = &proof->outs[i];
        const uint64_t parts[] = {digest, mark->n_bytes, mark->hash};
        digest =
            XXH3_64bits_withSeed(mark->path, strlen(mark->path), XXH3_64bits(parts, sizeof(parts)));
    }
    return digest;
}
