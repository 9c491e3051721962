/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/graph/refused.h"

enum {
    JOBS_MAX = 1000
};

void check_refused(struct str text, const struct graph_file_opts *opts, const char *sentence)
{
    struct plan plan;
    struct err err = {0};
    int rc = graph_text_read("f", text, opts, JOBS_MAX, &plan, &err);
    plan_release(&plan);
    if (rc != ERR_USAGE || strcmp(err.text, sentence) != 0)
        fail_msg("%.*s\n%d: %s\nnot\n%s", (int)MIN(text.len, 400ul), text.at, rc, err.text,
                 sentence);
}
