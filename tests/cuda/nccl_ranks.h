/* Thread ranks with a communicator of NCCL each, rank r on device r: of the stand-in, or of what the module in
 * STN_TEST_CUDA_FOLDER has. And the stand-in's script, which is inside of its module. */
#ifndef STN_TESTS_CUDA_NCCL_RANKS_H
#define STN_TESTS_CUDA_NCCL_RANKS_H

#include "cuda/standin/nccl_script.h"

#include <shardtensor/nccl.h>

#include <pthread.h>

/* The functions of nccl_script.h in the module under test. */
struct nccl_script {
    void (*tell)(const struct standin_nccl_line *line);
    void (*delay)(int polls);
    void (*reset)(void);
    int (*live)(void);
    int (*calls)(const char *function);
    int (*priority)(void *stream);
    int (*has_context)(int gpu);
    int (*loaded_by_launches)(void);
    void (*break_gpu)(int gpu);
};

/* Ends the program where there is no script: such a case is not for GPUs. */
const struct nccl_script *nccl_script(void);

/* A line of the script, by which NCCL answers "unhandled system error". */
void nccl_tell(int rank, const char *function, int call, enum standin_nccl_fate fate);

/* Of a GPU's NCCL there is none, nor where STN_TEST_NCCL_SCRIPT is "none". */
int nccl_is_scripted(void);

/* Where there is a script it is forgotten, and counts begin anew; calls are those of all ranks since then. Without one
 * nobody counts: calls is -1, and the two do not check. */
void nccl_reset(void);
int nccl_calls(const char *function);
void nccl_check_calls(const char *function, int64_t wanted);
void nccl_check_none_is_left(void);

/* GPUs before the first rank's have no context: nothing that ranks do has begun to use one. */
void nccl_check_others_are_unused(void);

void nccl_check_holds(const char *text, const char *part);

/* The folder of the module under test. */
const char *nccl_folder(void);

/* Whether so many ranks have a device each; where they have not, the case goes without them. */
int nccl_fits(int ranks);

/* So many ranks, or as many as there are devices. */
int nccl_at_most(int ranks);

/* A deadline that a test lets pass, in seconds. Between GPUs NCCL takes some until ranks are connected. */
double nccl_short_deadline(void);

/* Whether controls are of threads, or over TCP as processes have them: where STN_TEST_CONTROL is "tcp", or a test says
 * so. */
int nccl_meets_over_tcp(void);
void nccl_meet_over_tcp(int does);

/* This rank's control over TCP; `job` tells those of as many ranks apart. */
stn_comm *nccl_meet(int rank, int ranks, int job);

/* A communicator over the ranks of `control`, which it owns on success; `text` (256 bytes) gets the message of a
 * failure. */
stn_status nccl_create(stn_comm *control, double deadline, int rank_order, stn_comm **out, char *text);

/* The same, which fails the test where it fails, and destroys control. */
stn_comm *nccl_open(stn_comm *control, double deadline, int rank_order);

/* One rank of nccl_run. Body and arg are the caller's. */
struct nccl_rank {
    stn_context *context; /* on its device; its communicator is NCCL's */
    stn_comm *comm;
    stn_comm *control; /* over which it was made; nccl_run_controls: comm is it */
    int rank, size;
    void *arg;
};
typedef void (*nccl_body)(struct nccl_rank *rank);

/* Runs `body` on n threads with a context each, or returns 0 where nccl_fits says no. */
int nccl_run(int n, double deadline, int rank_order, nccl_body body, void *arg);

/* Contexts of later runs take their devices' memory from it, whose `arg` is each one's GPU; NULL: from the module. */
void nccl_lend(const stn_device_allocator *allocator);

/* Runs `body` on n threads that have only a control each (rank->comm), which the body destroys or gives away. */
void nccl_run_controls(int n, nccl_body body, void *arg);

/* One rank holds others back until it opens the gate, or one of them has lost its patience: all go on then. */
struct nccl_gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int is_open, was_late;
};
void nccl_gate_init(struct nccl_gate *gate);
void nccl_gate_fini(struct nccl_gate *gate);
void nccl_gate_open(struct nccl_gate *gate);
void nccl_gate_pass(struct nccl_gate *gate, double patience_seconds);

#endif
