/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays runs of `muster map` on an invented machine, one a seed, and holds the promises against them.
 *
 *   sim_shell [--hosts] [--first N] [--seeds M] [--jobs J] [--dir DIR]   seeds N … N+M-1
 *   sim_shell [--hosts] --seed S [--trace]                               one of them, told step by step
 *
 * With --crowd N the run has N hosts, and tells what they cost; with --hosts every run has workers on other hosts; without it, one in ten.
 *
 * DIR is best in memory: /dev/shm, the default where it can be written to, else /tmp. Status 1: a promise was not kept; the seed is printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "sim/shell/world.h"

enum {
    SESSIONS_MAX = 40,
    CHUNK_SEEDS = 200,
    CRASHED = 9
};

struct options {
    uint64_t first, seeds, jobs, seed;
    bool one, is_traced;
    const char *dir;
};

static volatile uint64_t seed_at_work;

/* muster itself died: the seed is the only thing worth saying. */
static void on_death(int number)
{
    char text[96];
    int len = snprintf(text, sizeof(text), "seed %lu: muster died of signal %d\n",
                       (unsigned long)seed_at_work, number);
    (void)!write(fileno(world.said), text, (size_t)len);
    signal(number, SIG_DFL);
    raise(number);
}

static void folder_make(const char *dir)
{
    struct err err = {0};
    if (chdir("/") != 0 || (path_exists(dir) && remove_tree(dir, &err) != 0) ||
        mkdir(dir, 0700) != 0 || chdir(dir) != 0) {
        fprintf(world.said, "%s: %s\n", dir, err.text[0] ? err.text : strerror(errno));
        exit(2);
    }
}

static void input_write(void)
{
    FILE *lines = fopen("in.txt", "w"), *records = fopen("in.jsonl", "w");
    for (uint32_t item = 0; item < world.scene.n_items; item++) {
        int len = (int)below(40);
        fprintf(lines, "item %u %.*s\n", item, len, "0123456789012345678901234567890123456789");
        fprintf(records, "{\"item\":%u,\"text\":\"%.*s\"}\n", item, len,
                "0123456789012345678901234567890123456789");
    }
    fclose(lines), fclose(records);
}

/* In a child where muster is to be killed. Negative: it was killed. */
static int session_apart(void)
{
    int wait_status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (setjmp(world.give_up) == 0) {
            world.truth->status = session_play();
            session_check(world.truth->status);
        }
        fflush(world.said);
        _exit(0);
    }
    waitpid(pid, &wait_status, 0);
    if (WIFSIGNALED(wait_status))
        broken("muster died of signal %d", WTERMSIG(wait_status));
    if (WEXITSTATUS(wait_status) == CRASHED)
        return -1;
    if (world.truth->is_broken)
        broken("%s", world.truth->broken);
    return world.truth->status;
}

static int session_here(void)
{
    int status = session_play();
    if (world.crowd > 0)
        crowd_print(world.said);
    session_check(status);
    return status;
}

static void sessions_run(uint64_t seed)
{
    for (world.session = 0; world.session < SESSIONS_MAX; world.session++) {
        world_begin(seed);
        world.truth->n_events = 0;
        bool is_killed_at_end =
            world.session < END_CRASHES && world.scene.end_crashes[world.session] > 0;
        bool is_apart = is_killed_at_end || (world.session < 2 && world.scene.crash_at_ms > 0);
        int status = is_apart ? session_apart() : session_here();
        if (status == 0 || status == 1) {
            run_check_all(status);
            return;
        }
        done_note(status < 0);
    }
    broken("it is not done after %d sessions", SESSIONS_MAX);
}

static bool seed_run(uint64_t seed, const char *dir)
{
    seed_at_work = seed;
    memset(world.truth, 0, sizeof(*world.truth));
    scenario_draw(seed, &world.scene);
    folder_make(dir);
    input_write();
    if (world.is_traced)
        scenario_print(&world.scene, world.said);
    if (setjmp(world.give_up) == 0)
        sessions_run(seed);
    if (world.truth->is_broken) {
        fprintf(world.said, "seed %lu: %s\n", (unsigned long)seed, world.truth->broken);
        fflush(world.said);
    }
    return !world.truth->is_broken;
}

