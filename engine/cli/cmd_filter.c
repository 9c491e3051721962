/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge filter: keeps the training triples that are near at least one test triple.
 */
#include "base/cleanup.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/kge_data.h"
#include "cli/kge_filter.h"
#include "cli/kge_full.h"
#include "cli/kge_verbs.h"

struct filter_request {
    struct kge_files files;
    struct kge_filter_ask filter;
    const char *output;
    bool overwrite, is_single, is_profiled, is_quiet;
};

static void filter_defaults(void *request)
{
    struct filter_request *ask = request;
    kge_filter_defaults(&ask->filter);
}

/* Marks the training triples near any test triple; returns how many test triples have none. */
static size_t near_mark(const struct kge_data *data, const struct proximity_opts *opts, bool *near)
{
    struct adjacency adjacency;
    size_t n_lonely = 0;
    adjacency_build(&adjacency, data->train.at, data->train.n, data->entities.len);
    struct proximity *proximity = proximity_new(&adjacency, opts);
    for (size_t i = 0; i < data->test.n; i++) {
        size_t n_kept;
        cleanup_free uint32_t *kept = proximity_filter(proximity, data->test.at[i], &n_kept);
        for (size_t k = 0; k < n_kept; k++)
            near[kept[k]] = true;
        n_lonely += n_kept == 0;
    }
    proximity_free(proximity);
    adjacency_release(&adjacency);
    return n_lonely;
}

static int near_write(const struct filter_request *ask, const struct kge_data *data,
                      const bool *near, struct err *err)
{
    struct outfile file = OUTFILE_INIT;
    int rc = outfile_open(&file, ask->output, ask->overwrite, err);
    for (size_t i = 0; rc == 0 && i < data->train.n; i++) {
        if (!near[i])
            continue;
        kge_triple_line(data, data->train.at[i], &file.pending);
        rc = outfile_pump(&file, err);
    }
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}

static int filter_write(const struct filter_request *ask, const struct app *app,
                        const struct kge_data *data, struct err *err)
{
    const struct proximity_opts opts = kge_filter_opts(&ask->filter);
    cleanup_free bool *near = xcalloc(data->train.n, sizeof(*near));
    size_t n_lonely = near_mark(data, &opts, near), n_near = 0;
    for (size_t i = 0; i < data->train.n; i++)
        n_near += near[i];
    if (n_near == 0)
        return fail(err, ERR_DATA,
                    "no training triple is near a test triple: more --n-hops or a smaller "
                    "--min-degree lets some in");
    int rc = near_write(ask, data, near, err);
    if (rc == 0)
        say(app, "%zu of %zu training triples are near one of %zu test triple%s", n_near,
            data->train.n, data->test.n, plural(data->test.n));
    if (rc == 0 && n_lonely > 0)
        say(app, "%zu test triple%s nothing near", n_lonely, n_lonely == 1 ? " has" : "s have");
    return rc;
}

static int filter_run(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    (void)command;
    struct filter_request *ask = request;
    struct kge_data data = {0};
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    if (!ask->files.test || !ask->output)
        return fail(err, ERR_USAGE, "--test and --output are needed");
    app->quiet = ask->is_quiet;
    int rc = kge_filter_check(&ask->filter, app, err);
    if (rc == 0)
        rc = kge_output_check(ask->output, &ask->files, &(struct texts){0}, err);
    if (rc == 0 && ask->is_profiled)
        say(app, "--profile has no effect: there is no Python to be profiled");
    if (rc == 0)
        rc = kge_data_read(&data, &ask->files, app, err);
    if (rc == 0 && ask->is_single)
        data.test.n = 1;
    if (rc == 0)
        rc = filter_write(ask, app, &data, err);
    kge_data_release(&data);
    return kge_full_say(rc, KGE_FULL_AGAIN, err);
}

#define FIELD(member) offsetof(struct filter_request, member)

static const struct opt filter_opts[] = {
    KGE_FILES_OPTS(struct filter_request),
    {OPT_PATH, 'o', "output", "FILE", "for the training triples that are kept, in their order",
     FIELD(output)},
    {OPT_FLAG, 0, "force", NULL, "replace the output if it exists", FIELD(overwrite)},
    {OPT_FLAG, 0, "single-triple", NULL, "for the first test triple alone", FIELD(is_single)},
    {OPT_FLAG, 'q', "quiet", NULL, "print only errors on stderr", FIELD(is_quiet)},
    {OPT_FLAG, 0, "profile", NULL, "no effect: accepted for TiePin's sake", FIELD(is_profiled)},
    {OPT_HEADING, .help = "Proximity filter"},
    KGE_FILTER_OPTS(struct filter_request),
    {.kind = OPT_END},
};

static const char *const filter_examples[] = {
    "muster kge filter --train train.txt --test test.txt --n-hops 2 -o near.txt",
    "what is within two hops of both ends of a test triple",
    NULL,
};

const struct cmd cmd_kge_filter = {
    .name = "filter",
    .family = "kge",
    .args = "[OPTION]... --train FILE --test FILE -o FILE",
    .summary = "keep the training triples that are near test triples",
    .opts = filter_opts,
    .examples = filter_examples,
    .request_size = sizeof(struct filter_request),
    .defaults = filter_defaults,
    .run = filter_run,
};
