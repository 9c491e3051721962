/* SPDX-License-Identifier: Apache-2.0
 *
 * sbatch's options before a verb, and what they ask for.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/shell.h"
#include "slurm/sbatch_help.h"
#include "slurm/sbatch_options.h"
#include "slurm/sbatch_request.h"

static const struct sbatch_own own[] = {
    {"dry-run", 0, false}, {"follow", 'f', false}, {"stage", 0, true}, {"quiet", 'q', false}};

static bool has_slurm = true;

/* As `sbatch --help` prints it. */
static bool help_of_a_site(struct buf *out)
{
    if (has_slurm)
        buf_add_text(out,
                     "Usage: sbatch [OPTIONS(0)...] [ : [OPTIONS(N)...]] script(0) [args(0)...]\n"
                     "\nParallel run options:\n"
                     "  -a, --array=indexes         job array index values; see --nowhere=x\n"
                     "      --later=when            an option of a newer Slurm\n"
                     "\nOptions provided by plugins:\n"
                     "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
                     "                              [pyxis] the image to use\n"
                     "      --no-container-remap-root\n"
                     "      --par=what              a name that begins another one\n"
                     "      --site[=how]            with or without a value\n");
    return has_slurm;
}

static int read_line(const char *line, struct env_list *typed, struct sbatch_words *words,
                     struct err *err)
{
    *typed = (struct env_list){0};
    assert_int_equal(shell_words(line, typed, err), 0);
    env_end(typed);
    const struct sbatch_beside beside = {own, countof(own), help_of_a_site};
    return sbatch_words_read(&beside, (int)typed->len, typed->at, words, err);
}

static void words_add(const struct env_list *list, struct buf *out)
{
    for (size_t i = 0; i < list->len; i++)
        buf_addf(out, "%s%s", i > 0 ? " " : "", list->at[i]);
}

/* "sbatch's options | the caller's | the number of words" */
static void expect(const char *line, const char *wanted)
{
    struct env_list typed;
    struct sbatch_words words;
    struct err err = {0};
    cleanup_buf struct buf found = BUF_INIT;
    if (read_line(line, &typed, &words, &err) != 0)
        fail_msg("'%s': %s", line, err.text);
    words_add(&words.options, &found);
    buf_add_text(&found, " | ");
    words_add(&words.own, &found);
    buf_addf(&found, " | %d", words.n_read);
    assert_string_equal(buf_text(&found), wanted);
    sbatch_words_release(&words);
    env_list_release(&typed);
}

static void options_are_spelt_out_up_to_the_verb(void **state)
{
    (void)state;
    expect("map -p x", " |  | 0");
    expect("-p gpu --nodes 2 map -n 3", "--partition=gpu --nodes=2 |  | 4");
    expect("-pgpu --time=1:00 --hold map", "--partition=gpu --time=1:00 --hold |  | 3");
    expect("-HN2 -t 30 map", "--hold --nodes=2 --time=30 |  | 3");
    expect("-kkoff -k map", "--no-kill=koff --no-kill |  | 2");
    expect("--exclusive map", "--exclusive |  | 1");
    expect("--exclusive=user map", "--exclusive=user |  | 1");
    expect("--part gpu --gpus-per-n=4 map", "--partition=gpu --gpus-per-node=4 |  | 3");
    expect("--tasks-per-node=2 --cluster=a map", "--ntasks-per-node=2 --clusters=a |  | 2");
    expect("--gpus=2 -- --nodes", "--gpus=2 |  | 2");
    expect("--comment '' map", "--comment= |  | 2");
    expect("--nice - map", "--nice |  | 1");
}

static void the_callers_options_come_first(void **state)
{
    (void)state;
    expect("--dry-run -fN2 --stage 'a: -- x' map",
           "--nodes=2 | --dry-run --follow --stage=a: -- x | 4");
    expect("-q --qos=low map", "--qos=low | --quiet | 2");
    expect("--dry map", " | --dry-run | 1");
    expect("--quiet map", " | --quiet | 1");
}

