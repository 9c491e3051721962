/* SPDX-License-Identifier: Apache-2.0
 *
 * The program muster-kge, which users call as `muster kge`.
 */
#include <uv.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "cli/kge_verbs.h"
#include "num/backend.h"

static const struct cmd *const verbs[] = {
    &cmd_kge_train,    &cmd_kge_tracin,        &cmd_kge_check, &cmd_kge_eval,
    &cmd_kge_filter,   &cmd_kge_export,        &cmd_kge_graph, &cmd_completion,
    &cmd_mdoc_options, &cmd_kge_spread_worker, NULL,
};

static void backends_print(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    num_describe(&text);
    fputs(buf_text(&text), stdout);
}

static const struct program kge = {
    .family = "kge",
    .about = "Knowledge-graph embeddings: train a model, and find which training triples made a\n"
             "prediction. Reads what TiePin's programs read and writes what they write, without\n"
             "Python or torch.\n",
    .about_version = backends_print,
    .verbs = verbs,
};

int main(int argc, char **argv)
{
    uv_replace_allocator(xmalloc, xrealloc, xcalloc, free); /* without memory libuv would abort */
    return program_main(&kge, argc, argv);
}
