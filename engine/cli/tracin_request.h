/* SPDX-License-Identifier: Apache-2.0
 *
 * What `muster kge tracin` is asked for.
 */
#pragma once

#include "cli/kge_data.h"
#include "cli/kge_filter.h"
#include "cli/kge_models.h"

enum tracin_mode {
    MODE_TEST,  /* all test triples */
    MODE_SELF,  /* the training triples on themselves */
    MODE_SINGLE /* test triples by their positions */
};

enum triples_order {
    TRIPLES_AS_IN_FILES,
    TRIPLES_AS_IN_PYKEEN /* sorted by index, each once */
};

/* Options of TiePin's programs that change nothing here. */
struct no_effect_ask {
    uint64_t batch_size, embedding_dim, output_channels;
    bool optimized, vectorized, no_vectorized, cached, no_cached, cached_not, compiled,
        checkpointed;
    bool no_cleanup, mixed_precision, multi_gpu;
};

struct tracin_request {
    struct kge_files files;
    struct kge_filter_ask filter;
    struct kge_models_ask models;
    struct no_effect_ask no_effect;
    enum tracin_mode mode;
    struct texts test_indices; /* positions; a word may have several, separated by commas */
    struct texts test_triple;  /* head, relation and tail, or a file with one triple */
    enum triples_order triples_order;
    uint64_t max_test_triples, top_k;
    enum tracin_order order;
    enum num_format precision;
    const char *output, *csv_output;
    bool per_triple, overwrite, is_dry, quiet;
    const char *gpus, *run_dir; /* gpus NULL: this process computes */
    /* a batch */
    const char *test_triples, *output_dir;
    uint64_t start_index, max_triples;
    bool skip_existing, skip_filtering, skip_tracin;
};

static inline bool tracin_is_batch(const struct tracin_request *ask)
{
    return ask->output_dir != NULL;
}

/* What the extension of an output asks for, in small or in capital letters. */
enum result_form {
    RESULT_JSON,  /* also for an output that is no file, such as - */
    RESULT_LINES, /* .jsonl, .ndjson */
    RESULT_CSV,
    RESULT_ARRAY, /* .npy */
    RESULT_UNKNOWN
};

enum result_form tracin_result_form(const char *path);
/* ERR_USAGE: the name of --output says no form. */
MUST_CHECK int tracin_form_check(const struct tracin_request *ask, struct err *err);

/* True if the output is the matrix of all influences, as an array of numpy. */
bool tracin_is_matrix(const struct tracin_request *ask);

/* ERR_USAGE: options that do not go together. Says which of the given options have no effect. */
MUST_CHECK int tracin_request_check(const struct tracin_request *ask, const struct app *app,
                                    struct err *err);
