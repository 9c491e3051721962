/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge eval: how well a model answers questions (h, r, ?) and (?, r, t).
 */
#include <assert.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "cli/eval_scorer.h"
#include "cli/json_out.h"
#include "cli/kge_data.h"
#include "cli/kge_full.h"
#include "cli/kge_models.h"
#include "cli/kge_verbs.h"
#include "cli/triple_json.h"

enum {
    PROGRESS_EVERY_MS = 5000
};

struct eval_request {
    struct kge_files files;
    const char *model_path, *backend;
    uint64_t embedding_height, embedding_width, n_threads, max_test_triples;
    enum conve_layout layout;
    enum rank_ties ties;
    const char *output;
    bool tails_only, is_raw, json, overwrite;
};

static const struct choice ties_names[] = {
    {"mean", TIES_MEAN}, {"pessimistic", TIES_PESSIMISTIC}, {"optimistic", TIES_OPTIMISTIC}, {0}};

static const char *const sides[] = {
    [SIDE_TAIL] = "tails", [SIDE_HEAD] = "heads", [SIDE_N] = "both"};

static void metrics_json(struct buf *out, const char *side, enum rank_ties ties,
                         const struct rank_metrics *metrics)
{
    static const char *const hits[] = {"hits_at_1", "hits_at_3", "hits_at_10"};
    static_assert(countof(hits) == RANK_N_HITS, "a name for each");
    struct json_out json = {.to = out};
    json_out_open(&json, '{');
    json_out_text(&json, "side", str_of(side));
    json_out_u64(&json, "n", metrics->n);
    json_out_double(&json, "mrr", metrics->mean_reciprocal);
    for (size_t i = 0; i < RANK_N_HITS; i++)
        json_out_double(&json, hits[i], metrics->hits[i]);
    json_out_double(&json, "mean_rank", metrics->mean);
    json_out_text(&json, "ties", str_of(choice_word(ties_names, (int)ties)));
    json_out_close(&json, '}');
    buf_add_char(out, '\n');
}

static int metrics_print(const struct eval_request *ask,
                         const struct rank_metrics metrics[SIDE_N + 1], struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (!ask->json)
        buf_add_text(&text, "         MRR  Hits@1  Hits@3 Hits@10  mean rank  questions\n");
    for (size_t side = 0; side <= SIDE_N; side++) {
        const struct rank_metrics *m = &metrics[side];
        if (m->n == 0 || (side == SIDE_N && ask->tails_only))
            continue;
        if (ask->json)
            metrics_json(&text, sides[side], ask->ties, m);
        else
            buf_addf(&text, "%-5s %6.4f  %6.4f  %6.4f  %6.4f  %9.1f  %9lu\n", sides[side],
                     m->mean_reciprocal, m->hits[0], m->hits[1], m->hits[2], m->mean,
                     (unsigned long)m->n);
    }
    if (!ask->json)
        buf_addf(&text, "ties: %s, where entities have the answer's score\n",
                 choice_word(ties_names, (int)ask->ties));
    return stdout_put(buf_str(&text), err);
}

static void question_add(struct buf *out, const struct kge_data *data, size_t test,
                         enum rank_side side, const struct rank_each *of)
{
    struct json_out json = {.to = out};
    json_out_open(&json, '{');
    json_out_u64(&json, "test_index", test);
    triple_json_names(&json, "test", data, data->test.at[test]);
    json_out_text(&json, "asked", side == SIDE_TAIL ? STR("tail") : STR("head"));
    json_out_double(&json, "rank", of->rank);
    json_out_double(&json, "score", of->score);
    json_out_close(&json, '}');
    buf_add_char(out, '\n');
}

/* Writes one line for each question, in the order of the tests. */
static int questions_put(struct outfile *out, const struct kge_data *data, size_t n_tests,
                         const struct ranks_opts *opts, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n_tests; i++) {
        for (enum rank_side side = SIDE_TAIL; side < (opts->tails_only ? SIDE_HEAD : SIDE_N);
             side++)
            question_add(&out->pending, data, i, side, &opts->each[side][i]);
        rc = outfile_pump(out, err);
    }
    return rc ? rc : outfile_commit(out, err);
}

/* For the progress messages of a long evaluation. */
struct eval_progress {
    const struct app *app;
    uint64_t said_ms;
};

static void on_progress(void *context, uint64_t n_done, uint64_t n_questions)
{
    struct eval_progress *progress = context;
    uint64_t now_ms = clock_now_ms();
    if (now_ms - progress->said_ms < PROGRESS_EVERY_MS)
        return;
    progress->said_ms = now_ms;
    say(progress->app, "%" PRIu64 " of %" PRIu64 " questions", n_done, n_questions);
}

