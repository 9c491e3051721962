/* SPDX-License-Identifier: Apache-2.0
 *
 * The MPI library of the system, loaded when it is needed. Handles are addresses of the library's
 * variables in Open MPI, and numbers in others; only the former are known here.
 */
#pragma once

#include "inside.h"

typedef void *mpi_handle; /* a communicator, a type, a request */

/* The functions of the library that are used; statuses are ignored (NULL). */
struct mpi_functions {
    int (*Initialized)(int *flag);
    int (*Finalized)(int *flag);
    int (*Init_thread)(int *argc, char ***argv, int required, int *provided);
    int (*Query_thread)(int *provided);
    int (*Finalize)(void);
    int (*Get_library_version)(char *version, int *len);
    int (*Comm_rank)(mpi_handle comm, int *rank);
    int (*Comm_size)(mpi_handle comm, int *size);
    int (*Comm_dup)(mpi_handle comm, mpi_handle *out);
    int (*Isend)(const void *at, int n, mpi_handle type, int to, int tag, mpi_handle comm,
                 mpi_handle *request);
    int (*Irecv)(void *at, int n, mpi_handle type, int from, int tag, mpi_handle comm,
                 mpi_handle *request);
    int (*Recv)(void *at, int n, mpi_handle type, int from, int tag, mpi_handle comm, void *status);
    int (*Iprobe)(int from, int tag, mpi_handle comm, int *flag, void *status);
    int (*Test)(mpi_handle *request, int *flag, void *status);
    int (*Ibcast)(void *at, int n, mpi_handle type, int root, mpi_handle comm, mpi_handle *request);
    int (*Iallgather)(const void *in, int n, mpi_handle type, void *out, int n_out,
                      mpi_handle type_out, mpi_handle comm, mpi_handle *request);
    int (*Ialltoall)(const void *in, int n, mpi_handle type, void *out, int n_out,
                     mpi_handle type_out, mpi_handle comm, mpi_handle *request);
};

/* Loads the library, which stays loaded. 0, or MUSTER_DIST_EENV: there is none, or an unknown one. */
int md_mpi_load(struct muster_dist *dist, struct mpi_functions *out, mpi_handle *world,
                mpi_handle *byte);
