/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a worker's log that lost its beginning: who rotates the file writes them, who shows it finds them.
 */
#pragma once

/* Behind "==> " and the time, in the first line of a file that was begun when the oldest one had to be deleted. */
#define LOG_LOSS " the oldest lines of this log were deleted (--log-cap) <=="
