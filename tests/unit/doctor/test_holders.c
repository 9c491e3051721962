/* SPDX-License-Identifier: Apache-2.0
 *
 * An invented /proc: who holds a GPU's device file, and who of them is forlorn.
 */
#include "kit.h"

/* One process: its files, and fields 3 to 7 of stat. */
static void process_put(const char *root, int pid, const char *name, const char *family,
                        const char *file)
{
    char *folder = xasprintf("/proc/%d", pid);
    char *stat = xasprintf("%d (%s) %s 0 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n", pid, name, family);
    char *comm = xasprintf("%s\n", name);
    const struct {
        const char *name, *text;
    } files[] = {{"stat", stat},
                 {"comm", comm},
                 {"cgroup", "0::/user.slice/session-3.scope\n"},
                 {"environ", "A=b"},
                 {"fd/.keep", ""}};
    for (size_t i = 0; i < countof(files); i++) {
        char *path = xasprintf("%s/%s", folder, files[i].name);
        file_put(root, path, files[i].text);
        free(path);
    }
    char *path = xasprintf("%s/fd/7", folder);
    if (file)
        link_put(root, path, file);
    free(path);
    free(comm);
    free(stat);
    free(folder);
}

/*
 * What is said about process 50, whose stat has `family`: state, parent, group, session, terminal.
 */
static void expect_of(const char *name, const char *family, const char *file, const char *wanted)
{
    struct facts *facts = fit_machine(1);
    char *root = root_new();
    process_put(root, 1, "init", "S 0 1 1 0", NULL);
    process_put(root, 10, "bash", "S 1 10 10 34816", NULL);
    process_put(root, 11, "systemd", "S 1 11 11 0", NULL);
    process_put(root, 20, "launcher", "S 10 20 10 34816", NULL);
    process_put(root, 60, "wrapper", "S 1 40 40 0", NULL);
    process_put(root, 50, name, family, file);
    facts->devices.at[0].n_processes = 1;
    facts->devices.at[0].processes[0] = (struct device_process){.pid = 50, .uid = 0};
    holders_gather(root, 999, &facts->holders);
    expect_begin(orphans_judge, facts, wanted);
    root_free(root);
    machine_free(facts);
}

static void orphans_are_told_from_those_that_somebody_has(void **state)
{
    (void)state;
    static const struct {
        const char *family, *wanted;
    } cases[] = {
        /* a child of its launcher */
        {"S 20 20 10 34816", "ok 1 hold a GPU"},
        /* left by a login that ended; adopted by init, a user's systemd, any other subreaper */
        {"S 1 40 40 0", "warn pid 50: "},
        {"S 11 40 40 0", "warn pid 50: "},
        {"S 20 40 40 0", "warn pid 50: "},
        /* below a process of that login that lives on: that one is the orphan */
        {"S 60 40 40 0", "ok 1 hold a GPU"},
        /* in the background of a shell that lives */
        {"S 1 30 10 34816", "ok 1 hold a GPU"},
        /* a session of its own: as a daemon below init, as a worker below its launcher */
        {"S 1 50 50 0", "warn pid 50: "},
        {"S 20 50 50 0", "ok 1 hold a GPU"},
        /* from outside of this namespace */
        {"S 0 0 0 0", "ok 1 hold a GPU"},
        /* dead, and not yet reaped */
        {"Z 1 40 40 0", "ok no process holds a GPU"},
    };
    for (size_t i = 0; i < countof(cases); i++)
        expect_of("python", cases[i].family, "/dev/nvidia0", cases[i].wanted);
}

static void only_device_files_of_gpus_count(void **state)
{
    (void)state;
    static const struct {
        const char *file, *wanted;
    } cases[] = {
        {"/dev/nvidia-uvm", "warn pid 50: python of "},
        {"/dev/kfd", "warn pid 50: python of "},
        {"/dev/dri/renderD128", "warn pid 50: python of "},
        {"/dev/dri/card0", "ok no process holds"},
        {"/dev/null", "ok no process holds"},
        {"/home/me/dev/nvidia0", "ok no process holds"},
        {NULL, "ok no process holds"},
    };
    for (size_t i = 0; i < countof(cases); i++)
        expect_of("python", "S 1 40 40 0", cases[i].file, cases[i].wanted);
    expect_of("nvidia-persiste", "S 1 40 40 0", "/dev/nvidia0", "ok 1 hold");
}

static void the_finding_names_process_files_and_origin(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(1);
    char *root = root_new();
    process_put(root, 50, "VLLM::Worker)(", "S 1 40 40 0", "/dev/nvidia0");
    link_put(root, "/proc/50/fd/8", "/dev/nvidia1");
    link_put(root, "/proc/50/fd/9", "/dev/nvidia0");
    file_put(root, "/proc/50/environ", "HOME=/root");
    holders_gather(root, 999, &facts->holders);
    assert_int_equal(facts->holders.n_holders, 1);
    assert_int_equal(strlen(facts->holders.at[0].files), strlen("nvidia0 nvidia1"));
    assert_false(facts->holders.at[0].is_of_muster);
    facts->holders.at[0].is_of_muster = true;
    char *text = judged(orphans_judge, facts);
    assert_non_null(strstr(text, "pid 50: VLLM::Worker)( of "));
    assert_non_null(strstr(text, "nvidia1"));
    assert_non_null(strstr(text, ", started by a muster"));
    free(text);
    root_free(root);
    machine_free(facts);
}

