/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <signal.h>

#include "core/verdict.h"

static void a_death_is_judged_by_what_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct death_facts facts;
        enum death death;
    } cases[] = {
        {"a clean end", {0}, DEATH_CLEAN},
        {"a status", {.exit_code = 7}, DEATH_FAILED},
        {"a signal", {.exit_signal = SIGSEGV}, DEATH_CRASHED},
        {"exec failed", {.exec_failed = true, .exit_code = 127}, DEATH_NOT_STARTED},
        {"we ended it", {.we_ended_it = true, .exit_signal = SIGTERM}, DEATH_ENDED_BY_US},
        {"a large one ended by the kernel",
         {.exit_signal = SIGKILL,
          .oom_kills_near = 1,
          .oom_kills_host = 1,
          .rss_peak_bytes = 1 << 20,
          .memory_bytes = 64 << 20},
         DEATH_HOST_OOM},
        {"a small one killed while the kernel ended some process",
         {.exit_signal = SIGKILL,
          .oom_kills_near = 1,
          .oom_kills_host = 1,
          .rss_peak_bytes = (1 << 20) - 1,
          .memory_bytes = 64 << 20},
         DEATH_KILLED},
        {"a large one killed while the kernel ended a process of another cgroup",
         {.exit_signal = SIGKILL,
          .oom_kills_host = 1,
          .rss_peak_bytes = 64 << 20,
          .memory_bytes = 64 << 20},
         DEATH_KILLED},
        {"killed by somebody",
         {.exit_signal = SIGKILL, .rss_peak_bytes = 64 << 20, .memory_bytes = 64 << 20},
         DEATH_CRASHED},
        {"a crash while the kernel ended some process",
         {.exit_signal = SIGSEGV,
          .oom_kills_near = 1,
          .oom_kills_host = 1,
          .rss_peak_bytes = 64 << 20,
          .memory_bytes = 64 << 20},
         DEATH_CRASHED},
        {"the device is gone", {.device_lost = true, .exit_code = 1}, DEATH_DEVICE_LOST},
    };
    for (size_t i = 0; i < countof(cases); i++)
        if (verdict_of(&cases[i].facts) != cases[i].death)
            fail_msg("%s: %s", cases[i].name, death_text(verdict_of(&cases[i].facts)));
}

static void out_of_memory_is_read_from_what_frameworks_print(void **state)
{
    (void)state;
    static const struct {
        const char *printed;
        enum death death;
    } cases[] = {
        {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", DEATH_OOM},
        {"torch.cuda.OutOfMemoryError: HIP out of memory.", DEATH_OOM},
        {"RuntimeError: CUDA error: out of memory", DEATH_OOM},
        {"CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", DEATH_OOM},
        {"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", DEATH_OOM},
        {"RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried", DEATH_HOST_OOM},
        {"terminate called after throwing an instance of 'std::bad_alloc'", DEATH_HOST_OOM},
        {"MemoryError", DEATH_HOST_OOM},
        {"RuntimeError: GPU is lost", DEATH_DEVICE_LOST},
        {"RuntimeError: HIP error: out of memory", DEATH_OOM},
        {"RuntimeError: No HIP GPUs; no ROCm-capable device is detected", DEATH_DEVICE_LOST},
        {"Traceback (most recent call last):\nValueError: no", DEATH_FAILED},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct death_facts facts = {.exit_code = 1, .stderr_tail = str_of(cases[i].printed)};
        if (verdict_of(&facts) != cases[i].death)
            fail_msg("\"%s\": %s", cases[i].printed, death_text(verdict_of(&facts)));
        const struct death_facts on_stdout = {.exit_code = 1, .stdout_tail = facts.stderr_tail};
        if (verdict_of(&on_stdout) != cases[i].death)
            fail_msg("\"%s\" on stdout must count as well", cases[i].printed);
        facts.exit_code = 0;
        if (verdict_of(&facts) != DEATH_CLEAN)
            fail_msg("\"%s\" with status 0 must not count", cases[i].printed);
    }
}

static void an_end_is_named_as_people_name_it(void **state)
{
    (void)state;
    char text[24];
    exit_format(text, 7, 0);
    assert_string_equal(text, "status 7");
    exit_format(text, 0, SIGSEGV);
    assert_string_equal(text, "SIGSEGV");
    exit_format(text, 0, 40);
    assert_string_equal(text, "signal 40");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_is_judged_by_what_is_known),
        cmocka_unit_test(out_of_memory_is_read_from_what_frameworks_print),
        cmocka_unit_test(an_end_is_named_as_people_name_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
