#include "ops/conv/conv_blocks.h"

#include "core/base/clamp.h"
#include "ops/conv/conv_cpu.h"
#include "ops/exchange/window.h"

static int is_adjoint(const struct stni_conv_problem *p)
{
    return p->kind == STNI_CONV_GRAD_INPUT;
}

static int64_t extent(const struct stni_conv_problem *p)
{
    return (p->kernel[0] - 1) * p->dilation[0] + 1;
}

/* Elements of a row of one image. */
static int64_t row_elements(const struct stni_conv_problem *p, int64_t channels, const int64_t *shape)
{
    int64_t n = channels;
    for (int d = 1; d < p->dims; d++)
        n *= shape[d];
    return n;
}

int64_t stni_conv_target_rows(const struct stni_conv_problem *p)
{
    return is_adjoint(p) ? p->in[0] : p->out[0];
}

/* As many as keep what they read and write in a core's cache: on 64 channels and 256 columns oneDNN's gradient by
 * the weight is 2 to 3 times as fast in blocks of 4 rows as at once where the L2 cache has 512 KiB, the others 1.1
 * times. */
static int64_t rows_in_cache(const struct stni_conv_problem *p, int64_t x, int64_t y, int64_t work, int threads)
{
    enum { CACHE = 1 << 19, LEAST_WORK = 5 * 1000 * 1000 }; /* bytes; multiplications, about 100 us */
    const int64_t touched = is_adjoint(p) ? x + y / p->stride[0] : y + x * p->stride[0];
    const int64_t fit = CACHE / (touched * (int64_t)stn_dtype_size((stn_dtype)p->dtype)), least = LEAST_WORK / work;
    int64_t rows = (fit > least ? fit : least) * (threads > 1 ? threads : 1);
    if (p->kind == STNI_CONV_GRAD_WEIGHT && rows > STNI_CONV_TERMS_AT_ONCE / (y / p->o))
        rows = STNI_CONV_TERMS_AT_ONCE / (y / p->o);
    return rows > 1 ? rows : 1;
}

int64_t stni_conv_block_rows(const struct stni_conv_problem *p, int threads)
{
    const int64_t x = row_elements(p, p->c, p->in), y = row_elements(p, p->o, p->out), all = stni_conv_target_rows(p);
    int64_t work = p->groups > 0 ? y * (p->c / p->groups) : 0;
    for (int d = 0; d < p->dims; d++)
        work *= p->kernel[d];
    work /= is_adjoint(p) ? p->stride[0] : 1;
    if (p->stride[0] > extent(p) || x == 0 || y == 0 || work == 0)
        return all;
    /* Multiples of the stride, so that the blocks are alike. */
    const int64_t rows = stni_ceil_div(rows_in_cache(p, x, y, work, threads), p->stride[0]) * p->stride[0];
    return 2 * rows <= all ? rows : all;
}

/* Rows of the source that rows [begin, end) of the target are made of, without those that are not there. */
static void source_rows(const struct stni_conv_problem *p, int64_t begin, int64_t end, int64_t *first, int64_t *last)
{
    const int64_t n = is_adjoint(p) ? p->out[0] : p->in[0], pad = p->pad_low[0], stride = p->stride[0];
    *first = is_adjoint(p) ? stni_ceil_div(begin + pad - (extent(p) - 1), stride) : begin * stride - pad;
    *last = is_adjoint(p) ? stni_floor_div(end - 1 + pad, stride) + 1 : (end - 1) * stride - pad + extent(p);
    *first = stni_clamp(*first, 0, n);
    *last = stni_clamp(*last, *first, n);
}

int64_t stni_conv_block_images(const struct stni_conv_args *whole)
{
    return whole->data.images == 1 ? whole->problem.n : whole->data.images;
}

/* One image: of a batch that is dense, or of images with steps between them. */
static void take_image(struct stni_conv_args *a, int64_t image)
{
    const int64_t size = (int64_t)stn_dtype_size((stn_dtype)a->problem.dtype);
    if (a->data.images == 1) {
        a->problem.n = 1;
        a->data.x_step = stni_conv_elements(&a->problem, STNI_CONV_X);
        a->data.y_step = stni_conv_elements(&a->problem, STNI_CONV_Y);
    }
    a->data.images = 1;
    a->data.x = (char *)a->data.x + image * a->data.x_step * size;
    a->data.y = (char *)a->data.y + image * a->data.y_step * size;
}

void stni_conv_block(const struct stni_conv_args *whole, int64_t image, int64_t begin, int64_t end,
                     struct stni_conv_args *block)
{
    const struct stni_conv_problem *p = &whole->problem;
    const int64_t size = (int64_t)stn_dtype_size((stn_dtype)p->dtype);
    int64_t first, last;
    source_rows(p, begin, end, &first, &last);
    const int64_t x = is_adjoint(p) ? begin : first, y = is_adjoint(p) ? first : begin;
    *block = *whole;
    take_image(block, image);
    struct stni_conv_problem *b = &block->problem;
    b->in[0] = is_adjoint(p) ? end - begin : last - first;
    b->out[0] = is_adjoint(p) ? last - first : end - begin;
    b->pad_low[0] = p->pad_low[0] + x - y * p->stride[0];
    b->pad_high[0] = (b->out[0] - 1) * p->stride[0] + extent(p) - b->in[0] - b->pad_low[0];
    block->data.x = (char *)block->data.x + x * row_elements(p, p->c, p->in) * size;
    block->data.y = (char *)block->data.y + y * row_elements(p, p->o, p->out) * size;
    if (begin > 0 || image > 0)
        block->data.accumulate = block->data.same_weight = 1;
}
