/* SPDX-License-Identifier: Apache-2.0
 *
 * --hosts and --via as they are typed.
 */
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "node/host_list.h"
#include "node/launcher.h"

/* "name target label gpus port" of each host, separated by "; ". */
static void expect(const char *text, const char *wanted)
{
    struct host_list list;
    struct err err = {0};
    cleanup_buf struct buf found = BUF_INIT;
    assert_int_equal(host_list_parse(text, &list, &err), 0);
    for (size_t i = 0; i < list.len; i++) {
        const struct host *host = &list.at[i];
        buf_addf(&found, "%s%s %s %s %s %u", i > 0 ? "; " : "", host->name, host->target,
                 host->label, host->gpus ? host->gpus : "-", host->port);
    }
    assert_string_equal(buf_text(&found), wanted);
    host_list_release(&list);
}

static void hosts_are_as_ssh_has_them(void **state)
{
    (void)state;
    expect("node1", "node1 node1 node1 - 0");
    expect(" node1 , node2 ", "node1 node1 node1 - 0; node2 node2 node2 - 0");
    expect("me@10.0.0.5:2222", "me@10.0.0.5:2222 me@10.0.0.5 10.0.0.5 - 2222");
    expect("[fe80::1]:22,fe80::2",
           "[fe80::1]:22 fe80::1 fe80--1 - 22; fe80::2 fe80::2 fe80--2 - 0");
    expect("me@[fe80::1%eth0]:22,[::1]",
           "me@[fe80::1%eth0]:22 me@fe80::1%eth0 fe80--1-eth0 - 22; [::1] ::1 --1 - 0");
    expect("[-F],[]", "[-F] [-F] -F - 0; [] []  - 0");
    /* Files are named by labels, so each has its own. */
    expect("a:1,b@a:1", "a:1 a a - 1; b@a:1 b@a a-2 - 1");
}

struct taken {
    unsigned n, n_asked;
};

static bool is_taken(const void *context, const char *label)
{
    struct taken *taken = (struct taken *)(uintptr_t)context;
    unsigned number = 1;
    taken->n_asked++;
    return strcmp(label, "a") == 0 || (sscanf(label, "a-%u", &number) == 1 && number <= taken->n);
}

/* Else a list of names that are alike for as long as a label is would take the cube of its length. */
static void a_label_that_is_free_is_found_in_few_steps(void **state)
{
    (void)state;
    for (unsigned n = 1; n < 5000; n += n / 7 + 1) {
        struct taken taken = {.n = n};
        struct host host = {.label = strdup("a")};
        char wanted[16];
        host_label_settle(&host, is_taken, &taken);
        snprintf(wanted, sizeof(wanted), "a-%u", n + 1);
        assert_string_equal(host.label, wanted);
        assert_in_range(taken.n_asked, 1, 32);
        host_release(&host);
    }
}

static void a_host_may_have_devices_of_its_own(void **state)
{
    (void)state;
    expect("a=0-3,b", "a a a 0-3 0; b b b - 0");
    expect("a=0,2-5,7,b=any:2,local=cpu:3",
           "a a a 0,2-5,7 0; b b b any:2 0; local local local cpu:3 0");
    expect("a=GPU-1f,GPU-2,b=PCI-0:1:0.0,PCI-0:2:0.0",
           "a a a GPU-1f,GPU-2 0; b b b PCI-0:1:0.0,PCI-0:2:0.0 0");
    expect("a=0,GPU-2,gpu-3=GPU-4,gpu-5",
           "a a a 0 0; GPU-2 GPU-2 GPU-2 - 0; gpu-3 gpu-3 gpu-3 GPU-4 0; gpu-5 gpu-5 gpu-5 - 0");
    expect("slurm:2=0,2,b",
           "slurm-1 slurm-1 slurm-1 0,2 0; slurm-2 slurm-2 slurm-2 0,2 0; b b b - 0");
}

static void slurm_with_a_number_is_so_many_jobs(void **state)
{
    (void)state;
    struct host_list list;
    struct err err = {0};
    expect("slurm:2=any:4,b",
           "slurm-1 slurm-1 slurm-1 any:4 0; slurm-2 slurm-2 slurm-2 any:4 0; b b b - 0");
    assert_int_equal(host_list_parse("slurm:2", &list, &err), 0);
    struct env_list words = {0}, env = {0};
    const struct launcher_opts opts = {.agent_path = "/opt/muster",
                                       .slurm_args = "--gpus=8 --comment='a b'",
                                       .job_name = "muster-7"};
    assert_true(list.at[1].is_job);
    assert_int_equal(launcher_command(&opts, &list.at[1], &words, &env, &err), 0);
    cleanup_buf struct buf found = BUF_INIT;
    for (size_t i = 0; i < words.len && words.at[i]; i++)
        buf_addf(&found, "[%s]", words.at[i]);
    assert_string_equal(
        buf_text(&found),
        "[srun][--cpu-bind=none][--mpi=none][-J][muster-7][--gpus=8][--comment=a b]"
        "[-N1][-n1][--input=all][--output=all][--wait=0][--unbuffered][-Q][/opt/muster][agent]");
    env_list_release(&words);
    env_list_release(&env);
    host_list_release(&list);
    assert_int_equal(host_list_parse("a,slurm:2", &list, &err), 0);
    host_list_number_jobs(&list, 7);
    assert_string_equal(list.at[0].name, "a");
    assert_string_equal(list.at[1].name, "slurm-8");
    assert_string_equal(list.at[2].name, "slurm-9");
    assert_string_equal(list.at[2].label, "slurm-9");
    host_list_release(&list);
    static const char *const wrong[] = {"slurm:", "slurm:0", "slurm:x", "slurm:-1", "slurm:99999"};
    for (size_t i = 0; i < countof(wrong); i++)
        assert_int_equal(host_list_parse(wrong[i], &list, &err), ERR_USAGE);
}

