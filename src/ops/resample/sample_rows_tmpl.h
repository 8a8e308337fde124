/* Included once per dtype by sample_cpu.c. */
#ifndef NAME /* read alone */
#include "ops/resample/sample_kernel.h"
#include "core/box/as_f32.h"
#endif

/* What n points read: reads[k] of point i is the element at offset[k][i] of a channel, -1 for none, times
 * weight[k][i]. */
struct NAME(block) {
    int n, n_reads, all_here; /* all_here: no offset is -1 */
    int64_t to[STNI_SAMPLE_BLOCK]; /* where the points' results go */
    int64_t offset[STNI_SAMPLE_READS][STNI_SAMPLE_BLOCK];
    ACC weight[STNI_SAMPLE_READS][STNI_SAMPLE_BLOCK];
};

static void NAME(find)(const struct stni_sample_args *a, const T *grid, int64_t first, struct NAME(block) *out)
{
    out->all_here = 1;
    for (int i = 0; i < out->n; i++) {
        struct stni_sample_taps taps[STNI_SAMPLE_DIMS];
        int64_t at[STNI_SAMPLE_DIMS];
        double coordinate[STNI_SAMPLE_DIMS] = {0};
        stni_sample_point(a, first + i, at);
        out->to[i] = stni_sample_offset(&a->output, at);
        const T *from = grid + stni_sample_offset(&a->grid, at);
        for (int d = 0; d < a->dims; d++)
            coordinate[d] = (double)LOAD(from[d * a->grid.channel]);
        int n = stni_sample_taps_of(a, coordinate, taps);
        for (int k = 0; k < out->n_reads; k++) {
            int tap[STNI_SAMPLE_DIMS];
            stni_sample_split(a, k, n, tap);
            int here = stni_sample_locate(a, taps, tap, at);
            out->all_here &= here;
            out->offset[k][i] = here ? stni_sample_offset(&a->input, at) : -1;
            out->weight[k][i] = (ACC)(taps[0].weight[tap[0]] * taps[1].weight[tap[1]] * taps[2].weight[tap[2]]);
        }
    }
}

/* One channel of the points; compiled for each number of reads. */
static inline __attribute__((always_inline)) void NAME(sample_reads)(const struct NAME(block) *block, int n_reads,
                                                                     int all_here,
                                                                     const T *from, T *to)
{
    for (int i = 0; i < block->n; i++) {
        ACC sum = 0;
        for (int k = 0; k < n_reads; k++) {
            const int64_t at = block->offset[k][i];
            sum += all_here || at >= 0 ? block->weight[k][i] * LOAD(from[at]) : 0;
        }
        to[block->to[i]] = STORE(sum);
    }
}

static void NAME(sample)(const struct NAME(block) *block, const T *from, T *to)
{
    enum { PLANE_READS = 4 }; /* of bilinear sampling in two dims */
    if (block->n_reads == PLANE_READS && block->all_here)
        NAME(sample_reads)(block, PLANE_READS, 1, from, to);
    else if (block->n_reads == PLANE_READS)
        NAME(sample_reads)(block, PLANE_READS, 0, from, to);
    else
        NAME(sample_reads)(block, block->n_reads, 0, from, to);
}

/* All channels of the points, which are neighbours in both tensors. */
static void NAME(sample_wide)(const struct NAME(block) *block, const T *from, T *to, int64_t channels)
{
    ACC sums[STNI_SAMPLE_BLOCK];
    for (int i = 0; i < block->n; i++)
        for (int64_t c = 0; c < channels; c += STNI_SAMPLE_BLOCK) {
            const int64_t n = channels - c < STNI_SAMPLE_BLOCK ? channels - c : STNI_SAMPLE_BLOCK;
            for (int64_t l = 0; l < n; l++)
                sums[l] = 0;
            for (int k = 0; k < block->n_reads; k++) {
                if (block->offset[k][i] < 0)
                    continue;
                const T *at = from + block->offset[k][i] + c;
                const ACC w = block->weight[k][i];
                for (int64_t l = 0; l < n; l++)
                    sums[l] += w * LOAD(at[l]);
            }
            for (int64_t l = 0; l < n; l++)
                to[block->to[i] + c + l] = STORE(sums[l]);
        }
}

static void NAME(batch_points)(const struct stni_sample_args *a, int64_t b)
{
    struct NAME(block) block = {.n_reads = stni_sample_n_reads(a)};
    const int64_t points = a->n_points[0] * a->n_points[1] * a->n_points[2];
    const T *from = (const T *)a->input.data + b * a->input.batch;
    const int wide = a->n_channels > 1 && a->input.channel == 1 && a->output.channel == 1;
    T *to = (T *)a->output.data + b * a->output.batch;
    for (int64_t first = 0; first < points; first += STNI_SAMPLE_BLOCK) {
        block.n = (int)(points - first < STNI_SAMPLE_BLOCK ? points - first : STNI_SAMPLE_BLOCK);
        NAME(find)(a, (const T *)a->grid.data + b * a->grid.batch, first, &block);
        if (wide)
            NAME(sample_wide)(&block, from, to, a->n_channels);
        for (int64_t c = 0; c < a->n_channels && !wide; c++)
            NAME(sample)(&block, from + c * a->input.channel, to + c * a->output.channel);
    }
}
