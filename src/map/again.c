/* SPDX-License-Identifier: Apache-2.0 */
#include "map/again.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/ours.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "map/outputs.h"
#include "store/manifest.h"
#include "store/runs.h"

/* A search through the existing runs. */
struct search {
    const struct map_request *request;
    bool quiet;
    char *found;       /* the folder of the run to go on with */
    bool is_failed;    /* it has ended, and set items aside */
    bool has_whole;    /* a newer run of the same work has come to its end */
    size_t n_others;   /* runs of other users that were looked at */
    size_t n_unread;   /* runs whose manifest could not be read */
    struct err unread; /* the error of the first of these */
};

enum {
    MANIFEST_LOOK_BYTES = 1 << 20,
    OTHERS_LOOKED_AT = 50 /* bounds the time spent on other users' run folders */
};

static bool lists_equal(const char *const *a, const char *const *b)
{
    while (a && b && *a && *b && strcmp(*a, *b) == 0) {
        a++;
        b++;
    }
    return a && b && !*a && !*b;
}

static bool are_same_inputs(const struct map_request *r, const char *const *inputs)
{
    for (size_t i = 0; i < r->n_inputs; i++) {
        cleanup_free char *input =
            strcmp(r->inputs[i], "-") == 0 ? xstrdup("-") : path_absolute(r->inputs[i]);
        if (!inputs || !inputs[i] || strcmp(inputs[i], input) != 0)
            return false;
    }
    return inputs && !inputs[r->n_inputs];
}

/* The output's name as the run in `dir` would have it. */
static char *output_of_run_new(const struct map_request *r, const char *dir)
{
    cleanup_free char *name = outputs_have_run(r) ? output_path_new(r->out_path, dir) : NULL;
    return output_name_new(name ? name : r->out_path);
}

static bool is_same_work(const struct map_request *r, const char *dir, const struct manifest *m)
{
    cleanup_free char *output = output_of_run_new(r, dir);
    cleanup_buf struct buf options = BUF_INIT;
    request_work(r, &options);
    return m->output && m->options_json && strcmp(m->output, output) == 0 &&
           lists_equal(m->command, r->command) && m->seed == r->schedule.seed &&
           strcmp(m->options_json, buf_text(&options)) == 0 && are_same_inputs(r, m->inputs);
}

static bool has_output(const struct map_request *r, const struct manifest *m)
{
    cleanup_free char *output = path_absolute(r->out_path);
    return strcmp(r->out_path, "-") != 0 && m->output && strcmp(m->output, output) == 0;
}

/* True if the error says that the run is another user's, damaged or gone: the run is passed over. Any
 * other error is reported. */
static bool is_no_matter(const struct err *err)
{
    static const int errnos[] = {ENOENT, ENOTDIR, EACCES, EPERM};
    bool is_one = err->code == ERR_DATA;
    for (size_t i = 0; i < countof(errnos); i++)
        is_one = is_one || err->sys == errnos[i];
    return is_one;
}

/* The output's name as a manifest would have it; NULL if the manifest may have another form of it. */
static const char *plain_name(const struct map_request *r)
{
    const char *name = path_basename(r->out_path);
    for (const char *at = name; *at; at++)
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
            return NULL;
    return outputs_have_run(r) ? NULL : name;
}

/* Most runs have other outputs. This check takes a tenth of the time of parsing a manifest. */
static bool may_be_like(const struct map_request *r, const char *dir)
{
    const char *name = plain_name(r);
    cleanup_free char *path = path_join(dir, "manifest.json");
    cleanup_buf struct buf text = BUF_INIT;
    return !name || plain_file_read(path, MANIFEST_LOOK_BYTES, &text, NULL) != 0 ||
           memmem(buf_text(&text), text.len, name, strlen(name)) != NULL;
}

static bool is_others(const char *dir)
{
    struct stat st;
    return stat(dir, &st) == 0 && !ours_is(&st, dir);
}

/* *has_whole: the run came to its end; a run that failed before it did anything did not. */
static int state_read(const char *dir, enum run_state *state, bool *has_whole, struct err *err)
{
    struct run_summary summary = {0};
    int rc = run_inspect(dir, &summary, err);
    *state = summary.state;
    *has_whole = summary.state == RUN_FINISHED ||
                 (summary.state == RUN_FAILED && summary.items_done + summary.items_failed > 0);
    run_summary_release(&summary);
    return rc;
}

