/* Our declaration of DLPack against an installed header, as far as that goes: Debian's 0.6 has no bool and no
 * versioned form. */
#include "harness.h"

#include "core/tensor/dlpack.h"

#include <dlpack/dlpack.h>

static void tensors_are_laid_out_as_in_the_installed_header(void)
{
    CHECK_I64(sizeof(struct stni_dl_tensor), sizeof(DLTensor));
    CHECK_I64(offsetof(struct stni_dl_tensor, data), offsetof(DLTensor, data));
    CHECK_I64(offsetof(struct stni_dl_tensor, device), offsetof(DLTensor, device));
    CHECK_I64(offsetof(struct stni_dl_tensor, ndim), offsetof(DLTensor, ndim));
    CHECK_I64(offsetof(struct stni_dl_tensor, dtype), offsetof(DLTensor, dtype));
    CHECK_I64(offsetof(struct stni_dl_tensor, shape), offsetof(DLTensor, shape));
    CHECK_I64(offsetof(struct stni_dl_tensor, strides), offsetof(DLTensor, strides));
    CHECK_I64(offsetof(struct stni_dl_tensor, byte_offset), offsetof(DLTensor, byte_offset));
    CHECK_I64(sizeof(struct stni_dl_device), sizeof(DLDevice));
    CHECK_I64(offsetof(struct stni_dl_device, device_id), offsetof(DLDevice, device_id));
    CHECK_I64(sizeof(struct stni_dl_data_type), sizeof(DLDataType));
    CHECK_I64(offsetof(struct stni_dl_data_type, bits), offsetof(DLDataType, bits));
    CHECK_I64(offsetof(struct stni_dl_data_type, lanes), offsetof(DLDataType, lanes));
}

static void codes_are_those_of_the_installed_header(void)
{
    CHECK_I64(STNI_DL_INT, kDLInt);
    CHECK_I64(STNI_DL_UINT, kDLUInt);
    CHECK_I64(STNI_DL_FLOAT, kDLFloat);
    CHECK_I64(STNI_DL_BFLOAT, kDLBfloat);
    CHECK_I64(STNI_DL_COMPLEX, kDLComplex);
    CHECK_I64(STNI_DL_CPU, kDLCPU);
    CHECK_I64(STNI_DL_CUDA, kDLCUDA);
    CHECK_I64(STNI_DL_ROCM, kDLROCM);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"tensors_are_laid_out_as_in_the_installed_header", tensors_are_laid_out_as_in_the_installed_header},
        {"codes_are_those_of_the_installed_header", codes_are_those_of_the_installed_header},
    };
    return TEST_MAIN(argc, argv, cases);
}
