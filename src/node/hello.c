/* SPDX-License-Identifier: Apache-2.0 */
#include "node/hello.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/wire.h"

void hello_write(struct buf *out, const char *version, uint64_t silence_limit_ms)
{
    struct wire_body body = wire_body_to(out);
    struct utsname machine = {0};
    struct wire_hello hello = {.protocol = WIRE_PROTOCOL,
                               .pid = (uint64_t)getpid(),
                               .wall_ms = (uint64_t)clock_wall_ms(),
                               .silence_limit_ms = silence_limit_ms};
    (void)uname(&machine);
    snprintf(hello.version, sizeof(hello.version), "%s", version);
    snprintf(hello.host, sizeof(hello.host), "%s", machine.nodename);
    snprintf(hello.machine, sizeof(hello.machine), "%.*s", (int)sizeof(hello.machine) - 1,
             machine.machine);
    wire_hello(&body, &hello);
}

int hello_read(struct str bytes, const char *version, struct wire_hello *out, struct err *err)
{
    struct wire_body body = wire_body_of(bytes);
    *out = (struct wire_hello){0};
    wire_hello(&body, out);
    if (out->protocol != WIRE_PROTOCOL && bytes.len >= sizeof(out->protocol))
        return fail(err, ERR_UNAVAILABLE,
                    "muster %s there speaks protocol %u, muster %s here protocol %d; install the "
                    "same version on both",
                    out->version, out->protocol, version, WIRE_PROTOCOL);
    return wire_body_is_whole(&body) ? 0 : fail(err, ERR_DATA, "its hello is malformed");
}