/* By size and time. A user who mends the input, so that no item fails, wants all results anew. */
static bool are_inputs_unchanged(const struct map_request *r, const struct manifest *manifest)
{
    struct str files, file, value;
    bool is_begun = false;
    size_t n = 0;
    if (r->n_inputs == 0)
        return true;
    if (!manifest->input_json || !json_get(str_of(manifest->input_json), "files", &files))
        return false;
    for (; n < r->n_inputs && json_element(&files, &is_begun, &file); n++) {
        uint64_t bytes, mtime_ns;
        struct stat st;
        if (!json_get(file, "bytes", &value) || !json_to_u64(value, &bytes) ||
            !json_get(file, "mtime_ns", &value) || !json_to_u64(value, &mtime_ns) ||
            stat(r->inputs[n], &st) != 0 || (uint64_t)st.st_size != bytes ||
            (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec != mtime_ns)
            return false;
    }
    return n == r->n_inputs;
}

/*
 * An older run is not gone on with if a newer one came to its end: that one has replaced it. Where going on would be
 * refused, the map of a graph begins anew by itself, since no user is there to type --fresh.
 */
static bool can_go_on(const struct search *search, enum run_state state,
                      const struct manifest *manifest)
{
    const struct map_request *r = search->request;
    bool is_open = state == RUN_STOPPED || state == RUN_INTERRUPTED ||
                   (state == RUN_FAILED && r->goes_on_failed);
    return is_open && !search->has_whole &&
           (!r->goes_on_failed || are_inputs_unchanged(r, manifest));
}

/* A run with the same output or the same work: is it running, or can it be resumed? */
static int like_compare(struct search *search, const char *dir, const struct manifest *manifest,
                        struct err *err)
{
    const struct map_request *r = search->request;
    enum run_state state;
    struct err why = {0};
    bool has_whole;
    int rc = state_read(dir, &state, &has_whole, err);
    if (rc)
        return rc;
    cleanup_free char *typed = run_typed_new(dir, r->usual_root);
    if (state == RUN_RUNNING && has_output(r, manifest))
        return fail(err, ERR_UNAVAILABLE,
                    "run %s is going on and writes to %s; wait for it, end it by muster stop %s, "
                    "or name another output",
                    path_basename(dir), r->out_path, typed);
    if (search->found || !is_same_work(r, dir, manifest))
        return 0;
    bool can = can_go_on(search, state, manifest);
    search->has_whole = search->has_whole || has_whole;
    if (!can)
        return 0;
    rc = run_check_ours(dir, &why);
    if (rc == 0) {
        search->found = xstrdup(dir);
        search->is_failed = state == RUN_FAILED;
    } else if (why.sys != 0 && !is_no_matter(&why) && !r->run.fresh) {
        *err = why;
        return rc;
    } else if (!search->quiet && !r->run.fresh) {
        talk("%s is not gone on with: %s", path_basename(dir), why.text);
    }
    return 0;
}

/* Another user's run is never resumed; if it is the same work, the user is told. */
static void others_compare(struct search *search, const char *dir, const struct manifest *manifest)
{
    const struct map_request *r = search->request;
    enum run_state state;
    bool has_whole;
    if (search->quiet || r->run.fresh || !is_same_work(r, dir, manifest) ||
        state_read(dir, &state, &has_whole, NULL) != 0 || state == RUN_FINISHED)
        return;
    struct stat st;
    char owner[80];
    if (stat(dir, &st) != 0)
        return;
    owner_name(owner, st.st_uid);
    talk("run %s of %s does the same work; it is not yours to go on with, so a new run begins",
         path_basename(dir), owner);
}

static void unread_note(struct search *search, const struct err *why)
{
    if (search->n_unread++ == 0)
        search->unread = *why;
}

/* Compares one run folder. An unreadable folder of our own is an error: to pass over it could repeat all the work. */
static int run_compare(struct search *search, const char *dir, struct err *err)
{
    const struct map_request *r = search->request;
    bool is_theirs = is_others(dir);
    struct manifest manifest;
    struct err why = {0};
    if (is_theirs && search->n_others++ >= OTHERS_LOOKED_AT)
        return 0;
    if (!may_be_like(r, dir))
        return 0;
    int rc = manifest_read(dir, &manifest, &why);
    if (rc && !is_theirs && !is_no_matter(&why)) {
        *err = why;
        return rc;
    }
    if (rc == ERR_DATA)
        unread_note(search, &why);
    if (rc)
        return 0;
    if (is_theirs)
        others_compare(search, dir, &manifest);
    else if (has_output(r, &manifest) || is_same_work(r, dir, &manifest))
        rc = like_compare(search, dir, &manifest, err);
    manifest_release(&manifest);
    return rc;
}

static int runs_look(struct search *search, struct err *err)
{
    cleanup_free char *root = runs_root(search->request->run.runs_dir);
    struct run_names names = {0};
    int rc = runs_list(root, &names, err);
    if (rc && is_no_matter(err))
        return 0; /* no run can be there; making this run's folder will fail with the reason */
    if (rc)
        return wrap(err, rc, "look for an unfinished run");
    for (size_t i = 0; rc == 0 && i < names.len; i++) {
        cleanup_free char *dir = path_join(root, names.at[i]);
        rc = run_compare(search, dir, err);
    }
    run_names_release(&names);
    if (search->n_unread > 0 && !search->quiet)
        talk("%zu of the runs in %s could not be looked at: %s", search->n_unread, root,
             search->unread.text);
    return rc;
}

/* With --run-dir, only that folder is looked at. */
static int own_folder_look(struct search *search, struct err *err)
{
    cleanup_free char *dir = path_absolute(search->request->run.run_dir);
    free(steal_ptr(&search->found));
    search->has_whole = false;
    if (!path_exists(dir))
        return 0;
    int rc = run_check_ours(dir, err);
    return rc ? rc : run_compare(search, dir, err);
}

int run_again_find(struct map_request *r, bool quiet, char **again, struct err *err)
{
    struct search search = {.request = r, .quiet = quiet};
    if (r->resume_dir || !r->out_path || !r->command)
        return 0;
    int rc = r->shards.n_parts > 0 ? 0 : runs_look(&search, err);
    if (rc == 0 && r->run.run_dir)
        rc = own_folder_look(&search, err);
    if (r->run.fresh || rc)
        free(steal_ptr(&search.found));
    r->resume_dir = *again = search.found;
    r->is_typed_again = search.found != NULL;
    r->retry_failed = r->retry_failed || (search.found && search.is_failed);
    return rc;
}
