/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph and the storages it needs as a new file of torch.save: the zip that torch 1.6 and newer read,
 * stored, data at multiples of 64. Every byte that passes is added up; a storage of an input that is
 * not what its own file says (CRC-32) is an error.
 */
#pragma once

#include "base/outfile.h"
#include "base/stop.h"
#include "tensor/torch/torch.h"
#include "tensor/torch/torch_gather.h"

/* An input; its number is that of its graph. */
struct torch_part {
    struct torch_file file;
    int fd;
    uint8_t *are_verified; /* NULL, or by storage: it was compared with its checksum */
};
void torch_part_close(struct torch_part *part);

/* A piece of a storage of an input; with a view its elements from `offset` on, in row-major order. */
struct torch_segment {
    uint32_t part, storage;
    uint64_t offset, bytes;  /* bytes of the output */
    struct torch_view *view; /* NULL: as they lie there */
};

/* What is to be written: `made` is graph number n_parts, its storages are made of segments. */
struct torch_new {
    struct torch_part *parts;
    size_t n_parts;
    const struct pickle *made;
    const struct torch_segment *segments; /* of all made storages, in their order */
    const size_t *segment_ends;           /* by made storage: where its segments end */
    pickle_id root;
    bool
        are_shared; /* large storages share their blocks with the inputs, unread, where that is possible */
    struct stop stop;
};

/*
 * The folder of all records is `name`, without what stands behind its last dot. *shared_bytes: those that are
 * shared with the inputs; may be NULL.
 */
MUST_CHECK int torch_write(const struct torch_new *what, const char *name, struct outfile *out,
                           uint64_t *shared_bytes, struct err *err);
/* Nothing is written: what the output would be made of is read, and compared with its checksums. */
MUST_CHECK int torch_verify(const struct torch_new *what, struct err *err);
