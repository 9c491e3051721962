/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations by NCCL. The communicator is non-blocking: while a call is under way, this rank looks
 * at the other ranks, and gives up as soon as one of them is gone or has failed. The communicator
 * is made at the first operation that needs it, when the device is known. It is released by abort,
 * which needs no other rank: by then all operations have ended on all ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddp_loops.h"
#include "device.h"
#include "nccl_library.h"

struct md_nccl {
    struct nccl_functions call;
    nccl_comm comm;
};

/* The data that ranks exchange before the communicator is made. */
struct introduction {
    struct nccl_id id; /* of rank 0 */
    struct cuda_uuid uuid;
    int version;
};

/* ---- errors ---- */

/* NCCL's last warning tells more than its error code, such as which ranks are on one device. */
static int nccl_tell(struct muster_dist *dist, int error, const char *what)
{
    const struct md_nccl *nccl = dist->device->nccl;
    const char *last = nccl->call.GetLastError(nccl->comm);
    char detail[200];
    snprintf(detail, sizeof(detail), "%s", last ? last : "");
    detail[strcspn(detail, "\n")] = '\0';
    return md_fail(dist, error == NCCL_INVALID_USAGE ? MUSTER_DIST_EENV : MUSTER_DIST_EIO,
                   "rank %u: NCCL cannot %s: %s%s%s", dist->place.rank, what,
                   nccl->call.GetErrorString(error), *detail ? ": " : "", detail);
}

static int nccl_check(struct muster_dist *dist, int status, const char *what)
{
    return status == NCCL_OK || status == NCCL_IN_PROGRESS ? 0 : nccl_tell(dist, status, what);
}

/*
 * Looks whether the communicator's last call is enqueued. Returns 1 if it is, 0 if not yet,
 * negative for an error.
 */
static int enqueued_look(struct muster_dist *dist)
{
    const struct md_nccl *nccl = dist->device->nccl;
    int error = NCCL_OK;
    int rc = nccl_check(dist, nccl->call.CommGetAsyncError(nccl->comm, &error), "tell its state");
    rc = rc ? rc : nccl_check(dist, error, "go on");
    return rc ? rc : error == NCCL_OK;
}

/* Errors of NCCL's threads show here while the stream stands still. */
static int done_look(struct muster_dist *dist)
{
    int rc = md_device_done_look(dist);
    if (rc != 0)
        return rc;
    rc = enqueued_look(dist);
    return rc < 0 ? rc : 0;
}

/* ---- the communicator ---- */

static void uuid_format(const struct cuda_uuid *uuid, char out[48])
{
    static const char digits[] = "0123456789abcdef";
    char *to = out + snprintf(out, 48, "GPU-");
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *to++ = '-';
        *to++ = digits[uuid->bytes[i] >> 4];
        *to++ = digits[uuid->bytes[i] & 15];
    }
    *to = '\0';
}

static int versions_compare(struct muster_dist *dist, const struct introduction *all)
{
    char first[40], other[40];
    for (uint32_t r = 1; r < dist->place.size; r++) {
        if (all[r].version == all[0].version)
            continue;
        md_nccl_version_format(all[0].version, first, sizeof(first));
        md_nccl_version_format(all[r].version, other, sizeof(other));
        return md_fail(dist, MUSTER_DIST_EENV,
                       "ranks disagree: rank 0 has NCCL %s, rank %u %s: name the same library by "
                       "MUSTER_DIST_NCCL",
                       first, r, other);
    }
    return 0;
}

/*
 * Finds two ranks on one device: NCCL refuses that too, but only some versions say why. From 2.30
 * on, the variable allows it.
 */
static int devices_compare(struct muster_dist *dist, const struct introduction *all)
{
    const char *allowed = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    char name[48];
    if (allowed && strcmp(allowed, "1") == 0)
        return 0;
    for (uint32_t r = 1; r < dist->place.size; r++)
        for (uint32_t s = 0; s < r; s++) {
            if (memcmp(&all[r].uuid, &all[s].uuid, sizeof(all[r].uuid)) != 0)
                continue;
            uuid_format(&all[r].uuid, name);
            return md_fail(dist, MUSTER_DIST_EENV,
                           "ranks %u and %u are on the same device, %s, and NCCL allows one rank a "
                           "device: let each take its own (cudaSetDevice with its local rank, or "
                           "muster launch --virtual-local-rank), or take device values through the "
                           "host by MUSTER_DIST_BACKEND=shm (or mpi)",
                           s, r, name);
        }
    return 0;
}

/* Exchanges the introductions over the ranks' backend; the id is rank 0's. */
static int introduce(struct muster_dist *dist, const struct md_call *call, struct introduction *own)
{
    struct introduction *all = calloc(dist->place.size, sizeof(*all));
    if (!all)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", dist->place.rank);
    const struct md_call gather = {
        .what = {MUSTER_ALL_GATHER, MUSTER_UINT8, MUSTER_SUM, 0, own, all, sizeof(*own)},
        .seq = call->seq};
    int rc = dist->backend->run(dist, &gather);
    rc = rc ? rc : versions_compare(dist, all);
    rc = rc ? rc : devices_compare(dist, all);
    own->id = all[0].id;
    free(all);
    return rc;
}