static void options_of_the_site_are_handed_on_and_stand_for_no_other(void **state)
{
    (void)state;
    expect("--container-image=a#b:c map", "--container-image=a#b:c |  | 1");
    expect("--container-image a#b:c map", "--container-image=a#b:c |  | 2");
    expect("--no-container-remap-root map", "--no-container-remap-root |  | 1");
    expect("--par=x --part=y map", "--par=x --partition=y |  | 2");
    expect("--site map", "--site |  | 1");
    expect("--site=x --later=y map", "--site=x --later=y |  | 2");
    has_slurm = false; /* then a value in the same word says what is handed on */
    expect("--container-mounts=/a:/b --part=y map",
           "--container-mounts=/a:/b --partition=y |  | 2");
    has_slurm = true;
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"--partion=x map", "did you mean '--partition'?"},
        {"--folow map", "did you mean '--follow'?"},
        {"--gpus-per=1 map", "'--gpus-per' may be --gpus-per-node or --gpus-per-socket"},
        {"--frobnicate map", "sbatch has none of this name"},
        {"--frobnicate=x map", "sbatch has none of this name"},
        {"--nowhere=x map", "unknown option '--nowhere'"},
        {"--container-imag=x map", "unknown option '--container-imag'"},
        {"--container-image", "option '--container-image' needs a value"},
        {"--partitoin=x map", "did you mean '--partition'?"},
        {"--=x map", "unknown option '--'"},
        {"-p", "option '-p' needs a value"},
        {"--partition", "option '--partition' needs a value"},
        {"--hold=yes map", "option '--hold' takes no value"},
        {"-z map", "unknown option '-z'"},
        {"-N2 : -N4 map", "heterogeneous job"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct env_list typed;
        struct sbatch_words words;
        struct err err = {0};
        if (read_line(rows[i].line, &typed, &words, &err) != ERR_USAGE)
            fail_msg("'%s' is taken", rows[i].line);
        if (!strstr(err.text, rows[i].said))
            fail_msg("'%s': %s", rows[i].line, err.text);
        env_list_release(&typed);
    }
}

static void the_last_value_counts(void **state)
{
    (void)state;
    struct env_list typed;
    struct sbatch_words words;
    struct err err = {0};
    assert_int_equal(read_line("-N2 --hold --nodes=3 --nodelist=a map", &typed, &words, &err), 0);
    assert_string_equal(sbatch_value(&words.options, "nodes"), "3");
    assert_string_equal(sbatch_value(&words.options, "hold"), "");
    assert_null(sbatch_value(&words.options, "node"));
    sbatch_words_release(&words);
    env_list_release(&typed);
}

static void variables_stand_in_for_options_that_are_not_typed(void **state)
{
    (void)state;
    static const char *const environment[] = {"HOME=/root",
                                              "SBATCH_PARTITION=cpu",
                                              "SBATCH_TIMELIMIT=30",
                                              "SBATCH_GPUS_PER_NODE=4",
                                              "SBATCH_EXCLUSIVE=",
                                              "SBATCH_REQUEUE=0",
                                              "SBATCH_ARRAY_INX=0-9",
                                              "SBATCH_WAIT=1",
                                              "SBATCH_OVERCOMMIT=1",
                                              "SBATCH_NONSENSE=5",
                                              "SBATCH_=1",
                                              "SLURM_JOB_ID=7",
                                              NULL};
    cleanup_buf struct buf found = BUF_INIT;
    struct env_list typed;
    struct sbatch_words words;
    struct err err = {0};
    assert_int_equal(read_line("-p gpu map", &typed, &words, &err), 0);
    sbatch_variables_read(environment, &words.options);
    words_add(&words.options, &found);
    assert_string_equal(buf_text(&found), "--partition=gpu --time=30 --gpus-per-node=4 --exclusive "
                                          "--overcommit");
    sbatch_words_release(&words);
    env_list_release(&typed);
}

static void a_variable_of_requeue_is_no_value_and_yields_to_what_is_typed(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *variable, *found;
    } cases[] = {
        {"map", "SBATCH_REQUEUE=1", "--requeue"},
        {"map", "SBATCH_REQUEUE=expedite", "--requeue=expedite"},
        {"--no-requeue map", "SBATCH_REQUEUE=1", "--no-requeue"},
        {"--requeue map", "SBATCH_NO_REQUEUE=1", "--requeue"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *const environment[] = {cases[i].variable, NULL};
        cleanup_buf struct buf found = BUF_INIT;
        struct env_list typed;
        struct sbatch_words words;
        struct err err = {0};
        assert_int_equal(read_line(cases[i].typed, &typed, &words, &err), 0);
        sbatch_variables_read(environment, &words.options);
        words_add(&words.options, &found);
        assert_string_equal(buf_text(&found), cases[i].found);
        sbatch_words_release(&words);
        env_list_release(&typed);
    }
}

