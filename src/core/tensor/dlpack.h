/* DLPack 1.x, the layout by which frameworks hand each other tensors, declared by us: Debian's header is 0.6,
 * without bool and without the versioned form. Only the outermost struct carries DLPack's own name, because the
 * public functions speak of it. */
#ifndef STNI_CORE_TENSOR_DLPACK_H
#define STNI_CORE_TENSOR_DLPACK_H

#include <stdint.h>

enum { STNI_DLPACK_MAJOR = 1, STNI_DLPACK_MINOR = 0 };

enum stni_dl_device_type { STNI_DL_CPU = 1, STNI_DL_CUDA = 2, STNI_DL_ROCM = 10 };

enum stni_dl_type_code {
    STNI_DL_INT = 0,
    STNI_DL_UINT = 1,
    STNI_DL_FLOAT = 2,
    STNI_DL_BFLOAT = 4,
    STNI_DL_COMPLEX = 5,
    STNI_DL_BOOL = 6
};

enum { STNI_DL_READ_ONLY = 1 }; /* of flags; further bits change nothing for a reader */

struct stni_dl_device {
    int32_t device_type, device_id;
};

struct stni_dl_data_type {
    uint8_t code, bits;
    uint16_t lanes;
};

struct stni_dl_tensor {
    void *data;
    struct stni_dl_device device;
    int32_t ndim;
    struct stni_dl_data_type dtype;
    int64_t *shape;
    int64_t *strides; /* elements; NULL: row-major */
    uint64_t byte_offset;
};

struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor; /* another major: nothing but this and the deleter may be read */
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    struct stni_dl_tensor dl_tensor;
};

#endif
