/* SPDX-License-Identifier: Apache-2.0
 *
 * muster-kge, which is typed `muster kge`.
 */
#include "cli/kge_verbs.h"

static const struct cmd *const verbs[] = {
    &cmd_kge_train, &cmd_kge_tracin, &cmd_kge_check,    &cmd_kge_eval,          &cmd_kge_filter,
    &cmd_kge_graph, &cmd_completion, &cmd_mdoc_options, &cmd_kge_spread_worker, NULL,
};

static const struct program kge = {
    .family = "kge",
    .about = "Knowledge-graph embeddings: train a model, and find which training triples made a\n"
             "prediction. Reads what TiePin's programs read and writes what they write, without\n"
             "Python or torch.\n",
    .verbs = verbs,
};

int main(int argc, char **argv)
{
    return program_main(&kge, argc, argv);
}
