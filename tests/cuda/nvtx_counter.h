/* What the tool of NVTX that tests inject has counted, in all threads since the last reset. */
#ifndef STN_TESTS_CUDA_NVTX_COUNTER_H
#define STN_TESTS_CUDA_NVTX_COUNTER_H

struct nvtx_counter {
    int pushes, pops;
    int unmatched;   /* pops of a thread that had no range open */
    int elsewhere;   /* calls in another domain than "shardtensor" */
    int (*begun)(const char *name); /* how many ranges have this name */
    void (*reset)(void);
};

/* Exported as "nvtx_counter" by the library that NVTX_INJECTION64_PATH names. */
typedef struct nvtx_counter (*nvtx_counter_fn)(void);

#endif
