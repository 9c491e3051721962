/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/smoke.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/seat.h"

enum {
    ITEMS = 200,
    WORKERS_PER_DEVICE = 2,
    GRACE_MS = 15000, /* `muster map` itself waits 10 s before it kills */
    SAID_MAX_BYTES = 1 << 16,
};

/* $1: the folder of the trial. $2: the number of workers, which wait for each other. $3: "device"
 * or "kind", what each answer tells of the worker's device. */
static const char worker_script[] =
    ": >\"$1/ready.$MUSTER_WORKER\"\n"
    "here=$1 workers=$2 tries=0 seen=$MUSTER_DEVICE_KIND\n"
    "[ \"$3\" = device ] && seen=$MUSTER_DEVICE\n"
    "while set -- \"$here\"/ready.* && [ $# -lt \"$workers\" ] && [ $tries -lt 500 ]; do\n"
    "    sleep 0.02; tries=$((tries + 1))\n"
    "done\n"
    "while read -r n; do echo \"$n $((n * n)) $seen\"; done\n";

static const struct trouble
    failed = {FINDING_FAIL, "Runs on this device do not work as they should.",
              "Read what it said; try the same by hand: muster map --explain"},
    wrong_bytes = {FINDING_FAIL, "The result of a run is not what its workers answered.",
                   "Do not use muster here, and report it, with muster --version"},
    hung = {FINDING_FAIL, "A run on this device does not end.",
            "Look at the device with muster gpus, and for Xid in dmesg",
            .cure_amd = "Look at the device with muster gpus, and for amdgpu in dmesg"},
    not_made = {FINDING_FAIL, "The self-test itself could not be made, or left something behind.",
                "Set TMPDIR to a folder on a local disk with some room"},
    not_tried = {FINDING_WARN, "Nothing is known about runs on it.",
                 "Try again when it can be had: muster doctor --smoke -g DEVICE"};

struct smoke {
    const struct smoke_opts *opts;
    char *folder;
    int signal_fd;
    sigset_t mask_before;
    bool is_interrupted;
};

/* One run of `muster map`: its options, what is expected of it, and its folder. */
struct trial {
    char label[24];
    enum device_kind kind;
    const char *spec, *tells; /* "device" or "kind" */
    const char *seen;         /* what every line of the output must end with */
    bool is_shared;           /* --workers-per-gpu */
    size_t n_workers;
    char *here; /* its folder */
};

/* ---- files ---- */

static int input_write(const char *path, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    for (int i = 0; i < ITEMS; i++)
        buf_addf(&text, "%d\n", i);
    return file_replace_fast(path, buf_str(&text), err);
}

static bool output_is_right(const char *path, const char *seen)
{
    cleanup_buf struct buf expected = BUF_INIT;
    cleanup_buf struct buf text = BUF_INIT;
    for (int i = 0; i < ITEMS; i++)
        buf_addf(&expected, "%d %d %s\n", i, i * i, seen);
    return file_read(path, 2 * expected.len, &text, NULL) == 0 &&
           str_equal(buf_str(&text), buf_str(&expected));
}

static size_t ready_count(const char *folder)
{
    DIR *entries = opendir(folder);
    size_t count = 0;
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        count += strncmp(entry->d_name, "ready.", 6) == 0;
    if (entries)
        closedir(entries);
    return count;
}

/* The last line that muster printed, without "muster: " or "map: " before it. */
static void last_words(const char *path, char out[256])
{
    cleanup_buf struct buf text = BUF_INIT;
    out[0] = '\0';
    if (file_read(path, SAID_MAX_BYTES, &text, NULL) != 0)
        return;
    struct str all = str_trim(buf_str(&text));
    const char *newline = all.len > 0 ? memrchr(all.at, '\n', all.len) : NULL;
    struct str last =
        newline ? (struct str){newline + 1, (size_t)(all.at + all.len - newline - 1)} : all;
    static const char *const names[] = {"muster: ", "map: "};
    for (size_t i = 0; i < countof(names); i++) {
        size_t len = strlen(names[i]);
        if (str_starts_with(last, str_of(names[i])))
            last = (struct str){last.at + len, last.len - len};
    }
    snprintf(out, 256, "%.*s", (int)last.len, last.at);
}

