/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as text, a line for each job, with what is not the default:
 *
 *   train/a,r1: python train.py a 1 <- rollouts/a,r1 > model/a.pt gpus=1
 */
#pragma once

#include "graph/plan.h"

void plan_describe(const struct plan *plan, struct buf *out);
