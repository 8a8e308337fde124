/* Tiles of strided operands of any dtype, for CPU kernels that compute on dense rows of one type. */
#ifndef STNI_OPS_CPU_TILE_H
#define STNI_OPS_CPU_TILE_H

#include "core/box/box_kernel.h"
#include "ops/cpu/convert.h"

/* What a tile is moved with between an operand and dense rows, whose dtypes are `to` and `from` or the other way
 * round. */
struct stni_tile_kernels {
    stni_elements_fn elements;   /* of from_size */
    stni_transpose_fn transpose; /* of to_size */
    stni_convert_fn convert;
    int64_t to_size, from_size; /* bytes of an element */
    int same_dtype;
};

struct stni_tile_kernels stni_tile_kernels(stn_dtype to, stn_dtype from, enum stni_isa isa);

/* Brings a tile to dense rows (to_col is 1). Where the operand's elements are not contiguous they are gathered
 * first, or transposed, and then converted. `ahead` is heeded wherever the operand is read by whole cache lines. */
void stni_tile_read(const struct stni_tile_kernels *kernels, void *to, const void *from, const struct stni_tile *tile);

/* Brings dense rows (from_col is 1) to a tile. */
void stni_tile_write(const struct stni_tile_kernels *kernels, void *to, const void *from, const struct stni_tile *tile);

#endif
