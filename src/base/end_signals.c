/* SPDX-License-Identifier: Apache-2.0 */
#include "base/end_signals.h"

#include <signal.h>

static const struct {
    const char *name;
    int number;
} end_signals[] = {
    {"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},   {"SIGHUP", SIGHUP},
    {"SIGQUIT", SIGQUIT}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2},
};

int end_signal_find(struct str name)
{
    for (size_t i = 0; i < countof(end_signals); i++)
        if (str_equal(name, str_of(end_signals[i].name)))
            return end_signals[i].number;
    return 0;
}

bool end_signal_is(int number)
{
    return end_signal_find(str_of(end_signal_name(number))) != 0;
}

const char *end_signal_name(int number)
{
    for (size_t i = 0; i < countof(end_signals); i++)
        if (end_signals[i].number == number)
            return end_signals[i].name;
    return "a signal";
}
