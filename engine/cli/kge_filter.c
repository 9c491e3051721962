/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kge_filter.h"

#define DEGREE_NOT_GIVEN UINT64_MAX

void kge_filter_defaults(struct kge_filter_ask *ask)
{
    ask->min_degree = DEGREE_NOT_GIVEN;
}

int kge_filter_check(const struct kge_filter_ask *ask, const struct app *app, struct err *err)
{
    if (ask->method && strcmp(ask->method, "pyg") != 0)
        return fail(
            err, ERR_USAGE,
            "--filter-method: expected pyg, found '%s': the methods answer differently on the "
            "same input, and one answer is enough",
            ask->method);
    if (ask->path_length_max > 0 && !ask->on_paths)
        return fail(err, ERR_USAGE, "--max-total-path-length goes with --path-filtering");
    if (ask->strict_hops)
        say(app, "--strict-hop-constraint has no effect: every kept triple is within the hops");
    if (ask->strict_paths)
        say(app, "--strict-path-filtering has no effect with the filter of PyG");
    if (ask->cache)
        say(app, "--cache has no effect: the graph is built in memory, once for all test triples");
    return 0;
}

struct proximity_opts kge_filter_opts(const struct kge_filter_ask *ask)
{
    return (struct proximity_opts){
        .n_hops = ask->n_hops > 0 ? (uint32_t)ask->n_hops : KGE_HOPS_DEFAULT,
        .min_degree =
            ask->min_degree == DEGREE_NOT_GIVEN ? KGE_DEGREE_DEFAULT : (uint32_t)ask->min_degree,
        .no_preserve = ask->no_preserve,
        .on_paths = ask->on_paths,
        .path_length_max = (uint32_t)ask->path_length_max,
    };
}

const char *kge_filter_option(const struct kge_filter_ask *ask)
{
    return ask->min_degree != DEGREE_NOT_GIVEN ? "--min-degree"
           : ask->on_paths                     ? "--path-filtering"
           : ask->no_preserve                  ? "--no-preserve-test-edges"
           : ask->method                       ? "--filter-method"
                                               : NULL;
}
