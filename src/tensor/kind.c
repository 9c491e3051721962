/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "tensor/npy.h"
#include "tensor/pread.h"
#include "tensor/safetensors.h"
#include "tensor/safetensors_index.h"
#include "tensor/torch/torch.h"

const char *tensor_kind_name(enum tensor_kind kind)
{
    static const char *const names[N_TENSOR_KINDS] = {
        [TENSOR_NONE] = "none", [TENSOR_TORCH] = "torch", [TENSOR_SAFETENSORS] = "safetensors",
        [TENSOR_NPY] = "npy",   [TENSOR_NPZ] = "npz",
    };
    return names[kind];
}

enum tensor_kind tensor_kind_of_name(const char *path)
{
    static const struct {
        const char *extension;
        enum tensor_kind kind;
    } names[] = {
        {".pt", TENSOR_TORCH}, {".pth", TENSOR_TORCH}, {".safetensors", TENSOR_SAFETENSORS},
        {".npy", TENSOR_NPY},  {".npz", TENSOR_NPZ},
    };
    for (size_t i = 0; i < countof(names); i++)
        if (strcasecmp(path_extension(path), names[i].extension) == 0)
            return names[i].kind;
    return TENSOR_NONE;
}

/*
 * The entries of an npz end with .npy; numpy also reads entries that do not. The first record of a
 * torch file is data.pkl, .format_version or the like, in a folder.
 */
static enum tensor_kind zip_kind(const char *path, struct str head)
{
    struct str name = zip_first_name(head);
    bool is_named =
        tensor_kind_of_name(path) == TENSOR_NPZ && name.len > 0 && !memchr(name.at, '/', name.len);
    return is_named || str_ends_with(name, STR(".npy")) ? TENSOR_NPZ : TENSOR_TORCH;
}

enum tensor_kind tensor_kind_of_head(const char *path, struct str head, uint64_t file_bytes)
{
    if (torch_is_legacy(head))
        return TENSOR_TORCH;
    if (zip_is_one(head))
        return zip_kind(path, head);
    if (npy_is_one(head))
        return TENSOR_NPY;
    if (safetensors_is_one(head, file_bytes))
        return TENSOR_SAFETENSORS;
    return TENSOR_NONE;
}

int tensor_kind_of(const char *path, enum tensor_kind *kind, struct err *err)
{
    char bytes[TENSOR_HEAD_BYTES];
    struct stat st;
    *kind = TENSOR_NONE;
    /*
     * A missing file is reported by the reader that opens it next. Any other error is reported
     * here, so that the file is not read as records.
     */
    if (stat(path, &st) != 0)
        return errno == ENOENT ? 0 : fail_errno_as(err, ERR_USAGE, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return 0;
    if (safetensors_index_is_one(path)) {
        *kind = TENSOR_SAFETENSORS;
        return 0;
    }
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    struct str head = {bytes, (size_t)MIN((uint64_t)st.st_size, (uint64_t)sizeof(bytes))};
    int rc = pread_exact(fd, bytes, head.len, 0, path, err);
    if (rc == 0)
        *kind = tensor_kind_of_head(path, head, (uint64_t)st.st_size);
    return rc;
}

int tensor_kind_of_input(const char *path, enum tensor_kind *kind, struct err *err)
{
    int rc = tensor_kind_of(path, kind, err);
    if (rc || *kind != TENSOR_NONE)
        return rc;
    if (access(path, F_OK) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    return tensor_kind_of_name(path) == TENSOR_NONE
               ? 0
               : fail(err, ERR_DATA,
                      "%s is named as a file of tensors, and is none: it does not begin as one of "
                      "torch.save, safetensors, npy or npz does",
                      path);
}
