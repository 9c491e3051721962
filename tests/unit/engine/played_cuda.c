/* SPDX-License-Identifier: Apache-2.0
 *
 * A module for CUDA, to be named by MUSTER_KGE_CUDA, without a GPU: the program's own kernels, in
 * memory that the host cannot touch.
 */
#include "num/cuda_module.h"
#include "unit/engine/emulated.h"
#include "unit/engine/guarded.h"

cuda_module_open_fn muster_kge_cuda_open;

int muster_kge_cuda_open(struct num_backend *be, unsigned version, size_t table_bytes, char *reason,
                         size_t reason_bytes)
{
    struct num_backend emulated;
    (void)reason, (void)reason_bytes;
    if (version != CUDA_MODULE_VERSION || table_bytes != sizeof(*be))
        return -1;
    emulated_open(&emulated, EMULATED_MIXED);
    guarded_open(be, &emulated, &(struct guarded_opts){0});
    return 0;
}
