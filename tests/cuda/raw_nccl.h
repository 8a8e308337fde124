/* NCCL as programs call it, without the library: found by name, so that this builds without CUDA. The stand-in has it
 * in its module, a GPU in libnccl.so.2. Functions answer 0 or an error of NCCL's (of the runtime's: cudaSetDevice). */
#ifndef STN_TESTS_CUDA_RAW_NCCL_H
#define STN_TESTS_CUDA_RAW_NCCL_H

#include <stddef.h>

struct ncclComm;

struct raw_nccl_id {
    char internal[128];
};

/* Of enum ncclDataType_t and enum ncclRedOp_t. */
enum { RAW_NCCL_FLOAT = 7, RAW_NCCL_SUM = 0 };

/* Entries have the names of the functions. */
struct raw_nccl {
    int (*cudaSetDevice)(int device);
    int (*ncclGetUniqueId)(struct raw_nccl_id *id);
    int (*ncclCommInitRank)(struct ncclComm **comm, int ranks, struct raw_nccl_id id, int rank);
    int (*ncclCommDestroy)(struct ncclComm *comm);
    int (*ncclAllReduce)(const void *send, void *recv, size_t count, int type, int op, struct ncclComm *comm,
                         void *stream);
    int (*ncclAllGather)(const void *send, void *recv, size_t count, int type, struct ncclComm *comm, void *stream);
    int (*ncclSend)(const void *send, size_t count, int type, int peer, struct ncclComm *comm, void *stream);
    int (*ncclRecv)(void *recv, size_t count, int type, int peer, struct ncclComm *comm, void *stream);
    int (*ncclGroupStart)(void);
    int (*ncclGroupEnd)(void);
};

/* Finds all of them, once, by the module of `folder`; NULL where one is not there. */
const struct raw_nccl *raw_nccl(const char *folder);

#endif
