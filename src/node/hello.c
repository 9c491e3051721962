/* SPDX-License-Identifier: Apache-2.0 */
#include "node/hello.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/wire.h"
#include "slurm/job.h"

void hello_write(struct buf *out, const struct hello_facts *own)
{
    struct wire_body body = wire_body_to(out);
    struct utsname machine = {0};
    struct wire_hello hello = {.protocol = WIRE_PROTOCOL,
                               .pid = (uint64_t)getpid(),
                               .wall_ms = (uint64_t)clock_wall_ms(),
                               .silence_limit_ms = own->silence_limit_ms,
                               .slurm_job = slurm_job_own()};
    (void)uname(&machine);
    snprintf(hello.version, sizeof(hello.version), "%s", own->version);
    snprintf(hello.program, sizeof(hello.program), "%s", own->program ? own->program : "");
    snprintf(hello.host, sizeof(hello.host), "%s", machine.nodename);
    snprintf(hello.machine, sizeof(hello.machine), "%.*s", (int)sizeof(hello.machine) - 1,
             machine.machine);
    wire_hello(&body, &hello);
}

int hello_read(struct str bytes, const struct hello_facts *own, struct wire_hello *out,
               struct err *err)
{
    struct wire_body body = wire_body_of(bytes);
    *out = (struct wire_hello){0};
    wire_hello(&body, out);
    if (out->protocol != WIRE_PROTOCOL && bytes.len >= sizeof(out->protocol))
        return fail(err, ERR_UNAVAILABLE,
                    "muster %s (%s) there speaks protocol %u, muster %s (%s) here protocol %d; "
                    "install the same version on both, or leave --agent-path out",
                    out->version, out->program, out->protocol, own->version,
                    own->program ? own->program : "", WIRE_PROTOCOL);
    return wire_body_is_whole(&body) ? 0 : fail(err, ERR_DATA, "its hello is malformed");
}
