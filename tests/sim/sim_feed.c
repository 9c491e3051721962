/* SPDX-License-Identifier: Apache-2.0
 *
 * The real feeder in a world that means ill (adversary.h), seed by seed. Every fiftieth seed is run twice
 * and must decide the same, and the events of every tenth are told to a second feeder, which must come to
 * the same state.
 *
 *   sim_feed [--list FILE] [--seeds N] [--first S] [--seed S] [--trace]
 *
 * The exit status says what broke: 129 safety, 128 liveness, 130 determinism.
 */
#include <string.h>

#include "base/cleanup.h"
#include "sim/adversary.h"

struct request {
    uint64_t seeds, first;
    const char *list;
    bool trace;
};

static int seed_run(uint64_t seed, bool trace)
{
    uint64_t digest, again;
    int rc = world_run(seed, trace, seed % 10 == 0, &digest);
    if (rc != RUN_OK || seed % 50 != 0)
        return rc;
    rc = world_run(seed, false, false, &again);
    if (rc == RUN_OK && digest != again) {
        printf("FAIL seed=%lu determinism: the second time it went another way\n", seed);
        return RUN_DIFFERENT;
    }
    return rc;
}

/* Seeds that failed once: a number at the start of a line, then who fixed it. */
static int list_run(const char *path, uint64_t *count)
{
    cleanup_file FILE *file = fopen(path, "re");
    char line[200];
    if (!file) {
        printf("sim_feed: cannot open %s\n", path);
        return 2;
    }
    while (fgets(line, sizeof(line), file)) {
        char *end;
        uint64_t seed = strtoull(line, &end, 10);
        if (end == line)
            continue;
        int rc = seed_run(seed, false);
        if (rc != RUN_OK)
            return rc;
        ++*count;
    }
    return RUN_OK;
}

static struct request request_parse(int argc, char **argv)
{
    struct request request = {.seeds = 2000, .first = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--trace")) {
            request.trace = true;
        } else if (i + 1 == argc) {
            break;
        } else if (!strcmp(argv[i], "--seeds")) {
            request.seeds = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--first")) {
            request.first = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--seed")) {
            request.first = strtoull(argv[++i], NULL, 10);
            request.seeds = 1;
        } else if (!strcmp(argv[i], "--list")) {
            request.list = argv[++i];
        }
    }
    return request;
}

int main(int argc, char **argv)
{
    struct request request = request_parse(argc, argv);
    uint64_t listed = 0;
    int rc = request.list ? list_run(request.list, &listed) : RUN_OK;
    for (uint64_t i = 0; rc == RUN_OK && i < request.seeds; i++)
        rc = seed_run(request.first + i, request.trace);
    if (rc == RUN_OK)
        printf("%lu seeds, %lu of them from the list: every item settled once, everybody gone\n",
               request.seeds + listed, listed);
    return rc;
}
