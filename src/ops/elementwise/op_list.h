/* The pointwise ops' rows of the op table: curves, which have more facts (curve_list.h), and all others. */
#ifndef STNI_OPS_ELEMENTWISE_OP_LIST_H
#define STNI_OPS_ELEMENTWISE_OP_LIST_H

#include "ops/elementwise/curve_list.h"

#define STNI_POINTWISE_OP_LIST(X) \
    STNI_CURVE_LIST(STNI_CURVE_NAMES, X) \
    X(add) \
    X(add_) \
    X(mul) \
    X(mul_) \
    X(conj) \
    X(cast) \
    X(sub) \
    X(sub_) \
    X(div) \
    X(div_) \
    X(neg) \
    X(abs) \
    X(abs_backward) \
    X(sign) \
    X(pow) \
    X(lerp) \
    X(lerp_) \
    X(where) \
    X(masked_fill) \
    X(maximum) \
    X(minimum) \
    X(clamp) \
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
    X(addcdiv) \
    X(floor_divide) \
    X(fmod) \
    X(remainder) \
    X(floor) \
    X(ceil) \
    X(trunc) \
    X(round) \
    X(nan_to_num) \
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
    X(glu)

#endif
