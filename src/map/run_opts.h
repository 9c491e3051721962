/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that say how a map runs, not what it computes: devices, workers, retries, limits, logs. For every verb that
 * makes a struct map_request, and for their variables, such as MUSTER_TIME_LIMIT. `at` is the offset of the request.
 */
#pragma once

#include "base/choice.h"
#include "map/request.h"
#include "node/allocation_arg.h"

extern const struct choice map_visible_names[];

/* "12" or "5%"; `field` is failures_max of a struct schedule. */
MUST_CHECK int map_failures_store(struct str text, void *field, struct err *err);
bool map_failures_text(const void *field, struct buf *out);
MUST_CHECK int map_log_level_store(struct str text, void *field, struct err *err);
bool map_log_level_text(const void *field, struct buf *out);

/* clang-format off */
#define MAP_FIELD(at, name) ((at) + offsetof(struct map_request, name))

#define MAP_RUN_OPTS(at)                                                                                               \
    {OPT_HEADING, .help = "Devices and workers"},                                                                      \
    ALLOCATION_OPTS(MAP_FIELD(at, allocation)),                                                                        \
    {OPT_FLAG, 0, "grow", NULL, "while the run lasts, take devices that become free as well, on every host of the run (with -g free, the default)", MAP_FIELD(at, allocation.grows)}, \
    ENVIRONMENT_OPTS(MAP_FIELD(at, environment)),                                                                      \
    {OPT_CHOICE, 0, "visible", "index|uuid", "name a worker's devices by index or by UUID in CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES (default index; MIG instances always by UUID)", MAP_FIELD(at, allocation.visible), .choices = map_visible_names}, \
    {OPT_U64, 0, "loading", "N", "let at most N workers load their model at the same time (default: no limit)", MAP_FIELD(at, schedule.loading_max), 1, 65535}, \
    {OPT_DURATION, 0, "stagger", "DURATION", "shortest time between the starts of two workers, such as 1s for programs whose file names hold the time in seconds (default 0)", MAP_FIELD(at, schedule.stagger_ms)}, \
    {OPT_FLAG, 0, "channel-path", NULL, "set MUSTER_CHANNEL to the path of a socket instead of a descriptor, for workers in containers", MAP_FIELD(at, channel_path)}, \
    {OPT_HEADING, .help = "Retries and limits"},                                                                       \
    {OPT_U64, 'r', "retries", "N", "try a failed item up to N more times, on another device first (default 2)", MAP_FIELD(at, schedule.retries), 0, 100}, \
    {OPT_PARSE, 0, "max-failures", "N|P%", "end the run when N items were set aside, or more than P percent of all items, or, once 100 items were tried, of those (default: never)", MAP_FIELD(at, schedule.failures_max), .parse = map_failures_store, .format = map_failures_text}, \
    {OPT_DURATION, 't', "timeout", "DURATION", "longest time for one item (of a shard command: one shard); then its worker is ended and the item is retried (default: no limit)", MAP_FIELD(at, schedule.item_limit_ms)}, \
    {OPT_DURATION, 0, "start-timeout", "DURATION", "longest time until a worker is loaded or gives its first result; then it is ended (default: no limit)", MAP_FIELD(at, schedule.start_limit_ms)}, \
    {OPT_DURATION, 0, "silence", "DURATION", "end a worker that has items and has sent nothing for this time (default: never)", MAP_FIELD(at, schedule.silence_limit_ms)}, \
    {OPT_DURATION, 0, "time-limit", "DURATION", "stop the run after this time, with exit status 124; it can be resumed (default: no limit)", MAP_FIELD(at, run.limit_ms)}, \
    {OPT_DURATION, 0, "grace", "DURATION", "time between SIGTERM and SIGKILL when a worker is ended (default 10s)", MAP_FIELD(at, run.grace_ms)}, \
    {OPT_FLAG, 0, "no-reissue", NULL, "never give an item to a second worker while the first has it", MAP_FIELD(at, schedule.no_reissue)}, \
    {OPT_HEADING, .help = "The run"},                                                                                  \
    {OPT_TEXT, 0, "on-finish", "COMMAND", "run COMMAND by sh at the end, with the summary as JSON on its stdin", MAP_FIELD(at, run.on_finish)}, \
    {OPT_FLAG, 'd', "detach", NULL, "run in the background; see muster status --watch", MAP_FIELD(at, run.detach)},    \
    {OPT_FLAG, 0, "keep-parts", NULL, "keep parts/ after a complete merge", MAP_FIELD(at, run.keep_parts)},            \
    {OPT_PARSE, 0, "log-level", "LEVEL", "level of messages in orchestrator.log: error, warn, info, debug (default info)", MAP_FIELD(at, run.log_level), .parse = map_log_level_store, .format = map_log_level_text}, \
    {OPT_SIZE, 0, "line-max", "SIZE", "longest line or message of a worker (default 256MiB)", MAP_FIELD(at, run.line_max_bytes)}, \
    {OPT_SIZE, 0, "log-cap", "SIZE", "size at which a worker's log is rotated (default 64MiB)", MAP_FIELD(at, run.log_cap_bytes)}, \
    {OPT_FLAG, 0, "explain", NULL, "print each decision and its reason on stderr, as in orchestrator.log", MAP_FIELD(at, run.explain)}
/* clang-format on */
