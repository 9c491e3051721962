/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that have the device file of a GPU open, found through /proc/PID/fd as far as
 * rights go. NVML lists only processes with a context. But any process that holds the file keeps
 * the GPU from being reset, and an orphan keeps GPU memory as well.
 *
 * An orphan is a process whose session leader (the shell, the launcher) has ended and that was
 * re-parented. A process stays in its parent's session unless it makes its own, so a parent from
 * another session is not the process that started it, be that parent init or another subreaper.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "doctor/checks.h"
#include "proc/guard_wire.h"
#include "proc/proctree.h"

enum {
    FILE_MAX_BYTES = 4 << 20
};

/* ---- gathering ---- */

/* "nvidia0" of /dev/nvidia0; NULL if it is no GPU's. */
static const char *gpu_file(const char *path)
{
    static const char *const begins[] = {"/dev/nvidia", "/dev/kfd", "/dev/dri/renderD"};
    for (size_t i = 0; i < countof(begins); i++)
        if (strncmp(path, begins[i], strlen(begins[i])) == 0)
            return path_basename(path);
    return NULL;
}

/* nvidia0, not nvidiactl or nvidia-uvm. */
static bool is_of_one_gpu(const char *name)
{
    static const char prefix[] = "nvidia";
    return strncmp(name, prefix, sizeof(prefix) - 1) == 0 &&
           isdigit((unsigned char)name[sizeof(prefix) - 1]);
}

/* Adds each file once, in the order of the descriptors; " ..." stands for those that do not fit. */
static void file_note(struct holder *holder, const char *name)
{
    static const char more[] = " ...";
    size_t len = strlen(holder->files), room = sizeof(holder->files) - sizeof(more);
    struct str rest = str_of(holder->files), word;
    holder->has_gpu_file |= is_of_one_gpu(name);
    while (str_next(&rest, ' ', &word))
        if (str_equal(word, str_of(name)))
            return;
    if (len + strlen(name) + 1 < room)
        snprintf(holder->files + len, sizeof(holder->files) - len, "%s%s", len ? " " : "", name);
    else if (!str_ends_with(str_of(holder->files), STR(" ...")))
        snprintf(holder->files + len, sizeof(holder->files) - len, "%s", more);
}

/* False if we have no right to look into the process. One that has ended holds nothing: true. */
static bool files_read(const char *folder, struct holder *holder)
{
    cleanup_free char *path = path_join(folder, "fd");
    DIR *entries = opendir(path);
    if (!entries)
        return errno != EACCES && errno != EPERM;
    for (struct dirent *entry; (entry = readdir(entries));) {
        char target[256];
        ssize_t len = readlinkat(dirfd(entries), entry->d_name, target, sizeof(target) - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        const char *name = gpu_file(target);
        if (name)
            file_note(holder, name);
    }
    closedir(entries);
    return true;
}

static bool text_read(const char *folder, const char *name, struct buf *out)
{
    cleanup_free char *path = path_join(folder, name);
    buf_reset(out);
    return file_read(path, FILE_MAX_BYTES, out, NULL) == 0;
}

static bool stat_read(const char *root, pid_t pid, struct proc_stat *out)
{
    cleanup_free char *folder = xasprintf("%s/proc/%d", root, (int)pid);
    cleanup_buf struct buf text = BUF_INIT;
    return text_read(folder, "stat", &text) && proc_stat_parse(buf_text(&text), pid, out);
}

static void name_read(const char *folder, char out[32])
{
    cleanup_buf struct buf text = BUF_INIT;
    if (text_read(folder, "comm", &text))
        snprintf(out, 32, "%.*s", (int)strcspn(buf_text(&text), "\n"), buf_text(&text));
}

static bool is_init(const char *root, pid_t pid)
{
    char name[32] = "";
    cleanup_free char *folder = xasprintf("%s/proc/%d", root, (int)pid);
    name_read(folder, name);
    return pid == 1 || strcmp(name, "systemd") == 0;
}

/* A service of the system or of a user, or a program of a desktop; not what a login started. */
static bool is_service(const char *folder)
{
    static const char *const signs[] = {".service\n", "/app.slice/", "/session.slice/"};
    cleanup_buf struct buf text = BUF_INIT;
    bool is_one = false;
    if (!text_read(folder, "cgroup", &text))
        return false;
    for (size_t i = 0; i < countof(signs); i++)
        is_one |= strstr(buf_text(&text), signs[i]) != NULL;
    return is_one;
}

static bool is_of_muster(const char *folder)
{
    static const char marker[] = "\0" GUARD_MARKER "=";
    cleanup_buf struct buf text = BUF_INIT;
    return text_read(folder, "environ", &text) &&
           memmem(text.at, text.len, marker, sizeof(marker) - 1);
}

static void family_read(const char *root, const char *folder, const struct proc_stat *own,
                        struct holder *holder)
{
    struct proc_stat other;
    struct stat st;
    holder->parent = own->parent;
    holder->session = own->session;
    holder->has_terminal = own->terminal != 0;
    holder->is_session_alive =
        own->session == 0 || (stat_read(root, own->session, &other) && !proc_is_dead(&other));
    holder->parent_session =
        own->parent > 0 && stat_read(root, own->parent, &other) ? other.session : 0;
    holder->is_parent_init = is_init(root, own->parent);
    holder->is_service = is_service(folder);
    holder->is_of_muster = is_of_muster(folder);
    holder->uid = stat(folder, &st) == 0 ? st.st_uid : (uid_t)-1;
    name_read(folder, holder->name);
}

static void process_look(const char *root, pid_t pid, pid_t self, struct holder_facts *out)
{
    cleanup_free char *folder = xasprintf("%s/proc/%d", root, (int)pid);
    struct holder holder = {.pid = pid};
    struct proc_stat own;
    if (!files_read(folder, &holder)) {
        out->n_closed++;
        return;
    }
    if (!holder.files[0] || !stat_read(root, pid, &own) || proc_is_dead(&own) || pid == self ||
        own.parent == self)
        return;
    if (out->n_holders == HOLDERS_MAX) {
        out->n_more++;
        return;
    }
    family_read(root, folder, &own, &holder);
    out->at[out->n_holders++] = holder;
}

void holders_gather(const char *root, pid_t self, struct holder_facts *out)
{
    cleanup_free char *path = xasprintf("%s/proc", root);
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0')
            process_look(root, (pid_t)pid, self, out);
    }
    if (entries)
        closedir(entries);
}

