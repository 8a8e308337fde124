/* Two dims at once on the CPU: a plane after the other, so that what its rows became is in the cache when its columns
 * are transformed. Both are lines of fft_cpu.c. */
#include "ops/fft/fft_kernel.h"

#include <stddef.h>

/* The lines of the dim that a kernel begins or ends with, and those of the other one. */
struct plane {
    struct stni_fft_args rows, columns;
};

static int restores(const struct stni_fft_args *a)
{
    return a->kind == STNI_TRANSFORM_RESTORE;
}

/* Complex numbers to complex numbers along the other dim, in the result's memory or, before rows are restored, from
 * the input to a dense plane. */
static struct stni_fft_args columns_of(const struct stni_fft_args *a)
{
    const struct stni_fft_dim *dim = &a->more[0];
    struct stni_fft_args c = {.kind = restores(a) ? STNI_TRANSFORM_BACKWARD : a->kind,
                              .real = a->real,
                              .n = dim->n,
                              .n_in = dim->n,
                              .n_out = dim->n,
                              .step_in = dim->step_out,
                              .step_out = dim->step_out,
                              .ndim = 1,
                              .shape = {a->n_out},
                              .strides_in = {a->step_out},
                              .strides_out = {a->step_out},
                              .scale = 1,
                              .interior = 1};
    if (a->kind == STNI_TRANSFORM_HALVE)
        c.kind = STNI_TRANSFORM_FORWARD;
    if (restores(a)) {
        c.real_in = a->real_in;
        c.shape[0] = a->n_in;
        c.step_in = dim->step_in, c.strides_in[0] = a->step_in;
        c.step_out = a->n_in, c.strides_out[0] = 1;
    }
    return c;
}

static struct plane plane_of(const struct stni_fft_args *a)
{
    struct plane p = {.rows = *a, .columns = columns_of(a)};
    p.rows.n_more = 0;
    p.rows.ndim = 1;
    p.rows.shape[0] = a->more[0].n;
    p.rows.strides_in[0] = restores(a) ? a->n_in : a->more[0].step_in;
    p.rows.strides_out[0] = a->more[0].step_out;
    if (restores(a)) {
        p.rows.real_in = 0;
        p.rows.step_in = 1;
    }
    return p;
}

/* Bytes of a dense plane of halves of lines. */
static size_t dense_bytes(const struct stni_fft_args *a)
{
    const size_t bytes = (size_t)(a->n_in * a->more[0].n) * 2 * stn_dtype_size(a->real);
    return restores(a) ? (bytes + 63) / 64 * 64 : 0;
}

/* Whether a plane has the elements that lie side by side. Where these are of different planes, a plane reads a cache
 * line for each element; dims one after the other read each line once. */
static int has_neighbours(const struct stni_fft_args *a)
{
    const struct stni_fft_dim *dim = &a->more[0];
    return (a->step_in == 1 || dim->step_in == 1) && (a->step_out == 1 || dim->step_out == 1);
}

/* Where the plans are many, making the second may make room of the first's. */
size_t stni_fft_planes_workspace(stn_queue *queue, const void *args)
{
    const struct stni_fft_args *a = args;
    if (a->n_more != 1 || !has_neighbours(a))
        return 0;
    const struct plane p = plane_of(a);
    const size_t rows = stni_fft_workspace(queue, &p.rows), columns = stni_fft_workspace(queue, &p.columns);
    if (rows == 0 || columns == 0 || stni_fft_workspace(queue, &p.rows) == 0)
        return 0;
    return dense_bytes(a) + (rows > columns ? rows : columns);
}

/* Where a plane begins: elements of the input and of the result. */
static void locate(const struct stni_fft_args *a, int64_t plane, int64_t *in, int64_t *out)
{
    *in = *out = 0;
    for (int d = a->ndim - 1; d >= 0; plane /= a->shape[d], d--) {
        *in += plane % a->shape[d] * a->strides_in[d];
        *out += plane % a->shape[d] * a->strides_out[d];
    }
}

static stn_status run_plane(stn_queue *queue, struct plane *p, char *dense, const char *in, char *out)
{
    p->rows.in = in, p->rows.out = out;
    p->columns.in = p->columns.out = out;
    if (!restores(&p->rows)) {
        const stn_status status = stni_fft_cpu(queue, &p->rows);
        return status == STN_OK ? stni_fft_cpu(queue, &p->columns) : status;
    }
    p->columns.in = in, p->columns.out = dense;
    p->rows.in = dense;
    const stn_status status = stni_fft_cpu(queue, &p->columns);
    return status == STN_OK ? stni_fft_cpu(queue, &p->rows) : status;
}

stn_status stni_fft_planes_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_fft_args *a = raw;
    const int64_t real = (int64_t)stn_dtype_size(a->real);
    const int64_t in_bytes = a->real_in || a->kind == STNI_TRANSFORM_HALVE ? real : 2 * real,
                  out_bytes = restores(a) ? real : 2 * real;
    int64_t n = 1, in, out;
    stn_status status = STN_OK;
    struct plane p = plane_of(a);
    p.rows.workspace = p.columns.workspace = (char *)a->workspace + dense_bytes(a);
    for (int d = 0; d < a->ndim; d++)
        n *= a->shape[d];
    for (int64_t i = 0; i < n && status == STN_OK; i++) {
        locate(a, i, &in, &out);
        status =
            run_plane(queue, &p, a->workspace, (const char *)a->in + in * in_bytes, (char *)a->out + out * out_bytes);
    }
    return status;
}
