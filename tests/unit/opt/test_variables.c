/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <string.h>

#include "cli/verbs.h"

static bool is_same_value(const struct opt *a, const struct opt *b)
{
    bool has_arg = a->arg && b->arg;
    return has_arg ? strcmp(a->arg, b->arg) == 0 : a->arg == b->arg;
}

/* The option of the verb whose variable is `variable`; NULL: none. */
static const struct opt *option_of(const struct cmd *cmd, const char *variable)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        char own[OPT_VARIABLE_MAX];
        if (!opt_has_variable(cmd, opt))
            continue;
        opt_variable(cmd, opt, own);
        if (strcmp(own, variable) == 0)
            return opt;
    }
    return NULL;
}

static void a_variable_has_one_meaning_for_all_verbs(void **state)
{
    (void)state;
    size_t n_shared = 0, n_conflicts = 0;
    for (const struct cmd *const *a = commands; *a; a++)
        for (const struct opt *opt = (*a)->opts; opt->kind != OPT_END; opt++)
            for (const struct cmd *const *b = a + 1; *b && opt_has_variable(*a, opt); b++) {
                char variable[OPT_VARIABLE_MAX];
                opt_variable(*a, opt, variable);
                const struct opt *other = option_of(*b, variable);
                n_shared += other != NULL;
                if (!other || is_same_value(opt, other))
                    continue;
                n_conflicts++;
                print_message("# %s: %s for %s, %s for %s\n", variable,
                              opt->arg ? opt->arg : "a flag", (*a)->name,
                              other->arg ? other->arg : "a flag", (*b)->name);
            }
    assert_int_equal(n_conflicts, 0);
    assert_true(n_shared > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_variable_has_one_meaning_for_all_verbs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
