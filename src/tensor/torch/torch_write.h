/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a graph and the storages that it needs as a new file of torch.save: the zip that torch 1.6
 * and newer read, with stored entries and data at multiples of 64. The CRC-32 of all copied bytes
 * is computed; it is an error if a storage of an input does not have the CRC-32 that its own file
 * states.
 */
#pragma once

#include "base/outfile.h"
#include "base/stop.h"
#include "tensor/torch/torch.h"
#include "tensor/torch/torch_gather.h"

/* An input. Its index is also the index of its graph. */
struct torch_part {
    struct torch_file file;
    int fd;
    uint8_t *are_verified; /* NULL, or by storage: it was compared with its checksum */
};
void torch_part_close(struct torch_part *part);

/*
 * A piece of a storage of an input. With a view it is the elements of the view, in row-major order;
 * the first of them is at `offset`.
 */
struct torch_segment {
    uint32_t part, storage;
    uint64_t offset, bytes;  /* offset in the storage; bytes of the output */
    struct torch_view *view; /* NULL: the bytes as they are */
};

/* The content of a new file. `made` is graph number n_parts; its storages consist of segments. */
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
 * how many bytes are shared with the inputs; NULL: not filled.
 */
MUST_CHECK int torch_write(const struct torch_new *what, const char *name, struct outfile *out,
                           uint64_t *shared_bytes, struct err *err);
/*
 * Writes nothing, but reads the inputs that the output would consist of, and compares them with
 * their checksums.
 */
MUST_CHECK int torch_verify(const struct torch_new *what, struct err *err);
