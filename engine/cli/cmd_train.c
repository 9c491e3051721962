/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge train: trains a ConvE model on triples.
 */
#include <math.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/kge_data.h"
#include "cli/kge_full.h"
#include "cli/kge_models.h"
#include "cli/kge_verbs.h"
#include "cli/no_effect.h"
#include "cli/train_job.h"
#include "cli/train_launch.h"
#include "cli/train_ranks.h"

/* Options of TiePin's train.py and train_pytorch.py that change nothing here. */
struct train_no_effect {
    uint64_t n_workers;
    bool mixed_precision, checkpointed, no_cleanup, tracked, skips_evaluation;
};

struct train_request {
    struct kge_files files;
    struct train_job_opts job;
    const char *backend, *resume_from, *gpus;
    struct team team;
    uint64_t dim, height, width, n_filters, kernel, kernel_height, kernel_width, batch_size;
    uint64_t accumulate, n_threads;
    enum conve_layout layout;
    bool has_entity_bias, is_reciprocal, is_one_positive;
    bool takes_no_gpu, takes_all_epochs, is_quiet;
    struct train_no_effect no_effect;
};

enum {
    HEIGHT_DEFAULT = 10
};

static const struct no_effect no_effects[] = {
    {"num-workers", "data is loaded without extra processes",
     offsetof(struct train_no_effect, n_workers), true},
    {"use-mixed-precision", "use --precision bf16 or fp16",
     offsetof(struct train_no_effect, mixed_precision), false},
    {"use-gradient-checkpointing", "a batch is computed once",
     offsetof(struct train_no_effect, checkpointed), false},
    {"disable-memory-cleanup", "memory is taken once, at the start",
     offsetof(struct train_no_effect, no_cleanup), false},
    {"track-gradients", "muster kge tracin computes gradients itself",
     offsetof(struct train_no_effect, tracked), false},
    {"skip-evaluation", "training does not evaluate on the test triples, muster kge eval does",
     offsetof(struct train_no_effect, skips_evaluation), false},
};

static int positive_store(struct str text, void *field, struct err *err)
{
    double value = 0;
    int rc = double_parse(text, &value, err);
    if (rc == 0 && !(value > 0))
        rc =
            fail(err, ERR_USAGE, "expected a number above 0, found '%.*s'", (int)text.len, text.at);
    *(double *)field = value;
    return rc;
}

/* For probabilities of dropout, and for the share of a label that is smoothed away. */
static int share_store(struct str text, void *field, struct err *err)
{
    double value = 0;
    int rc = double_parse(text, &value, err);
    if (rc == 0 && !(value >= 0 && value < 1))
        rc = fail(err, ERR_USAGE, "expected a number from 0 to below 1, found '%.*s'",
                  (int)text.len, text.at);
    *(double *)field = value;
    return rc;
}

/* The defaults of the plain implementation. */
static void train_defaults(void *request)
{
    struct train_request *ask = request;
    ask->dim = 200;
    ask->n_filters = 32;
    ask->kernel = 3;
    ask->layout = LAYOUT_WIDTH;
    ask->batch_size = 256;
    ask->accumulate = 1;
    ask->job = (struct train_job_opts){
        .train = {.mode = {.dropout = {0.2, 0.2, 0.3}, .label_smoothing = 0.1},
                  .learning_rate = 1e-3,
                  .decay = 1},
        .n_epochs = 100,
        .eval_every = 1,
        .state_every_ms = 60000,
    };
}

static int shape_of(const struct train_request *ask, const struct kge_data *data,
                    struct conve_shape *shape, struct err *err)
{
    uint64_t height = ask->height                                ? ask->height
                      : ask->width && ask->dim % ask->width == 0 ? ask->dim / ask->width
                                                                 : HEIGHT_DEFAULT;
    if (ask->dim % height != 0)
        return fail(err, ERR_USAGE,
                    "--embedding-dim %lu is no multiple of --embedding-height %lu: an embedding is "
                    "taken as an image of so many rows",
                    (unsigned long)ask->dim, (unsigned long)height);
    if (ask->width && height * ask->width != ask->dim)
        return fail(err, ERR_USAGE,
                    "--embedding-dim %lu is not --embedding-height %lu times --embedding-width %lu",
                    (unsigned long)ask->dim, (unsigned long)height, (unsigned long)ask->width);
    *shape = (struct conve_shape){
        .n_entities = data->entities.len,
        .n_relations = data->relations.len * (ask->is_reciprocal ? 2 : 1),
        .height = (size_t)height,
        .width = (size_t)(ask->dim / height),
        .n_filters = (size_t)ask->n_filters,
        .kernel_height = (size_t)(ask->kernel_height ? ask->kernel_height : ask->kernel),
        .kernel_width = (size_t)(ask->kernel_width ? ask->kernel_width : ask->kernel),
        .layout = ask->layout,
        .has_entity_bias = ask->has_entity_bias,
        .bn_eps = 1e-5};
    return conve_shape_check(shape, err) == 0 ? 0 : wrap(err, ERR_USAGE, "the model");
}

