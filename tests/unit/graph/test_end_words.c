/* SPDX-License-Identifier: Apache-2.0 */
#include "../test.h"

#include "base/cleanup.h"
#include "graph/end_words.h"

static void the_words_that_say_why(void **state)
{
    static const struct {
        enum plan_kind kind;
        const char *tail, *words;
    } rows[] = {
        {PLAN_RUN, "", ""},
        {PLAN_RUN, "\n \n", ""},
        {PLAN_RUN, "one\n  two\n\n", ": two"},
        {PLAN_RUN, "muster: set aside: x\nlast", ": last"},
        {PLAN_LAUNCH,
         "==> attempt 1 of l <==\n"
         "Traceback (most recent call last):\n"
         "  File \"t.py\", line 2\n"
         "ValueError: bad loss\n"
         "muster: rank 1 (pid 7) failed first: status 1\n"
         "  1 other rank ended after it\n",
         ": rank 1 (pid 7) failed first: status 1: ValueError: bad loss"},
        {PLAN_LAUNCH, "==> attempt 1 of l <==\nmuster: launch: no script\n", ": launch: no script"},
        {PLAN_LAUNCH, "killed\n", ": killed"},
        {PLAN_MAP,
         "muster: cpu_0 died (status 4) after 0 items; its last words: Oops no\n"
         "muster: set aside: in line 3: killed its worker (status 4) on cpu_0\n"
         "muster: something else\n"
         "[cpu 0] Oops no\n"
         "out: 4 results\n"
         "  failed     1 item, with reasons in out.failed.jsonl\n"
         "  next       muster resume 2026-map --retry-failed\n",
         ": 1 item failed, with reasons in out.failed.jsonl: in line 3: killed its worker (status 4) "
         "on cpu_0: Oops no"},
        {PLAN_MAP,
         "muster: gpu_1 died (SIGSEGV) after 0 items; its last words: other\n"
         "muster: set aside: in line 3: no three\n"
         "muster: gpu_1 died (status 4) after 0 items; its last words: not this\n"
         "muster: set aside: in line 5: killed its worker (status 4) on gpu_1\n"
         "out: 3 results\n"
         "  failed     2 items, with reasons in out.failed.jsonl\n",
         ": 2 items failed, with reasons in out.failed.jsonl, such as in line 3: no three"},
        {PLAN_MAP,
         "muster: set aside: in line 3: no three\n"
         "muster: too many items failed (--max-failures); go on with: muster resume x\n",
         ": too many items failed (--max-failures); go on with: muster resume x; set aside: in line "
         "3: no three"},
        {PLAN_MAP, "words\nmuster: map: no device is left\n", ": map: no device is left"},
        {PLAN_MERGE, "muster: merge: open a: No such file or directory\n",
         ": merge: open a: No such file or directory"},
        {PLAN_MERGE, "a line\n", ": a line"},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        cleanup_buf struct buf out = BUF_INIT;
        end_words_add(str_of(rows[i].tail), rows[i].kind, &out);
        assert_string_equal(buf_text(&out), rows[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_words_that_say_why)};
    return cmocka_run_group_tests_name("end_words", tests, NULL, NULL);
}
