/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of today's glibc that the C libraries of the portable programs lack: musl, and the glibc of 2012.
 * Included before every file where they are missing (meson.build), so no other file knows.
 */
#pragma once

#include <sys/types.h>

const char *strerrordesc_np(int sys);
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
ssize_t getrandom(void *at, size_t bytes, unsigned flags);
int memfd_create(const char *name, unsigned flags);
