/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/merge_tensors.h"

#include "base/parse.h"
#include "cli/run_arg.h"
#include "data/format.h"
#include "data/inputs.h"
#include "data/result_merge.h"
#include "tensor/array/array_merge.h"
#include "tensor/torch/torch_merge.h"

struct tensors_job {
    struct merging *merging;
    const struct tensors_request *ask;
    enum tensor_kind kind;
    const char *const *paths;
    size_t n_files;
    struct merge_rules rules;
    uint64_t n_bytes; /* bytes of the output */
};

void merging_note(void *context, const char *text)
{
    const struct merging *merging = context;
    say(merging->app, "merge: %s", text);
}

int merging_placing(void *context, int fd, struct err *err)
{
    const struct merging *merging = context;
    (void)fd;
    return inputs_check(merging->inputs, err);
}

/* For tests: splices even short lists, or none. */
static uint64_t splice_least_wanted(void)
{
    const char *text = getenv("MUSTER_SPLICE_LEAST");
    uint64_t bytes = 0;
    return text && u64_parse(str_of(text), 1, UINT64_MAX, &bytes, NULL) == 0 ? bytes : 0;
}

static int torch_files_merge(struct tensors_job *job, struct err *err)
{
    struct torch_merge_stats stats = {0};
    const struct tensors_request *ask = job->ask;
    struct torch_merge_opts opts = torch_merge_opts_of(ask->options, &job->rules);
    opts.force = ask->force;
    opts.dry_run = ask->dry_run;
    opts.expect = ask->expect == UINT64_MAX ? NULL : &ask->expect;
    opts.splice_least_bytes = splice_least_wanted();
    opts.are_shared = ask->reflink;
    opts.note = merging_note;
    opts.placing = merging_placing;
    opts.context = job->merging;
    int rc = torch_merge(&opts, job->paths, job->n_files, ask->out_path, &stats, err);
    job->n_bytes = stats.n_bytes;
    return rc;
}

static int arrays_merge(struct tensors_job *job, struct err *err)
{
    const struct tensors_request *ask = job->ask;
    const struct array_merge_opts opts = {.rules = &job->rules,
                                          .force = ask->force,
                                          .dry_run = ask->dry_run,
                                          .placing = merging_placing,
                                          .context = job->merging};
    if (job->kind == TENSOR_NPY && job->n_files == 1 && job->rules.len == 0) {
        int rc = merge_rule_add(&job->rules, STR(".=first"),
                                err); /* this rule need not match anything */
        if (rc)
            return rc;
    }
    return array_merge(&opts, job->kind, job->paths, job->n_files, ask->out_path, &job->n_bytes,
                       err);
}

static int (*const merges[N_TENSOR_KINDS])(struct tensors_job *job, struct err *err) = {
    [TENSOR_TORCH] = torch_files_merge,
    [TENSOR_SAFETENSORS] = arrays_merge,
    [TENSOR_NPY] = arrays_merge,
    [TENSOR_NPZ] = arrays_merge,
};

int tensors_look(char **paths, size_t n_files, enum tensor_kind *kind, struct err *err)
{
    enum tensor_kind first = TENSOR_NONE;
    for (size_t i = 0; i < n_files; i++) {
        enum tensor_kind found = TENSOR_NONE;
        int rc = strcmp(paths[i], "-") == 0 ? 0 : tensor_kind_of_input(paths[i], &found, err);
        if (rc)
            return rc;
        if (i > 0 && found != first) {
            bool is_first = first != TENSOR_NONE;
            return found != TENSOR_NONE && is_first
                       ? fail(err, ERR_USAGE, "%s is %s, %s is %s; merge each format alone",
                              paths[0], tensor_kind_name(first), paths[i], tensor_kind_name(found))
                       : fail(err, ERR_USAGE,
                              "%s is a file of tensors, %s is none; merge them apart",
                              paths[is_first ? 0 : i], paths[is_first ? i : 0]);
        }
        first = found;
    }
    *kind = first;
    return 0;
}

int tensors_output_check(enum tensor_kind kind, const char *path, struct err *err)
{
    enum tensor_kind named = tensor_kind_of_name(path);
    bool are_records = out_format_of_path(path) != OUT_LINES || out_packing_refuse(path, NULL) != 0;
    if (kind == TENSOR_NONE)
        return named == TENSOR_NONE
                   ? 0
                   : fail(err, ERR_USAGE,
                          "%s is named as a file of tensors (%s), and the files are records; give "
                          "it another extension",
                          path, tensor_kind_name(named));
    if (are_records || (named != TENSOR_NONE && named != kind))
        return fail(err, ERR_USAGE,
                    "%s is named as another format, and the files are %s, as the output will be; "
                    "give it another extension",
                    path, tensor_kind_name(kind));
    return 0;
}

int tensors_merge(struct merging *merging, const struct tensors_request *ask, enum tensor_kind kind,
                  char **paths, size_t n_files, struct err *err)
{
    struct tensors_job job = {.merging = merging,
                              .ask = ask,
                              .kind = kind,
                              .paths = (const char *const *)paths,
                              .n_files = n_files};
    char size[16];
    int rc = merge_rules_take(&job.rules, &ask->options->rules, ask->options->rules_path, err);
    if (rc == 0)
        rc = merges[kind](&job, err);
    merge_rules_release(&job.rules);
    if (rc)
        return rc;
    size_format(size, job.n_bytes);
    if (ask->dry_run)
        say(merging->app, "%zu file%s of tensors would go into %s", n_files, plural(n_files),
            ask->out_path);
    else
        say(merging->app, "%zu file%s of tensors into %s (%s)", n_files, plural(n_files),
            ask->out_path, size);
    return 0;
}
