/* Searches for near points on the CPU, compiled once per instruction set. */
#include "ops/points/neighbours_kernel.h"

#include <tgmath.h>

enum {
    DEPTH = 64,          /* of a tree of as many leaves as there are numbers */
    PACKET = 16,         /* queries */
    TOGETHER = 4,        /* of them, which read a point at once */
    PACKET_COLUMNS = 10, /* from which on packets are faster */
};

#define TEMPLATE "ops/points/block_box_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#define TEMPLATE "ops/points/neighbours_search_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#define TEMPLATE "ops/points/neighbours_packet_tmpl.h"
#include "core/box/each_float.h"

stn_status STNI_ISA_NAME(stni_near_search)(stn_queue *queue, const void *args)
{
    static void (*const of[])(const struct stni_near_search_args *) = {search_f32, search_f64, search_bf16, search_f16};
    const struct stni_near_search_args *a = args;
    (void)queue;
    of[a->shape.dtype](a);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_near_finish)(stn_queue *queue, const void *args)
{
    static void (*const of[])(const struct stni_near_finish_args *) = {finish_f32, finish_f64, finish_bf16, finish_f16};
    const struct stni_near_finish_args *a = args;
    (void)queue;
    of[a->dtype](a);
    return STN_OK;
}
