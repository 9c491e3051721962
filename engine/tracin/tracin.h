/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a training triple moved the model's loss on a test triple. Source: Pruthi, Liu,
 * Sundararajan, Kale, "Estimating Training Data Influence by Tracing Gradient Descent", NeurIPS
 * 2020, arXiv 2002.08484 (TracInCP):
 *
 *   influence(z, z') = sum over checkpoints i of  learning_rate_i * (grad L_i(z) . grad L_i(z'))
 *
 * over the parameters that are asked for. No gradient is ever formed: that of fc.weight is a
 * product of two vectors and those of the tables touch three rows, so the inner product falls
 * apart into a few small ones (factor.h), which are matrix products over tiles of training
 * triples. The training side is streamed, the test side stays: beside the triples, memory grows by
 * four bytes with each.
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
    double label_smoothing; /* of TRACIN_ONE_VS_ALL */
    size_t top_k;           /* of each test triple; 0: none, for sinks that take rows */
    enum tracin_order order;
    enum num_dtype dtype;
    const struct num_backend *backend; /* NULL: the fastest there is for this dtype */
    unsigned n_threads;                /* 0: as many as processors are allowed */
    uint64_t memory_bytes; /* for tiles, beside the models; 0: from free memory, at most 768 MiB */
    /*
     * What is multiplied for fc.weight, by far the most there is to do, is rounded to it; sums stay
     * float32. Only with NUM_F32; self-influences are as without it.
     */
    enum num_format format;
    /* Sentences about a run that goes on. May be NULL. */
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
 * Any may be NULL. What is not 0 ends the run, and is what it returns. Calls come one at a time,
 * on any thread.
 */
struct tracin_sink {
    void *context;
    /*
     * Once a test triple, in their order: its top_k (fewer only where its train_indices are fewer),
     * best first, equals by train_index. self_influence is the test triple's own.
     */
    int (*top)(void *context, size_t test, double self_influence, const struct tracin_influence *at,
               size_t n, struct err *err);
    /*
     * Influences of training triples [train_begin, train_begin + n) on a test triple; NaN where
     * they do not count. A test's pieces come in order of train_begin.
     */
    int (*row)(void *context, size_t test, size_t train_begin, const double *values, size_t n,
               struct err *err);
    /* Now and then. */
    int (*progress)(void *context, uint64_t n_pairs_done, uint64_t n_pairs, struct err *err);
};

/* How a run would go. */
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
 * are empty), top_k above n_train, a parameter that the model lacks. ERR_DATA: a triple outside
 * the model's tables, checkpoints of different shapes, a result that is not finite.
 */
MUST_CHECK int tracin_run(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                          const struct tracin_opts *opts, const struct triple *train,
                          size_t n_train, const struct tracin_test *tests, size_t n_tests,
                          const struct tracin_sink *sink, struct err *err);

/*
 * tracin_run in pieces, each on training triples of its own, n_train_max of them at most: what the test triples need is
 * computed once, for the first piece, and not for each of them. All that is given to open is borrowed until close; a
 * test may have train_indices only where a piece is all there is. After a piece that failed others may follow.
 */
struct tracin_session;
MUST_CHECK int tracin_session_open(struct tracin_session **out,
                                   const struct tracin_checkpoint *checkpoints,
                                   size_t n_checkpoints, const struct tracin_opts *opts,
                                   size_t n_train_max, const struct tracin_test *tests,
                                   size_t n_tests, struct err *err);
MUST_CHECK int tracin_session_run(struct tracin_session *session, const struct triple *train,
                                  size_t n_train, const struct tracin_sink *sink, struct err *err);
/* NULL is none. */
void tracin_session_close(struct tracin_session *session);

/* The influence of each triple on itself, in pieces in their order. */
MUST_CHECK int tracin_self(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                           const struct tracin_opts *opts, const struct triple *triples,
                           size_t n_triples,
                           int (*piece)(void *context, size_t begin, const double *values, size_t n,
                                        struct err *err),
                           void *context, struct err *err);

/* Influences of random pairs, against gradients of every single parameter in float64. */
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
