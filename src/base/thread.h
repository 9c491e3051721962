/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread, to be joined, with all signals blocked. False: the system allows no further
 * thread. */
bool thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
