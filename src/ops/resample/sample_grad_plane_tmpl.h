/* The gradients of bilinear sampling of planes (sample_plane.h), included once per dtype by sample_grad_cpu.c, after
 * sample_grad_rows_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/resample/sample_plane.h"
#include "ops/resample/sample_grad_rows_tmpl.h"
#endif

/* Points and the four elements of a channel that each of them read, -1 for one that is not here. */
struct NAME(points) {
    int n;
    int64_t from[4][STNI_SAMPLE_BLOCK], to[4][STNI_SAMPLE_BLOCK];
    T weight[4][STNI_SAMPLE_BLOCK];
    double sum[4][STNI_SAMPLE_BLOCK];            /* over channels: the cotangent times the element */
    double right[STNI_SAMPLE_BLOCK], below[STNI_SAMPLE_BLOCK], scale_x[STNI_SAMPLE_BLOCK], scale_y[STNI_SAMPLE_BLOCK];
    int64_t grad[STNI_SAMPLE_BLOCK];             /* where the points' cotangents lie in a channel, */
    int64_t grad_grid[STNI_SAMPLE_BLOCK];        /* and their coordinates' gradients */
};

/* Tap k is the one below where k / 2, and the one to the right where k % 2. */
static void NAME(set_tap)(const struct stni_sample_args *a, struct NAME(points) * p, int first, int k,
                          const int32_t *row, const int32_t *column)
{
    const int64_t y0 = a->own[1].begin, y1 = a->own[1].end, x0 = a->own[2].begin, x1 = a->own[2].end;
    for (int i = first; i < p->n; i++) {
        const int64_t y = row[i - first] + k / 2, x = column[i - first] + k % 2;
        const int here = y >= y0 && y < y1 && x >= x0 && x < x1;
        p->from[k][i] = here ? (y - y0) * a->input.dim[1] + (x - x0) * a->input.dim[2] : -1;
        p->to[k][i] = here ? (y - y0) * a->grad_input.dim[1] + (x - x0) * a->grad_input.dim[2] : -1;
        p->weight[k][i] = (T)((k / 2 ? p->below[i] : 1 - p->below[i]) * (k % 2 ? p->right[i] : 1 - p->right[i]));
        p->sum[k][i] = 0;
    }
}

/* Adds `count` points of row r, from column c on. */
static void NAME(add_points)(const struct stni_sample_args *a, const T *grid, int64_t r, int64_t c, int count,
                             struct NAME(points) *p)
{
    double x[STNI_PLANE_RUN], y[STNI_PLANE_RUN];
    int32_t column[STNI_PLANE_RUN], row[STNI_PLANE_RUN];
    const int first = p->n;
    for (int i = 0; i < count; i++) {
        const T *at = grid + r * a->grid.dim[1] + (c + i) * a->grid.dim[2];
        x[i] = (double)at[0];
        y[i] = (double)at[a->grid.channel];
        p->grad[first + i] = r * a->output.dim[1] + (c + i) * a->output.dim[2];
        p->grad_grid[first + i] = r * a->grad_grid.dim[1] + (c + i) * a->grad_grid.dim[2];
    }
    stni_plane_place(&a->rule, a->n_in[2], count, x, column, p->right + first, p->scale_x + first);
    stni_plane_place(&a->rule, a->n_in[1], count, y, row, p->below + first, p->scale_y + first);
    p->n += count;
    for (int k = 0; k < 4; k++)
        NAME(set_tap)(a, p, first, k, row, column);
}

/* The gradients of the coordinates. */
static void NAME(put_points)(const struct stni_sample_args *a, T *to, const struct NAME(points) *p)
{
    for (int i = 0; i < p->n; i++) {
        const double right[] = {1 - p->right[i], p->right[i]}, below[] = {1 - p->below[i], p->below[i]};
        const double dx[] = {-p->scale_x[i], p->scale_x[i]}, dy[] = {-p->scale_y[i], p->scale_y[i]};
        double x = 0, y = 0;
        for (int k = 0; k < 4; k++) {
            if (p->to[k][i] < 0)
                continue;
            y += p->sum[k][i] * dy[k / 2] * right[k % 2];
            x += p->sum[k][i] * below[k / 2] * dx[k % 2];
        }
        to[p->grad_grid[i]] = (T)x;
        to[p->grad_grid[i] + a->grad_grid.channel] = (T)y;
    }
}

static STNI_NO_DEDUCTION void NAME(take_points)(const struct stni_sample_args *a, int64_t batch, struct NAME(points) *p)
{
    const struct NAME(reads) reads = {p->n, p->grad, p->from[0], p->to[0], p->weight[0], p->sum[0]};
    NAME(add_channels)(a, batch, &reads, 4);
    if (a->grad_grid.data)
        NAME(put_points)(a, (T *)a->grad_grid.data + batch * a->grad_grid.batch, p);
    p->n = 0;
}

static void NAME(batch_planes)(const struct stni_sample_args *a, int64_t batch)
{
    const T *grid = (const T *)a->grid.data + batch * a->grid.batch;
    struct NAME(points) points;
    points.n = 0;
    for (int64_t r = 0; r < a->n_points[1]; r++)
        for (int64_t c = 0, n; c < a->n_points[2]; c += n) {
            n = a->n_points[2] - c < STNI_PLANE_RUN ? a->n_points[2] - c : STNI_PLANE_RUN;
            if (points.n + n > STNI_SAMPLE_BLOCK)
                NAME(take_points)(a, batch, &points);
            NAME(add_points)(a, grid, r, c, (int)n, &points);
        }
    NAME(take_points)(a, batch, &points);
}
