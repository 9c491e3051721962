/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever is killed, nothing is left running, and nothing else is touched.
 */
#include "kit.h"

#include <signal.h>
#include <sys/wait.h>

static struct {
    const char *guard, *zoo, *mini; /* set by main */
} programs;

enum victim {
    MUSTER,
    GUARDS,
    ONE_GUARD
};

struct cell {
    const char *name;
    enum victim victim;
    int signal;
    const char *actions[9]; /* before "pid FOLDER/pids sleep"; "PIDS" stands for that file */
    size_t pids_each;       /* how many pids each worker makes known */
    int status;             /* of mini-muster; -1: killed */
};

#define PLAIN                \
    {                        \
        "grandchild", "PIDS" \
    }
#define DAEMON           \
    {                    \
        "daemon", "PIDS" \
    }
#define ALL                                                                          \
    {                                                                                \
        "grandchild", "PIDS", "daemon", "PIDS", "unmarked", "PIDS", "nobody", "PIDS" \
    }
#define DEAF                                                   \
    {                                                          \
        "ignore", "15", "grandchild", "PIDS", "daemon", "PIDS" \
    }

static const struct cell cells[] = {
    {"KILL to muster, plain grandchild", MUSTER, SIGKILL, PLAIN, 2, -1},
    {"KILL to muster, daemon", MUSTER, SIGKILL, DAEMON, 2, -1},
    {"KILL to muster, all kinds", MUSTER, SIGKILL, ALL, 5, -1},
    {"KILL to muster, TERM ignored", MUSTER, SIGKILL, DEAF, 3, -1},
    {"TERM to muster, plain grandchild", MUSTER, SIGTERM, PLAIN, 2, 143},
    {"TERM to muster, daemon", MUSTER, SIGTERM, DAEMON, 2, 143},
    {"TERM to muster, all kinds", MUSTER, SIGTERM, ALL, 5, 143},
    {"TERM to muster, TERM ignored", MUSTER, SIGTERM, DEAF, 3, 143},
    {"INT to muster, plain grandchild", MUSTER, SIGINT, PLAIN, 2, 130},
    {"INT to muster, daemon", MUSTER, SIGINT, DAEMON, 2, 130},
    {"HUP to muster, plain grandchild", MUSTER, SIGHUP, PLAIN, 2, 129},
    {"HUP to muster, daemon", MUSTER, SIGHUP, DAEMON, 2, 129},
    {"KILL to the guards, plain grandchild", GUARDS, SIGKILL, PLAIN, 2, 3},
    {"KILL to the guards, daemon", GUARDS, SIGKILL, DAEMON, 2, 3},
    {"KILL to the guards, all kinds", GUARDS, SIGKILL, ALL, 5, 3},
    {"KILL to the guards, TERM ignored", GUARDS, SIGKILL, DEAF, 3, 3},
    {"TERM to the guards, daemon", GUARDS, SIGTERM, DAEMON, 2, 3},
};

struct scene {
    char *folder;
    pid_t mini;
    pid_t pids[PIDS_MAX], guards[PIDS_MAX];
    size_t n_pids, n_guards;
};

/* argv of mini-muster, in one buffer of strings that live as long as the scene. */
static size_t mini_argv(const struct scene *scene, const struct cell *cell, char *argv[32])
{
    size_t n = 0;
    argv[n++] = xstrdup(programs.mini);
    argv[n++] = xstrdup(programs.guard);
    argv[n++] = xstrdup(programs.zoo);
    argv[n++] = xstrdup(scene->folder);
    argv[n++] = xstrdup("200");
    for (size_t i = 0; i < countof(cell->actions) && cell->actions[i]; i++)
        argv[n++] = strcmp(cell->actions[i], "PIDS") == 0 ? path_join(scene->folder, "pids")
                                                          : xstrdup(cell->actions[i]);
    argv[n++] = xstrdup("pid");
    argv[n++] = path_join(scene->folder, "pids");
    argv[n++] = xstrdup("sleep");
    argv[n++] = xstrdup("");
    argv[n] = NULL;
    return n;
}

/* `shell`: start it as `sleep & exec mini-muster`, so that a child is there before it. */
static void scene_begin(struct scene *scene, const struct cell *cell, const char *shell)
{
    char *argv[32] = {0}, *words[40] = {0};
    *scene = (struct scene){.folder = folder_new()};
    size_t n = mini_argv(scene, cell, argv);
    memcpy(words, (const char *[]){"/bin/sh", "-c", shell, "sh"}, 4 * sizeof(*words));
    memcpy(words + 4, argv, (n + 1) * sizeof(*argv));
    scene->mini = fork();
    assert_true(scene->mini >= 0);
    if (scene->mini == 0) {
        if (chdir(scene->folder) == 0)
            execv(shell ? words[0] : argv[0], shell ? words : argv);
        _exit(99);
    }
    for (size_t i = 0; i < n; i++)
        free(argv[i]);
    size_t expected = 2 * cell->pids_each;
    if (!WAIT_UNTIL((scene->n_pids = pids_read(scene->folder, "pids", scene->pids)) == expected &&
                    (scene->n_guards = pids_read(scene->folder, "guards", scene->guards)) == 2))
        fail_msg("%s: only %zu of %zu pids appeared", cell->name, scene->n_pids, expected);
    for (size_t i = 0; i < scene->n_pids; i++)
        if (!is_alive(scene->pids[i]))
            fail_msg("%s: process %d was dead before anything was killed", cell->name,
                     scene->pids[i]);
}

