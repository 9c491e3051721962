/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper of a folder: removes it some time after the death of its owner, unless another one has taken it over.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/keeper.h"

enum {
    KEEP_MS = 400,
    PATIENCE_MS = 10000
};

static int folder_make(void **state)
{
    char folder[] = "/tmp/muster-keeper-XXXXXX";
    *state = mkdtemp(folder) ? xstrdup(folder) : NULL;
    return *state ? prctl(PR_SET_CHILD_SUBREAPER, 1) : -1;
}

static int folder_drop(void **state)
{
    int rc = remove_tree(*state, NULL);
    while (waitpid(-1, NULL, 0) > 0) /* keepers, whose parents are dead */
        ;
    free(*state);
    return rc;
}

static int lock_open(const char *folder)
{
    cleanup_free char *path = path_join(folder, ".lock");
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* An owner with a keeper that is killed, or ends in order. */
static void owner_live(const char *folder, bool is_killed)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct keeper keeper;
        int fd = lock_open(folder);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0 ||
            keeper_start_for_folder(&keeper, folder, KEEP_MS, fd, NULL) != 0)
            _exit(1);
        if (is_killed)
            raise(SIGKILL);
        keeper_dismiss(&keeper);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(is_killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool is_gone_in_time(const char *folder)
{
    for (unsigned ms = 0; ms < PATIENCE_MS && path_exists(folder); ms += 10)
        usleep(10000);
    return !path_exists(folder);
}

static void a_killed_owners_folder_stays_for_a_while(void **state)
{
    owner_live(*state, true);
    assert_true(path_exists(*state));
    assert_true(is_gone_in_time(*state));
}

static void a_folder_that_was_taken_over_stays(void **state)
{
    cleanup_fd int fd = lock_open(*state);
    owner_live(*state, true);
    bool is_taken = false;
    for (unsigned ms = 0; ms < KEEP_MS && !is_taken; ms += 10) {
        is_taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
        usleep(10000);
    }
    assert_true(is_taken);
    assert_true(waitpid(-1, NULL, 0) > 0); /* the keeper has ended */
    assert_true(path_exists(*state));
}

static void a_keeper_that_is_dismissed_removes_nothing(void **state)
{
    owner_live(*state, false);
    usleep(2 * KEEP_MS * 1000);
    assert_true(path_exists(*state));
}

#define SCENE(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_drop)

int main(void)
{
    const struct CMUnitTest tests[] = {SCENE(a_killed_owners_folder_stays_for_a_while),
                                       SCENE(a_folder_that_was_taken_over_stays),
                                       SCENE(a_keeper_that_is_dismissed_removes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
