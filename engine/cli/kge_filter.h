/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of the proximity filter.
 */
#pragma once

#include "graph/proximity.h"
#include "opt/say.h"

/* Zero it, then call kge_filter_defaults(). */
struct kge_filter_ask {
    uint64_t n_hops, min_degree, path_length_max;
    bool no_preserve, on_paths;
    const char *method; /* one of TiePin's three; only pyg is implemented */
    /* Options of TiePin that change nothing here. */
    bool strict_hops, strict_paths;
    const char *cache;
};

enum {
    KGE_HOPS_DEFAULT = 2,
    KGE_DEGREE_DEFAULT = 2,
    KGE_HOPS_MAX = 64
};

/* Rows of an option table, for a request with a member `struct kge_filter_ask filter`. */
#define KGE_FILTER_OPTS(request)                                                                  \
    {.kind = OPT_U64,                                                                             \
     .name = "n-hops",                                                                            \
     .arg = "N",                                                                                  \
     .help = "score only training triples among entities within N hops of both ends of the test " \
             "triple (in a batch: 2)",                                                            \
     .offset = offsetof(request, filter.n_hops),                                                  \
     .min = 1,                                                                                    \
     .max = KGE_HOPS_MAX},                                                                        \
        {.kind = OPT_U64,                                                                         \
         .name = "min-degree",                                                                    \
         .arg = "N",                                                                              \
         .help = "keep a candidate edge if one of its entities has at least N candidate edges "   \
                 "(default 2)",                                                                   \
         .offset = offsetof(request, filter.min_degree),                                          \
         .max = UINT32_MAX},                                                                      \
        {.kind = OPT_FLAG,                                                                        \
         .name = "no-preserve-test-edges",                                                        \
         .help = "apply --min-degree to edges that touch an end of the test triple as well",      \
         .offset = offsetof(request, filter.no_preserve)},                                        \
        {.kind = OPT_UNSET,                                                                       \
         .name = "preserve-test-edges",                                                           \
         .help =                                                                                  \
             "keep edges that touch an end of the test triple whatever their degree (default)",   \
         .offset = offsetof(request, filter.no_preserve)},                                        \
        {.kind = OPT_FLAG,                                                                        \
         .name = "path-filtering",                                                                \
         .help = "keep only edges that lead from the head towards the tail",                      \
         .offset = offsetof(request, filter.on_paths)},                                           \
        {.kind = OPT_U64,                                                                         \
         .name = "max-total-path-length",                                                         \
         .arg = "N",                                                                              \
         .help = "with --path-filtering: distance from the head and to the tail, together at "    \
                 "most N",                                                                        \
         .offset = offsetof(request, filter.path_length_max),                                     \
         .min = 1,                                                                                \
         .max = UINT32_MAX},                                                                      \
        {.kind = OPT_TEXT,                                                                        \
         .name = "filter-method",                                                                 \
         .arg = "NAME",                                                                           \
         .help = "pyg, whose definition the filter has, is the only method here",                 \
         .offset = offsetof(request, filter.method)},                                             \
        {.kind = OPT_FLAG,                                                                        \
         .name = "strict-hop-constraint",                                                         \
         .help = "no effect: every kept triple is within N hops as it is",                        \
         .offset = offsetof(request, filter.strict_hops)},                                        \
        {.kind = OPT_FLAG,                                                                        \
         .name = "strict-path-filtering",                                                         \
         .help = "no effect with this filter",                                                    \
         .offset = offsetof(request, filter.strict_paths)},                                       \
    {                                                                                             \
        .kind = OPT_PATH, .name = "cache", .arg = "FILE",                                         \
        .help = "no effect: the graph is built once, in memory",                                  \
        .offset = offsetof(request, filter.cache)                                                 \
    }

void kge_filter_defaults(struct kge_filter_ask *ask);
/* ERR_USAGE: wrong or missing options. Says which of the given options have no effect. */
MUST_CHECK int kge_filter_check(const struct kge_filter_ask *ask, const struct app *app,
                                struct err *err);
/* The filter that the options ask for; n_hops 0 becomes the default. */
struct proximity_opts kge_filter_opts(const struct kge_filter_ask *ask);
/* The first given option of the filter other than --n-hops; NULL: none. */
const char *kge_filter_option(const struct kge_filter_ask *ask);
