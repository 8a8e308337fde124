/* Why a device is not opened: no driver, one that is too old, an index beyond the last, a GPU that the module has no
 * code for or that another process has to itself. Asked before the first kernel, whose failure would say less. */
#include "core/device/cuda/current.h"
#include "core/device/cuda/module.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUDA's numbers of versions: 1000 times the major one, 10 times the minor one. */
#define NUMBERS(version) (version) / 1000, (version) % 1000 / 10

/* What the runtime says of its devices, and what the driver is. One of an older major version serves no runtime of
 * this one; of the same major version any does. */
static stn_status refuse_all(cudaError_t error, char *text, size_t text_size)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    cudaGetLastError(); /* kept, it would fail the first launch of whoever asks after us */
    if (driver == 0)
        snprintf(text, text_size, "no CUDA driver was found (%s)", cudaGetErrorString(error));
    else if (driver / 1000 < CUDART_VERSION / 1000)
        snprintf(text, text_size,
                 "the driver's CUDA version got %d.%d, wanted %d.0 or later: the module was built with CUDA %d.%d (%s)",
                 NUMBERS(driver), CUDART_VERSION / 1000, NUMBERS(CUDART_VERSION), cudaGetErrorString(error));
    else
        snprintf(text, text_size, "%s", cudaGetErrorString(error));
    return STN_ERR_DEVICE;
}

/* Machine code serves its own major architecture from its minor one on. What the last one in the list is compiled to
 * beside it, PTX, serves all later ones, where the driver knows the PTX of the compiler that wrote it. */
enum code { NO_CODE, PTX, MACHINE_CODE };

static enum code code_for(int architecture)
{
    long last = 0;
    for (const char *list = STNI_CUDA_ARCHS; *list; list += strcspn(list, ","), list += *list == ',') {
        last = strtol(list, NULL, 10);
        if (last / 10 == architecture / 10 && last <= architecture)
            return MACHINE_CODE;
    }
    return architecture >= last ? PTX : NO_CODE;
}

static cudaError_t capability_of(int index, int *major, int *minor)
{
    const cudaError_t error = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, index);
    return error == cudaSuccess ? cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, index) : error;
}

int stni_cuda_has_machine_code(int index)
{
    int major = 0, minor = 0;
    return capability_of(index, &major, &minor) == cudaSuccess && code_for(10 * major + minor) == MACHINE_CODE;
}

static stn_status check_code(int index, char *text, size_t text_size)
{
    int major = 0, minor = 0, driver = 0;
    cudaError_t error = capability_of(index, &major, &minor);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&driver);
    if (error != cudaSuccess)
        return refuse_all(error, text, text_size);
    const enum code code = code_for(10 * major + minor);
    if (code == MACHINE_CODE || (code == PTX && driver >= CUDART_VERSION))
        return STN_OK;
    if (code == NO_CODE)
        snprintf(text, text_size,
                 "the GPU's compute capability got %d.%d, wanted one that the module has code for (-Dnvcc_archs=%s)",
                 major, minor, STNI_CUDA_ARCHS);
    else
        snprintf(text, text_size,
                 "the driver's CUDA version got %d.%d, wanted %d.%d or later: for compute capability %d.%d the module "
                 "has PTX alone "
                 "(-Dnvcc_archs=%s)",
                 NUMBERS(driver), NUMBERS(CUDART_VERSION), major, minor, STNI_CUDA_ARCHS);
    return STN_ERR_DEVICE;
}

/* Whether this process may use the GPU: in compute mode "exclusive process" it is the first one's. Where it may not be
 * made current, work would go to the GPU that is. */
static stn_status check_admission(int index, char *text, size_t text_size)
{
    int before = index;
    cudaGetDevice(&before);
    const cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess)
        stni_cuda_go_back(index, before);
    return error == cudaSuccess ? STN_OK : refuse_all(error, text, text_size);
}

stn_status stni_cuda_device_check(int index, char *text, size_t text_size)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return refuse_all(error, text, text_size);
    if (index < count) {
        const stn_status status = check_code(index, text, text_size);
        return status == STN_OK ? check_admission(index, text, text_size) : status;
    }
    snprintf(text, text_size, "index got %d, wanted less than %d, the number of CUDA devices", index, count);
    return STN_ERR_DEVICE;
}
