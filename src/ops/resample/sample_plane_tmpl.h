/* Bilinear sampling of planes (sample_plane.h), included once per dtype by sample_cpu.c, after sample_rows_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/resample/sample_plane.h"
#include "ops/resample/sample_rows_tmpl.h"
#endif

/* Points all of whose four elements are here: the first one's offset in a channel, the weights, and where the result
 * goes. */
struct NAME(plane) {
    int n;
    int64_t offset[STNI_PLANE_POINTS];
    ACC weight[4][STNI_PLANE_POINTS];
    int64_t to[STNI_PLANE_POINTS];
};

/* Puts `count` points of a row into the plane, and the columns of those that read what is not here into `rest`;
 * returns how many these are. */
static int NAME(place_run)(const struct stni_sample_args *a, const T *grid, int64_t to, int count,
                           struct NAME(plane) * p, int32_t *rest)
{
    double x[STNI_PLANE_RUN], y[STNI_PLANE_RUN], right[STNI_PLANE_RUN], below[STNI_PLANE_RUN];
    int32_t column[STNI_PLANE_RUN], row[STNI_PLANE_RUN];
    int n_rest = 0;
    for (int i = 0; i < count; i++) {
        x[i] = (double)LOAD(grid[i * a->grid.dim[2]]);
        y[i] = (double)LOAD(grid[i * a->grid.dim[2] + a->grid.channel]);
    }
    stni_plane_place(&a->rule, a->n_in[2], count, x, column, right, NULL);
    stni_plane_place(&a->rule, a->n_in[1], count, y, row, below, NULL);
    for (int i = 0; i < count; i++) {
        const int64_t r = row[i] - a->own[1].begin, c = column[i] - a->own[2].begin;
        const int whole = r >= 0 && row[i] + 1 < a->own[1].end && c >= 0 && column[i] + 1 < a->own[2].end, k = p->n;
        p->offset[k] = r * a->input.dim[1] + c * a->input.dim[2];
        p->weight[0][k] = (ACC)((1 - below[i]) * (1 - right[i]));
        p->weight[1][k] = (ACC)((1 - below[i]) * right[i]);
        p->weight[2][k] = (ACC)(below[i] * (1 - right[i]));
        p->weight[3][k] = (ACC)(below[i] * right[i]);
        p->to[k] = to + i * a->output.dim[2];
        p->n += whole;
        rest[n_rest] = i;
        n_rest += !whole;
    }
    return n_rest;
}

static inline __attribute__((always_inline)) void NAME(sample_plane)(const struct NAME(plane) * p, const T *from,
                                                                     int64_t down, int64_t across, T *to)
{
    for (int i = 0; i < p->n; i++) {
        const T *at = from + p->offset[i];
        ACC sum = 0;
        sum += p->weight[0][i] * LOAD(at[0]);
        sum += p->weight[1][i] * LOAD(at[across]);
        sum += p->weight[2][i] * LOAD(at[down]);
        sum += p->weight[3][i] * LOAD(at[down + across]);
        to[p->to[i]] = STORE(sum);
    }
}

/* Samples all channels at the points that were placed. */
static STNI_NO_DEDUCTION void NAME(sample_planes)(const struct stni_sample_args *a, const T *from, T *to,
                                                  const struct NAME(plane) *p)
{
    const int64_t down = a->input.dim[1], across = a->input.dim[2];
    for (int64_t c = 0; c < a->n_channels; c++)
        if (across == 1)
            NAME(sample_plane)(p, from + c * a->input.channel, down, 1, to + c * a->output.channel);
        else
            NAME(sample_plane)(p, from + c * a->input.channel, down, across, to + c * a->output.channel);
}

static void NAME(batch_planes)(const struct stni_sample_args *a, int64_t b)
{
    const T *from = (const T *)a->input.data + b * a->input.batch, *grid = (const T *)a->grid.data + b * a->grid.batch;
    T *to = (T *)a->output.data + b * a->output.batch;
    struct NAME(plane) plane;
    struct NAME(block) block = {.n = 1, .n_reads = 4};
    int32_t rest[STNI_PLANE_RUN];
    plane.n = 0;
    for (int64_t r = 0; r < a->n_points[1]; r++)
        for (int64_t c = 0, n; c < a->n_points[2]; c += n) {
            n = a->n_points[2] - c < STNI_PLANE_RUN ? a->n_points[2] - c : STNI_PLANE_RUN;
            if (plane.n + n > STNI_PLANE_POINTS) {
                NAME(sample_planes)(a, from, to, &plane);
                plane.n = 0;
            }
            const T *points = grid + r * a->grid.dim[1] + c * a->grid.dim[2];
            const int64_t results = r * a->output.dim[1] + c * a->output.dim[2];
            const int n_rest = NAME(place_run)(a, points, results, (int)n, &plane, rest);
            for (int i = 0; i < n_rest; i++) {
                NAME(find)(a, grid, r * a->n_points[2] + c + rest[i], &block);
                for (int64_t channel = 0; channel < a->n_channels; channel++)
                    NAME(sample)(&block, from + channel * a->input.channel, to + channel * a->output.channel);
            }
        }
    NAME(sample_planes)(a, from, to, &plane);
}
