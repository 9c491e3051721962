/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong between ranks over MPI, and what they are told: a rank that is killed within each
 * operation, by itself and where mpirun does not end the others; disagreement, a rank that is late, an
 * error of one rank; a library that is not known. This program is the ranks, too: mpirun starts it with
 * the name of a scene.
 *
 *     test_dist_mpi MPIRUN FOLDER-OF-PLAYED-LIBMPI
 */
#include "unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "muster/dist.h"

enum {
    N_RANKS = 3,
    N_KINDS = MUSTER_ALL_GATHER + 1,
    COUNT = 50000,
    LIMIT_S = 40 /* of a scene: a rank that hangs is ended, and the test fails */
};

/* ---- a rank ---- */

static float values[2 * N_RANKS * COUNT];

static struct muster_dist_call call_of(enum muster_collective kind)
{
    struct muster_dist_call call = {kind, MUSTER_FLOAT32, MUSTER_MAX, 0, values, values, COUNT};
    if (kind == MUSTER_REDUCE_SCATTER || kind == MUSTER_ALL_GATHER)
        call.out = values + N_RANKS * COUNT;
    return call;
}

static void kill_self(int signal_number)
{
    (void)signal_number;
    kill(getpid(), SIGKILL);
}

/* Nothing but this operation goes on, so a signal comes within it. scene: N_KINDS × victim + kind. */
static int killed_within(struct muster_dist *dist, const char *scene)
{
    const int number = atoi(scene);
    const struct muster_dist_call call = call_of((enum muster_collective)(number % N_KINDS));
    uint64_t ticket;
    int rc = 0;
    if (muster_dist_rank(dist) == (uint32_t)number / N_KINDS) {
        signal(SIGALRM, kill_self);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 50000}, NULL);
    }
    while (rc == 0) {
        rc = muster_dist_start(dist, &call, &ticket);
        rc = rc ? rc : muster_dist_wait(dist, ticket);
    }
    return rc;
}

static int disagree(struct muster_dist *dist, const char *arg)
{
    (void)arg;
    size_t count = muster_dist_rank(dist) == 1 ? COUNT - 1 : COUNT;
    return muster_dist_all_reduce(dist, values, count, MUSTER_FLOAT32, MUSTER_SUM);
}

static int late(struct muster_dist *dist, const char *arg)
{
    (void)arg;
    if (muster_dist_rank(dist) == 1)
        nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    return muster_dist_barrier(dist);
}

static int one_fails(struct muster_dist *dist, const char *arg)
{
    (void)arg;
    return muster_dist_rank(dist) == 1 ? muster_dist_fail(dist, -77, "the loss is NaN")
                                       : muster_dist_barrier(dist);
}

static int overlap(struct muster_dist *dist, const char *arg)
{
    (void)arg;
    return muster_dist_rank(dist) == 1
               ? muster_dist_all_gather(dist, values, values, COUNT, MUSTER_FLOAT32)
               : muster_dist_barrier(dist);
}

static const struct rank_scene {
    const char *name;
    int (*run)(struct muster_dist *dist, const char *arg);
} rank_scenes[] = {{"killed", killed_within},
                   {"disagree", disagree},
                   {"late", late},
                   {"fails", one_fails},
                   {"overlap", overlap}};

