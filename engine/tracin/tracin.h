/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a training triple moved the model's loss on a test triple. Source: Pruthi, Liu,
 * Sundararajan, Kale, "Estimating Training Data Influence by Tracing Gradient Descent", NeurIPS
 * 2020, arXiv 2002.08484 (TracInCP):
 *
 *   influence(z, z') = sum over checkpoints i of  learning_rate_i * (grad L_i(z) . grad L_i(z'))
 *
 * over the parameters that are asked for. No whole gradient is ever formed: that of fc.weight is
 * the outer product of two vectors and those of the tables touch three rows, so that the inner
 * product is a sum of a few small ones (factor.h), which are matrix products over tiles of training
 * triples. The training triples are streamed, the factors of the tests stay in memory. Beside the
 * triples, memory grows by four bytes with each training triple, and by nine while they are being
 * sorted.
 *
 * The results are the same bits for any number of threads.
 */
#pragma once

#include "conve/model.h"
#include "graph/triple.h"
#include "num/backend.h"

enum tracin_loss {
    TRACIN_POSITIVE,  /* softplus(-score): the triple is true, nothing else enters */
    TRACIN_ONE_VS_ALL /* binary cross entropy, mean over all entities, the tail alone positive */
};

enum tracin_order {
    TRACIN_BY_MAGNITUDE, /* |influence| */
    TRACIN_BY_VALUE      /* proponents first, opponents last */
};

struct tracin_checkpoint {
    const struct conve *model;
    double learning_rate;
};

struct tracin_opts {
    conve_params params; /* 0: all */
    enum tracin_loss loss;
    double label_smoothing; /* for TRACIN_ONE_VS_ALL */
    size_t top_k;           /* how many of each test triple; 0: none, for sinks that take rows */
    enum tracin_order order;
    enum num_dtype dtype;
    const struct num_backend *backend; /* NULL: the fastest backend for this dtype */
    unsigned n_threads;                /* 0: one for each processor that may be used */
    /* For tiles, beside the models; 0: derived from free memory, on the host at most 768 MiB. */
    uint64_t memory_bytes;
    /*
     * The factors of fc.weight, whose products are by far the most work, are rounded to this
     * format; sums stay float32. Only with NUM_F32. Self-influences are computed without rounding.
     */
    enum num_format format;
    /* Called with a sentence about a problem after which the run goes on. May be NULL. */
    void (*note)(void *context, const char *text);
    void *note_context;
};

struct tracin_test {
    struct triple triple;
    /* The training triples that count, ascending; NULL: all of them. */
    const uint32_t *train_indices;
    size_t n_train_indices;
};

struct tracin_influence {
    uint32_t train_index;
    double value;
};

/*
 * Each function may be NULL. A result that is not 0 ends the run, which returns it. Calls come one
 * at a time, on any thread.
 */
struct tracin_sink {
    void *context;
    /*
     * Called once for each test triple, in their order, with its top_k (fewer only where its
     * train_indices are fewer), the best first, equal ones by train_index. self_influence is the
     * influence of the test triple on itself.
     */
    int (*top)(void *context, size_t test, double self_influence, const struct tracin_influence *at,
               size_t n, struct err *err);
    /*
     * Influences of training triples [train_begin, train_begin + n) on a test triple; NaN for those
     * that its train_indices leave out. The pieces of a test come in order of train_begin.
     */
    int (*row)(void *context, size_t test, size_t train_begin, const double *values, size_t n,
               struct err *err);
    /* Called after each tile. */
    int (*progress)(void *context, uint64_t n_pairs_done, uint64_t n_pairs, struct err *err);
};

/* How a run would be cut. */
struct tracin_plan {
    size_t tests_at_once, train_tile; /* n_tests / tests_at_once passes over the training triples */
    unsigned n_threads;
    uint64_t memory_bytes; /* all tiles together, beside the models */
};

MUST_CHECK int tracin_plan(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                           const struct tracin_opts *opts, size_t n_tests, size_t n_train,
                           struct tracin_plan *plan, struct err *err);

/*
 * ERR_USAGE: nothing to do (no checkpoint, no test, no training triple, a test whose train_indices
 * are empty), top_k above n_train, train_indices that do not ascend or are not below n_train, a
 * learning rate or label smoothing out of range, a format without float32, too little memory.
 * ERR_DATA: a triple outside the model's tables, checkpoints of different shapes, a result that is
 * not finite.
 */
MUST_CHECK int tracin_run(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                          const struct tracin_opts *opts, const struct triple *train,
                          size_t n_train, const struct tracin_test *tests, size_t n_tests,
                          const struct tracin_sink *sink, struct err *err);

/*
 * tracin_run() in pieces, each with training triples of its own, at most n_train_max of them. If
 * all tests fit at once (tests_at_once of the plan), their factors are computed only for the first
 * piece. All arguments of open are borrowed until close. Tests may have train_indices only if there
 * is one piece. After a piece has failed, others may follow.
 */
struct tracin_session;
MUST_CHECK int tracin_session_open(struct tracin_session **out,
                                   const struct tracin_checkpoint *checkpoints,
                                   size_t n_checkpoints, const struct tracin_opts *opts,
                                   size_t n_train_max, const struct tracin_test *tests,
                                   size_t n_tests, struct err *err);
MUST_CHECK int tracin_session_run(struct tracin_session *session, const struct triple *train,
                                  size_t n_train, const struct tracin_sink *sink, struct err *err);
/* session may be NULL. */
void tracin_session_close(struct tracin_session *session);

/*
 * Computes the influence of each triple on itself. `piece` gets them in the order of the triples.
 */
MUST_CHECK int tracin_self(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                           const struct tracin_opts *opts, const struct triple *triples,
                           size_t n_triples,
                           int (*piece)(void *context, size_t begin, const double *values, size_t n,
                                        struct err *err),
                           void *context, struct err *err);

/* Compares influences of random pairs with those from whole gradients in float64. */
struct tracin_check_opts {
    size_t n_pairs;
    uint64_t seed;
};

struct tracin_check {
    size_t n_pairs;
    double max_relative;    /* |found - expected| / max(|expected|, |g| |g'| / 100) */
    double found, expected; /* of the worst pair */
    struct triple train, test;
};

MUST_CHECK int tracin_check_run(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                                const struct tracin_opts *opts,
                                const struct tracin_check_opts *check_opts,
                                const struct triple *train, size_t n_train,
                                const struct triple *tests, size_t n_tests,
                                struct tracin_check *out, struct err *err);
