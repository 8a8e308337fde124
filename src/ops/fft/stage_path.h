/* The way of a tensor through a stage of Fourier transforms: which dims are transformed next, and in which layouts.
 * By metadata alone: the same on all ranks, whatever their devices take at once. */
#ifndef STNI_OPS_FFT_STAGE_PATH_H
#define STNI_OPS_FFT_STAGE_PATH_H

#include "core/shard/spec.h"

#include <shardtensor/op.h>

struct stni_stage_attrs {
    stn_ints dims;
    int64_t inverse;
    double scale, interior;
    int64_t n; /* restore: elements of a whole line */
    /* Of the result: for each mesh axis the dim that it cuts, -1: none. No entries: wherever the last exchange led.
     * n -1: as the input. */
    stn_ints placements;
};

/* What a line of n elements becomes along the dim that changes: the last one of `dims`, but for complex numbers. */
enum stni_stage_kind { STNI_STAGE_COMPLEX, STNI_STAGE_HALVE, STNI_STAGE_RESTORE };

static inline enum stni_stage_kind stni_stage_kind(const stn_op_call *call)
{
    return *(const enum stni_stage_kind *)call->arg;
}

/* The dim whose length changes, as a bit: reals are halved along it, or restored. `dims` has been checked. */
uint32_t stni_stage_changing(const stn_op_call *call);

int stni_stage_count(uint32_t dims);

/* At most `most` of the dims that are left, such as are whole and whose turn it is; 0 where there are none. The dim
 * that is restored comes last, with as many others as there may be: the first ones go before. */
uint32_t stni_stage_next_dims(const stn_op_call *call, uint32_t left, uint32_t cut, int most);

/* From a layout in which no dim's turn has come to one in which some is whole, and if possible all that are left. */
stn_status stni_stage_next_layout(const stn_op_call *call, uint32_t left, struct stni_layout *layout);

/* Refuses placements that are not those of a result on the input's mesh. */
stn_status stni_stage_check_placements(const stn_op_call *call, const stn_ints *placements);

/* From the input's layout to that of the result: as the input, as asked, or where the last exchange leads. Of the
 * result's shape; its dtype is the caller's to set. */
stn_status stni_stage_result_layout(const stn_op_call *call, struct stni_layout *layout);

/* The placements with which another stage leads to this layout. Pending sums, of which cotangents have none, are
 * Replicate. */
stn_ints stni_stage_placements(const struct stni_layout *layout);

#endif