/* In whatever order the descriptors are listed. */
static void each_file_is_told_once_and_all_that_fit(void **state)
{
    (void)state;
    struct holder_facts facts = {0};
    char *root = root_new();
    process_put(root, 50, "python", "S 1 40 40 0", "/dev/nvidiactl");
    for (int i = 0; i < 16; i++) {
        for (int again = 0; again < 3; again++) {
            char *path = xasprintf("/proc/50/fd/%d", 100 * again + 10 + i);
            char *target = xasprintf("/dev/nvidia%d", i);
            link_put(root, path, target);
            free(target);
            free(path);
        }
    }
    process_put(root, 51, "asks", "S 1 40 40 0", "/dev/nvidiactl");
    process_put(root, 52, "many", "S 1 40 40 0", "/dev/nvidia3");
    for (int i = 0; i < 64; i++) {
        char *path = xasprintf("/proc/52/fd/%d", 10 + i);
        char *target = xasprintf("/dev/dri/renderD%d", 128 + i);
        link_put(root, path, target);
        free(target);
        free(path);
    }
    holders_gather(root, 999, &facts);
    assert_int_equal(facts.n_holders, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct holder *holder = &facts.at[i];
        struct str rest = str_of(holder->files), word;
        size_t n_words = 0;
        while (str_next(&rest, ' ', &word))
            n_words++;
        assert_true(holder->has_gpu_file == (holder->pid != 51));
        if (holder->pid == 50) /* nvidia1 beside nvidia10 to nvidia15 */
            assert_int_equal(n_words, 17);
        if (holder->pid == 52)
            assert_true(str_ends_with(str_of(holder->files), STR(" ...")) && n_words > 10);
    }
    root_free(root);
}

static void holders_that_the_driver_does_not_list(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(1);
    struct holder_facts *holders = &facts->holders;
    const struct holder left = {.pid = 50,
                                .session = 10,
                                .parent = 1,
                                .parent_session = 1,
                                .is_session_alive = true,
                                .is_parent_init = true,
                                .name = "python",
                                .files = "nvidiactl nvidia0",
                                .has_gpu_file = true};
    holders->n_holders = 1;
    holders->at[0] = left;
    expect(orphans_judge, facts, "warn pid 50: python of root holds nvidiactl nvidia0");
    holders->at[0].is_parent_init = false; /* a program that draws, below its desktop */
    holders->at[0].parent_session = 10;
    expect_begin(orphans_judge, facts, "ok 1 hold");
    holders->at[0] = left;
    holders->at[0].has_gpu_file = false; /* it only asks the driver */
    expect_begin(orphans_judge, facts, "ok 1 hold");
    holders->at[0] = left;
    facts->devices.at[0].n_processes = 1;
    facts->devices.at[0].processes[0] = (struct device_process){.pid = 51, .uid = (uid_t)-1};
    expect_begin(orphans_judge, facts, "ok 1 hold"); /* numbers of another namespace */
    facts->devices.at[0].processes[0] = (struct device_process){.pid = 50};
    expect_begin(orphans_judge, facts, "ok 1 hold");
    facts->devices.at[0].n_processes = 0;
    facts->driver.is_container = true;
    expect_begin(orphans_judge, facts, "ok 1 hold");
    machine_free(facts);
}

static void a_service_is_no_orphan(void **state)
{
    (void)state;
    static const struct {
        const char *cgroup, *wanted;
    } cases[] = {
        {"0::/user.slice/user-7.slice/session-3.scope\n", "warn pid 50: "},
        {"0::/system.slice/model-server.service\n", "ok 1 hold"},
        {"0::/user.slice/user-7.slice/user@7.service/app.slice/app-x.scope\n", "ok 1 hold"},
        {"0::/user.slice/user-7.slice/user@7.service/run-1.scope\n", "warn pid 50: "},
        {"0::/\n", "warn pid 50: "}, /* without systemd nothing is known */
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct facts *facts = fit_machine(0);
        char *root = root_new();
        process_put(root, 50, "python", "S 1 50 50 0", "/dev/nvidia0");
        file_put(root, "/proc/50/cgroup", cases[i].cgroup);
        holders_gather(root, 999, &facts->holders);
        expect_begin(orphans_judge, facts, cases[i].wanted);
        root_free(root);
        machine_free(facts);
    }
}

static void what_could_not_be_looked_into_is_said(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(1);
    facts->holders.n_closed = 7;
    expect(orphans_judge, facts,
           "ok no process holds a GPU; 7 of other users were not looked into (root may)");
    facts->has_holders = false;
    expect(orphans_judge, facts, "ok not known: /proc was not read in time");
    machine_free(facts);
}

static void the_doctor_and_its_children_do_not_count(void **state)
{
    (void)state;
    struct holder_facts facts = {0};
    char *root = root_new();
    process_put(root, 50, "muster", "S 1 40 40 0", "/dev/nvidia0");
    process_put(root, 51, "helper", "S 50 40 40 0", "/dev/nvidia0");
    process_put(root, 52, "other", "S 51 40 40 0", "/dev/nvidia0");
    holders_gather(root, 50, &facts);
    assert_int_equal(facts.n_holders, 1);
    assert_int_equal(facts.at[0].pid, 52);
    root_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orphans_are_told_from_those_that_somebody_has),
        cmocka_unit_test(only_device_files_of_gpus_count),
        cmocka_unit_test(the_finding_names_process_files_and_origin),
        cmocka_unit_test(each_file_is_told_once_and_all_that_fit),
        cmocka_unit_test(holders_that_the_driver_does_not_list),
        cmocka_unit_test(a_service_is_no_orphan),
        cmocka_unit_test(what_could_not_be_looked_into_is_said),
        cmocka_unit_test(the_doctor_and_its_children_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