/* mpirun ends the others when one rank ends without MPI_Finalize(), so each waits until all have said theirs. */
static void all_said_await(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    struct stat now = {0};
    assert_int_equal(write(fd, ".", 1), 1);
    for (int i = 0; i < 100 * LIMIT_S && fstat(fd, &now) == 0 && now.st_size < N_RANKS; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    close(fd);
}

/* As a rank: what it was told, in a line. */
static int rank_run(const char *scene, const char *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    int rc = muster_dist_barrier(dist);
    for (size_t i = 0; i < countof(rank_scenes); i++)
        if (rc == 0 && strcmp(scene, rank_scenes[i].name) == 0)
            rc = rank_scenes[i].run(dist, arg);
    printf("told %u: %d %s\n", muster_dist_rank(dist), rc, muster_dist_error(dist));
    fflush(stdout);
    if (strcmp(scene, "killed") != 0)
        all_said_await(arg);
    muster_dist_close(dist);
    return 0;
}

/* ---- scenes ---- */

static const char *self, *mpirun, *played_folder;

struct scene {
    FILE *stream;
    char said[16384];
    int status;
};

static void scene_begin(struct scene *scene, const char *options, const char *words)
{
    char command[1024];
    fflush(NULL);
    snprintf(command, sizeof(command),
             "timeout -s KILL %d %s --oversubscribe %s -n %d %s rank %s </dev/null 2>&1", LIMIT_S,
             mpirun, options, N_RANKS, self, words);
    scene->stream = popen(command, "r");
    assert_non_null(scene->stream);
}

static void scene_end(struct scene *scene)
{
    size_t len = fread(scene->said, 1, sizeof(scene->said) - 1, scene->stream);
    scene->said[len] = '\0';
    scene->status = pclose(scene->stream);
}

static void said(const struct scene *scene, const char *text)
{
    if (!strstr(scene->said, text))
        fail_msg("'%s' is expected in: %s", text, scene->said);
}

enum {
    N_KILLS = N_RANKS * N_KINDS
};

/* `step` from one kill to the next. */
static void scenes_of_kills(struct scene *scenes, int step, const char *options)
{
    for (int i = 0; i < N_KILLS; i += step) {
        char words[32];
        snprintf(words, sizeof(words), "killed %d", i);
        scene_begin(&scenes[i], options, words);
    }
    for (int i = 0; i < N_KILLS; i += step)
        scene_end(&scenes[i]);
}

/* mpirun ends the others, and says which rank it was. A third of all, as that is mpirun's business. */
static void test_killed(void **state)
{
    static struct scene scenes[N_KILLS];
    char text[40];
    (void)state;
    scenes_of_kills(scenes, N_RANKS, "");
    for (int i = 0; i < N_KILLS; i += N_RANKS) {
        snprintf(text, sizeof(text), "process rank %d ", i / N_KINDS);
        assert_int_not_equal(scenes[i].status, 0);
        said(&scenes[i], text);
        said(&scenes[i], "signal 9");
    }
}

/* Where mpirun lets the others go on, the time limit ends them, and they say which rank it was. */
static void test_killed_alone(void **state)
{
    static struct scene scenes[N_KILLS];
    char text[40];
    (void)state;
    scenes_of_kills(scenes, 1, "--enable-recovery");
    for (int i = 0; i < N_KILLS; i++)
        for (int r = 0; r < N_RANKS; r++) {
            snprintf(text, sizeof(text), "told %d: -6 rank %d ", r, i / N_KINDS);
            if (r != i / N_KINDS)
                said(&scenes[i], text);
        }
}

static void test_told(void **state)
{
    enum {
        LATE = 1
    };
    static const struct {
        const char *scene, *said;
    } cases[] = {
        {"disagree", "-5 ranks disagree: rank 0 came to all-reduce #2 (float32 sum, 50000 values), "
                     "rank 1 to all-reduce #2 (float32 sum, 49999 values)"},
        {"late", "-6 rank 1 has not come to barrier #2 within 1.5 s; the last that it came to was "
                 "barrier #1"},
        {"fails", "-77 rank 1: the loss is NaN"},
        {"overlap", "-3 rank 1: all-gather: in overlaps out, and is not this rank's part of it"},
    };
    static struct scene scenes[countof(cases)];
    char folder[] = "/tmp/test-dist-mpi-XXXXXX", paths[countof(cases)][64], words[512];
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < countof(cases); i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, cases[i].scene);
        snprintf(words, sizeof(words), "%s %s", cases[i].scene, paths[i]);
        scene_begin(&scenes[i], "", words);
    }
    for (size_t i = 0; i < countof(cases); i++) {
        scene_end(&scenes[i]);
        unlink(paths[i]);
        for (unsigned r = 0; r < N_RANKS; r++) {
            char line[300];
            if (r == 1 && i == LATE) /* it finds what the others had sent before they gave up */
                continue;
            snprintf(line, sizeof(line), "told %u: %s", r, cases[i].said);
            said(&scenes[i], line);
        }
    }
    rmdir(folder);
}

/* ---- libraries ---- */

static void test_other_library(void **state)
{
    static const struct {
        const char *version, *said;
    } cases[] = {
        {"MPICH Version: 4.1",
         "libmpi.so.40 is 'MPICH Version: 4.1', and only Open MPI 4 and 5 are known"},
        {"Open MPI v6.0.0, package: x", "libmpi.so.40 is 'Open MPI v6.0.0, package: x', and only"},
        {"", "libmpi.so.40 is '', and only Open MPI 4 and 5 are known"},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        char command[1024];
        struct scene scene;
        snprintf(command, sizeof(command),
                 "LD_LIBRARY_PATH=%s PLAY_MPI_VERSION='%s' RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 "
                 "timeout -s KILL %d %s rank killed 0 2>&1",
                 played_folder, cases[i].version, LIMIT_S, self);
        scene.stream = popen(command, "r");
        assert_non_null(scene.stream);
        scene_end(&scene);
        said(&scene, "told 0: -2 ");
        said(&scene, cases[i].said);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_alone),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_other_library),
    };
    if (argc > 2 && strcmp(argv[1], "rank") == 0)
        return rank_run(argv[2], argc > 3 ? argv[3] : "");
    if (argc < 3)
        return 2;
    self = argv[0];
    mpirun = argv[1];
    played_folder = argv[2];
    unsetenv("LD_LIBRARY_PATH"); /* meson adds the folder of what the test depends on */
    setenv("MUSTER_DIST_BACKEND", "mpi", 1);
    setenv("MUSTER_DIST_TIMEOUT", "1500ms", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
