/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ui/progress.h"

/* What is shown at one moment; arrays of one element a seat. */
struct snapshot {
    struct progress_total total;
    struct progress_worker *workers;
    char (*labels)[64];
    char (*words)[32];
};
