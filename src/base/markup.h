/* SPDX-License-Identifier: Apache-2.0
 *
 * Text within SVG and HTML.
 */
#pragma once

#include "base/buf.h"

/* Text or the value of an attribute: what means something there becomes a reference, a control
 * character a space. */
void markup_text_add(struct buf *out, struct str text);
