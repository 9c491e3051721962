/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that name checkpoints and say how influences are computed, and what is opened for
 * them.
 */
#pragma once

#include "cli/kge_data.h"
#include "tracin/tracin.h"

struct kge_models_ask {
    struct texts paths;
    const char *learning_rates;
    uint64_t embedding_height, embedding_width;
    enum conve_layout layout;
    bool last_only;
    uint64_t n_last, last_layers; /* n_last with last_only, last_layers without; 0: not given */
    const char *layers;
    struct texts layer_names; /* one word for each name, as TiePin has them */
    enum tracin_loss loss;
    const char *label_smoothing;
    const char *backend, *device;
    enum num_dtype dtype;
    uint64_t n_threads, memory_bytes;
};

extern const struct choice kge_layouts[], kge_losses[], kge_dtypes[], kge_precisions[];

/* Rows of an option table, for a request with a member `struct kge_models_ask models`. */
#define KGE_MODELS_OPTS(request)                                                                     \
    {.kind = OPT_TEXTS,                                                                              \
     .name = "model-path",                                                                           \
     .arg = "FILE",                                                                                  \
     .help = "checkpoint of a ConvE model, .pt or .safetensors; given several times, influences "    \
             "are summed over them",                                                                 \
     .offset = offsetof(request, models.paths)},                                                     \
        {.kind = OPT_TEXT,                                                                           \
         .name = "learning-rate",                                                                    \
         .arg = "X[,X]...",                                                                          \
         .help = "factor of the influences: one, or one for each checkpoint (default: what the "     \
                 "checkpoints say, else 0.001)",                                                     \
         .offset = offsetof(request, models.learning_rates)},                                        \
        {.kind = OPT_U64,                                                                            \
         .name = "embedding-height",                                                                 \
         .arg = "N",                                                                                 \
         .help = "rows of an embedding as an image, where the checkpoint leaves it open",            \
         .offset = offsetof(request, models.embedding_height),                                       \
         .min = 1,                                                                                   \
         .max = UINT32_MAX},                                                                         \
        {.kind = OPT_U64,                                                                            \
         .name = "embedding-width",                                                                  \
         .arg = "N",                                                                                 \
         .help = "columns of an embedding as an image; give --embedding-height or "                  \
                 "--embedding-width",                                                                \
         .offset = offsetof(request, models.embedding_width),                                        \
         .min = 1,                                                                                   \
         .max = UINT32_MAX},                                                                         \
        {.kind = OPT_CHOICE,                                                                         \
         .name = "layout",                                                                           \
         .arg = "NAME",                                                                              \
         .help = "head and relation side by side (width) or one below the other (height), where "    \
                 "the checkpoint leaves it open",                                                    \
         .offset = offsetof(request, models.layout),                                                 \
         .choices = kge_layouts},                                                                    \
        {.kind = OPT_TEXT,                                                                           \
         .name = "layers",                                                                           \
         .arg = "NAME[,NAME]...",                                                                    \
         .help = "gradients of these parameters only: fc.weight, fc, bn2, embeddings, all",          \
         .offset = offsetof(request, models.layers)},                                                \
        {.kind = OPT_U64,                                                                            \
         .name = "last-layers",                                                                      \
         .arg = "N",                                                                                 \
         .help = "gradients of the N last layers only, counted from the score",                      \
         .offset = offsetof(request, models.last_layers),                                            \
         .min = 1,                                                                                   \
         .max = 64},                                                                                 \
        {.kind = OPT_FLAG,                                                                           \
         .name = "use-last-layers-only",                                                             \
         .help = "use the gradients of the parameters that TiePin takes for the last layers: for "   \
                 "PyKEEN's models the last --num-last-layers in PyKEEN's parameter list (2: "        \
                 "entity bias and relation embeddings), for other models fc",                        \
         .offset = offsetof(request, models.last_only)},                                             \
        {.kind = OPT_U64,                                                                            \
         .name = "num-last-layers",                                                                  \
         .arg = "N",                                                                                 \
         .help = "number of parameters (default 2; run_tracin.py ignores its own option and "        \
                 "always uses 2); for models with plain names, above 2, also those listed before "   \
                 "fc",                                                                               \
         .offset = offsetof(request, models.n_last),                                                 \
         .min = 1,                                                                                   \
         .max = 64},                                                                                 \
        {.kind = OPT_WORDS,                                                                          \
         .name = "last-layer-names",                                                                 \
         .arg = "NAME...",                                                                           \
         .help = "as --layers; names separated by spaces, as in TiePin, or by commas",               \
         .offset = offsetof(request, models.layer_names)},                                           \
        {.kind = OPT_CHOICE,                                                                         \
         .name = "loss",                                                                             \
         .arg = "NAME",                                                                              \
         .help =                                                                                     \
             "loss: positive, that of the triple alone as in TiePin (default); one-vs-all, against " \
             "all other tails, as in the training of its models",                                    \
         .offset = offsetof(request, models.loss),                                                   \
         .choices = kge_losses},                                                                     \
        {.kind = OPT_TEXT,                                                                           \
         .name = "label-smoothing",                                                                  \
         .arg = "X",                                                                                 \
         .help = "label smoothing of --loss one-vs-all (default 0)",                                 \
         .offset = offsetof(request, models.label_smoothing)},                                       \
        {.kind = OPT_HEADING, .help = "Computing"},                                                  \
        {.kind = OPT_TEXT,                                                                           \
         .name = "backend",                                                                          \
         .arg = "NAME",                                                                              \
         .help = "blas, ref or cuda (default: the faster one of the first two that is here)",        \
         .offset = offsetof(request, models.backend)},                                               \
        {.kind = OPT_TEXT,                                                                           \
         .name = "device",                                                                           \
         .arg = "NAME",                                                                              \
         .help =                                                                                     \
             "cpu (default), or cuda: a GPU if one can be used, otherwise a message says why not",   \
         .offset = offsetof(request, models.device)},                                                \
        {.kind = OPT_CHOICE,                                                                         \
         .name = "dtype",                                                                            \
         .arg = "NAME",                                                                              \
         .help = "float32 (default) or float64",                                                     \
         .offset = offsetof(request, models.dtype),                                                  \
         .choices = kge_dtypes},                                                                     \
        {.kind = OPT_U64,                                                                            \
         .name = "threads",                                                                          \
         .arg = "N",                                                                                 \
         .help =                                                                                     \
             "number of threads (default: one per processor); the results do not depend on it",      \
         .offset = offsetof(request, models.n_threads),                                              \
         .min = 1,                                                                                   \
         .max = 512},                                                                                \
    {                                                                                                \
        .kind = OPT_SIZE, .name = "memory", .arg = "SIZE",                                           \
        .help = "memory for computing, besides the model and the results (default: from what is "    \
                "free, at most 768 MiB)",                                                            \
        .offset = offsetof(request, models.memory_bytes)                                             \
    }

