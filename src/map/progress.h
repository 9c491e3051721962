/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/seat.h"
#include "ui/progress.h"

/* What is shown at one moment; arrays have one element for each seat. */
struct snapshot {
    struct progress_total total;
    struct progress_worker *workers;
    char (*labels)[sizeof(((struct seat *)0)->label)];
    char (*words)[32];
};