/* ---- one process ---- */

static int spawn_quietly(struct smoke *smoke, char *const *argv, const char *said, pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &smoke->mask_before);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, said, O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    int sys = posix_spawn(pid, smoke->opts->self_path, &actions, &attributes, argv,
                          smoke->opts->environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return sys;
}

/* True if the process ended by itself in time. Else a signal came, or the time is over. */
static bool wait_for_end(struct smoke *smoke, int pid_fd, uint64_t limit_ms)
{
    struct pollfd fds[] = {{.fd = pid_fd, .events = POLLIN},
                           {.fd = smoke->signal_fd, .events = POLLIN}};
    uint64_t end_ms = clock_now_ms() + limit_ms;
    for (uint64_t now_ms = clock_now_ms(); now_ms < end_ms; now_ms = clock_now_ms()) {
        int n_ready = poll(fds, smoke->is_interrupted ? 1 : 2, (int)(end_ms - now_ms));
        if (n_ready < 0 && errno != EINTR)
            return false;
        if (fds[0].revents)
            return true;
        if (fds[1].revents) {
            smoke->is_interrupted = true;
            return false;
        }
    }
    return false;
}

/* Waits for the process. Returns its status as a shell gives it; -1: the process had to be ended. */
static int child_wait(struct smoke *smoke, pid_t pid)
{
    cleanup_fd int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool is_ended = pid_fd >= 0 && wait_for_end(smoke, pid_fd, smoke->opts->limit_ms);
    int status = 0;
    bool in_time = is_ended;
    if (!is_ended) {
        kill(pid, SIGTERM);
        is_ended = pid_fd >= 0 && wait_for_end(smoke, pid_fd, GRACE_MS);
    }
    if (!is_ended)
        kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !in_time)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- one trial ---- */

static void trial_judge(const struct trial *trial, int status, uint64_t took_ms,
                        struct findings *out)
{
    cleanup_free char *said = path_join(trial->here, "said");
    cleanup_free char *output = path_join(trial->here, "out.txt");
    char words[256], took[24];
    last_words(said, words);
    duration_format(took, took_ms);
    size_t n_ready = ready_count(trial->here);
    if (status == -1)
        found_for(out, &hung, trial->kind, trial->label, "ended after %s%s%s", took,
                  words[0] ? ": " : "", words);
    else if (status == err_exit_status(ERR_UNAVAILABLE))
        found(out, &not_tried, trial->label, "%s", words);
    else if (status != 0)
        found(out, &failed, trial->label, "status %d: %s", status, words);
    else if (!output_is_right(output, trial->seen))
        found(out, &wrong_bytes, trial->label, "the result is not what %d items make", ITEMS);
    else if (n_ready != trial->n_workers)
        found(out, &failed, trial->label, "%zu of %zu workers took part", n_ready,
              trial->n_workers);
    else
        found_ok_on(out, trial->label, "%zu workers, %d items, every byte right, %s",
                    trial->n_workers, ITEMS, took);
}

static char *share_new(const struct trial *trial)
{
    return xasprintf("--workers-per-gpu=%d", trial->is_shared ? WORKERS_PER_DEVICE : 1);
}

static int trial_run(struct smoke *smoke, struct trial *trial, size_t number, struct findings *out,
                     struct err *err)
{
    cleanup_free char *here = xasprintf("%s/%zu", smoke->folder, number);
    cleanup_free char *said = path_join(here, "said");
    struct env_list argv = {0};
    pid_t pid = 0;
    if (mkdir(here, 0700) != 0)
        return fail_errno(err, "create folder %s", here);
    const char *const words[] = {"muster", "map", "-q", "-g", trial->spec, NULL};
    env_list_add_words(&argv, words);
    env_list_add(&argv, share_new(trial));
    env_list_add(&argv, xasprintf("--run-dir=%s/run", here));
    env_list_add(&argv, xasprintf("--output=%s/out.txt", here));
    env_list_add(&argv, path_join(smoke->folder, "in.txt"));
    const char *const worker[] = {"--", "sh", "-c", worker_script, "sh", here, NULL};
    env_list_add_words(&argv, worker);
    env_list_add(&argv, xasprintf("%zu", trial->n_workers));
    env_list_add(&argv, xstrdup(trial->tells));
    env_list_add(&argv, NULL);
    trial->here = here;
    uint64_t begin_ms = clock_now_ms();
    int sys = spawn_quietly(smoke, argv.at, said, &pid);
    env_list_release(&argv);
    if (sys) {
        errno = sys;
        return fail_errno(err, "start %s", smoke->opts->self_path);
    }
    int status = child_wait(smoke, pid);
    if (!smoke->is_interrupted)
        trial_judge(trial, status, clock_now_ms() - begin_ms, out);
    trial->here = NULL;
    return 0;
}

