/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a file of torch.save: its pickle as a graph, and where in the file the bytes of each
 * storage are. Handles both containers: the zip of torch 1.6 and newer, and the five pickles of
 * older versions. The pickle is checked and never run: every storage must be there and as large as
 * the pickle says, and every tensor must be within its storage. TorchScript archives and the tar
 * files of torch before 0.1.10 are refused, with an error that names the format.
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
    struct zip zip; /* without its entries after reading */
    struct buf text;
    struct pickle pickle;
    uint64_t pickle_at;    /* zip: offset of data.pkl */
    uint64_t *storage_at;  /* offset in the file, for each of pickle.storages */
    uint32_t *storage_crc; /* if zip.has_crcs */
    struct str
        *storage_held; /* by storage: bytes that replace the file's; at == NULL: not replaced */
    bool is_legacy, is_big_endian;
};

/* Does the file begin like the five pickles? */
bool torch_is_legacy(struct str head);
/*
 * fd is borrowed for the call only. ERR_DATA naming the path, the byte and the reason. Call
 * torch_release() after a failure too.
 */
MUST_CHECK int torch_read(struct torch_file *file, const char *path, int fd, uint64_t file_bytes,
                          struct err *err);
/*
 * For a caller that writes the file's values again: lists of at least least_bytes of pickle become
 * splices (pickle.h).
 */
struct torch_splicing {
    size_t least_bytes; /* 0: no splices */
    struct buf room;    /* reused for each pickle, because the first touch of a page is slow */
};
MUST_CHECK int torch_read_spliced(struct torch_file *file, const char *path, int fd,
                                  uint64_t file_bytes, struct torch_splicing *splicing,
                                  struct err *err);
/*
 * As torch_read(), for an opened zip, which this takes over. Does not look up the places of the
 * storages.
 */
MUST_CHECK int torch_read_zip(struct torch_file *file, struct zip *zip, struct err *err);
void torch_release(struct torch_file *file);
