/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ui/progress.h"

/* What is shown at one moment; arrays have one element for each seat. */
struct snapshot {
    struct progress_total total;
    struct progress_worker *workers;
    char (*labels)[64];
    char (*words)[32];
};