static void times_and_sizes_are_those_of_slurm(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t seconds;
    } times[] = {{"30", 1800},
                 {"30:15", 1815},
                 {"2:00:05", 7205},
                 {"1-12", 129600},
                 {"1-12:30", 131400},
                 {"1-00:00:01", 86401},
                 {"0", UINT64_MAX},
                 {"UNLIMITED", UINT64_MAX},
                 {"infinite", UINT64_MAX},
                 {"x", 0},
                 {"1:2:3:4", 0},
                 {"1-", 0},
                 {"", 0},
                 {":", 0}};
    static const struct {
        const char *text;
        uint64_t mib;
    } sizes[] = {{"4000", 4000},  {"16G", 16384}, {"1T", 1048576}, {"2048K", 2}, {"1k", 1},
                 {"16GB", 16384}, {"0", 0},       {"x", 0},        {"", 0},      {"G", 0}};
    for (size_t i = 0; i < countof(times); i++)
        if (slurm_seconds(str_of(times[i].text)) != times[i].seconds)
            fail_msg("'%s' is %lu s", times[i].text, slurm_seconds(str_of(times[i].text)));
    for (size_t i = 0; i < countof(sizes); i++)
        if (slurm_mib(str_of(sizes[i].text)) != sizes[i].mib)
            fail_msg("'%s' is %lu MiB", sizes[i].text, slurm_mib(str_of(sizes[i].text)));
}

/* "nodes tasks/cpus memory time array | gpus" */
static void expect_request(const char *line, const char *wanted)
{
    struct env_list typed;
    struct sbatch_words words;
    struct sbatch_request r;
    struct err err = {0};
    cleanup_buf struct buf found = BUF_INIT;
    if (read_line(line, &typed, &words, &err) != 0)
        fail_msg("'%s': %s", line, err.text);
    sbatch_request_read(&words.options, &r);
    buf_addf(&found, "N%lu-%lu n%lu,%lu c%lu m%lu,%lu t%lu a%lu<%lu |", r.nodes_min, r.nodes_max,
             r.n_tasks, r.tasks_per_node, r.cpus_per_task, r.node_mib, r.cpu_mib, r.time_s,
             r.n_array, r.array_last);
    for (size_t i = 0; i < r.n_gpus; i++)
        buf_addf(&found, " %s(%d)=%.*s:%lu", r.gpus[i].option, r.gpus[i].per,
                 (int)r.gpus[i].type.len, r.gpus[i].type.at, r.gpus[i].count);
    assert_string_equal(buf_text(&found), wanted);
    sbatch_words_release(&words);
    env_list_release(&typed);
}

static void a_request_is_read_from_options(void **state)
{
    (void)state;
    expect_request("map", "N0-0 n0,0 c0 m0,0 t0 a0<0 |");
    expect_request("-N2-4 -n8 --ntasks-per-node=2 -c3 --mem=2G -t5 map",
                   "N2-4 n8,2 c3 m2048,0 t300 a0<0 |");
    expect_request("-N1,5 -a 0-15:4,20%3 map", "N0-0 n0,0 c0 m0,0 t0 a5<20 |");
    expect_request("-a 5-1 map", "N0-0 n0,0 c0 m0,0 t0 a0<0 |");
    expect_request("-G h200:4,2 --gres=license:1,gpu:a:2,gpu map",
                   "N0-0 n0,0 c0 m0,0 t0 a0<0 | gpus(0)=h200:4 gpus(0)=:2 gres(1)=a:2 gres(1)=:1");
    expect_request("--gpus-per-node=b300 --gpus-per-task=1 --tres-per-task=cpu=4,gres/gpu:x:3 map",
                   "N0-0 n0,0 c0 m0,0 t0 a0<0 | gpus-per-node(1)=b300:1 gpus-per-task(3)=:1 "
                   "tres-per-task(3)=x:3");
    expect_request("--gres=gpu_mem:5,gres/gpu:2 map", "N0-0 n0,0 c0 m0,0 t0 a0<0 | gres(1)=:2");
}

static void gpus_of_a_node_are_read_with_their_places(void **state)
{
    (void)state;
    struct str list = str_of("gpu:h200:8(S:0,1),license:2,gpu:2(IDX:0,1)"), type;
    uint64_t count;
    assert_true(slurm_gres_next(&list, STR("gpu"), &type, &count));
    assert_true(str_equal(type, STR("h200")) && count == 8);
    assert_true(slurm_gres_next(&list, STR("gpu"), &type, &count));
    assert_true(type.len == 0 && count == 2);
    assert_false(slurm_gres_next(&list, STR("gpu"), &type, &count));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_spelt_out_up_to_the_verb),
        cmocka_unit_test(the_callers_options_come_first),
        cmocka_unit_test(options_of_the_site_are_handed_on_and_stand_for_no_other),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(the_last_value_counts),
        cmocka_unit_test(variables_stand_in_for_options_that_are_not_typed),
        cmocka_unit_test(a_variable_of_requeue_is_no_value_and_yields_to_what_is_typed),
        cmocka_unit_test(times_and_sizes_are_those_of_slurm),
        cmocka_unit_test(a_request_is_read_from_options),
        cmocka_unit_test(gpus_of_a_node_are_read_with_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
