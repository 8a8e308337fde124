/* What a write makes of an element of the table and a value, for C, C++ and CUDA compilers. Included once per type that
 * is computed in, after access_order_tmpl.h or access_complex_tmpl.h, with
 *   ACC   the type     NAME(f)   f of it */
#ifndef NAME /* read alone */
#include "ops/index/access_order_tmpl.h"
#endif

/* The one value where there are no values: the number, or what a mode begins with. */
STNI_INLINE ACC NAME(constant_of)(const struct stni_access_write_args *a)
{
    if (a->mode == STNI_ACCESS_RESET)
        return NAME(identity)(a->reset_for);
    return a->value.kind == STN_NUMBER_FLOAT ? (ACC)a->value.f : (ACC)a->value.i;
}

STNI_INLINE ACC NAME(scale)(const stn_number *scale)
{
    return scale->kind == STN_NUMBER_NONE ? (ACC)1 : scale->kind == STN_NUMBER_FLOAT ? (ACC)scale->f : (ACC)scale->i;
}

STNI_KERNEL_INLINE ACC NAME(joined)(enum stni_access_mode mode, ACC t, ACC v, ACC scale)
{
    switch (mode) {
    case STNI_ACCESS_ADD:
        return (ACC)(t + v * scale);
    case STNI_ACCESS_MUL:
        return (ACC)(t * v);
    case STNI_ACCESS_MAX:
    case STNI_ACCESS_MIN:
        return NAME(extreme)(mode, t, v);
    case STNI_ACCESS_SET:
    case STNI_ACCESS_RESET:
        break;
    }
    return v;
}
