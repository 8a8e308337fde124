/* Foreign libraries of the CUDA module: opened at first use, since some take a gigabyte, and each keeps its state with the device of a context.
 *
 * A library answers a question (has it code for this problem?) by a plan, which is made once, kept by the problem's
 * bytes and run many times. Where it refuses, a kernel of our own serves. All of it is used by the context's thread, on
 * which launchers run. */
#ifndef STNI_CORE_DEVICE_CUDA_LIBRARY_H
#define STNI_CORE_DEVICE_CUDA_LIBRARY_H

#include "core/device/cuda/module.h"

STN_BEGIN_DECLS

enum stni_cuda_library { STNI_CUDA_CUBLASLT, STNI_CUDA_CUDNN, STNI_CUDA_LIBRARIES };

/* A function that is wanted, and where its address goes. */
struct stni_cuda_symbol {
    const char *name;
    void *function; /* a pointer to a pointer to it */
};

/* Opens the first of the files (the list ends in NULL) that there is, for good, and finds all functions. 0 where that fails. */
int stni_cuda_load(const char *const *files, const struct stni_cuda_symbol *symbols, int n);

/* What a library keeps for the device of a queue; `state` NULL until it sets both. The state goes before the device does. */
struct stni_cuda_kept {
    void *state;
    void (*destroy)(void *state);
};

struct stni_cuda_kept *stni_cuda_kept(stn_queue *queue, enum stni_cuda_library library);

/* A plan begins with this; its problem follows at once. */
struct stni_cuda_plan {
    struct stni_cuda_plan *next;
    uint64_t hash; /* of the problem */
};

enum { STNI_CUDA_PLAN_LISTS = 256, STNI_CUDA_MOST_PLANS = 4096 };

/* Plans by problem; all zero is empty. */
struct stni_cuda_plans {
    struct stni_cuda_plan *list[STNI_CUDA_PLAN_LISTS];
    int n;
};

/* The plan of a problem of so many bytes, NULL where there is none. */
struct stni_cuda_plan *stni_cuda_plan_find(const struct stni_cuda_plans *plans, const void *problem, size_t bytes);

/* Adds a plan, whose problem is set. The caller empties a table that has grown to STNI_CUDA_MOST_PLANS. */
void stni_cuda_plan_add(struct stni_cuda_plans *plans, struct stni_cuda_plan *plan, size_t problem_bytes);

void stni_cuda_plans_clear(struct stni_cuda_plans *plans, void (*destroy)(struct stni_cuda_plan *plan));

STN_END_DECLS
#endif
