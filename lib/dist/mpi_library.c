/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_library.h"

#include <dlfcn.h>
#include <string.h>

#include "library.h"

static const char *const function_names[] = {
    "MPI_Initialized",  "MPI_Finalized", "MPI_Init_thread",
    "MPI_Query_thread", "MPI_Finalize",  "MPI_Get_library_version",
    "MPI_Comm_rank",    "MPI_Comm_size", "MPI_Comm_dup",
    "MPI_Isend",        "MPI_Irecv",     "MPI_Recv",
    "MPI_Iprobe",       "MPI_Test",      "MPI_Ibcast",
    "MPI_Iallgather",   "MPI_Ialltoall"};

_Static_assert(sizeof(function_names) / sizeof(*function_names) ==
                   sizeof(struct mpi_functions) / sizeof(void *),
               "a name for each function");

int md_mpi_load(struct muster_dist *dist, struct mpi_functions *out, mpi_handle *world,
                mpi_handle *byte)
{
    char version[8192] = "";
    int len;
    void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return md_fail(
            dist, MUSTER_DIST_EENV,
            "Open MPI 4 or 5, which the %u ranks need where shared memory does not reach, "
            "cannot be loaded (%s): install it, or start all ranks on one machine",
            dist->place.size, dlerror());
    int rc = md_library_find(dist, library, "libmpi.so.40", function_names,
                             sizeof(function_names) / sizeof(*function_names), out);
    if (rc != 0)
        return rc;
    out->Get_library_version(version, &len);
    *byte = dlsym(library, "ompi_mpi_byte");
    *world = dlsym(library, "ompi_mpi_comm_world");
    bool is_known =
        strncmp(version, "Open MPI v4.", 12) == 0 || strncmp(version, "Open MPI v5.", 12) == 0;
    if (is_known && *byte && *world)
        return 0;
    return md_fail(dist, MUSTER_DIST_EENV,
                   "libmpi.so.40 is '%.60s', and only Open MPI 4 and 5 are known", version);
}