static void scene_strike(const struct scene *scene, const struct cell *cell)
{
    if (cell->victim == MUSTER)
        kill(scene->mini, cell->signal);
    else
        for (size_t i = 0; i < scene->n_guards; i++)
            kill(scene->guards[i], cell->signal);
}

static int wait_status(pid_t pid)
{
    int status = 0;
    if (!WAIT_UNTIL(waitpid(pid, &status, WNOHANG) == pid || !is_alive(pid)))
        kill(pid, SIGKILL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static size_t survivors(const struct scene *scene)
{
    size_t alive = 0;
    for (size_t i = 0; i < scene->n_pids; i++)
        alive += is_alive(scene->pids[i]);
    for (size_t i = 0; i < scene->n_guards; i++)
        alive += is_alive(scene->guards[i]);
    return alive;
}

/* A failed cell must not leave its processes to the machine either. */
static void scene_end(struct scene *scene)
{
    for (size_t i = 0; i < scene->n_pids; i++)
        if (is_alive(scene->pids[i]))
            kill(scene->pids[i], SIGKILL);
    folder_free(scene->folder);
}

static void scene_check(struct scene *scene, const struct cell *cell)
{
    int status = wait_status(scene->mini);
    bool clean = WAIT_UNTIL(survivors(scene) == 0);
    size_t left = survivors(scene);
    scene_end(scene);
    if (!clean)
        fail_msg("%s: %zu survive", cell->name, left);
    if (status != cell->status)
        fail_msg("%s: status %d, expected %d", cell->name, status, cell->status);
}

static void nothing_survives_in_any_cell_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(cells); i++) {
        struct scene scene;
        scene_begin(&scene, &cells[i], NULL);
        scene_strike(&scene, &cells[i]);
        scene_check(&scene, &cells[i]);
    }
}

/* When muster ends orderly it must itself have seen the end of all of them, not init later. */
static void an_orderly_end_waits_for_the_last_descendant(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(cells); i++) {
        struct scene scene;
        if (cells[i].status < 0)
            continue;
        scene_begin(&scene, &cells[i], NULL);
        scene_strike(&scene, &cells[i]);
        wait_status(scene.mini);
        size_t left = survivors(&scene);
        scene_end(&scene);
        if (left > 0)
            fail_msg("%s: %zu alive at the moment muster ended", cells[i].name, left);
    }
}

/*
 * A child of before, one whose parent (also of before) dies, and one in a session of its own; none of them can be told
 * by what it is from what a worker leaves behind.
 */
static const char bystanders_script[] =
    "sleep 1000 & echo $! > bystanders; "
    "sh -c 'sleep 1000 & echo $! >> bystanders; setsid sleep 1000 & echo $! >> bystanders; wait' & "
    "echo $! > middle; exec \"$@\"";

static void bystanders_orphan(const struct scene *scene, pid_t bystanders[PIDS_MAX])
{
    pid_t middle[PIDS_MAX];
    assert_true(WAIT_UNTIL(pids_read(scene->folder, "bystanders", bystanders) == 3));
    assert_int_equal(pids_read(scene->folder, "middle", middle), 1);
    kill(middle[0], SIGKILL);
    assert_true(WAIT_UNTIL(!is_alive(middle[0])));
}

static void what_was_there_before_is_never_signalled(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(cells); i++) {
        struct scene scene;
        pid_t bystanders[PIDS_MAX];
        scene_begin(&scene, &cells[i], bystanders_script);
        bystanders_orphan(&scene, bystanders);
        scene_strike(&scene, &cells[i]);
        int status = wait_status(scene.mini);
        bool clean = WAIT_UNTIL(survivors(&scene) == 0);
        size_t spared = 0;
        for (size_t k = 0; k < 3; k++) {
            spared += is_alive(bystanders[k]);
            kill(bystanders[k], SIGKILL);
        }
        scene_end(&scene);
        if (spared != 3)
            fail_msg("%s: %zu of 3 bystanders spared", cells[i].name, spared);
        if (!clean || status != cells[i].status)
            fail_msg("%s: survivors or status %d, expected %d", cells[i].name, status,
                     cells[i].status);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    programs.guard = path_absolute(argv[1]);
    programs.zoo = path_absolute(argv[2]);
    programs.mini = path_absolute(argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_survives_in_any_cell_of_the_table),
        cmocka_unit_test(an_orderly_end_waits_for_the_last_descendant),
        cmocka_unit_test(what_was_there_before_is_never_signalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
