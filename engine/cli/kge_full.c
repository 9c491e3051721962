/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kge_full.h"

#include "base/buf.h"
#include "base/cleanup.h"

int kge_full_say(int rc, const char *cure, struct err *err)
{
    int sys = err->sys;
    cleanup_buf struct buf text = BUF_INIT;
    if (rc != ERR_STOPPED || !errno_means_full(sys))
        return rc;
    buf_add_text(&text, err->text);
    rc = fail(err, rc, "%s; once there is room, %s", buf_text(&text), cure);
    err->sys = sys;
    return rc;
}
