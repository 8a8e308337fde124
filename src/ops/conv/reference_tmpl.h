/* One dtype's convolution; included once per dtype by reference.c.
 *
 * Sizes: P pixels of y in a block; S taps; C, O channels of x and y in a group; K = S C. A block of columns holds,
 * for each pixel, the K elements of x that it reads; with the weight as a (K, O) matrix each kind is one product per
 * group and block: y = columns weight, columns = y weight', weight += columns' y. Included with T and NAME(x). */
#ifndef NAME /* read alone */
#include "ops/conv/reference_layout.h"
#define T float
#define NAME(x) x##_f32
#endif

/* Taps first … last - 1 of a line of x, `line` being where tap 0 would read; the others are zeros. To columns, or
 * added from them. */
static void NAME(line)(const struct layout *l, T *line, int64_t first, int64_t last, T *columns, int add)
{
    int64_t taps = l->kernel[2], step = l->dilation[2] * l->p->c, c = l->c;
    if (!add) {
        memset(columns, 0, sizeof *columns * (size_t)(first * c));
        memset(columns + last * c, 0, sizeof *columns * (size_t)((taps - last) * c));
    }
    /* Neighbouring taps read neighbouring elements where nothing lies between. */
    int64_t run = step == c ? last - first : 1;
    for (int64_t t = first; t < last; t += run) {
        T *at = line + t * step, *column = columns + t * c;
        if (!add)
            memcpy(column, at, sizeof *at * (size_t)(run * c));
        for (int64_t i = 0; add && i < run * c; i++)
            at[i] += column[i];
    }
}

/* Columns of `n` pixels from pixel `first`, of one group: filled from x, or added to it. */
static void NAME(columns)(const struct layout *l, int64_t first, int64_t n, int64_t group, T *x, T *columns, int add)
{
    if (l->c == 0) /* a rank may hold no channels, and then has no memory for them */
        return;
    for (int64_t i = 0; i < n; i++) {
        struct place at = locate(l, first + i);
        for (int64_t t0 = 0; t0 < l->kernel[0]; t0++)
            for (int64_t t1 = 0; t1 < l->kernel[1]; t1++, columns += l->kernel[2] * l->c) {
                int64_t x0 = at.x[0] + t0 * l->dilation[0], x1 = at.x[1] + t1 * l->dilation[1];
                int inside = x0 >= 0 && x0 < l->in[0] && x1 >= 0 && x1 < l->in[1] && at.first < at.last;
                int64_t pixel = ((at.n * l->in[0] + x0) * l->in[1] + x1) * l->in[2] + at.x[2];
                /* A line outside has no taps but zeros. */
                if (inside)
                    NAME(line)(l, x + pixel * l->p->c + group * l->c, at.first, at.last, columns, add);
                else
                    NAME(line)(l, NULL, l->kernel[2], l->kernel[2], columns, add);
            }
    }
}

/* Between the caller's weight (groups O, C, S) and ours (groups, S C, O): read; written; or added to the caller's. */
static void NAME(weights)(const struct layout *l, T *theirs, T *ours, int write, int add)
{
    for (int64_t g = 0; g < l->p->groups; g++)
        for (int64_t o = 0; o < l->o; o++)
            for (int64_t c = 0; c < l->c; c++)
                for (int64_t t = 0; t < l->taps; t++) {
                    T *a = theirs + ((g * l->o + o) * l->c + c) * l->taps + t;
                    T *b = ours + ((g * l->taps + t) * l->c + c) * l->o + o;
                    if (write)
                        *a = add ? *a + *b : *b;
                    else
                        *b = *a;
                }
}

static void NAME(fill_bias)(const struct layout *l, int64_t n, const T *bias, T *y)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t o = 0; o < l->p->o; o++)
            y[i * l->p->o + o] = bias != NULL ? bias[o] : 0;
}

/* One block of pixels of one group. */
static void NAME(block)(const struct layout *l, int64_t first, int64_t n, int64_t group, T *x, T *y, T *weight,
                        T *columns, void *workspace)
{
    T *pixels = y + first * l->p->o + group * l->o, *w = weight + group * l->taps * l->c * l->o;
    const struct stni_gemm product = product_of(l, n, columns, w, pixels);
    const int to_input = l->p->kind == STNI_CONV_GRAD_INPUT;
    if (!to_input)
        NAME(columns)(l, first, n, group, x, columns, 0);
    stni_gemm_now(l->isa, &product, workspace);
    if (to_input)
        NAME(columns)(l, first, n, group, x, columns, 1);
}

static void NAME(solve)(const struct layout *l, const struct stni_conv_data *data, char *workspace)
{
    T *weight = (T *)(void *)workspace, *columns = (T *)(void *)(workspace + l->weight_bytes);
    size_t x_bytes = sizeof(T) * (size_t)(l->x_pixels * l->p->c);
    int gradient = l->p->kind == STNI_CONV_GRAD_WEIGHT;
    if (gradient && l->weight_bytes > 0)
        memset(weight, 0, l->weight_bytes);
    else
        NAME(weights)(l, data->weight, weight, 0, 0);
    for (int64_t i = 0; i < data->images; i++) {
        T *x = (T *)data->x + i * data->x_step, *y = (T *)data->y + i * data->y_step;
        if (l->p->kind == STNI_CONV_GRAD_INPUT && x_bytes > 0)
            memset(x, 0, x_bytes);
        else if (l->p->kind == STNI_CONV_FORWARD)
            NAME(fill_bias)(l, l->y_pixels, data->bias, y);
        for (int64_t first = 0; first < l->y_pixels; first += l->block)
            for (int64_t g = 0; g < l->p->groups; g++)
                NAME(block)
                (l, first, l->y_pixels - first < l->block ? l->y_pixels - first : l->block, g, x, y, weight, columns,
                 workspace + l->weight_bytes + l->columns_bytes);
    }
    if (gradient)
        NAME(weights)(l, data->weight, weight, 1, data->accumulate);
}

#undef T
#undef NAME
