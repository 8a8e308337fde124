/* Which GPUs a process uses is known to the driver alone: libraries beside this one begin contexts too. */
#include "core/device/cuda/current.h"

#include "core/device/cuda/library.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KNOWN = 64 };

/* The driver's functions, in its own types: a device and an answer are int there, too. */
static struct {
    int (*device_get)(int *device, int ordinal);
    int (*context_state)(int device, unsigned *flags, int *is_active);
} driver;

static int has_driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_driver(void)
{
    static const char *const files[] = {"libcuda.so.1", NULL};
    const struct stni_cuda_symbol symbols[] = {
        {"cuDeviceGet", &driver.device_get},
        {"cuDevicePrimaryCtxGetState", &driver.context_state},
    };
    has_driver = stni_cuda_load(files, symbols, sizeof symbols / sizeof *symbols);
}

/* A context that has begun stays; where the driver cannot be asked there may be one. */
static int has_context(int gpu)
{
    static atomic_uint_fast64_t begun;
    unsigned flags;
    int device = 0, is_active = 0;
    if (gpu < KNOWN && atomic_load(&begun) >> gpu & 1)
        return 1;
    pthread_once(&once, find_driver);
    if (has_driver && driver.device_get(&device, gpu) == 0 &&
        driver.context_state(device, &flags, &is_active) == 0 && !is_active)
        return 0;
    if (gpu < KNOWN)
        atomic_fetch_or(&begun, (uint_fast64_t)1 << gpu);
    return 1;
}

int stni_cuda_make_current(int gpu)
{
    int before = gpu;
    if (cudaGetDevice(&before) == cudaSuccess && before != gpu)
        cudaSetDevice(gpu);
    return before;
}

/* A GPU that another process has to itself refuses to be current. */
void stni_cuda_go_back(int gpu, int before)
{
    if (before != gpu && has_context(before) && cudaSetDevice(before) != cudaSuccess)
        cudaGetLastError();
}
