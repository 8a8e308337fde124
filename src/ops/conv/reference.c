/* Convolution as products of blocks of columns with the weight. The blocks are kept small enough for a cache. */
#include "ops/conv/direct.h"
#include "ops/conv/reference_layout.h"

enum { COLUMNS_BYTES = 256 * 1024 };

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static struct layout lay_out(const struct stni_conv_problem *p)
{
    struct layout l = {
        .p = p, .c = p->c / p->groups, .o = p->o / p->groups, .taps = 1, .x_pixels = p->n, .y_pixels = p->n};
    size_t element = stn_dtype_size((stn_dtype)p->dtype);
    for (int d = 0; d < 3; d++) {
        int own = d - (3 - p->dims);
        l.in[d] = own < 0 ? 1 : p->in[own];
        l.out[d] = own < 0 ? 1 : p->out[own];
        l.kernel[d] = own < 0 ? 1 : p->kernel[own];
        l.stride[d] = own < 0 ? 1 : p->stride[own];
        l.dilation[d] = own < 0 ? 1 : p->dilation[own];
        l.pad[d] = own < 0 ? 0 : p->pad_low[own];
        l.taps *= l.kernel[d];
        l.x_pixels *= l.in[d];
        l.y_pixels *= l.out[d];
    }
    int64_t k = l.taps * l.c;
    l.block = k > 0 ? COLUMNS_BYTES / (k * (int64_t)element) : l.y_pixels;
    l.block = l.block < 16 ? 16 : l.block;
    l.block = l.block > l.y_pixels ? l.y_pixels : l.block;
    l.weight_bytes = round_up((size_t)(p->groups * k * l.o) * element);
    l.columns_bytes = round_up((size_t)(l.block * k) * element);
    const struct stni_gemm largest = product_of(&l, l.block, NULL, NULL, NULL);
    l.gemm_bytes = stni_gemm_workspace(largest.dtype, largest.m, largest.n, largest.k);
    return l;
}

#define T float
#define NAME(x) x##_f32
#include "ops/conv/reference_tmpl.h"

#define T double
#define NAME(x) x##_f64
#include "ops/conv/reference_tmpl.h"

size_t stni_conv_reference_workspace(const struct stni_conv_problem *problem)
{
    if (stni_conv_direct_serves(problem))
        return stni_conv_direct_workspace(problem);
    struct layout l = lay_out(problem);
    return l.weight_bytes + l.columns_bytes + l.gemm_bytes;
}

void stni_conv_reference(enum stni_isa isa, const struct stni_conv_problem *problem, const struct stni_conv_data *data,
                         void *workspace)
{
    if (stni_conv_direct_serves(problem)) {
        stni_conv_direct(isa, problem, data, workspace);
        return;
    }
    struct layout l = lay_out(problem);
    l.isa = isa;
    (problem->dtype == STN_DTYPE_F64 ? solve_f64 : solve_f32)(&l, data, workspace);
}
