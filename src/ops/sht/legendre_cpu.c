/* Sums of Legendre functions on the CPU, compiled once per instruction set. The functions of an order are made once for
 * all fields, in f64, and kept in the dtype's precision while the fields go by. */
#include "ops/sht/legendre_direct.h"

#define TEMPLATE "ops/sht/legendre_tmpl.h"
#include "core/box/each_compute.h"

stn_status STNI_ISA_NAME(stni_legendre_analysis)(stn_queue *queue, const void *args)
{
    const struct stni_legendre_args *a = args;
    (void)queue;
    if (a->dtype == STN_DTYPE_C128)
        analyse_f64(a);
    else
        analyse_f32(a);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_legendre_synthesis)(stn_queue *queue, const void *args)
{
    const struct stni_legendre_args *a = args;
    (void)queue;
    if (a->dtype == STN_DTYPE_C128)
        synthesise_f64(a);
    else
        synthesise_f32(a);
    return STN_OK;
}
