/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "device/lock.h"
#include "devices.h"

static int folder_make(void **state)
{
    char *folder = xstrdup("/tmp/muster-test-lock-XXXXXX");
    *state = mkdtemp(folder);
    char *locks = path_join(folder, "locks");
    setenv("MUSTER_LOCK_DIR", locks, 1);
    free(locks);
    return *state ? 0 : -1;
}

static int folder_remove(void **state)
{
    int rc = remove_tree(*state, NULL);
    free(*state);
    return rc;
}

/* Another process that holds GPUs 1 and 2 until it is killed. */
static pid_t holder_start(const struct device_list *list)
{
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct device_locks locks;
        size_t chosen[] = {1, 2};
        if (device_locks_take(&locks, list, chosen, 2, "20260131_090807-map", NULL) != 0 ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void two_processes_never_hold_one_device(void **state)
{
    (void)state;
    struct device_list list = gpus(4);
    struct device_locks locks;
    struct buf holder = BUF_INIT;
    struct err err = {0};
    size_t chosen[] = {0, 2};
    char pid_text[32];
    pid_t pid = holder_start(&list);
    snprintf(pid_text, sizeof(pid_text), "pid %d, user ", (int)pid);

    assert_int_equal(device_locks_take(&locks, &list, chosen, 2, "mine", &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "gpu 2 is taken by"));
    assert_non_null(strstr(err.text, pid_text));
    assert_non_null(strstr(err.text, "run 20260131_090807-map"));
    assert_true(device_is_locked(&list.at[1], &holder));
    assert_non_null(strstr(buf_text(&holder), pid_text));
    /* all or none: GPU 0 was let go again */
    assert_false(device_is_locked(&list.at[0], NULL));

    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(device_is_locked(&list.at[1], NULL));
    assert_int_equal(device_locks_take(&locks, &list, chosen, 2, "mine", &err), 0);
    assert_int_equal(locks.len, 2);
    device_locks_release(&locks);
    device_locks_release(&locks);
    buf_release(&holder);
    device_list_release(&list);
}

/* A cleaner of /tmp, or the folder's owner. */
static char *lock_file_delete(void)
{
    char *file = path_join(getenv("MUSTER_LOCK_DIR"), "GPU-a1000000-1111.lock");
    assert_int_equal(unlink(file), 0);
    return file;
}

static void a_lock_whose_file_is_deleted_is_still_held(void **state)
{
    (void)state;
    struct device_list list = gpus(4);
    struct device_locks locks;
    struct err err = {0};
    size_t chosen[] = {1};
    pid_t pid = holder_start(&list);
    for (int with_folder = 0; with_folder <= 1; with_folder++) {
        if (with_folder)
            assert_int_equal(remove_tree(getenv("MUSTER_LOCK_DIR"), NULL), 0);
        else
            free(lock_file_delete());
        assert_true(device_is_locked(&list.at[1], NULL));
        assert_int_equal(device_locks_take(&locks, &list, chosen, 1, "mine", &err),
                         ERR_UNAVAILABLE);
        assert_non_null(strstr(err.text, "gpu 1 is taken by another muster"));
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(device_locks_take(&locks, &list, chosen, 1, "mine", &err), 0);
    device_locks_release(&locks);
    device_list_release(&list);
}

static void a_deleted_lock_file_is_made_anew_by_its_holder(void **state)
{
    (void)state;
    struct device_list list = gpus(4);
    struct device_locks locks;
    struct buf holder = BUF_INIT;
    size_t chosen[] = {0, 1};
    assert_int_equal(device_locks_take(&locks, &list, chosen, 2, "mine", NULL), 0);
    char *file = lock_file_delete();
    assert_null(device_locks_renew(&locks, "mine", &holder));
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    close(fd);
    /* What somebody with another network, who cannot see our name, does before we look again. */
    free(lock_file_delete());
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(write(fd, "pid 1, user them\n", 17), 17);
    const struct device_lock *lost = device_locks_renew(&locks, "mine", &holder);
    assert_non_null(lost);
    assert_int_equal(lost->device, 1);
    assert_string_equal(buf_text(&holder), "pid 1, user them");
    assert_null(device_locks_renew(&locks, "mine", &holder)); /* said once */
    close(fd);
    free(file);
    buf_release(&holder);
    device_locks_release(&locks);
    device_list_release(&list);
}

/* A muster that was killed; its guard has the locks still. */
static void what_a_dead_muster_left_is_told_from_a_living_one(void **state)
{
    (void)state;
    struct device_list list = gpus(4);
    struct err err = {0};
    struct device_locks locks;
    size_t chosen[] = {1};
    int go[2], byte;
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    pid_t muster = fork();
    if (muster == 0) {
        bool has_locks = device_locks_take(&locks, &list, chosen, 1, "night", NULL) == 0;
        if (has_locks && fork() == 0) { /* the guard, which ends with the test's end of the pipe */
            close(go[1]);
            _exit((int)read(go[0], &byte, 1));
        }
        _exit(!has_locks);
    }
    int status;
    assert_int_equal(waitpid(muster, &status, 0), muster);
    assert_int_equal(status, 0);
    assert_true(device_is_left(&list.at[1], 0));
    assert_false(device_is_left(&list.at[0], 0));
    assert_int_equal(device_locks_take(&locks, &list, chosen, 1, "mine", &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "run night, which has ended: its workers are being ended"));
    free(lock_file_delete()); /* nobody makes it anew */
    assert_true(device_is_left(&list.at[1], 0));
    close(go[0]);
    close(go[1]);
    assert_false(device_is_left(&list.at[1], 2000)); /* who lives would have made it anew by now */
    for (int looks = 0; looks < 1000 && device_is_left(&list.at[1], 0); looks++)
        usleep(10000);
    assert_int_equal(device_locks_take(&locks, &list, chosen, 1, "mine", &err), 0);
    assert_false(device_is_left(&list.at[1], 0)); /* its holder lives */
    device_locks_release(&locks);
    device_list_release(&list);
}

static void asking_does_not_take(void **state)
{
    (void)state;
    struct device_list list = gpus(1);
    struct device_locks locks;
    size_t chosen[] = {0};
    assert_false(device_is_locked(&list.at[0], NULL));
    assert_int_equal(device_locks_take(&locks, &list, chosen, 1, "mine", NULL), 0);
    device_locks_release(&locks);
    assert_false(device_is_locked(&list.at[0], NULL));
    device_list_release(&list);
}

static void cpu_slots_and_simulated_devices_are_not_locked(void **state)
{
    (void)state;
    struct device_list list = gpus(2);
    struct device_locks locks;
    size_t chosen[] = {0, 1};
    list.at[0].kind = DEVICE_CPU;
    list.at[1].kind = DEVICE_SIM;
    assert_int_equal(device_locks_take(&locks, &list, chosen, 2, "mine", NULL), 0);
    assert_int_equal(locks.len, 0);
    assert_false(path_exists(getenv("MUSTER_LOCK_DIR")));
    device_locks_release(&locks);
    device_list_release(&list);
}

/* Held by the same descriptors as the locks, though there is no device that needs one. */
static void a_presence_is_seen_until_all_who_hold_it_have_ended(void **state)
{
    (void)state;
    struct device_list list = {0};
    struct device_locks locks, others;
    size_t chosen[] = {0};
    int fds[LOCK_FDS_MAX];
    assert_int_equal(device_locks_take(&locks, &list, chosen, 0, "mine", NULL), 0);
    assert_int_equal(device_locks_take(&others, &list, chosen, 0, "mine", NULL), 0);
    assert_int_equal(device_locks_fds(&locks, chosen, 0, fds), 0);
    assert_false(presence_is_held("test-lock.1"));
    assert_true(device_locks_be_present(&locks, "test-lock.1"));
    assert_false(device_locks_be_present(&others, "test-lock.1"));
    assert_true(presence_is_held("test-lock.1"));
    assert_false(presence_is_held("test-lock.11"));
    assert_int_equal(device_locks_fds(&locks, chosen, 0, fds), 1);
    assert_int_equal(device_locks_fds(&others, chosen, 0, fds), 0);
    int guards = dup(fds[0]);
    device_locks_release(&locks);
    device_locks_release(&others);
    assert_true(presence_is_held("test-lock.1"));
    assert_int_equal(close(guards), 0);
    assert_false(presence_is_held("test-lock.1"));
}

/* Whoever believes that it is free starts ranks beside those that hold it. */
static void a_presence_that_cannot_be_looked_at_is_held(void **state)
{
    (void)state;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool is_held = presence_is_held("test-lock.1");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(is_held);
    assert_false(presence_is_held("test-lock.1"));
}

static void the_folder_is_sticky_and_for_everybody(void **state)
{
    (void)state;
    struct device_list list = gpus(1);
    struct device_locks locks;
    struct stat st;
    size_t chosen[] = {0};
    mode_t mask = umask(077);
    assert_int_equal(device_locks_take(&locks, &list, chosen, 1, "mine", NULL), 0);
    umask(mask);
    assert_int_equal(stat(getenv("MUSTER_LOCK_DIR"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 01777);
    char *file = path_join(getenv("MUSTER_LOCK_DIR"), "GPU-a0000000-1111.lock");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    free(file);
    device_locks_release(&locks);
    device_list_release(&list);
}

static int try_lock(struct err *err)
{
    struct device_list list = gpus(1);
    struct device_locks locks;
    size_t chosen[] = {0};
    int rc = device_locks_take(&locks, &list, chosen, 1, "mine", err);
    device_locks_release(&locks);
    device_list_release(&list);
    return rc;
}

static void a_folder_that_could_be_a_trap_is_refused(void **state)
{
    const char *folder = getenv("MUSTER_LOCK_DIR");
    struct err err = {0};
    assert_int_equal(symlink(*state, folder), 0);
    assert_int_equal(try_lock(&err), ERR_SYS);
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(try_lock(&err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "not sticky"));
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(try_lock(&err), 0);
}

static void a_lock_file_that_is_a_link_is_refused_and_its_target_untouched(void **state)
{
    struct err err = {0};
    assert_int_equal(try_lock(&err), 0);
    char *file = path_join(getenv("MUSTER_LOCK_DIR"), "GPU-a0000000-1111.lock");
    char *target = path_join(*state, "precious");
    assert_int_equal(file_replace_fast(target, STR("keep me"), NULL), 0);
    for (int is_hard = 0; is_hard < 2; is_hard++) {
        struct buf text = BUF_INIT;
        assert_int_equal(unlink(file), 0);
        assert_int_equal(is_hard ? link(target, file) : symlink(target, file), 0);
        assert_int_equal(try_lock(&err), ERR_SYS);
        assert_int_equal(file_read(target, 100, &text, NULL), 0);
        assert_string_equal(buf_text(&text), "keep me");
        buf_release(&text);
    }
    free(file);
    free(target);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(two_processes_never_hold_one_device),
        WITH_FOLDER(a_lock_whose_file_is_deleted_is_still_held),
        WITH_FOLDER(a_deleted_lock_file_is_made_anew_by_its_holder),
        WITH_FOLDER(what_a_dead_muster_left_is_told_from_a_living_one),
        WITH_FOLDER(asking_does_not_take),
        WITH_FOLDER(cpu_slots_and_simulated_devices_are_not_locked),
        WITH_FOLDER(a_presence_is_seen_until_all_who_hold_it_have_ended),
        WITH_FOLDER(a_presence_that_cannot_be_looked_at_is_held),
        WITH_FOLDER(the_folder_is_sticky_and_for_everybody),
        WITH_FOLDER(a_folder_that_could_be_a_trap_is_refused),
        WITH_FOLDER(a_lock_file_that_is_a_link_is_refused_and_its_target_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