/* -g cannot name a single CPU slot or simulated device, so one run tests all of them. */
static int all_at_once(struct smoke *smoke, const struct device_list *devices, struct findings *out,
                       struct err *err)
{
    bool is_cpu = devices->len == 0 || devices->at[0].kind == DEVICE_CPU;
    struct trial trial = {.spec = is_cpu ? "cpu:2" : smoke->opts->gpus,
                          .tells = "kind",
                          .seen = is_cpu ? "cpu" : "cuda",
                          .is_shared = !is_cpu,
                          .n_workers = is_cpu ? WORKERS_PER_DEVICE : 0};
    for (size_t i = 0; i < devices->len && !is_cpu; i++)
        trial.n_workers += devices->at[i].is_lost ? 0 : WORKERS_PER_DEVICE;
    snprintf(trial.label, sizeof(trial.label), "%s", is_cpu ? "cpu:2" : "simulated");
    return trial_run(smoke, &trial, 0, out, err);
}

static int one_by_one(struct smoke *smoke, const struct device_list *devices, struct findings *out,
                      struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < devices->len && rc == 0 && !smoke->is_interrupted; i++) {
        const struct device *device = &devices->at[i];
        struct trial trial = {.kind = device->kind,
                              .spec = device->uuid,
                              .tells = "device",
                              .seen = device->uuid,
                              .is_shared = true,
                              .n_workers = WORKERS_PER_DEVICE};
        device_label(device, trial.label);
        if (device->is_lost)
            found(out, &not_tried, trial.label, "it is lost");
        else
            rc = trial_run(smoke, &trial, i, out, err);
    }
    return rc;
}

static char *folder_new(struct err *err)
{
    const char *base = getenv("TMPDIR");
    char *folder = path_join(base && *base ? base : "/tmp", "muster-doctor-XXXXXX");
    if (mkdtemp(folder))
        return folder;
    (void)fail_errno(err, "create folder %s", folder);
    free(folder);
    return NULL;
}

static int trials_run(struct smoke *smoke, const struct device_list *devices, struct findings *out,
                      struct err *err)
{
    cleanup_free char *input = path_join(smoke->folder, "in.txt");
    int rc = input_write(input, err);
    if (rc)
        return rc;
    bool is_named =
        devices->len > 0 && devices->at[0].kind != DEVICE_CPU && devices->at[0].kind != DEVICE_SIM;
    return is_named ? one_by_one(smoke, devices, out, err) : all_at_once(smoke, devices, out, err);
}

void smoke_run(const struct smoke_opts *opts, const struct device_list *devices,
               struct findings *out)
{
    struct smoke smoke = {.opts = opts, .signal_fd = -1};
    struct err err = {0}, unwanted = {0};
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigprocmask(SIG_BLOCK, &held, &smoke.mask_before);
    smoke.signal_fd = signalfd(-1, &held, SFD_CLOEXEC);
    out->check = "smoke";
    if (opts->driver_said[0])
        found(out, &failed, "gpu", "%s", opts->driver_said);
    smoke.folder = folder_new(&err);
    int rc = smoke.folder ? trials_run(&smoke, devices, out, &err) : err.code;
    if (smoke.folder && remove_tree(smoke.folder, rc ? &unwanted : &err) != 0)
        rc = err.code;
    if (rc)
        found(out, &not_made, "", "%s", err.text);
    free(smoke.folder);
    fd_close(&smoke.signal_fd);
    /* a signal that was held takes effect here */
    sigprocmask(SIG_SETMASK, &smoke.mask_before, NULL);
}
