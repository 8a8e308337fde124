/* Communicators of processes over TCP, where no MPI has started them: torchrun, a scheduler that starts programs, a
 * shell. Two ranks of one machine talk through local sockets once they have met.
 *
 * All collectives are made of messages between two ranks, and reduced in rank order: the same bits as thread ranks
 * give. It moves memory of the host; of ranks on devices it is the control (nccl.h), or stages their data. Where ranks
 * are many or messages large on one machine, MPI is faster. */
#ifndef SHARDTENSOR_TCP_H
#define SHARDTENSOR_TCP_H

#include <shardtensor/comm.h>

STN_BEGIN_DECLS

typedef struct stn_tcp_options {
    size_t size;             /* sizeof(stn_tcp_options) */
    const char *host;        /* name or address of the machine of rank 0 */
    int port;                /* rank 0 listens at the first of port … port + 15 that is free, while the ranks meet; 1 to 65520 */
    int rank, ranks;         /* this process, and how many there are */
    const char *job;         /* a text of this job alone: who says another is not let in; NULL: "". Nothing is encrypted: for networks that are
                                one's own, as MPI's and NCCL's are */
    double deadline_seconds; /* for meeting, and until a context sets its own; 0: 300; negative: without end */
    char *error_text;        /* where a failure writes its message; NULL: nowhere */
    size_t error_text_size;  /* bytes */
} stn_tcp_options;

/** Makes a communicator of processes that know where rank 0 is: each calls it there, and is told where the others
 *  listen. Between each pair of ranks there are two connections then, local sockets (AF_UNIX, Linux's abstract
 *  namespace) where both are processes of one user in one network namespace, and TCP elsewhere or where one of the two
 *  cannot have these. A rank whose process ends, or whose connection does, is named by all that wait for it
 *  (STN_ERR_PEER), within the deadline where its machine is lost.
 *
 *  Collective over the `ranks` processes, in any order of coming. A process may have several, with texts of `job` of
 *  their own. `out` is written on success only.
 *  @return STN_ERR_ARGUMENT (also: another process is this rank), STN_ERR_MISMATCH (rank 0 has another number of
 *  ranks), STN_ERR_TIMEOUT (who had not come), STN_ERR_COMM (no port is free, a rank cannot be reached), STN_ERR_PEER,
 *  STN_ERR_MEMORY. */
STN_API stn_status stn_comm_create_tcp(const stn_tcp_options *options, stn_comm **out);

STN_END_DECLS

#endif
