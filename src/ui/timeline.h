/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture of what each worker did when: one bar per worker, as SVG, alone or in a self-contained HTML page. If
 * there are more than TIMELINE_ROWS workers, an even selection of them is drawn. Narrow boxes of one kind without a
 * visible gap between them are drawn as one. Where a worker does several items at the same time, the boxes are
 * translucent.
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
/* Sets the name before the bar of a worker. Without a name, the worker's number stands there. */
void timeline_name(struct timeline *timeline, uint32_t worker, const char *name);
/* Adds a box. The boxes of one worker must be added in the order of their ends. */
void timeline_add(struct timeline *timeline, enum timeline_kind kind, uint32_t worker,
                  uint64_t from_us, uint64_t to_us);
/* Draws a line at the time when all items were done. Workers may go on a little longer. */
void timeline_mark_end(struct timeline *timeline, uint64_t at_us);
/* The page: a title, lines of text, then the picture. Text is escaped. */
void timeline_page(const struct timeline *timeline, const char *title, const char *text,
                   struct buf *out);
/* The picture alone, as an SVG file. */
void timeline_picture(const struct timeline *timeline, const char *title, struct buf *out);
