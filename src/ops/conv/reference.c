/* Convolution as products of blocks of columns with the weight. The blocks are kept small enough for a cache. */
#include "ops/conv/reference.h"

#include "ops/util/gemm.h"

#include <string.h>

enum { COLUMNS_BYTES = 256 * 1024 };

/* A problem with what follows from it. */
struct layout {
    const struct stni_conv_problem *p;
    int64_t c, o, taps;         /* channels of a group; taps of the kernel */
    int64_t x_pixels, y_pixels; /* of the whole batch */
    int64_t block;              /* pixels of y in a block */
    size_t weight_bytes, columns_bytes, gemm_bytes;
};

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static struct layout lay_out(const struct stni_conv_problem *p)
{
    struct layout l = {.p = p, .c = p->c / p->groups, .o = p->o / p->groups, .taps = 1, .x_pixels = p->n, .y_pixels = p->n};
    size_t element = stn_dtype_size((stn_dtype)p->dtype);
    for (int d = 0; d < p->dims; d++) {
        l.taps *= p->kernel[d];
        l.x_pixels *= p->in[d];
        l.y_pixels *= p->out[d];
    }
    int64_t k = l.taps * l.c;
    l.block = k > 0 ? COLUMNS_BYTES / (k * (int64_t)element) : l.y_pixels;
    l.block = l.block < 16 ? 16 : l.block;
    l.block = l.block > l.y_pixels ? l.y_pixels : l.block;
    l.weight_bytes = round_up((size_t)(p->groups * k * l.o) * element);
    l.columns_bytes = round_up((size_t)(l.block * k) * element);
    l.gemm_bytes = p->kind == STNI_CONV_FORWARD      ? stni_gemm_workspace((stn_dtype)p->dtype, l.block, l.o, k)
                   : p->kind == STNI_CONV_GRAD_INPUT ? stni_gemm_workspace((stn_dtype)p->dtype, l.block, k, l.o)
                                                     : stni_gemm_workspace((stn_dtype)p->dtype, k, l.o, l.block);
    return l;
}

/* Which pixel of x (of the whole batch) tap t of pixel i of y reads; -1 in the padding. */
static inline int64_t locate(const struct layout *l, int64_t i, int64_t t)
{
    const struct stni_conv_problem *p = l->p;
    int64_t at = 0, step = 1;
    for (int d = p->dims - 1; d >= 0; d--) {
        int64_t x = i % p->out[d] * p->stride[d] - p->pad_low[d] + t % p->kernel[d] * p->dilation[d];
        if (x < 0 || x >= p->in[d])
            return -1;
        at += x * step;
        step *= p->in[d];
        i /= p->out[d];
        t /= p->kernel[d];
    }
    return at + i * step;
}

#define REAL float
#define NAME(x) x##_f32
#include "ops/conv/reference_template.h"

#define REAL double
#define NAME(x) x##_f64
#include "ops/conv/reference_template.h"

size_t stni_conv_reference_workspace(const struct stni_conv_problem *problem)
{
    struct layout l = lay_out(problem);
    return l.weight_bytes + l.columns_bytes + l.gemm_bytes;
}

void stni_conv_reference(const struct stni_conv_problem *problem, const struct stni_conv_data *data, void *workspace)
{
    struct layout l = lay_out(problem);
    (problem->dtype == STN_DTYPE_F64 ? solve_f64 : solve_f32)(&l, data, workspace);
}
