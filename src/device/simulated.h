/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated GPUs for tests and dry runs: `sim:8xH200:141GiB,lost@1:30s,ill@2`. Their faults are
 * a script, one word per fault, separated by commas:
 *
 *   FAULT@DEVICE[:FROM[-TO]]     times count from the moment the devices are watched; FROM
 *                                defaults to 0 (true from the start), TO to never
 *
 *   lost   fell off the bus          ill    not fit ("simulated fault")
 *   busy   another process computes  hang   no samples come
 *   full   no memory is free
 *
 * Faults that hold at time 0 show when the devices are listed, later ones through the monitor.
 */
#pragma once

#include "device/probe.h"

enum sim_fault {
    SIM_LOST,
    SIM_ILL,
    SIM_BUSY,
    SIM_HANG,
    SIM_FULL,
    SIM_FAULTS
};

/* ERR_USAGE if a fault has a wrong form, names a device not below n_devices, or is unknown. */
MUST_CHECK int sim_faults_check(struct str script, uint32_t n_devices, struct err *err);
/* Makes the devices that a SPEC_SIM spec describes. */
void sim_devices(const struct device_spec *spec, struct device_list *out);
/*
 * The state of one device `at_ms` after the start. False while the device hangs: no sample comes.
 */
bool sim_sample(const struct device *device, uint64_t at_ms, struct device_sample *out);
