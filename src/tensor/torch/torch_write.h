/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a graph and the storages that it needs as a new file of torch.save: the zip that torch 1.6
 * and newer read, with stored entries and data at multiples of 64. The CRC-32 of all copied bytes
 * is computed; a storage of an input that does not have the CRC-32 in its own file is an error.
 */
#pragma once

#include "base/outfile.h"
#include "base/stop.h"
#include "tensor/torch/torch.h"
#include "tensor/torch/torch_gather.h"

/* An input; its index is also that of its graph. */
struct torch_part {
    struct torch_file file;
    int fd;
    uint8_t *are_verified; /* NULL, or by storage: was it compared with its checksum? */
};
void torch_part_close(struct torch_part *part);

/* A piece of a storage of an input; with a view: the view's elements, from `offset` on, in
 * row-major order. */
struct torch_segment {
    uint32_t part, storage;
    uint64_t offset, bytes;  /* bytes of the output */
    struct torch_view *view; /* NULL: the bytes as they are */
};

/* What is to be written. `made` is graph number n_parts; its storages are made of segments. */
struct torch_new {
    struct torch_part *parts;
    size_t n_parts;
    const struct pickle *made;
    const struct torch_segment *segments; /* of all made storages, in their order */
    const size_t *segment_ends;           /* by made storage: where its segments end */
    pickle_id root;
    bool are_shared; /* share blocks of large storages with the inputs, unread, if possible */
    struct stop stop;
};

/*
 * Writes the file. The folder of all its records is `name` without its extension. *shared_bytes:
 * how many bytes are shared with the inputs; may be NULL.
 */
MUST_CHECK int torch_write(const struct torch_new *what, const char *name, struct outfile *out,
                           uint64_t *shared_bytes, struct err *err);
/* Writes nothing, but reads what the output would be made of, and compares it with its
 * checksums. */
MUST_CHECK int torch_verify(const struct torch_new *what, struct err *err);
