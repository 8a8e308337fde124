/* What the stand-in's NCCL is told to do. Tests find these functions in the module by their names. */
#ifndef STANDIN_NCCL_SCRIPT_H
#define STANDIN_NCCL_SCRIPT_H

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of a call. */
enum standin_nccl_fate {
    STANDIN_NCCL_ANSWERS, /* the call itself answers `result` */
    STANDIN_NCCL_LATER,   /* it answers success, never happens, and the communicator's state is `result` from then on */
    STANDIN_NCCL_LOST     /* it answers success (in progress where it is not of a stream) and never happens */
};

/* One line of the script: the `call`-th call, from 0, of `function` by rank `rank` of its communicator after this was
 * told. At most 16. */
struct standin_nccl_line {
    int rank;
    const char *function; /* such as "ncclAllReduce", or "ncclAllReduce of a graph" where one is launched that has it; a literal */
    int call;
    enum standin_nccl_fate fate;
    int result; /* a ncclResult_t */
};
void standin_nccl_tell(const struct standin_nccl_line *line);

/* Each non-blocking call is in progress for so many polls. */
void standin_nccl_delay(int polls);

/* Forgets the script; counts begin anew. */
void standin_nccl_reset(void);

/* How many communicators there are, and how many calls of `function` were made by all ranks since the reset. */
int standin_nccl_live(void);
int standin_nccl_calls(const char *function);

/* What a stream was made with, as CUDA counts: lower goes first. */
int standin_stream_priority(void *stream);

#ifdef __cplusplus
}
#endif
#endif
