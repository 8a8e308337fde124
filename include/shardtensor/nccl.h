/* Communicators of NCCL, through the CUDA module: ranks whose data is on CUDA devices, each on one of its own.
 *
 * A process for each rank: as threads of one process they are for tests (docs/cuda.md says what may wait for what).
 *
 * NCCL moves the devices' memory. What hosts have to tell each other (how they meet, errors, agreements) goes over a
 * communicator of the hosts, the control: thread ranks, MPI, or a table of the caller's. Nothing here needs NCCL's
 * header; the module opens libnccl.so.2 when it is first asked. */
#ifndef SHARDTENSOR_NCCL_H
#define SHARDTENSOR_NCCL_H

#include <shardtensor/module.h>

#include <stdio.h>

STN_BEGIN_DECLS

struct ncclComm; /* what an ncclComm_t points to */

/** All zero but `size` is a sound choice. */
typedef struct stn_nccl_options {
    size_t size;             /* sizeof(stn_nccl_options) */
    const char *module_path; /* folder that is searched first; NULL: none */
    int has_device, device;  /* which CUDA device is this rank's; without: rank modulo the number of those that this process sees. It has to be the
                                one of the context that takes the communicator */
    double deadline_seconds; /* until a context sets its own: no collective waits longer for its peers; 0: 300; negative: without end */
    int rank_order;          /* 1: sums, means and products of floating numbers are added in the order of ranks, as thread ranks and MPI add them;
                                0: in NCCL's order. Either way all ranks have the same bits. The same on every rank */
    char *error_text;        /* where a failure writes its message; NULL: nowhere */
    size_t error_text_size;  /* bytes */
} stn_nccl_options;

/* The options as the module's words. */
static inline stn_status stn_nccl_open(struct ncclComm *comm, stn_comm *control, const stn_nccl_options *options,
                                       stn_comm **out)
{
    char text[160];
    const stn_nccl_options defaults = {sizeof(stn_nccl_options), NULL, 0, 0, 0, 0, NULL, 0};
    const stn_nccl_options *with = options ? options : &defaults;
    if (!control || !out || with->size != sizeof *with)
        return STN_ERR_ARGUMENT;
    snprintf(text, sizeof text, "nccl control=%llu comm=%llu device=%d deadline=%.17g rank_order=%d",
             (unsigned long long)(uintptr_t)control, (unsigned long long)(uintptr_t)comm,
             with->has_device ? with->device : -1, with->deadline_seconds, with->rank_order != 0);
    const stn_comm_options how = {sizeof(stn_comm_options), with->module_path, text, with->error_text,
                                  with->error_text_size};
    return stn_comm_open("cuda", &how, out);
}

/** Makes a communicator of NCCL over the ranks of `control`, in their order, for stn_context_options.comm of contexts
 * on device "cuda".
 *
 *  `control` is the new communicator's from then on, and destroyed with it. Where this fails it is still the caller's:
 *  usable where no rank had begun to make the communicator (NCCL or the device is not there, options differ; all ranks
 *  return the first rank's text), else aborted. A thread of its own watches over this rank's collectives. Where MPI was
 *  initialised for less than MPI_THREAD_SERIALIZED it may not ask a control of MPI: that another rank has failed is
 *  known when this rank's main thread uses MPI next, or else by the deadline. Collective over `control`. `options` may
 *  be NULL.
 *  @return STN_ERR_ARGUMENT, STN_ERR_NOT_FOUND (no CUDA module, no NCCL), STN_ERR_VERSION (NCCL before 2.18),
 *  STN_ERR_DEVICE, STN_ERR_COMM (what NCCL answers), STN_ERR_TIMEOUT, STN_ERR_PEER, STN_ERR_MEMORY. */
static inline stn_status stn_comm_create_nccl(stn_comm *control, const stn_nccl_options *options, stn_comm **out)
{
    return stn_nccl_open(NULL, control, options, out);
}

/** The same over the ranks of the caller's ncclComm_t, whose ranks and order are those of `control`. It is split: the
 *  caller's communicator is only asked, never aborted or destroyed. Where NCCL refuses the split, a new one is made of
 *  the same ranks. Its device is this rank's; another one in `options` is STN_ERR_ARGUMENT, as are other ranks.
 *  Collective over both. */
static inline stn_status stn_comm_from_nccl(struct ncclComm *comm, stn_comm *control, const stn_nccl_options *options,
                                            stn_comm **out)
{
    if (!comm)
        return STN_ERR_ARGUMENT;
    return stn_nccl_open(comm, control, options, out);
}

STN_END_DECLS

#endif
