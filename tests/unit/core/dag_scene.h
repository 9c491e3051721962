/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs and devices, rule by rule. A scene is text: events, and the actions that must follow.
 *
 *   end J HOW [D]  job J ended (well, failed, fatal, oom, ill, lost, ended), device D is ill
 *   up D, down D   a device; hostup H, hostdown H, a host
 *   hold J, release J, cancel J, retry J
 *   await, enough  further devices may come, or none
 *   stop, kill     nothing starts; and what runs is ended
 *   wait MS        time passes, unnoticed; tick MS: and is told
 *
 * "3@0+1" is the start of job 3 on devices 0 and 1, "3@h0" without devices on host 0, "end 3" that
 * it is to be ended, "3 done" that it is settled.
 */
#pragma once

#include "unit/test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "core/dag.h"

#define GIB (1ull << 30)

struct scene {
    struct dag *dag;
    uint64_t now_ms;
    struct buf said;
};

struct scene scene_open(struct dag_config config);
void scene_close(struct scene *scene);
void tell(struct scene *scene, struct dag_event event);
/* Tells the events, and fails if other actions follow. */
void play(struct scene *scene, const char *events, const char *actions);
void is_in(const struct scene *scene, uint32_t job, enum dag_state state);

#define SCENE(...) scene_open((struct dag_config){__VA_ARGS__})

extern const struct dag_device plain[4];
#define DEVICES(n) .devices = plain, .n_devices = (n), .keeps_going = true

/* ADD(&scene, NEEDS(0, 1), .want = …) */
#define NEEDS(...) \
    .needs = (const uint32_t[]){__VA_ARGS__}, .n_needs = countof(((const uint32_t[]){__VA_ARGS__}))
#define ADD(scene, ...) dag_add((scene)->dag, &(struct dag_job){__VA_ARGS__})
#define ONE             .want = {.n_devices_min = 1, .n_devices_max = 1}
