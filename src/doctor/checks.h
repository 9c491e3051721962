/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks: how facts are gathered, and how they are judged. Gathering takes the root of the file
 * system to read ("" for the real one), judging is pure.
 */
#pragma once

#include "doctor/facts.h"
#include "doctor/finding.h"

/* driver.c */
void driver_gather(const char *root, struct driver_facts *out);
void driver_judge(const struct facts *facts, struct findings *out);
void access_judge(const struct facts *facts, struct findings *out);

/* devices.c, links.c */
void alike_judge(const struct facts *facts, struct findings *out);
void health_judge(const struct facts *facts, struct findings *out);
void modes_judge(const struct facts *facts, struct findings *out);
void processes_judge(const struct facts *facts, struct findings *out);
void links_judge(const struct facts *facts, struct findings *out);

/* holders.c: `self` is the doctor, whose children are not counted */
void holders_gather(const char *root, pid_t self, struct holder_facts *out);
void orphans_judge(const struct facts *facts, struct findings *out);

/* visibility.c */
void visible_judge(const struct facts *facts, struct findings *out);

/* launch.c; cores_usable: what affinity and quota leave, at least 1 */
unsigned cores_usable(const struct facts *facts);
void env_gather(struct env_facts *out);
/* the value of a variable; NULL if it is not set, or not one of ENV_NAMES */
const char *env_value(const struct env_facts *env, const char *name);
/* path_list: folders, as in PATH */
void slurm_gather(const char *path_list, struct slurm_facts *out);
void slurm_judge(const struct facts *facts, struct findings *out);
void ranks_judge(const struct facts *facts, struct findings *out);
void threads_judge(const struct facts *facts, struct findings *out);

/* host.c */
void host_gather(const char *root, struct host_facts *out);
void shm_judge(const struct facts *facts, struct findings *out);
void limits_judge(const struct facts *facts, struct findings *out);
void clock_judge(const struct facts *facts, struct findings *out);

/* limits.c */
void memory_judge(const struct facts *facts, struct findings *out);
void cpus_judge(const struct facts *facts, struct findings *out);

/* python.c: `program` is for example "python3", and may take very long */
void python_gather(const char *program, struct python_facts *out);
/* "torch" */
const char *python_package_name(size_t package);

/* folder.c: writes at most 64 MiB for about 300 ms into a file without a name */
void folder_gather(const char *path, struct folder_facts *out);
void folder_judge(const struct facts *facts, struct findings *out);
void disk_judge(const struct facts *facts, struct findings *out);

/* Functions that several checks share. */

/* False if the devices are CPU slots, or if there is none. */
bool are_gpus(const struct device_list *devices);
/* Names the devices whose flag is set, "gpu 0-3,7"; "" if no flag is set. There is one flag for each device. */
void subject_of(const struct device_list *devices, const bool *flags, char out[64]);
/* The name in /etc/passwd alone, because other sources may block; if there is none, "uid 1234". */
void user_name(uid_t uid, char out[40]);
