/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/stand.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "proc/proctree.h"

enum {
    DEPTH_MAX = 64,   /* generations between a process and its root */
    GROUPS_MAX = 16,  /* groups of threads at the same place, in a line */
    THREADS_MAX = 512 /* threads that are looked at in one process */
};

/* ---- small files ---- */

/* Reads /proc/WHAT as text. False: the kernel does not show it. */
static bool proc_text(const char *what, char *text, size_t size)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/%s", what);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, size - 1);
    close(fd);
    text[MAX(got, 0)] = '\0';
    return got > 0;
}

/* The number that follows a name, as in "rchar: 6976". */
static uint64_t number_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static uint64_t io_bytes_of(pid_t pid)
{
    char what[32], text[512];
    snprintf(what, sizeof(what), "%d/io", (int)pid);
    if (!proc_text(what, text, sizeof(text)))
        return 0;
    return number_of(text, "rchar: ") + number_of(text, "wchar: ") +
           number_of(text, "\nread_bytes: ");
}

static pid_t tracer_of(pid_t pid)
{
    char what[32], text[1024];
    snprintf(what, sizeof(what), "%d/status", (int)pid);
    return proc_text(what, text, sizeof(text)) ? (pid_t)number_of(text, "\nTracerPid:\t") : 0;
}

/* ---- places ---- */

/*
 * The system calls in which programs wait for each other, for files, or for time. Other calls are
 * shown by number.
 */
static const struct {
    long number;
    const char *name;
} calls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_pread64, "pread64"},
    {SYS_readv, "readv"},
    {SYS_futex, "futex"},
    {SYS_ioctl, "ioctl"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect6"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_openat, "openat"},
    {SYS_fsync, "fsync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
#ifdef SYS_poll /* some machines have only the newer ones */
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_open, "open"},
    {SYS_pause, "pause"},
    {SYS_stat, "stat"},
#endif
};

static void call_add(struct buf *out, long number)
{
    for (size_t i = 0; i < countof(calls); i++)
        if (calls[i].number == number) {
            buf_addf(out, " in %s", calls[i].name);
            return;
        }
    buf_addf(out, " in system call %ld", number);
}

static const char *state_word(char state)
{
    static const struct {
        char state;
        const char *word;
    } words[] = {{'R', "runs"},   {'S', "sleeps"},    {'D', "blocked"}, {'T', "stopped"},
                 {'t', "traced"}, {'Z', "has ended"}, {'I', "idle"}};
    for (size_t i = 0; i < countof(words); i++)
        if (words[i].state == state)
            return words[i].word;
    return "?";
}

/*
 * Adds the state of a thread, and its system call and place in the kernel if they are shown: that
 * needs the right to trace, and not every kernel does it.
 */
static void place_add(struct buf *out, const char *task, char state)
{
    char what[80], text[128];
    buf_add_text(out, state_word(state));
    snprintf(what, sizeof(what), "%s/syscall", task);
    if (proc_text(what, text, sizeof(text)) && text[0] >= '0' && text[0] <= '9')
        call_add(out, strtol(text, NULL, 10));
    snprintf(what, sizeof(what), "%s/wchan", task);
    if (proc_text(what, text, sizeof(text)) && strcmp(text, "0") != 0)
        buf_addf(out, " (%s)", text);
}

/*
 * Returns how many bytes the stack has grown: from its beginning, which stat shows, to the stack
 * pointer, which is the last number but one of `syscall`.
 */
static uint64_t depth_of(pid_t pid)
{
    static const int start_stack = 27; /* among the words of stat, from 0 */
    char what[32], text[1024];
    unsigned long sp = 0;
    snprintf(what, sizeof(what), "%d/syscall", (int)pid);
    if (!proc_text(what, text, sizeof(text)) ||
        sscanf(text, "%*d %*s %*s %*s %*s %*s %*s %lx", &sp) != 1)
        return 0;
    snprintf(what, sizeof(what), "%d/stat", (int)pid);
    const char *at = proc_text(what, text, sizeof(text)) ? strrchr(text, ')') : NULL;
    for (int n = 1; at && n < start_stack; n++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    uint64_t begin = at ? strtoull(at, NULL, 10) : 0;
    return begin > sp ? begin - sp : 0;
}

/* ---- one look at several ---- */

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct proc_stat *)a)->pid, y = ((const struct proc_stat *)b)->pid;
    return (x > y) - (x < y);
}

static const struct proc_stat *stat_find(const struct proctree *tree, pid_t pid)
{
    const struct proc_stat wanted = {.pid = pid};
    return tree->n == 0 ? NULL : bsearch(&wanted, tree->at, tree->n, sizeof(*tree->at), by_pid);
}

/* Returns which of the roots the process belongs to, or n_roots if none. */
static size_t root_of(const struct proctree *tree, const struct proc_stat *stat, const pid_t *roots,
                      size_t n_roots)
{
    for (int depth = 0; stat && depth < DEPTH_MAX; depth++) {
        for (size_t i = 0; i < n_roots; i++)
            if (roots[i] == stat->pid)
                return i;
        stat = stat_find(tree, stat->parent);
    }
    return n_roots;
}

/*
 * Returns the last process of a chain in which each sleeps and has one living child. n_children is
 * by place in tree->at.
 */
