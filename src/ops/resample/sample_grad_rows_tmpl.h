/* Included once per dtype by sample_grad_cpu.c. */
#ifndef NAME /* read alone */
#include "ops/resample/sample_kernel.h"
#include "core/box/as_f32.h"
#include <string.h>
#endif

/* What n points read, as in sample_rows_tmpl.h. */
struct NAME(block) {
    int n, n_reads, n_taps;
    struct stni_sample_taps taps[STNI_SAMPLE_BLOCK][STNI_SAMPLE_DIMS];
    int64_t grad[STNI_SAMPLE_BLOCK]; /* where the points' cotangents lie in a channel */
    int64_t from[STNI_SAMPLE_READS][STNI_SAMPLE_BLOCK], to[STNI_SAMPLE_READS][STNI_SAMPLE_BLOCK];
    T weight[STNI_SAMPLE_READS][STNI_SAMPLE_BLOCK];
    double sum[STNI_SAMPLE_READS][STNI_SAMPLE_BLOCK]; /* over channels: the cotangent times the element */
};

static void NAME(find_reads)(const struct stni_sample_args *a, struct NAME(block) *b, int i)
{
    const struct stni_sample_taps *taps = b->taps[i];
    for (int k = 0; k < b->n_reads; k++) {
        int tap[STNI_SAMPLE_DIMS];
        int64_t place[STNI_SAMPLE_DIMS];
        stni_sample_split(a, k, b->n_taps, tap);
        const int here = stni_sample_locate(a, taps, tap, place);
        b->from[k][i] = here ? stni_sample_offset(&a->input, place) : -1;
        b->to[k][i] = here ? stni_sample_offset(&a->grad_input, place) : -1;
        b->weight[k][i] = (T)(taps[0].weight[tap[0]] * taps[1].weight[tap[1]] * taps[2].weight[tap[2]]);
        b->sum[k][i] = 0;
    }
}

static void NAME(find)(const struct stni_sample_args *a, int64_t batch, int64_t first, struct NAME(block) *b)
{
    for (int i = 0; i < b->n; i++) {
        double coordinate[STNI_SAMPLE_DIMS] = {0};
        int64_t at[STNI_SAMPLE_DIMS];
        stni_sample_point(a, first + i, at);
        const T *grid = (const T *)a->grid.data + batch * a->grid.batch + stni_sample_offset(&a->grid, at);
        for (int d = 0; d < a->dims; d++)
            coordinate[d] = (double)grid[d * a->grid.channel];
        b->n_taps = stni_sample_taps_of(a, coordinate, b->taps[i]);
        b->grad[i] = stni_sample_offset(&a->output, at);
        NAME(find_reads)(a, b, i);
    }
}

/* Points and what they read, of any block: read k of point i is element k * STNI_SAMPLE_BLOCK + i. */
struct NAME(reads) {
    int n;
    const int64_t *grad, *from, *to;
    const T *weight;
    double *sum;
};

/* One channel adds to the gradients of the elements, in the order of points and of their reads, and to the sums.
 * Compiled for each number of reads, and for what is wanted. */
static inline __attribute__((always_inline)) void NAME(add_reads)(const struct NAME(reads) * r, int n_reads,
                                                                  const T *grad, const T *from, T *to, int sums,
                                                                  int adds)
{
    for (int i = 0; i < r->n; i++) {
        const T g = grad[r->grad[i]];
        for (int k = 0; k < n_reads; k++) {
            const int at = k * STNI_SAMPLE_BLOCK + i;
            if (r->to[at] < 0)
                continue;
            if (adds)
                to[r->to[at]] += r->weight[at] * g;
            if (sums)
                r->sum[at] += (double)g * (double)from[r->from[at]];
        }
    }
}

/* All channels of the points. Inlined, so that the block's arrays are known. */
static inline __attribute__((always_inline)) void NAME(add_channels)(const struct stni_sample_args *a, int64_t batch,
                                                                     const struct NAME(reads) *r, int n_reads)
{
    enum { PLANE_READS = 4 }; /* of bilinear sampling in two dims */
    const T *grad = (const T *)a->output.data + batch * a->output.batch;
    const T *from = (const T *)a->input.data + batch * a->input.batch;
    T *to = (T *)a->grad_input.data + batch * a->grad_input.batch;
    const int sums = a->grad_grid.data != NULL, adds = a->grad_input.data != NULL;
    for (int64_t c = 0; c < a->n_channels; c++) {
        if (n_reads == PLANE_READS && sums && adds)
            NAME(add_reads)(r, PLANE_READS, grad, from, to, 1, 1);
        else
            NAME(add_reads)(r, n_reads, grad, from, to, sums, adds);
        grad += a->output.channel;
        from += a->input.channel;
        to += a->grad_input.channel;
    }
}

/* The gradients of the coordinates. */
static void NAME(put_gradients)(const struct stni_sample_args *a, int64_t batch, int64_t first,
                                const struct NAME(block) *b)
{
    for (int i = 0; i < b->n; i++) {
        const struct stni_sample_taps *taps = b->taps[i];
        double gradient[STNI_SAMPLE_DIMS] = {0};
        int64_t at[STNI_SAMPLE_DIMS];
        for (int k = 0; k < b->n_reads; k++) {
            int tap[STNI_SAMPLE_DIMS];
            if (b->to[k][i] < 0)
                continue;
            stni_sample_split(a, k, b->n_taps, tap);
            const double w[] = {taps[0].weight[tap[0]], taps[1].weight[tap[1]], taps[2].weight[tap[2]]},
                sum = b->sum[k][i];
            gradient[0] += sum * taps[0].derivative[tap[0]] * w[1] * w[2];
            gradient[1] += sum * w[0] * taps[1].derivative[tap[1]] * w[2];
            gradient[2] += sum * w[0] * w[1] * taps[2].derivative[tap[2]];
        }
        stni_sample_point(a, first + i, at);
        T *to = (T *)a->grad_grid.data + batch * a->grad_grid.batch + stni_sample_offset(&a->grad_grid, at);
        for (int d = 0; d < a->dims; d++)
            to[d * a->grad_grid.channel] = (T)gradient[STNI_SAMPLE_DIMS - 1 - d];
    }
}

static void NAME(batch_points)(const struct stni_sample_args *a, int64_t batch)
{
    struct NAME(block) b = {.n_reads = stni_sample_n_reads(a)};
    const int64_t points = a->n_points[0] * a->n_points[1] * a->n_points[2];
    struct NAME(reads) reads = {0, b.grad, b.from[0], b.to[0], b.weight[0], b.sum[0]};
    for (int64_t first = 0; first < points; first += STNI_SAMPLE_BLOCK) {
        b.n = reads.n = (int)(points - first < STNI_SAMPLE_BLOCK ? points - first : STNI_SAMPLE_BLOCK);
        NAME(find)(a, batch, first, &b);
        NAME(add_channels)(a, batch, &reads, b.n_reads);
        if (a->grad_grid.data)
            NAME(put_gradients)(a, batch, first, &b);
    }
}