static int request_check(const struct train_request *ask, struct err *err)
{
    if (!ask->job.folder)
        return fail(err, ERR_USAGE, "-o is needed: the folder for the model");
    if (ask->resume_from)
        return fail(err, ERR_USAGE,
                    "--resume-from-checkpoint: a training goes on from the state in its own folder "
                    "when the same command is given again: leave the option out");
    if (ask->takes_no_gpu && ask->backend && strcmp(ask->backend, "cuda") == 0)
        return fail(err, ERR_USAGE, "--no-gpu and --backend cuda: leave one of them out");
    const struct {
        const char *option;
        bool is_given;
    } of_valid[] = {{"patience", ask->job.patience > 0 && !ask->takes_all_epochs},
                    {"max-valid-triples", ask->job.max_valid_triples > 0}};
    for (size_t i = 0; i < countof(of_valid); i++)
        if (of_valid[i].is_given && !ask->files.valid)
            return fail(err, ERR_USAGE, "--%s needs --valid, the file of validation triples",
                        of_valid[i].option);
    return 0;
}

static int job_run(struct train_request *ask, const struct kge_data *data, const struct app *app,
                   struct err *err)
{
    struct conve_shape shape;
    struct train_job job;
    const char *backend = ask->backend || ask->takes_no_gpu ? ask->backend : train_launch_backend();
    int rc = shape_of(ask, data, &shape, err);
    if (rc == 0 && backend && strcmp(backend, "cuda") == 0)
        rc = train_ranks_device(&ask->team, err);
    if (rc != 0)
        return rc;
    ask->job.patience = ask->takes_all_epochs ? 0 : ask->job.patience;
    ask->job.train.is_grouped = !ask->is_one_positive;
    ask->job.train.mode.drops_before_bn0 = ask->layout == LAYOUT_WIDTH;
    ask->job.train.batch_size = (size_t)ask->batch_size;
    ask->job.train.accumulate = (size_t)ask->accumulate;
    ask->job.train.mode.team = &ask->team;
    ask->job.is_restarted = train_ranks_are_restarted();
    ask->job.n_threads =
        ask->n_threads ? (unsigned)ask->n_threads : train_ranks_threads(&ask->team);
    struct conve *model = conve_new(&shape, ask->job.folder);
    model->is_reciprocal = ask->is_reciprocal;
    rc = train_job_open(&job, &ask->job, model, backend, data, app, err);
    if (rc == 0)
        rc = train_job_run(&job, err);
    train_job_close(&job);
    return rc;
}

static int train_run(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    (void)command;
    struct train_request *ask = request;
    struct kge_data data = {0};
    xalloc_cure(
        "; fewer --threads and a smaller --batch-size take less, and the same command goes on "
        "where its state was saved");
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    app->quiet = ask->is_quiet;
    int rc = request_check(ask, err);
    if (rc == 0 && ask->gpus && !train_launch_is_rank())
        return train_launch(app, ask->gpus, err);
    if (rc == 0)
        rc = team_open(&ask->team, err);
    app->quiet = app->quiet || !team_is_leader(&ask->team);
    if (rc == 0)
        no_effects_say(app, no_effects, countof(no_effects), &ask->no_effect);
    if (rc == 0)
        rc = kge_data_read(&data, &ask->files, app, err);
    if (rc == 0)
        rc = job_run(ask, &data, app, err);
    kge_data_release(&data);
    rc = kge_full_say(rc,
                      ask->job.overwrite ? "the same command without --force goes on"
                                         : "the same command goes on",
                      err);
    return train_ranks_close(&ask->team, rc, err);
}

#define FIELD(member) offsetof(struct train_request, member)