/* Prints a note if n, the number of threads, is below n_asked (0: one for each processor). */
void kge_threads_say(const struct app *app, uint64_t n_asked, unsigned n);

/* Prints what the user should know about a checkpoint that was loaded. */
void kge_model_say(const struct app *app, const struct conve *model);

struct kge_models;
/* "gradients of 2 of the 13 parameters: fc.weight, fc.bias", as the model's file names them. */
void kge_params_format(const struct kge_models *models, struct buf *out);

struct kge_models {
    struct conve **at;
    struct tracin_checkpoint *checkpoints;
    double *learning_rates; /* n rates if the user gave several, else one */
    size_t n, n_learning_rates;
    struct num_backend backend;
    bool has_backend;
    struct tracin_opts opts; /* all members but top_k and order */
};

/*
 * ERR_USAGE: no checkpoint is named, or options do not go together. ERR_DATA: the dictionaries of
 * `data` do not have the sizes of the model's tables; data NULL: this was checked before. Also
 * returns the errors of conve_load().
 */
MUST_CHECK int kge_models_open(struct kge_models *models, const struct kge_models_ask *ask,
                               const struct kge_data *data, const struct app *app, struct err *err);
/* Frees the checkpoints, and keeps the learning rates. */
void kge_models_unload(struct kge_models *models);
void kge_models_close(struct kge_models *models);
