/* SPDX-License-Identifier: Apache-2.0 */
#include "../test.h"

#include "base/cleanup.h"
#include "graph/graph_impl.h"

static const struct fill fills[] = {{"gpu", "3"}, {"gpus", "3,4"}, {"none", ""}, {"odd", "{gpu}"}};

static void words_are_filled_once(void **state)
{
    static const struct {
        const char *text, *filled; /* NULL: it is refused */
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"{gpu}", "3"},
        {"a{gpu}b{gpus}c", "a3b3,4c"},
        {"{gpu}{gpu}", "33"},
        {"{none}", ""},
        {"{odd}", "{gpu}"}, /* what stands for it is not looked at again */
        {"{{", "{"},
        {"}}", "}"},
        {"{{gpu}}", "{gpu}"},
        {"{{{gpu}}}", "{3}"},
        {"{{{{", "{{"},
        {"{", NULL},
        {"}", NULL},
        {"{}", NULL},
        {"{gpu", NULL},
        {"gpu}", NULL},
        {"{gp}", NULL},
        {"{gpu }", NULL},
        {"{{gpu}", NULL},
        {"{gpu{gpu}}", NULL},
        {"{GPU}", NULL},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        cleanup_buf struct buf out = BUF_INIT;
        struct err err = {0};
        int rc = placeholders_fill(rows[i].text, fills, countof(fills), &out, &err);
        if ((rc == 0) != (rows[i].filled != NULL))
            fail_msg("'%s': %s", rows[i].text, err.text);
        if (rc == 0)
            assert_string_equal(buf_text(&out), rows[i].filled);
        else
            assert_int_equal(rc, ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_filled_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
