/* Rows become a block on the CPU, in the order of a tree; compiled once per instruction set. */
#include "ops/points/block_kernel.h"

#include <string.h>
#include <tgmath.h>

#define TEMPLATE "ops/points/block_tree_tmpl.h"
#include "core/box/each_float.h"

stn_status STNI_ISA_NAME(stni_block_pack)(stn_queue *queue, const void *args)
{
    static void (*const of[])(const struct stni_block_pack_args *) = {pack_f32, pack_f64, pack_bf16, pack_f16};
    const struct stni_block_pack_args *a = args;
    (void)queue;
    of[a->shape.dtype](a);
    return STN_OK;
}
