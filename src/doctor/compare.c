/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/compare.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    NAMES_MAX = 3,       /* names of hosts in a finding, before "and N others" */
    CLOCK_OFF_MS = 1000, /* make, rsync and certificates go wrong from about there */
};

enum likeness {
    LIKE_EQUAL,
    LIKE_HALF, /* a number: equal enough if the least is half of the largest or more */
    LIKE_ANY   /* never compared: shown only with all traits */
};

enum unit {
    UNIT_NONE,
    UNIT_BYTES
};

struct rule {
    enum likeness likeness;
    enum unit unit;
    struct trouble trouble;
};

#define PACKAGE                                                                                          \
    {                                                                                                    \
        LIKE_EQUAL, UNIT_NONE,                                                                           \
        {                                                                                                \
            FINDING_WARN, "Results may differ with the host, or workers fail on some hosts only.",       \
                "Install the same version on all of them, or use one environment in a folder that they " \
                "share"                                                                                  \
        }                                                                                                \
    }
#define VARIABLE                                                                                \
    {                                                                                           \
        LIKE_EQUAL, UNIT_NONE,                                                                  \
        {                                                                                       \
            FINDING_WARN, "The same -g means other devices on some hosts, or hides them.",      \
                "Set it alike on all hosts or on none, and choose devices by --hosts NAME=SPEC" \
        }                                                                                       \
    }

static const struct rule rules[TRAITS_COUNT] = {
    [TRAIT_muster] =
        {LIKE_EQUAL,
         UNIT_NONE,
         {FINDING_WARN, "A muster that speaks another protocol is refused as an agent.",
          "Leave --agent-path out, so that this muster is sent to all hosts, or update "
          "the one at that path"}},
    [TRAIT_machine] = {LIKE_EQUAL,
                       UNIT_NONE,
                       {FINDING_FAIL, "A program for one architecture does not start on the other.",
                        "Use workers that are scripts, or a run for each architecture"}},
    [TRAIT_system] =
        {LIKE_EQUAL,
         UNIT_NONE,
         {FINDING_WARN,
          "Programs that were built on the newer system may not start on the older one.",
          "Build workers on the oldest, or run them in one container image"}},
    [TRAIT_kernel] =
        {LIKE_EQUAL,
         UNIT_NONE,
         {FINDING_WARN, "Drivers and limits behave as the kernel does.",
          "Boot the same kernel, or try the workers on each host: muster each --hosts"}},
    [TRAIT_driver] = {LIKE_EQUAL,
                      UNIT_NONE,
                      {FINDING_WARN,
                       "A program's CUDA may need a newer driver than some hosts have, and kernels "
                       "that are compiled there may compute other last digits.",
                       "Install the same driver on all hosts, or leave the older ones out"}},
    [TRAIT_devices] =
        {LIKE_EQUAL,
         UNIT_NONE,
         {FINDING_WARN,
          "Items take longer on some hosts, and a batch that fits one device may not "
          "fit another.",
          "Size batches for the smallest device, or choose devices: --hosts NAME=SPEC"}},
    [TRAIT_cores] = {LIKE_HALF,
                     UNIT_NONE,
                     {FINDING_WARN,
                      "Workers that prepare data on the CPU are slower on some hosts.",
                      "Give fewer workers to the smaller hosts: --hosts NAME=any:N"}},
    [TRAIT_memory_free] =
        {LIKE_HALF,
         UNIT_BYTES,
         {FINDING_WARN, "A model that loads through the host's memory may fit on some hosts only.",
          "End what takes the memory there (ps aux --sort -rss), or give fewer "
          "workers to that host"}},
    [TRAIT_disk_free] =
        {LIKE_HALF,
         UNIT_BYTES,
         {FINDING_WARN, "Workers that write files of their own may fill the disk of some hosts.",
          "Make room there, or let workers write to a folder that all hosts share"}},
    [TRAIT_open_files] = {LIKE_EQUAL,
                          UNIT_NONE,
                          {FINDING_WARN,
                           "Workers with many files open end with \"Too many open files\" on some "
                           "hosts only.",
                           "nofile in /etc/security/limits.conf there; LimitNOFILE= for sshd or "
                           "slurmd"}},
    [TRAIT_folder] = {LIKE_EQUAL,
                      UNIT_NONE,
                      {FINDING_WARN,
                       "Workers start in another folder, where relative paths mean other files.",
                       "Make the folder there, share it, or use whole paths in the command"}},
    [TRAIT_python_path] = {LIKE_ANY, UNIT_NONE, {FINDING_WARN, "", ""}},
    [TRAIT_python] = {LIKE_EQUAL,
                      UNIT_NONE,
                      {FINDING_WARN,
                       "Workers run under another interpreter, with other packages, on some hosts.",
                       "Name the interpreter by its whole path, or set PATH in a file that "
                       "shells without a terminal read too (~/.bashrc before its \"return\")"}},
    [TRAIT_torch] = PACKAGE,
    [TRAIT_transformers] = PACKAGE,
    [TRAIT_vllm] = PACKAGE,
    [TRAIT_numpy] = PACKAGE,
    [TRAIT_CUDA_VISIBLE_DEVICES] = VARIABLE,
    [TRAIT_CUDA_DEVICE_ORDER] = VARIABLE,
    [TRAIT_NVIDIA_VISIBLE_DEVICES] = VARIABLE,
    [TRAIT_ROCR_VISIBLE_DEVICES] = VARIABLE,
    [TRAIT_HIP_VISIBLE_DEVICES] = VARIABLE,
};

