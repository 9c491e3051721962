/* SPDX-License-Identifier: Apache-2.0 */
#include "core/verdict.h"

#include <signal.h>

static const char *const death_texts[] = {
#define X(id, text) [DEATH_##id] = (text),
    DEATHS(X)
#undef X
};

const char *death_text(enum death death)
{
    return death_texts[death];
}

/* What the frameworks print when a device's memory runs out; compared byte by byte. */
static const char *const oom_texts[] = {
    "torch.OutOfMemoryError",    "torch.cuda.OutOfMemoryError",
    "CUDA out of memory",        "HIP out of memory",
    "XPU out of memory",         "CUDA error: out of memory",
    "HIP error: out of memory",  "CUBLAS_STATUS_ALLOC_FAILED",
    "cudaErrorMemoryAllocation", "hipErrorOutOfMemory",
    "CUDA_ERROR_OUT_OF_MEMORY",  "RESOURCE_EXHAUSTED: Out of memory",
    "RESOURCE_EXHAUSTED",        "No available memory for the cache blocks",
};

static const char *const host_oom_texts[] = {
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "MemoryError",
    "std::bad_alloc",
    "Cannot allocate memory",
};

static const char *const lost_texts[] = {
    "GPU is lost",
    "GPU has fallen off the bus",
    "CUDA error: uncorrectable ECC error encountered",
    "no CUDA-capable device is detected",
    "no ROCm-capable device is detected",
};

static bool holds_any(struct str text, const char *const *needles, size_t n_needles)
{
    for (size_t i = 0; i < n_needles; i++)
        if (text.len > 0 && memmem(text.at, text.len, needles[i], strlen(needles[i])))
            return true;
    return false;
}

static bool printed_any(const struct death_facts *facts, const char *const *needles,
                        size_t n_needles)
{
    return holds_any(facts->stderr_tail, needles, n_needles) ||
           holds_any(facts->stdout_tail, needles, n_needles);
}

enum {
    LARGE_SHARE = 64 /* of the memory: the kernel does not choose a process that holds less */
};

static bool is_oom_kill(const struct death_facts *facts)
{
    return facts->exit_signal == SIGKILL && facts->oom_kills_near > 0 &&
           facts->rss_peak_bytes >= facts->memory_bytes / LARGE_SHARE;
}

enum death verdict_of(const struct death_facts *facts)
{
    bool clean = facts->exit_signal == 0 && facts->exit_code == 0;
    if (facts->exec_failed)
        return DEATH_NOT_STARTED;
    if (facts->device_lost)
        return DEATH_DEVICE_LOST;
    if (facts->we_ended_it)
        return DEATH_ENDED_BY_US;
    if (clean)
        return DEATH_CLEAN;
    if (is_oom_kill(facts))
        return DEATH_HOST_OOM;
    if (printed_any(facts, oom_texts, countof(oom_texts)))
        return DEATH_OOM;
    if (printed_any(facts, lost_texts, countof(lost_texts)))
        return DEATH_DEVICE_LOST;
    if (printed_any(facts, host_oom_texts, countof(host_oom_texts)))
        return DEATH_HOST_OOM;
    if (facts->exit_signal == SIGKILL && facts->oom_kills_host > 0)
        return DEATH_KILLED;
    return facts->exit_signal ? DEATH_CRASHED : DEATH_FAILED;
}

static const struct {
    int number;
    const char *name;
} signal_names[] = {
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},
    {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
    {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},
};

void exit_format(char out[24], int exit_code, int exit_signal)
{
    if (exit_signal == 0) {
        snprintf(out, 24, "status %d", exit_code);
        return;
    }
    for (size_t i = 0; i < countof(signal_names); i++) {
        if (signal_names[i].number == exit_signal) {
            snprintf(out, 24, "%s", signal_names[i].name);
            return;
        }
    }
    snprintf(out, 24, "signal %d", exit_signal);
}
