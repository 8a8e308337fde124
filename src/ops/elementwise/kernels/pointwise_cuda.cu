/* Pointwise ops on CUDA devices: every op's slot has the same kernel, which goes to the list that the row is of. */
#include "core/box/box_convert_cuda.h"
#include "core/device/cuda/kernel.cuh"
#include "ops/elementwise/kernels/pointwise_cuda.h"
#include "ops/elementwise/unary_list.h"

namespace {

#define CASE(op, ...) case STNI_POINTWISE_##op:
#define UNARY_CASES(op, ...) CASE(op) CASE(op##_backward) CASE(op##_double_backward)

void launch_row_of(const struct stni_pointwise_args &args, stn_value_record *values, cudaStream_t stream)
{
    switch (args.op) {
        STNI_ARITHMETIC_LIST(CASE)
        return stni_pointwise_launch_arithmetic(args, values, stream);
        STNI_COMPARISON_LIST(CASE)
        return stni_pointwise_launch_comparison(args, values, stream);
        STNI_EXPONENTIAL_LIST(UNARY_CASES)
        return stni_pointwise_launch_exponential(args, values, stream);
        STNI_TRIGONOMETRY_LIST(UNARY_CASES)
        return stni_pointwise_launch_trigonometry(args, values, stream);
        STNI_ACTIVATION_LIST(UNARY_CASES)
        return stni_pointwise_launch_activation(args, values, stream);
    case STNI_POINTWISE_COUNT:
        break;
    }
}

#undef CASE
#undef UNARY_CASES

stn_box box_of(const struct stni_pointwise_args &args, const struct stni_pointwise_operand &operand)
{
    stn_box box = {};
    box.data = operand.data;
    box.ndim = args.ndim;
    for (int d = 0; d < args.ndim; d++) {
        box.shape[d] = args.shape[d];
        box.strides[d] = operand.strides[d];
    }
    return box;
}

/* The rows whose value is one of the operands as it is, where that and the result are of different dtypes. */
bool launch_conversion(const struct stni_pointwise_args &args, cudaStream_t stream)
{
    const struct stni_pointwise_operand &from = args.in[args.op == STNI_POINTWISE_copy ? 1 : 0];
    if ((args.op != STNI_POINTWISE_copy && args.op != STNI_POINTWISE_cast) || !from.data)
        return false;
    return stni_box_convert_launch(box_of(args, args.out), args.out.dtype, box_of(args, from), from.dtype, stream);
}

stn_status launch_pointwise(stn_queue *queue, const void *args)
{
    const struct stni_pointwise_args &a = *static_cast<const struct stni_pointwise_args *>(args);
    const cudaStream_t stream = static_cast<cudaStream_t>(stni_cuda_stream(queue));
    if (!launch_conversion(a, stream) && !stni_pointwise_launch_broadcast(a, stream))
        launch_row_of(a, stni_cuda_host()->queue_value_record(queue), stream);
    return stni_cuda_launched(queue);
}

}

#define KERNEL(slot) {sizeof(stn_kernel), slot, "cuda", ALL_DTYPES, sizeof(struct stni_pointwise_args), launch_pointwise, nullptr},
#define FORWARD(op) KERNEL(#op ".forward")
STNI_CUDA_KERNELS(pointwise) = {
    STNI_UNARY_LIST(STNI_UNARY_NAMES, FORWARD)
    FORWARD(add) FORWARD(add_) FORWARD(mul) FORWARD(mul_) FORWARD(conj) FORWARD(cast) FORWARD(copy_)
    FORWARD(fill_) FORWARD(sub) FORWARD(sub_)
    FORWARD(div) FORWARD(div_) FORWARD(neg) FORWARD(neg_) FORWARD(abs) FORWARD(abs_) FORWARD(abs_backward)
    FORWARD(sign) FORWARD(sign_) FORWARD(pow) FORWARD(pow_) FORWARD(lerp) FORWARD(lerp_) FORWARD(where)
    FORWARD(masked_fill) FORWARD(masked_fill_) FORWARD(maximum) FORWARD(minimum) FORWARD(clamp) FORWARD(clamp_)
    FORWARD(gate_maximum) FORWARD(gate_within) FORWARD(gate_halves) FORWARD(clamp_halves) FORWARD(gated)
    FORWARD(gated_backward) FORWARD(eq) FORWARD(ne) FORWARD(lt) FORWARD(le)
    FORWARD(gt) FORWARD(ge) FORWARD(logical_and) FORWARD(logical_or) FORWARD(logical_xor) FORWARD(logical_not)
    FORWARD(bitwise_and) FORWARD(bitwise_and_) FORWARD(bitwise_or) FORWARD(bitwise_or_) FORWARD(bitwise_xor)
    FORWARD(bitwise_xor_) FORWARD(bitwise_not) FORWARD(bitwise_not_)
    FORWARD(isnan) FORWARD(isinf) FORWARD(isfinite)
    FORWARD(addcmul) FORWARD(addcmul_) FORWARD(addcdiv) FORWARD(addcdiv_)
    FORWARD(floor_divide) FORWARD(floor_divide_) FORWARD(fmod) FORWARD(fmod_) FORWARD(remainder) FORWARD(remainder_)
    FORWARD(floor) FORWARD(floor_) FORWARD(ceil) FORWARD(ceil_) FORWARD(trunc) FORWARD(trunc_) FORWARD(round)
    FORWARD(round_) FORWARD(nan_to_num) FORWARD(nan_to_num_) FORWARD(real) FORWARD(imag) FORWARD(imag_backward)
    FORWARD(angle) FORWARD(angle_backward) FORWARD(complex) FORWARD(polar) FORWARD(atan2)
    FORWARD(atan2_backward) FORWARD(hypot) FORWARD(logaddexp) FORWARD(xlogy) FORWARD(xlogy_) FORWARD(copysign)
    FORWARD(copysign_) FORWARD(copysign_backward) FORWARD(logsumexp_backward) FORWARD(scaled_difference)
    KERNEL("addmm.add") KERNEL("addmm.scale") KERNEL("baddbmm.add") KERNEL("baddbmm.scale") KERNEL("linear.add")
    STNI_CUDA_KERNELS_END
};