static const struct proc_stat *chain_end(const struct proctree *tree, const uint32_t *n_children,
                                         const struct proc_stat *stat)
{
    for (int depth = 0; depth < DEPTH_MAX && stat->state == 'S' && n_children[stat - tree->at] == 1;
         depth++) {
        const struct proc_stat *child = tree->at;
        while (child < tree->at + tree->n && (child->parent != stat->pid || proc_is_dead(child)))
            child++;
        if (child == tree->at + tree->n)
            break;
        stat = child;
    }
    return stat;
}

static void end_look(const struct proc_stat *end, struct proc_stand *out)
{
    cleanup_buf struct buf place = BUF_INIT;
    char task[32];
    snprintf(task, sizeof(task), "%d", (int)end->pid);
    place_add(&place, task, end->state);
    out->pid = end->pid;
    out->state = end->state;
    out->tracer = tracer_of(end->pid);
    out->depth = depth_of(end->pid);
    snprintf(out->place, sizeof(out->place), "%s", buf_text(&place));
}

void proc_stands_read(const pid_t *roots, size_t n_roots, struct proc_stand *out)
{
    struct proctree tree = PROCTREE_INIT;
    static const uint64_t ms_per_s = 1000, spread = 0x9e3779b97f4a7c15;
    uint64_t ticks_per_s = (uint64_t)MAX(sysconf(_SC_CLK_TCK), 1L);
    memset(out, 0, n_roots * sizeof(*out));
    (void)proctree_read(&tree);
    qsort(tree.at, tree.n, sizeof(*tree.at), by_pid);
    cleanup_free uint32_t *n_children = xcalloc(tree.n + 1, sizeof(*n_children));
    for (size_t i = 0; i < tree.n; i++) {
        const struct proc_stat *stat = &tree.at[i], *parent = stat_find(&tree, stat->parent);
        size_t root = root_of(&tree, stat, roots, n_roots);
        if (parent && !proc_is_dead(stat))
            n_children[parent - tree.at]++;
        if (root == n_roots || proc_is_dead(stat))
            continue;
        out[root].cpu_ms += stat->cpu_ticks * ms_per_s / ticks_per_s;
        out[root].io_bytes += io_bytes_of(stat->pid);
        out[root].is_blocked |= stat->state == 'D';
        out[root].family += ((uint64_t)stat->pid ^ stat->start_ticks << 22) * spread;
    }
    for (size_t i = 0; i < n_roots; i++) {
        const struct proc_stat *stat = stat_find(&tree, roots[i]);
        if (stat && !proc_is_dead(stat))
            end_look(chain_end(&tree, n_children, stat), &out[i]);
    }
    proctree_release(&tree);
}

/* ---- all threads ---- */

struct group {
    struct buf text; /* name and place */
    size_t n;
};

static void group_count(struct group *groups, size_t *n_groups, struct buf *text)
{
    size_t i = 0;
    while (i < *n_groups && !str_equal(buf_str(&groups[i].text), buf_str(text)))
        i++;
    if (i == GROUPS_MAX)
        return;
    if (i == *n_groups) {
        groups[(*n_groups)++] = (struct group){.text = *text};
        *text = (struct buf)BUF_INIT;
    }
    groups[i].n++;
}

/* Adds "python sleeps in futex (futex_do_wait)". */
static void thread_add(const char *task, struct buf *out)
{
    char what[80], text[1024];
    snprintf(what, sizeof(what), "%.64s/stat", task);
    if (!proc_text(what, text, sizeof(text)))
        return;
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (!name || !end || end[1] != ' ')
        return;
    buf_add(out, name + 1, (size_t)(end - name - 1));
    buf_add_char(out, ' ');
    place_add(out, task, end[2]);
}

static void process_add(struct buf *out, pid_t pid)
{
    struct group groups[GROUPS_MAX];
    size_t n_groups = 0, n_threads = 0;
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry;
         folder && n_threads < THREADS_MAX && (entry = readdir(folder)) != NULL;) {
        char task[64];
        cleanup_buf struct buf text = BUF_INIT;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(task, sizeof(task), "%d/task/%.20s", (int)pid, entry->d_name);
        thread_add(task, &text);
        n_threads++;
        if (text.len > 0)
            group_count(groups, &n_groups, &text);
    }
    if (folder)
        closedir(folder);
    if (n_groups > 0)
        buf_addf(out, "pid %d:", (int)pid);
    for (size_t i = 0; i < n_groups; i++) {
        buf_addf(out, "%s ", i > 0 ? ";" : "");
        if (groups[i].n > 1)
            buf_addf(out, "%zu threads ", groups[i].n);
        buf_add_str(out, buf_str(&groups[i].text));
        buf_release(&groups[i].text);
    }
    if (n_groups > 0)
        buf_add_char(out, '\n');
}

void proc_threads_add(struct buf *out, pid_t root, size_t max_bytes)
{
    struct proctree tree = PROCTREE_INIT;
    cleanup_buf struct buf line = BUF_INIT;
    size_t begin = out->len;
    (void)proctree_read(&tree);
    proctree_keep_below(&tree, root);
    process_add(&line, root);
    for (size_t i = 0; i < tree.n && out->len - begin + line.len <= max_bytes; i++) {
        buf_add_str(out, buf_str(&line));
        buf_reset(&line);
        process_add(&line, tree.at[i].pid);
    }
    if (out->len - begin + line.len <= max_bytes)
        buf_add_str(out, buf_str(&line));
    proctree_release(&tree);
}
