/* Names of foreign libraries. */
#include "core/context/context.h"
#include "core/context/module.h"
#include "core/device/device.h"

#include <string.h>

static const char *const names_of[STNI_LIBRARY_COUNT] = {
    [STNI_LIBRARY_ONEDNN] = "onednn", [STNI_LIBRARY_FFTW] = "fftw",   [STNI_LIBRARY_CUBLASLT] = "cublaslt",
    [STNI_LIBRARY_CUDNN] = "cudnn",   [STNI_LIBRARY_CUFFT] = "cufft", [STNI_LIBRARY_NCCL] = "nccl",
};

/* The library of a name of `length` characters, STNI_LIBRARY_COUNT where there is none. */
static int find(const char *name, size_t length)
{
    int library = 0;
    while (library < STNI_LIBRARY_COUNT &&
           (strlen(names_of[library]) != length || memcmp(names_of[library], name, length) != 0))
        library++;
    return library;
}

stn_status stni_foreign_read(const char *names, unsigned *without, struct stni_error *error)
{
    *without = 0;
    while (names != NULL && *names != '\0') {
        size_t length = strcspn(names, ",");
        int library = find(names, length);
        if (library == STNI_LIBRARY_COUNT)
            return stni_error_set(error, STN_ERR_ARGUMENT,
                                  "context: without got '%.*s', wanted names of onednn, fftw, cublaslt, cudnn, cufft, "
                                  "nccl with commas between them",
                                  (int)(length < 64 ? length : 64), names);
        *without |= 1u << library;
        names += length;
        names += *names == ',' && names[1] != '\0';
    }
    return STN_OK;
}

int stni_foreign_without(stn_queue *queue, const char *name, stn_library_use use)
{
    if (!queue->context)
        return 0;
    struct stni_foreign *foreign = &queue->context->foreign;
    const int library = find(name, strlen(name));
    if (library == STNI_LIBRARY_COUNT)
        return 0;
    if (!stni_foreign_has(foreign, (enum stni_library)library))
        return 1;
    struct stni_refusals *refusals = &foreign->refusals[library];
    return use == STN_LIBRARY_QUESTION ? stni_refuses(&refusals->question)
                                       : use == STN_LIBRARY_RUN && stni_refuses(&refusals->run);
}
