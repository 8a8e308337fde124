/* Foreign libraries of the CUDA module: opened at first use, since some take a gigabyte, and each keeps its state with
 * the device of a context.
 *
 * A library answers a question (has it code for this problem?) by a plan, which is made once, kept by the problem's
 * bytes and run many times. Where it refuses, a kernel of our own serves. All of it is used by the context's thread,
 * on which launchers run. */
#ifndef STNI_CORE_DEVICE_CUDA_LIBRARY_H
#define STNI_CORE_DEVICE_CUDA_LIBRARY_H

#include "core/device/cuda/module.h"

#include <cuda_runtime_api.h>

STN_BEGIN_DECLS

/* Memory may be asked for and given back, a library opened, its kernels loaded and another step thrown away while a
 * queue of this thread records: that is no work of a stream, but the runtime wants to be told so. Sets what the thread
 * may do meanwhile, and returns what it might before. */
enum cudaStreamCaptureMode stni_cuda_permit_in_capture(enum cudaStreamCaptureMode mode);

enum stni_cuda_library { STNI_CUDA_CUBLASLT, STNI_CUDA_CUDNN, STNI_CUDA_CUFFT, STNI_CUDA_LIBRARIES };

/* A function that is wanted, and where its address goes. */
struct stni_cuda_symbol {
    const char *name;
    void *function; /* a pointer to a pointer to it */
};

/* Opens the first of the files (the list ends in NULL) that there is, for good, and finds all functions. 0 where
 * that fails. */
int stni_cuda_load(const char *const *files, const struct stni_cuda_symbol *symbols, int n);

/* A plan begins with this; its problem follows at once. */
struct stni_cuda_plan {
    struct stni_cuda_plan *next;
    uint64_t hash; /* of the problem */
    void *state;   /* of its library */
    int32_t refused, recorded;
};

enum { STNI_CUDA_PLAN_LISTS = 256, STNI_CUDA_MOST_PLANS = 4096 };

/* Plans by problem; all zero is empty. Those that a recording has used stay until the library is closed: graphs read
 * their tables each time that they are launched. */
struct stni_cuda_plans {
    struct stni_cuda_plan *list[STNI_CUDA_PLAN_LISTS];
    int n; /* of those that may go */
};

/* What is the same for all contexts of a library. Its state is made of zeros and begins with a struct stni_cuda_opened;
 * its plans are made of zeros too. */
struct stni_cuda_planner {
    enum stni_cuda_library library;
    const char *name; /* as stn_context_options.without has it */
    size_t state_bytes, plan_bytes, problem_bytes;
    int (*open)(void *state); /* 0: the library is not there, or does not begin to work */
    void (*close)(void *state);
    stn_status (*make)(struct stni_cuda_plan *plan); /* what it fails for is refused */
    void (*destroy)(struct stni_cuda_plan *plan);
    int allocates; /* plans have memory of the device, so that none are made while the queue records */
};

struct stni_cuda_opened {
    const struct stni_cuda_planner *planner;
    void (*destroy)(struct stni_cuda_opened *opened); /* closes it and gives all up */
    int is_open;
    struct stni_cuda_plans plans;
};

/* What a library keeps for the device of a queue: NULL until it sets it, destroyed before the device goes. */
struct stni_cuda_opened **stni_cuda_kept(stn_queue *queue, enum stni_cuda_library library);

/* Finds or makes the plan of a problem, and opens the library before the first. STN_ERR_UNSUPPORTED where it is not
 * there, where the context does without, and where it refuses, which is remembered. */
stn_status stni_cuda_plan_of(stn_queue *queue, const struct stni_cuda_planner *planner, const void *problem,
                             struct stni_cuda_plan **out);

STN_END_DECLS
#endif