static const struct trouble clock_off = {
    FINDING_WARN, "Times of files and logs are wrong by it, so make, rsync and tokens go wrong.",
    "Let all hosts take the time from one server: timedatectl set-ntp true, or chrony"};

void host_names_add(const struct compared_host *hosts, const bool *flags, size_t n_hosts,
                    struct buf *out)
{
    size_t n_set = 0, n_named = 0;
    for (size_t i = 0; i < n_hosts; i++)
        n_set += flags[i];
    size_t n_names = n_set > NAMES_MAX + 1 ? NAMES_MAX : n_set;
    for (size_t i = 0; i < n_hosts && n_named < n_names; i++)
        if (flags[i])
            buf_addf(out, "%s%s", n_named++ ? ", " : "", hosts[i].name);
    if (n_names < n_set)
        buf_addf(out, " and %zu others", n_set - n_names);
}

static uint64_t number_of(const char *text)
{
    return strtoull(text, NULL, 10);
}

static void value_add(const struct rule *rule, const char *value, struct buf *out)
{
    char size[16];
    if (value && rule->unit == UNIT_BYTES) {
        size_format(size, number_of(value));
        value = size;
    }
    buf_add_text(out, !value ? "not known" : !value[0] ? "none" : value);
}

static const char *value_of(const struct compared_host *host, size_t trait)
{
    return host->traits.at[trait];
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* "550.54.15 on lab1, lab3; 535.10 on lab2", in the order of the hosts. */
static void values_add(const struct compared_host *hosts, size_t n_hosts, size_t trait,
                       struct buf *out)
{
    cleanup_free bool *is_told = xcalloc(n_hosts, sizeof(bool));
    cleanup_free bool *has_it = xcalloc(n_hosts, sizeof(bool));
    for (size_t i = 0; i < n_hosts; i++) {
        if (is_told[i])
            continue;
        for (size_t k = 0; k < n_hosts; k++) {
            has_it[k] =
                !is_told[k] && is_same(value_of(&hosts[k], trait), value_of(&hosts[i], trait));
            is_told[k] = is_told[k] || has_it[k];
        }
        buf_add_text(out, i > 0 ? "; " : "");
        value_add(&rules[trait], value_of(&hosts[i], trait), out);
        buf_add_text(out, " on ");
        host_names_add(hosts, has_it, n_hosts, out);
    }
}

/* Finds the hosts that have the least and the most of a number. */
static void extremes_find(const struct compared_host *hosts, size_t n_hosts, size_t trait,
                          size_t *least, size_t *most)
{
    *least = *most = n_hosts;
    for (size_t i = 0; i < n_hosts; i++) {
        const char *value = value_of(&hosts[i], trait);
        if (value &&
            (*least == n_hosts || number_of(value) < number_of(value_of(&hosts[*least], trait))))
            *least = i;
        if (value &&
            (*most == n_hosts || number_of(value) > number_of(value_of(&hosts[*most], trait))))
            *most = i;
    }
}

static void amounts_compare(const struct compared_host *hosts, size_t n_hosts, enum trait trait,
                            struct findings *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    const struct rule *rule = &rules[trait];
    size_t least, most;
    extremes_find(hosts, n_hosts, trait, &least, &most);
    if (least == n_hosts)
        return;
    const char *low = value_of(&hosts[least], trait), *high = value_of(&hosts[most], trait);
    value_add(rule, low, &text);
    if (number_of(low) >= number_of(high) / 2) {
        found_ok_on(out, trait_name(trait), "at least %s", buf_text(&text));
        return;
    }
    buf_addf(&text, " on %s, ", hosts[least].name);
    value_add(rule, high, &text);
    found(out, &rule->trouble, trait_name(trait), "%s on %s", buf_text(&text), hosts[most].name);
}

/* Compares a text. A host for which the text is not known differs from no other host. */
static void texts_compare(const struct compared_host *hosts, size_t n_hosts, enum trait trait,
                          struct findings *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    const char *first = NULL; /* the first text that is known */
    bool is_anywhere = false, is_alike = true;
    for (size_t i = 0; i < n_hosts; i++) {
        const char *value = value_of(&hosts[i], trait);
        first = first ? first : value;
        is_anywhere = is_anywhere || (value && value[0]);
        is_alike = is_alike && (!value || strcmp(value, first) == 0);
    }
    if (!is_anywhere)
        return;
    if (is_alike) {
        found_ok_on(out, trait_name(trait), "%s", first);
        return;
    }
    values_add(hosts, n_hosts, trait, &text);
    found(out, &rules[trait].trouble, trait_name(trait), "%s", buf_text(&text));
}

/* A difference within half of the round trip is no difference. */
static void clocks_compare(const struct compared_host *hosts, size_t n_hosts, struct findings *out)
{
    uint64_t most_ms = 0;
    size_t n_before = out->len;
    for (size_t i = 0; i < n_hosts; i++) {
        int64_t ahead_ms = hosts[i].clock_ahead_ms;
        uint64_t off_ms = ahead_ms < 0 ? -(uint64_t)ahead_ms : (uint64_t)ahead_ms;
        char off[24];
        duration_format(off, off_ms);
        most_ms = MAX(most_ms, off_ms);
        if (off_ms > CLOCK_OFF_MS + hosts[i].round_trip_ms / 2)
            found(out, &clock_off, "clock", "%s is %s %s", hosts[i].name, off,
                  ahead_ms > 0 ? "ahead" : "behind");
    }
    if (out->len == n_before)
        found_ok_on(out, "clock", "within %lu ms of this machine's", most_ms);
}

static void round_trips_tell(const struct compared_host *hosts, size_t n_hosts,
                             struct findings *out)
{
    size_t slowest = 0;
    for (size_t i = 1; i < n_hosts; i++)
        if (hosts[i].round_trip_ms > hosts[slowest].round_trip_ms)
            slowest = i;
    found_ok_on(out, "round trip", "%lu ms to %s and back%s", hosts[slowest].round_trip_ms,
                hosts[slowest].name, n_hosts > 1 ? ", the farthest" : "");
}

void hosts_compare(const struct compared_host *hosts, size_t n_hosts, struct findings *out)
{
    out->check = "hosts";
    if (n_hosts == 0)
        return;
    for (int trait = 0; trait < TRAITS_COUNT; trait++) {
        if (rules[trait].likeness == LIKE_HALF)
            amounts_compare(hosts, n_hosts, (enum trait)trait, out);
        else if (rules[trait].likeness == LIKE_EQUAL)
            texts_compare(hosts, n_hosts, (enum trait)trait, out);
    }
    clocks_compare(hosts, n_hosts, out);
    round_trips_tell(hosts, n_hosts, out);
}
