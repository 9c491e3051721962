/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* To be joined. Signals stay with the threads that get them now. False: no more threads may be had. */
bool thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
