/* What the resampling kernel needs. */
#include "ops/cpu/nontemporal_blocks.h"
#include "ops/resample/resample_kernel.h"

int64_t stni_resample_terms(const struct stni_resample_args *args, int d)
{
    int64_t n_target = stni_range_length(args->target[d]), n_source = stni_range_length(args->source[d]);
    if (args->dim[d].mode == STNI_RESAMPLE_AREA)
        return n_target + n_source; /* cells of neighbours share one element at most */
    return stni_resample_most_reads(&args->dim[d]) * (args->transposed ? n_source : n_target);
}

/* Tables of weights, then totals of a dim or a plane, a row and a line of sums. */
size_t stni_resample_workspace(stn_queue *queue, const void *raw)
{
    (void)queue;
    const struct stni_resample_args *args = raw;
    int64_t terms = 0, targets = 0, row = stni_range_length(args->source[2]) * args->width;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++) {
        terms += stni_resample_terms(args, d);
        targets += stni_range_length(args->target[d]) + 1;
        terms += stni_range_length(args->transposed ? args->source[d] : args->target[d]);
    }
    return (size_t)(terms + 2 * targets + row * stni_range_length(args->source[1]) + row + args->width + 64) *
           sizeof(double);
}

/* Sources below these bytes are likely to be in a cache, where prefetching would cost a tenth of the time. */
enum { NEAR_BYTES = 1 << 20 };

size_t stni_resample_ahead(const struct stni_resample_args *a)
{
    int64_t n = (int64_t)stn_dtype_size(a->dtype) * a->width;
    for (int d = 0; d < STNI_RESAMPLE_DIMS; d++)
        n *= stni_range_length(a->source[d]);
    for (int d = 0; d < STNI_RESAMPLE_OUTER; d++)
        n *= a->n_outer[d];
    return n < NEAR_BYTES ? 0 : STNI_BLOCK_AHEAD;
}
