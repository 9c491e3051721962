/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture of who did what when: one bar a worker, as SVG in a page of HTML that needs nothing else.
 * Of more than TIMELINE_ROWS workers an even choice is drawn; what is narrower than half a pixel is
 * drawn together with its neighbours. What a worker does side by side shines through.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

enum timeline_kind {
    TIMELINE_LOADING,
    TIMELINE_ITEM,
    TIMELINE_LOST,
    TIMELINE_KINDS
};

enum {
    TIMELINE_ROWS = 64
};

struct timeline;

struct timeline *timeline_new(uint32_t n_workers);
void timeline_free(struct timeline *timeline);
/* Those of one worker in order of their ends. */
void timeline_add(struct timeline *timeline, enum timeline_kind kind, uint32_t worker,
                  uint64_t from_us, uint64_t to_us);
/* When all was done: a line through the picture. Workers may go on for a while. */
void timeline_mark_end(struct timeline *timeline, uint64_t at_us);
/* The page: a title, lines of text, then the picture. Text is escaped. */
void timeline_page(const struct timeline *timeline, const char *title, const char *text,
                   struct buf *out);