static void files_have_one_host_a_line(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-hosts-XXXXXX";
    int fd = mkstemp(path);
    static const char text[] =
        "# all\n\nnode1 slots=4\nnode2   slots=2 max_slots=8 # old\n node3\n";
    assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
    cleanup_free char *list = NULL;
    assert_true(asprintf(&list, "first,@%s", path) > 0);
    expect(list, "first first first - 0; node1 node1 node1 any:4 0; node2 node2 node2 any:2 0; "
                 "node3 node3 node3 - 0");
    close(fd);
    unlink(path);
}

static void refuse(const char *text, const char *words)
{
    struct host_list list;
    struct err err = {0};
    assert_int_equal(host_list_parse(text, &list, &err), ERR_USAGE);
    if (!strstr(err.text, words))
        fail_msg("'%s' is refused with: %s", text, err.text);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    refuse("", "an entry is empty");
    refuse("a,a", "'a' is named twice");
    refuse("a:99999", "'a:99999' has no port");
    refuse("a:", "'a:' has no port");
    refuse("-x", "'-x' is no name of a host");
    refuse("a;b", "'a;b' is no name of a host");
    refuse("$(x)", "is no name of a host");
    refuse("a=gpu:x", "--hosts: a:");
    refuse("@/nowhere/hosts", "/nowhere/hosts");
}

static void a_file_names_hosts_and_no_jobs(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"slurm\n", "line 1: --hosts: 'slurm' belongs into the list (--hosts slurm,@FILE)"},
        {"node1\nslurm:4 slots=2\n", "line 2: --hosts: 'slurm:4' belongs into the list"},
        {"slurm=0-3\n", "line 1: --hosts: 'slurm' belongs into the list"}};
    for (size_t i = 0; i < countof(lines); i++) {
        char path[] = "/tmp/muster-hosts-XXXXXX";
        int fd = mkstemp(path);
        size_t len = strlen(lines[i][0]);
        assert_true(fd >= 0 && write(fd, lines[i][0], len) == (ssize_t)len);
        close(fd);
        cleanup_free char *list = xasprintf("@%s", path);
        refuse(list, lines[i][1]);
        unlink(path);
    }
}

static void command_expect(const char *via, const char *agent_path, const char *host,
                           const char *wanted)
{
    struct host_list list;
    struct env_list words = {0}, env = {0};
    struct err err = {0};
    cleanup_buf struct buf found = BUF_INIT;
    const struct launcher_opts opts = {.via = via, .agent_path = agent_path};
    assert_int_equal(host_list_parse(host, &list, &err), 0);
    assert_int_equal(launcher_command(&opts, &list.at[0], &words, &env, &err), 0);
    for (size_t i = 0; i < words.len; i++)
        buf_addf(&found, "%s|", words.at[i]);
    assert_string_equal(buf_text(&found), wanted);
    env_list_release(&words);
    env_list_release(&env);
    host_list_release(&list);
}

static void the_launcher_fills_in_the_host(void **state)
{
    (void)state;
    command_expect(NULL, "/opt/muster", "me@node:22",
                   "ssh|-T|-o|BatchMode=yes|-o|ConnectTimeout=15|-o|ServerAliveInterval=5|-o|"
                   "ServerAliveCountMax=3|-p|22|--|me@node|/opt/muster|agent|");
    command_expect("kubectl exec -i {host} --", "/a b/muster", "pod-1",
                   "kubectl|exec|-i|pod-1|--|/a b/muster|agent|");
    /* A shell takes apart what ssh is given. */
    command_expect("/usr/bin/ssh -F 'my config' {host}", "/a b/muster", "x",
                   "/usr/bin/ssh|-F|my config|x|'/a b/muster'|agent|");
    command_expect("sh -c \"nc {host} {port}\" x\\ y", "m", "h", "sh|-c|nc h 22|x y|m|agent|");
}

static void a_command_without_its_quote_is_refused(void **state)
{
    (void)state;
    struct host_list list;
    struct env_list words = {0}, env = {0};
    struct err err = {0};
    assert_int_equal(host_list_parse("h", &list, &err), 0);
    const char *wrong[] = {"", "  ", "ssh 'x", "ssh \"x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const struct launcher_opts opts = {.via = wrong[i], .agent_path = "m"};
        assert_int_equal(launcher_command(&opts, &list.at[0], &words, &env, &err), ERR_USAGE);
        assert_true(strncmp(err.text, "--via", 5) == 0);
        env_list_release(&words);
        env_list_release(&env);
    }
    host_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_as_ssh_has_them),
        cmocka_unit_test(a_label_that_is_free_is_found_in_few_steps),
        cmocka_unit_test(a_host_may_have_devices_of_its_own),
        cmocka_unit_test(slurm_with_a_number_is_so_many_jobs),
        cmocka_unit_test(files_have_one_host_a_line),
        cmocka_unit_test(a_file_names_hosts_and_no_jobs),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(the_launcher_fills_in_the_host),
        cmocka_unit_test(a_command_without_its_quote_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
