/* SPDX-License-Identifier: Apache-2.0
 *
 * What fits where, for the oracle of dags: added up anew from what runs, each time.
 */
#pragma once

#include "sim/dag_oracle.h"

/* No other job may be on its devices, whatever they are. */
bool room_is_alone(const struct oracle_job *job);
/* On empty devices: on some that are not benched, whether up or not. */
bool room_could_ever(const struct oracle *oracle, uint32_t job);
/* The same, on devices that are up, have at least so much memory, and (avoids) were not ill. */
bool room_could_narrow(const struct oracle *oracle, uint32_t job, uint64_t mem_min, bool avoids);
/* Now, beside all that runs. */
bool room_fits(const struct oracle *oracle, uint32_t job);
/* How many devices of the host it could use now. */
uint32_t room_offers(const struct oracle *oracle, uint32_t job, uint32_t host);
/* When it could start if no other did; UINT64_MAX: that is not known. */
uint64_t room_forecast(const struct oracle *oracle, uint32_t job);
/* What is wrong with this placement, before it is made; NULL: nothing. */
const char *room_trouble(const struct oracle *oracle, uint32_t job,
                         const struct dag_placement *placement);
/* What is wrong with what the dag says of a device; NULL: nothing. */
const char *room_device_trouble(const struct oracle *oracle, const struct dag *dag,
                                uint32_t device);
