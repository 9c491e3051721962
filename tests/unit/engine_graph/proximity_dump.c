/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter on a graph from standard input, for test_proximity.py:
 *   n_entities n_triples n_tests n_hops min_degree no_preserve on_paths path_length_max
 * then the triples and the tests. Prints the kept places, a line for each test.
 */
#include <stdio.h>

#include "base/xalloc.h"
#include "graph/proximity.h"

static uint32_t number(void)
{
    unsigned value;
    ASSERT(scanf("%u", &value) == 1);
    return value;
}

static struct triple *triples_scan(size_t n)
{
    struct triple *triples = xmalloc((n + 1) * sizeof(*triples));
    for (size_t i = 0; i < n; i++) {
        triples[i].head = number();
        triples[i].relation = number();
        triples[i].tail = number();
    }
    return triples;
}

int main(void)
{
    uint32_t n_entities = number(), n_triples = number(), n_tests = number();
    struct proximity_opts opts = {.n_hops = number()};
    opts.min_degree = number();
    opts.no_preserve = number() != 0;
    opts.on_paths = number() != 0;
    opts.path_length_max = number();
    struct triple *triples = triples_scan(n_triples), *tests = triples_scan(n_tests);
    struct adjacency adjacency;
    adjacency_build(&adjacency, triples, n_triples, n_entities);
    struct proximity *proximity = proximity_new(&adjacency, &opts);
    for (size_t i = 0; i < n_tests; i++) {
        size_t n_kept;
        uint32_t *kept = proximity_filter(proximity, tests[i], &n_kept);
        for (size_t k = 0; k < n_kept; k++)
            printf("%s%u", k > 0 ? " " : "", kept[k]);
        putchar('\n');
        free(kept);
    }
    proximity_free(proximity);
    adjacency_release(&adjacency);
    free(triples);
    free(tests);
    return 0;
}