static int communicator_make(struct muster_dist *dist, const struct md_call *call)
{
    const struct md_device *device = dist->device;
    struct md_nccl *nccl = device->nccl;
    struct nccl_config config = md_nccl_config();
    struct introduction own;
    memset(&own, 0, sizeof(own));
    int rc = md_nccl_load(dist, &nccl->call, &own.version);
    if (rc == 0)
        rc = md_cuda_check(dist, &device->cuda,
                           device->cuda.DeviceGetUuid(&own.uuid, device->device),
                           "tell which device this is");
    if (rc == 0 && dist->place.rank == 0)
        rc = nccl_check(dist, nccl->call.GetUniqueId(&own.id), "begin");
    rc = rc ? rc : introduce(dist, call, &own);
    if (rc == 0)
        rc = nccl_check(dist,
                        nccl->call.CommInitRankConfig(&nccl->comm, (int)dist->place.size, own.id,
                                                      (int)dist->place.rank, &config),
                        "connect the ranks");
    return rc ? rc : md_device_wait(dist, call, enqueued_look, "NCCL's connection");
}

static int communicator_have(struct muster_dist *dist, const struct md_call *call)
{
    struct md_device *device = dist->device;
    if (device->nccl)
        return 0;
    device->nccl = calloc(1, sizeof(*device->nccl));
    if (!device->nccl)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", dist->place.rank);
    return communicator_make(dist, call);
}

void md_nccl_end(struct muster_dist *dist)
{
    struct md_nccl *nccl = dist->device->nccl;
    if (!nccl)
        return;
    if (nccl->comm)
        nccl->call.CommAbort(nccl->comm);
    free(nccl);
    dist->device->nccl = NULL;
}

/* ---- operations ---- */

/* NCCL's types by enum muster_type. */
static const int types[] = {[MUSTER_FLOAT32] = NCCL_FLOAT32,   [MUSTER_FLOAT64] = NCCL_FLOAT64,
                            [MUSTER_BFLOAT16] = NCCL_BFLOAT16, [MUSTER_FLOAT16] = NCCL_FLOAT16,
                            [MUSTER_INT32] = NCCL_INT32,       [MUSTER_INT64] = NCCL_INT64,
                            [MUSTER_UINT8] = NCCL_UINT8,       [MUSTER_INT8] = NCCL_INT8};

static int collective_call(struct muster_dist *dist, const struct muster_dist_call *what)
{
    static const int ops[] = {[MUSTER_SUM] = NCCL_SUM,
                              [MUSTER_MEAN] = NCCL_MEAN,
                              [MUSTER_MIN] = NCCL_MIN,
                              [MUSTER_MAX] = NCCL_MAX};
    const struct md_nccl *nccl = dist->device->nccl;
    cuda_stream stream = dist->device->stream;
    int type = types[what->type];
    switch (what->kind) {
    case MUSTER_ALL_REDUCE:
        return nccl->call.AllReduce(what->in, what->out, what->count, type, ops[what->op],
                                    nccl->comm, stream);
    case MUSTER_BROADCAST:
        return nccl->call.Broadcast(what->in, what->out, what->count, type, (int)what->root,
                                    nccl->comm, stream);
    case MUSTER_REDUCE_SCATTER:
        return nccl->call.ReduceScatter(what->in, what->out, what->count, type, ops[what->op],
                                        nccl->comm, stream);
    case MUSTER_ALL_GATHER:
        return nccl->call.AllGather(what->in, what->out, what->count, type, nccl->comm, stream);
    case MUSTER_BARRIER: /* has no values */
        break;
    }
    return NCCL_OK;
}

/* Computes the sum of values times this rank's weight, which is rounded to their type. */
static int weighted_call(struct muster_dist *dist, const struct muster_dist_call *what,
                         double weight)
{
    const struct md_nccl *nccl = dist->device->nccl;
    float single = (float)weight;
    bool is_double = what->type == MUSTER_FLOAT64;
    uint64_t rounded = 0;
    int op, type = types[what->type];
    md_pack(&rounded, what->type, is_double ? (const void *)&weight : &single,
            is_double ? MUSTER_FLOAT64 : MUSTER_FLOAT32, 1, 1);
    int status =
        nccl->call.RedOpCreatePreMulSum(&op, &rounded, type, NCCL_SCALAR_OF_HOST, nccl->comm);
    if (status != NCCL_OK)
        return status;
    status = nccl->call.AllReduce(what->in, what->out, what->count, type, op, nccl->comm,
                                  dist->device->stream);
    nccl->call.RedOpDestroy(op, nccl->comm);
    return status;
}

/* The event is recorded only when the operation is on the stream. */
int md_nccl_run(struct muster_dist *dist, const struct md_call *call)
{
    struct md_device *device = dist->device;
    int rc = communicator_have(dist, call);
    if (rc != 0)
        return rc;
    int status = call->weights ? weighted_call(dist, &call->what, call->weights[dist->place.rank])
                               : collective_call(dist, &call->what);
    rc = nccl_check(dist, status, md_collective_name(call->what.kind));
    if (rc == 0 && status == NCCL_IN_PROGRESS)
        rc = md_device_wait(dist, call, enqueued_look, "NCCL's start");
    if (rc == 0)
        rc = md_cuda_check(dist, &device->cuda,
                           device->cuda.EventRecord(device->done, device->stream),
                           "mark the stream");
    return rc ? rc : md_device_wait(dist, call, done_look, "NCCL's work");
}
