/* The kernels that the module launches, so that all can be loaded at once: STNI_LAUNCH lists each one that its source
 * may put on a stream, before the program begins. */
#ifndef STNI_CORE_DEVICE_CUDA_KNOWN_KERNELS_H
#define STNI_CORE_DEVICE_CUDA_KNOWN_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

struct stni_cuda_known_kernel {
    const void *kernel;
    const struct stni_cuda_known_kernel *next;
#ifdef __cplusplus
    explicit stni_cuda_known_kernel(const void *kernel);
#endif
};

extern const struct stni_cuda_known_kernel *stni_cuda_known_kernels;

/* Loads all kernels for the current GPU, once in a process: later calls do nothing. A kernel is else loaded when it is
 * launched for the first time, for which CUDA may wait until the GPU is idle; behind a collective that waits for a lost
 * rank it never is. No error is kept by the runtime: what cannot be loaded says so when it is launched. Where the
 * environment has CUDA_MODULE_LOADING=LAZY, nothing is loaded. */
void stni_cuda_load_kernels(void);

#ifdef __cplusplus
}

inline stni_cuda_known_kernel::stni_cuda_known_kernel(const void *given) : kernel(given), next(stni_cuda_known_kernels)
{
    stni_cuda_known_kernels = this;
}

namespace {

template <auto KERNEL> struct stni_launched {
    static inline const stni_cuda_known_kernel listed{reinterpret_cast<const void *>(KERNEL)};
};

}

#define STNI_LIST_KERNEL(kernel) (static_cast<void>(&stni_launched<(kernel)>::listed))
#endif

#endif
