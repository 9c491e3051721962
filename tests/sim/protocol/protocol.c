/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a session between a head and an agent, once without faults, and then with one fault at each byte of each way.
 *
 *   sim_protocol            at each byte of a short session, and at the borders of some frames of a long one
 *   sim_protocol --all      at each byte of both
 *   sim_protocol --long N --fault F --way W --at K --trace     one case
 *   sim_protocol --wild N [--first SEED] [--trace]             so many sessions with wild heads
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "node/wire.h"
#include "sim/protocol/protocol.h"

enum {
    FRAMES_PASSED = 5
};

struct play play;
static const char *const fault_names[FAULTS] = {"none",         "cut",          "silence",
                                                "flipped byte", "dropped byte", "repeated byte",
                                                "short delay",  "long delay"};
static size_t n_cases;

/* Does it keep its promises? */
static bool play_with(uint64_t seed, void (*play_it)(void))
{
    n_cases++;
    places_begin();
    world_begin(seed);
    scripts_begin();
    stream_close();
    uv_forget();
    world.truth->n_events = 0;
    if (setjmp(world.give_up) != 0)
        return false;
    play_it();
    return true;
}

static bool case_play(void)
{
    if (play_with(1, head_play))
        return true;
    fprintf(world.said, "%s session, %s at byte %zu to the %s: %s\n",
            play.is_long ? "long" : "short", fault_names[play.fault], play.at,
            play.way == TO_AGENT ? "agent" : "head", world.truth->broken);
    fprintf(world.said, "replay: sim_protocol --long %d --fault %d --way %u --at %zu --trace\n",
            play.is_long, (int)play.fault, play.way, play.at);
    return false;
}

/* ---- where faults are put ---- */

enum worth {
    WORTH_NOTHING,
    WORTH_BYTE,
    WORTH_BORDER /* delays as well */
};

struct bytes {
    enum worth *worth;
    size_t len;
};

/* Of each fifth frame the begin, that of its body, and its last byte; all of all where `all`. */
static void frames_mark(struct str sent, bool all, const struct bytes *bytes)
{
    size_t at = strlen(WIRE_PREAMBLE);
    for (size_t i = 0; i < sent.len; i++)
        bytes->worth[i] = all || i < at ? WORTH_BYTE : WORTH_NOTHING;
    for (unsigned number = 0; at + WIRE_HEADER_BYTES <= sent.len; number++) {
        uint32_t length;
        memcpy(&length, sent.at + at + 4, sizeof(length));
        size_t end = at + WIRE_HEADER_BYTES + length;
        if (end > sent.len)
            return;
        if (all || number % FRAMES_PASSED == 0) {
            bytes->worth[end - 1] = bytes->worth[at + (length > 0) * WIRE_HEADER_BYTES] =
                WORTH_BYTE;
            bytes->worth[at] = WORTH_BORDER;
        }
        at = end;
    }
}

static struct bytes bytes_of(unsigned way, bool all)
{
    struct str sent = stream_sent(way);
    struct bytes bytes = {xcalloc(sent.len + 1, sizeof(*bytes.worth)), sent.len};
    frames_mark(sent, all, &bytes);
    return bytes;
}

static bool faults_play(unsigned way, size_t at, enum worth worth)
{
    static const enum worth least[FAULTS] = {
        [FAULT_CUT] = WORTH_BYTE,         [FAULT_FLIPPED] = WORTH_BYTE,
        [FAULT_DROPPED] = WORTH_BYTE,     [FAULT_REPEATED] = WORTH_BYTE,
        [FAULT_SILENCE] = WORTH_BORDER,   [FAULT_SHORT_DELAY] = WORTH_BORDER,
        [FAULT_LONG_DELAY] = WORTH_BORDER};
    bool is_well = true;
    for (int fault = FAULT_NONE + 1; is_well && fault < FAULTS; fault++) {
        if (worth < least[fault])
            continue;
        play = (struct play){play.is_long, (enum fault)fault, way, at};
        is_well = case_play();
    }
    return is_well;
}

static bool cases_play(bool is_long, bool all)
{
    struct bytes bytes[WAYS];
    bool is_well;
    play = (struct play){.is_long = is_long};
    is_well = case_play();
    for (unsigned way = 0; way < WAYS; way++)
        bytes[way] = bytes_of(way, all || !is_long);
    for (unsigned way = 0; way < WAYS; way++)
        for (size_t at = 0; is_well && at < bytes[way].len; at++)
            is_well = faults_play(way, at, bytes[way].worth[at]);
    if (is_well)
        fprintf(world.said, "%zu bytes to the agent and %zu to the head: %zu sessions so far\n",
                bytes[TO_AGENT].len, bytes[TO_HEAD].len, n_cases);
    for (unsigned way = 0; way < WAYS; way++)
        free(bytes[way].worth);
    return is_well;
}

static bool wild_heads_play(uint64_t first, size_t n)
{
    bool is_well = true;
    for (int is_long = 0; is_long < 2; is_long++) {
        play = (struct play){.is_long = is_long};
        is_well = is_well && case_play();
        wild_keep(stream_sent(TO_AGENT));
    }
    for (uint64_t seed = first; is_well && seed < first + n; seed++) {
        play.is_long = seed % 2 == 1;
        is_well = play_with(seed, wild_play);
        if (!is_well)
            fprintf(world.said, "%s\nreplay: sim_protocol --wild 1 --first %llu --trace\n",
                    world.truth->broken, (unsigned long long)seed);
    }
    wild_forget();
    return is_well;
}

int main(int argc, char **argv)
{
    static struct truth truth;
    static char *environment[] = {NULL};
    bool all = false, one = false;
    size_t n_wild = 0;
    uint64_t first = 1;
    for (int i = 1; i < argc; i++) {
        unsigned long value = i + 1 < argc ? strtoul(argv[i + 1], NULL, 10) : 0;
        all |= strcmp(argv[i], "--all") == 0;
        world.is_traced |= strcmp(argv[i], "--trace") == 0;
        if (strcmp(argv[i], "--long") == 0)
            play.is_long = value;
        if (strcmp(argv[i], "--fault") == 0)
            play.fault = (enum fault)value, one = true;
        if (strcmp(argv[i], "--way") == 0)
            play.way = (unsigned)value;
        if (strcmp(argv[i], "--at") == 0)
            play.at = value;
        if (strcmp(argv[i], "--wild") == 0)
            n_wild = value;
        if (strcmp(argv[i], "--first") == 0)
            first = value;
    }
    environ = environment; /* what workers are given is compared with it, and sent if it differs */
    world.truth = &truth;
    world.said = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 700), "w");
    world.scene.cut_bytes = 100000;
    if (!world.said)
        return 2;
    if (!world.is_traced) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
    }
    bool is_well = n_wild > 0 ? wild_heads_play(first, n_wild)
                   : one      ? case_play()
                              : cases_play(false, all) && cases_play(true, all);
    if (is_well)
        fprintf(world.said, "%zu sessions: every promise was kept\n", n_cases);
    places_begin();
    scripts_begin();
    stream_close();
    uv_forget();
    futures_forget();
    fclose(world.said);
    return is_well ? 0 : 1;
}
