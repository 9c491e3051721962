/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of torch.save: its pickle as a graph, and where in the file the bytes of each storage are.
 * Both containers: the zip of torch 1.6 and newer, and the five pickles of before. Read and checked,
 * never run: every storage is there and as large as the pickle says, every tensor lies within its
 * storage. TorchScript archives and the tars of before 0.1.10 are refused by name.
 */
#pragma once

#include "tensor/pickle/pickle.h"
#include "tensor/zip/zip.h"

enum {
    TORCH_PICKLE_BYTES_MAX = INT32_MAX /* of data.pkl */
};

struct torch_file {
    const char *path; /* borrowed */
    uint64_t file_bytes;
    struct zip zip; /* of its entries nothing is kept */
    struct buf text;
    struct pickle pickle;
    uint64_t pickle_at;    /* offset of data.pkl; of a zip */
    uint64_t *storage_at;  /* offset in the file, for each of pickle.storages */
    uint32_t *storage_crc; /* where zip.has_crcs */
    struct str *
        storage_held; /* NULL, or by storage: bytes of our own in place of the file's; at NULL: none */
    bool is_legacy, is_big_endian;
};

/* Does the file begin as the five pickles do? */
bool torch_is_legacy(struct str head);
/*
 * fd is borrowed for the call only. ERR_DATA naming the path, the byte and the reason; release also
 * after a failure.
 */
MUST_CHECK int torch_read(struct torch_file *file, const char *path, int fd, uint64_t file_bytes,
                          struct err *err);
/* For who writes it again: lists of so many bytes of pickle are spliced (pickle.h). */
struct torch_splicing {
    size_t least_bytes; /* 0: none are */
    struct buf
        room; /* for pickles, one after the other: a page that is touched first takes its time */
};
MUST_CHECK int torch_read_spliced(struct torch_file *file, const char *path, int fd,
                                  uint64_t file_bytes, struct torch_splicing *splicing,
                                  struct err *err);
/* The same of a zip that was read already, which it takes; where its storages are is not looked up. */
MUST_CHECK int torch_read_zip(struct torch_file *file, struct zip *zip, struct err *err);
void torch_release(struct torch_file *file);
