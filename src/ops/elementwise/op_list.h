/* The pointwise ops' rows of the op table: unary functions, which have more facts (unary_list.h), and all others. */
#ifndef STNI_OPS_ELEMENTWISE_OP_LIST_H
#define STNI_OPS_ELEMENTWISE_OP_LIST_H

#include "ops/elementwise/unary_list.h"

#define STNI_POINTWISE_OP_LIST(X) \
    STNI_UNARY_LIST(STNI_UNARY_NAMES, X) \
    X(add) \
    X(add_) \
    X(mul) \
    X(mul_) \
    X(conj) \
    X(cast) \
    X(clone) \
    X(copy_) \
    X(fill_) \
    X(sub) \
    X(sub_) \
    X(div) \
    X(div_) \
    X(neg) \
    X(neg_) \
    X(abs) \
    X(abs_) \
    X(abs_backward) \
    X(sign) \
    X(sign_) \
    X(pow) \
    X(pow_) \
    X(lerp) \
    X(lerp_) \
    X(where) \
    X(masked_fill) \
    X(masked_fill_) \
    X(maximum) \
    X(minimum) \
    X(clamp) \
    X(clamp_) \
    X(gate_equal) \
    X(gate_greater) \
    X(gate_maximum) \
    X(eq) \
    X(ne) \
    X(lt) \
    X(le) \
    X(gt) \
    X(ge) \
    X(logical_and) \
    X(logical_or) \
    X(logical_xor) \
    X(logical_not) \
    X(isnan) \
    X(isfinite) \
    X(addcmul) \
    X(addcmul_) \
    X(addcdiv) \
    X(addcdiv_) \
    X(floor_divide) \
    X(floor_divide_) \
    X(fmod) \
    X(fmod_) \
    X(remainder) \
    X(remainder_) \
    X(floor) \
    X(floor_) \
    X(ceil) \
    X(ceil_) \
    X(trunc) \
    X(trunc_) \
    X(round) \
    X(round_) \
    X(nan_to_num) \
    X(nan_to_num_) \
    X(real) \
    X(imag) \
    X(imag_backward) \
    X(angle) \
    X(angle_backward) \
    X(complex) \
    X(polar) \
    X(atan2) \
    X(hypot) \
    X(prelu) \
    X(glu) \
    X(logsumexp_backward)

#endif