static const struct opt train_opts[] = {
    {OPT_PATH, 'o', "output", "DIR",
     "the folder: best_model, final_model and the state to go on from, as safetensors, and "
     "training_history.jsonl",
     FIELD(job.folder)},
    {OPT_ALIAS, 0, "output-dir", .same_as = "output"},
    {OPT_FLAG, 0, "force", NULL,
     "begin anew: the state, the best and final model and the checkpoints of the training that is "
     "there are removed",
     FIELD(job.overwrite)},
    {OPT_HEADING, .help = "Data"},
    KGE_FILES_OPTS(struct train_request),
    KGE_VALID_OPT(struct train_request,
                  "validation triples: their MRR after an epoch decides which model is the best"),
    {OPT_U64, 0, "max-valid-triples", "N", "validate on the first N validation triples only",
     FIELD(job.max_valid_triples), 1},
    {OPT_HEADING, .help = "The model"},
    {OPT_U64, 0, "embedding-dim", "N", "numbers in an embedding (default 200)", FIELD(dim), 1,
     1 << 20},
    {OPT_U64, 0, "embedding-height", "N", "rows of an embedding as an image (default 10)",
     FIELD(height), 1, 1 << 20},
    {OPT_U64, 0, "embedding-width", "N",
     "columns of an embedding as an image; give --embedding-height or --embedding-width",
     FIELD(width), 1, 1 << 20},
    {OPT_U64, 0, "output-channels", "N", "filters of the convolution (default 32)",
     FIELD(n_filters), 1, 1 << 16},
    {OPT_U64, 0, "kernel-size", "N", "height and width of a filter (default 3)", FIELD(kernel), 1,
     1 << 10},
    {OPT_U64, 0, "kernel-height", "N", "height of a filter, if not square", FIELD(kernel_height), 1,
     1 << 10},
    {OPT_U64, 0, "kernel-width", "N", "width of a filter, if not square", FIELD(kernel_width), 1,
     1 << 10},
    {OPT_CHOICE, 0, "layout", "NAME",
     "head and relation side by side (width, default) or one below the other (height, as the paper "
     "and PyKEEN)",
     FIELD(layout), .choices = kge_layouts},
    {OPT_FLAG, 0, "entity-bias", NULL, "a bias for each entity, as the paper and PyKEEN",
     FIELD(has_entity_bias)},
    {OPT_FLAG, 0, "reciprocal", NULL,
     "also train the inverse of each relation, as a relation of its own; the heads of a relation "
     "are then the tails of its inverse",
     FIELD(is_reciprocal)},
    {OPT_HEADING, .help = "Training"},
    {OPT_U64, 0, "epochs", "N", "number of times that each question is seen (default 100)",
     FIELD(job.n_epochs), 1},
    {OPT_ALIAS, 0, "num-epochs", .same_as = "epochs"},
    {OPT_U64, 0, "batch-size", "N", "questions in a batch (default 256)", FIELD(batch_size), 2,
     1 << 20},
    {OPT_U64, 0, "accumulate", "N", "batches to an update (default 1)", FIELD(accumulate), 1,
     1 << 20},
    {OPT_FLAG, 0, "one-positive", NULL,
     "a question is a triple, with its own tail alone as the answer, as TiePin's trainer has it "
     "(default: a head and a relation, with all their tails, as the paper)",
     FIELD(is_one_positive)},
    {OPT_PARSE, 0, "learning-rate", "X", "learning rate of Adam (default 0.001)",
     FIELD(job.train.learning_rate), .parse = positive_store},
    {OPT_PARSE, 0, "lr-decay", "X", "factor of the learning rate from epoch to epoch (default 1)",
     FIELD(job.train.decay), .parse = positive_store},
    {OPT_PARSE, 0, "label-smoothing", "X", "share of the labels that is spread (default 0.1)",
     FIELD(job.train.mode.label_smoothing), .parse = share_store},
    {OPT_PARSE, 0, "input-dropout", "X", "dropout of the input images (default 0.2)",
     FIELD(job.train.mode.dropout[DROPOUT_INPUT]), .parse = share_store},
    {OPT_PARSE, 0, "feature-dropout", "X", "dropout of whole feature maps (default 0.2)",
     FIELD(job.train.mode.dropout[DROPOUT_FEATURES]), .parse = share_store},
    {OPT_ALIAS, 0, "feature-map-dropout", .same_as = "feature-dropout"},
    {OPT_PARSE, 0, "hidden-dropout", "X", "dropout after fc (default 0.3)",
     FIELD(job.train.mode.dropout[DROPOUT_OUTPUT]), .parse = share_store},
    {OPT_ALIAS, 0, "output-dropout", .same_as = "hidden-dropout"},
    {OPT_U64, 0, "seed", "N", "seed of the first weights, the order and the dropout (default 0)",
     FIELD(job.train.seed)},
    {OPT_ALIAS, 0, "random-seed", .same_as = "seed"},
    {OPT_U64, 0, "eval-every", "N", "number of epochs from one validation to the next (default 1)",
     FIELD(job.eval_every), 1},
    {OPT_U64, 0, "patience", "N",
     "end after N validations without a better MRR (default: train all epochs)",
     FIELD(job.patience), 1},
    {OPT_FLAG, 0, "no-early-stopping", NULL, "train all epochs, whatever --patience says",
     FIELD(takes_all_epochs)},
    {OPT_U64, 0, "checkpoint-every", "N",
     "keep a checkpoint_epoch_<N> every N epochs (default: none)", FIELD(job.checkpoint_every), 1},
    {OPT_ALIAS, 0, "checkpoint-frequency", .same_as = "checkpoint-every"},
    {OPT_PATH, 0, "checkpoint-dir", "DIR",
     "folder for the files of --checkpoint-every (default: that of --output)",
     FIELD(job.checkpoint_folder)},
    {OPT_DURATION, 0, "state-every", "TIME",
     "time from one save of the state to the next (default 60s); a stop saves it too",
     FIELD(job.state_every_ms)},
    {OPT_HEADING, .help = "Computing"},
    {OPT_TEXT, 0, "backend", "NAME",
     "blas, ref or cuda (default: the faster of the first two that is here)", FIELD(backend)},
    {OPT_CHOICE, 0, "precision", "NAME",
     "number format of the factors in the largest products: fp32 (default), bf16 or fp16; all else "
     "stays float32, and the error is measured and printed",
     FIELD(job.train.mode.format), .choices = kge_precisions},
    {OPT_U64, 0, "threads", "N",
     "number of threads (default: one per processor, of a rank OMP_NUM_THREADS); the results do "
     "not depend on it",
     FIELD(n_threads), 1, 256},
    {OPT_TEXT, 'g', "gpus", "SPEC",
     "train on these devices, with one rank on each, as muster launch -g has it: 0,2-3, any:2, "
     "all, free, or cpu:4 for four ranks on processors",
     FIELD(gpus)},
    {OPT_FLAG, 0, "reproducible", NULL,
     "the same bits on any number of ranks: GPUs cut their work into eighths for this; ranks on "
     "processors always give the same bits, and with this option ranks whose processors or "
     "libraries differ are refused",
     FIELD(job.train.mode.is_reproducible)},
    {OPT_FLAG, 0, "no-gpu", NULL, "compute on processors, as without --backend cuda",
     FIELD(takes_no_gpu)},
    {OPT_FLAG, 'q', "quiet", NULL, "print only errors on stderr", FIELD(is_quiet)},
    {OPT_HEADING, .help = "Accepted for TiePin's sake, without effect"},
    {OPT_U64, 0, "num-workers", "N", "no effect: data is loaded without extra processes",
     FIELD(no_effect.n_workers)},
    {OPT_FLAG, 0, "use-mixed-precision", NULL, "no effect: use --precision bf16 or fp16",
     FIELD(no_effect.mixed_precision)},
    {OPT_FLAG, 0, "use-gradient-checkpointing", NULL, "no effect: a batch is computed once",
     FIELD(no_effect.checkpointed)},
    {OPT_FLAG, 0, "disable-memory-cleanup", NULL, "no effect: memory is taken once, at the start",
     FIELD(no_effect.no_cleanup)},
    {OPT_FLAG, 0, "track-gradients", NULL, "no effect: muster kge tracin computes gradients itself",
     FIELD(no_effect.tracked)},
    {OPT_FLAG, 0, "skip-evaluation", NULL,
     "no effect: training does not evaluate on the test triples, muster kge eval does",
     FIELD(no_effect.skips_evaluation)},
    {OPT_HEADING, .help = "TiePin's options that are refused"},
    {OPT_PATH, 0, "resume-from-checkpoint", "FILE",
     "refused with an error: leave it out; the same command continues from the state in --output",
     FIELD(resume_from)},
    {.kind = OPT_END},
};

static const char *const train_examples[] = {
    "muster kge train --one-positive --train train.txt --valid valid.txt --entity-to-id node_dict.txt "
    "--relation-to-id rel_dict.txt -o model",
    "train as TiePin's trainer would, best model by validation",
    "muster kge train --train train.txt --valid valid.txt --layout height --entity-bias "
    "--reciprocal -o model",
    "ConvE as in its paper",
    NULL,
};

const struct cmd cmd_kge_train = {
    .name = "train",
    .family = "kge",
    .args = "[OPTION]... --train FILE -o DIR",
    .summary = "train a ConvE model",
    .details = "Scores each question against all entities, with binary cross entropy and Adam. "
               "The same command goes on where it was stopped or killed, and ends with the same "
               "model, bit for bit; more --epochs add to a finished one. Started by muster launch "
               "--no-python, mpirun or srun, or with --gpus, several ranks train one model.",
    .opts = train_opts,
    .examples = train_examples,
    .request_size = sizeof(struct train_request),
    .defaults = train_defaults,
    .run = train_run,
};
