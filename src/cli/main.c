/* SPDX-License-Identifier: Apache-2.0 */
#include <uv.h>

#include "base/xalloc.h"
#include "cli/external_verbs.h"
#include "cli/verbs.h"

static const struct program muster = {
    .about = "Put machine-learning work on every GPU of one or more machines and bring back one\n"
             "result that can be trusted. Without a GPU the same commands run on CPU slots.\n",
    .verbs = commands,
    .external_verbs = external_verbs,
    .run_external = external_verb_run,
};

int main(int argc, char **argv)
{
    uv_replace_allocator(xmalloc, xrealloc, xcalloc, free); /* without memory libuv would abort */
    return program_main(&muster, argc, argv);
}
