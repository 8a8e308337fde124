/* Kernels of remaps (remap.h), for the slots of the ops that use them. */
#ifndef STNI_OPS_EXCHANGE_REMAP_KERNEL_H
#define STNI_OPS_EXCHANGE_REMAP_KERNEL_H

#include <shardtensor/op.h>

/* Every element of the box = `value`, of `element_size` bytes. */
struct stni_remap_fill_args {
    stn_box box;
    unsigned char value[16];
    size_t element_size;
};

/* dst += src. Where a stride of dst is 0, the elements along that dim are added up, in order. */
struct stni_remap_add_args {
    stn_box dst, src;
    stn_dtype dtype;
};

stn_status stni_remap_fill_cpu(stn_queue *queue, const void *args);
stn_status stni_remap_add_cpu(stn_queue *queue, const void *args);

/* The first slots of an op that remaps, and the CPU's kernels for them; most such ops have no others. */
enum { STNI_REMAP_FILL, STNI_REMAP_ADD, STNI_REMAP_SLOTS };
extern const stn_kernel_slot stni_remap_slots[STNI_REMAP_SLOTS];
extern const stn_kernel stni_remap_kernels[STNI_REMAP_SLOTS];

#endif
