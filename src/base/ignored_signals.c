/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ignored_signals.h"

#include <stddef.h>

#include "base/attr.h"

static const int ignored[] = {SIGPIPE, SIGXFSZ};

void signals_ignore(void)
{
    for (size_t i = 0; i < countof(ignored); i++)
        signal(ignored[i], SIG_IGN);
}

void signals_put_back(void)
{
    for (size_t i = 0; i < countof(ignored); i++)
        signal(ignored[i], SIG_DFL);
}

void signals_ignored(sigset_t *out)
{
    sigemptyset(out);
    for (size_t i = 0; i < countof(ignored); i++)
        sigaddset(out, ignored[i]);
}