/* After a broken promise nothing of this process is to be trusted. */
static int seeds_run(const struct options *opts, uint64_t first, uint64_t n)
{
    /* Of one length for every pid, so that what is sent, and with it the run, is the same. */
    cleanup_free char *dir = xasprintf("%s/muster-sim-%07d", opts->dir, (int)getpid());
    struct err err = {0};
    bool is_well = true;
    cleanup_free char *locks = xasprintf("%s/locks", dir);
    setenv("MUSTER_LOCK_DIR", locks, 1);
    world.truth =
        mmap(NULL, sizeof(*world.truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world.truth == MAP_FAILED)
        return 2;
    for (uint64_t seed = first; is_well && seed < first + n; seed++)
        is_well = seed_run(seed, dir);
    if (is_well || !opts->one) {
        if (chdir("/") != 0 || remove_tree(dir, &err) != 0)
            fprintf(world.said, "%s: %s\n", dir, err.text);
    }
    return is_well ? 0 : 1;
}

/* In processes of their own: what a run leaves in memory makes the forks of later ones slow. */
static int jobs_run(const struct options *opts)
{
    uint64_t done = 0, running = 0;
    int wait_status, status = 0;
    while (running > 0 || (status == 0 && done < opts->seeds)) {
        if (status != 0 || done == opts->seeds || running == opts->jobs) {
            status |= wait(&wait_status) > 0 && wait_status != 0;
            running--;
            continue;
        }
        uint64_t n = MIN((uint64_t)CHUNK_SEEDS, opts->seeds - done);
        fflush(world.said);
        if (fork() == 0)
            exit(seeds_run(opts, opts->first + done, n));
        done += n;
        running++;
    }
    if (status == 0)
        fprintf(world.said, "%lu seeds from %lu: every promise was kept\n",
                (unsigned long)opts->seeds, (unsigned long)opts->first);
    return status;
}

static bool options_read(int argc, char **argv, struct options *opts)
{
    uint64_t crowd = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        uint64_t *number = strcmp(argv[i], "--first") == 0   ? &opts->first
                           : strcmp(argv[i], "--seeds") == 0 ? &opts->seeds
                           : strcmp(argv[i], "--jobs") == 0  ? &opts->jobs
                           : strcmp(argv[i], "--seed") == 0  ? &opts->seed
                           : strcmp(argv[i], "--crowd") == 0 ? &crowd
                                                             : NULL;
        if (strcmp(argv[i], "--trace") == 0 || strcmp(argv[i], "--hosts") == 0) {
            opts->is_traced |= strcmp(argv[i], "--trace") == 0;
            world.all_have_hosts |= strcmp(argv[i], "--hosts") == 0;
            continue;
        }
        if (strcmp(argv[i], "--dir") == 0)
            opts->dir = value;
        else if (number)
            *number = strtoull(value, NULL, 10);
        else
            return false;
        opts->one |= number == &opts->seed;
        world.crowd = (uint32_t)MIN(crowd, (uint64_t)HOSTS_MAX_SIM);
        i++;
    }
    return opts->jobs > 0;
}

int main(int argc, char **argv)
{
    struct options opts = {.first = 1, .seeds = 1000, .jobs = 1};
    opts.dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (!options_read(argc, argv, &opts)) {
        fprintf(
            stderr,
            "usage: sim_shell [--hosts] [--first N] [--seeds M] [--jobs J] [--dir DIR] | --seed S [--trace]\n");
        return 2;
    }
    world.said = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 700), "w");
    world.is_traced = opts.is_traced;
    if (!world.said)
        return 2;
    if (!opts.is_traced) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
    }
    signal(SIGSEGV, on_death), signal(SIGABRT, on_death), signal(SIGFPE, on_death);
    if (opts.one)
        opts.first = opts.seed, opts.seeds = 1;
    return jobs_run(&opts);
}