static int model_rank(const struct app *app, const struct eval_request *ask,
                      const struct kge_data *data, const struct conve *model,
                      const struct known *known, struct thread_pool *pool, struct err *err)
{
    struct eval_progress progress = {.app = app, .said_ms = clock_now_ms()};
    struct num_backend backend;
    struct rank_metrics metrics[SIDE_N + 1];
    struct outfile out = OUTFILE_INIT;
    struct ranks_opts opts = {.n_entities = data->entities.len,
                              .known = ask->is_raw ? NULL : known,
                              .ties = ask->ties,
                              .tails_only = ask->tails_only,
                              .progress = on_progress,
                              .progress_context = &progress};
    size_t n_tests = data->test.n;
    if (ask->max_test_triples > 0)
        n_tests = MIN(n_tests, (size_t)ask->max_test_triples);
    int rc = num_open(&backend, ask->backend, err);
    if (rc)
        return rc;
    if (ask->output)
        rc = outfile_open(&out, ask->output, ask->overwrite, err);
    for (enum rank_side side = SIDE_TAIL; ask->output && side < SIDE_N; side++)
        opts.each[side] = xcalloc(n_tests, sizeof(struct rank_each));
    if (rc == 0)
        rc = eval_rank(model, &backend, pool, &opts, data->test.at, n_tests, metrics, err);
    if (rc == 0 && ask->output)
        rc = questions_put(&out, data, n_tests, &opts, err);
    for (enum rank_side side = SIDE_TAIL; side < SIDE_N; side++)
        free(opts.each[side]);
    outfile_close(&out);
    num_close(&backend);
    return rc ? rc : metrics_print(ask, metrics, err);
}

static int eval_run(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    (void)command;
    struct eval_request *ask = request;
    struct kge_data data = {0};
    struct known known = {0};
    struct conve *model = NULL;
    const struct conve_load_opts load = {.height = (size_t)ask->embedding_height,
                                         .width = (size_t)ask->embedding_width,
                                         .layout = ask->layout};
    xalloc_cure("; fewer --threads and --tails-only take less");
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    if (!ask->files.test || !ask->model_path)
        return fail(err, ERR_USAGE, "--model-path and --test are needed");
    int rc = kge_output_check(ask->output, &ask->files,
                              &(struct texts){.at = &ask->model_path, .len = 1}, err);
    if (rc == 0)
        rc = kge_data_read(&data, &ask->files, app, err);
    if (rc == 0) {
        kge_known_build(&known, &data);
        rc = conve_load(&model, ask->model_path, &load, err);
    }
    if (rc == 0)
        kge_model_say(app, model);
    if (rc == 0)
        rc = conve_check_dictionaries(model, data.entities.len, data.relations.len, err);
    if (rc == 0) {
        struct thread_pool *pool = thread_pool_open((unsigned)ask->n_threads);
        kge_threads_say(app, ask->n_threads, thread_pool_n_threads(pool));
        rc = model_rank(app, ask, &data, model, &known, pool, err);
        thread_pool_close(pool);
    }
    conve_free(model);
    known_release(&known);
    kge_data_release(&data);
    return kge_full_say(rc, KGE_FULL_AGAIN, err);
}

#define FIELD(member) offsetof(struct eval_request, member)

static const struct opt eval_opts[] = {
    {OPT_PATH, 0, "model-path", "FILE", "checkpoint of a ConvE model, .pt or .safetensors",
     FIELD(model_path)},
    {OPT_FLAG, 0, "tails-only", NULL,
     "ask for tails only, as TiePin's trainer does; heads need a score of every entity for each relation",
     FIELD(tails_only)},
    {OPT_CHOICE, 0, "ties", "NAME",
     "where the answer stands among entities with the same score: mean (default), pessimistic, as "
     "TiePin's trainer has it, or optimistic",
     FIELD(ties), .choices = ties_names},
    {OPT_FLAG, 0, "raw", NULL, "count other true answers in the rank of the right one",
     FIELD(is_raw)},
    {OPT_U64, 0, "max-test-triples", "N", "the first N test triples only", FIELD(max_test_triples),
     1},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object per line", FIELD(json)},
    {OPT_PATH, 'o', "output", "FILE",
     "rank and score of each question as well, as JSON lines: its test triple, and whether the tail "
     "or the head was asked for",
     FIELD(output)},
    {OPT_FLAG, 0, "force", NULL, "replace the output if it exists", FIELD(overwrite)},
    {OPT_HEADING, .help = "Data"},
    KGE_FILES_OPTS(struct eval_request),
    KGE_VALID_OPT(struct eval_request, "validation triples, which are true as well"),
    {OPT_HEADING, .help = "Computing"},
    {OPT_U64, 0, "embedding-height", "N",
     "rows of an embedding as an image, where the checkpoint leaves it open",
     FIELD(embedding_height), 1, UINT32_MAX},
    {OPT_U64, 0, "embedding-width", "N",
     "columns of an embedding as an image; give --embedding-height or --embedding-width",
     FIELD(embedding_width), 1, UINT32_MAX},
    {OPT_CHOICE, 0, "layout", "NAME", "width or height, where the checkpoint leaves it open",
     FIELD(layout), .choices = kge_layouts},
    {OPT_TEXT, 0, "backend", "NAME", "blas or ref (default: the fastest that is here)",
     FIELD(backend)},
    {OPT_U64, 0, "threads", "N", "number of threads (default: one per processor)", FIELD(n_threads),
     1, 256},
    {.kind = OPT_END},
};

static const char *const eval_examples[] = {
    "muster kge eval --model-path best_model.pt --train train.txt --valid valid.txt --test test.txt "
    "--entity-to-id node_dict.txt --relation-to-id rel_dict.txt",
    "filtered ranks of heads and tails",
    NULL,
};

const struct cmd cmd_kge_eval = {
    .name = "eval",
    .family = "kge",
    .args = "[OPTION]... --model-path FILE --train FILE --test FILE",
    .summary = "rank the true answers among all entities",
    .details =
        "MRR, Hits@1, 3 and 10 and the mean rank, in the filtered setting: other answers that "
        "are true, by the training, validation or test triples, do not count.",
    .opts = eval_opts,
    .examples = eval_examples,
    .request_size = sizeof(struct eval_request),
    .run = eval_run,
};