/* ---- judging ---- */

static const struct trouble
    orphan = {FINDING_WARN,
              "What started it has ended, and it still holds the GPU: most often what a crashed or "
              "interrupted program left; its memory does not come back by itself.",
              "If it is not wanted (a program under nohup looks the same): kill PID, then kill -9 "
              "PID; what is in D state goes with a reset of the GPU or a reboot"},
    detached = {FINDING_WARN,
                "It runs in a session of its own, without a terminal, and is no service: a daemon, "
                "or a worker that survived its launcher.",
                "If it is not wanted: kill PID, then kill -9 PID"},
    unlisted = {FINDING_WARN,
                "The driver does not list it as computing, but it keeps the GPU from being reset, "
                "and its memory may be held: a process that is ending, hangs, or lost its context.",
                "If it is not wanted: kill PID, then kill -9 PID"};

/* Programs that are meant to keep all GPUs open. */
static bool is_servant(const char *name)
{
    static const char *const names[] = {
        "nvidia-persiste", "nv-hostengine",   "dcgm-exporter",
        "nvidia-smi",      "nvidia-device-p", "nv-fabricmanage",
        "nvtop",           "nvitop",          "Xorg",
        "gnome-shell",     "kwin_wayland",    "Xwayland",
        "muster",          "nvidia-cuda-mps", "nvidia-powerd",
    };
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool is_orphan(const struct holder *holder)
{
    return holder->session > 0 && holder->session != holder->pid && !holder->is_session_alive &&
           holder->parent_session != holder->session;
}

/* A session leader below init: whether init started it or it was re-parented cannot be seen. */
static bool is_detached(const struct holder *holder)
{
    return holder->session == holder->pid && holder->is_parent_init && !holder->has_terminal &&
           !holder->is_service && holder->pid != 1;
}

static bool is_listed(const struct device_list *devices, pid_t pid)
{
    for (size_t i = 0; i < devices->len; i++)
        for (size_t k = 0; k < devices->at[i].n_processes; k++)
            if (devices->at[i].processes[k].pid == pid)
                return true;
    return false;
}

/*
 * In a container the driver reports the host's pids, or none, which cannot be compared with those
 * seen here.
 */
static bool can_compare(const struct facts *facts)
{
    const struct device_list *devices = &facts->machine;
    bool is_nvidia = false;
    for (size_t i = 0; i < devices->len; i++) {
        is_nvidia |= devices->at[i].kind == DEVICE_CUDA;
        for (size_t k = 0; k < devices->at[i].n_processes; k++)
            if (devices->at[i].processes[k].uid == (uid_t)-1)
                return false;
    }
    return is_nvidia && !facts->driver.is_container;
}

static const struct trouble *trouble_of(const struct facts *facts, const struct holder *holder)
{
    if (is_servant(holder->name))
        return NULL;
    if (is_orphan(holder))
        return &orphan;
    if (is_detached(holder))
        return &detached;
    /* a program that draws on a screen holds a GPU unlisted too, but still has its parent */
    bool is_reparented = holder->is_parent_init || holder->parent_session != holder->session;
    bool is_unlisted = is_reparented && !holder->is_service && holder->has_gpu_file &&
                       can_compare(facts) && !is_listed(&facts->machine, holder->pid);
    return is_unlisted && holder->session > 0 ? &unlisted : NULL;
}

void orphans_judge(const struct facts *facts, struct findings *out)
{
    const struct holder_facts *holders = &facts->holders;
    size_t n_before = out->len;
    if (!facts->has_holders) {
        found_ok(out, "not known: /proc was not read in time");
        return;
    }
    for (size_t i = 0; i < holders->n_holders; i++) {
        const struct holder *holder = &holders->at[i];
        const struct trouble *trouble = trouble_of(facts, holder);
        char subject[64], owner[40];
        if (!trouble)
            continue;
        user_name(holder->uid, owner);
        snprintf(subject, sizeof(subject), "pid %d", (int)holder->pid);
        found(out, trouble, subject, "%s of %s holds %s%s",
              holder->name[0] ? holder->name : "a process", owner, holder->files,
              holder->is_of_muster ? ", started by a muster" : "");
    }
    if (out->len > n_before)
        return;
    cleanup_buf struct buf text = BUF_INIT;
    if (holders->n_holders > 0)
        buf_addf(&text, "%zu hold a GPU, none is forlorn", holders->n_holders + holders->n_more);
    else
        buf_add_text(&text, "no process holds a GPU");
    if (holders->n_closed > 0)
        buf_addf(&text, "; %zu of other users were not looked into (root may)", holders->n_closed);
    found_ok(out, "%s", buf_text(&text));
}
