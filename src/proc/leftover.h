/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that an earlier muster left: recognised by a variable in the environment they were
 * started with, which their descendants inherit.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * How many living processes of this host, this one aside, have exactly `entry` ("NAME=value") in
 * their environment; *one is the pid of one of them. Those of other users cannot be looked into.
 * Such as have lost both their muster and their guard, which would have ended them, are killed; the
 * others are on their way.
 */
size_t leftover_end(const char *entry, pid_t *one);
