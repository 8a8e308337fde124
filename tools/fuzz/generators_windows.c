/* Ops of windows of images: convolutions, pools, resampling. */
#include "generators.h"

#include <string.h>

static int dims_of(const struct generator *g)
{
    const size_t n = strlen(g->op);
    return g->op[n - 2] - '0'; /* …1d, …2d */
}

static void put_list(struct draft *d, const char *name, int n, int least, int most)
{
    int64_t values[STN_MAX_NDIM];
    for (int i = 0; i < n; i++)
        values[i] = draw_between(d, least, most);
    if (draw_chance(d, 2))
        put_int(d, name, values[0]);
    else
        put_ints(d, name, n, values);
}

/* Channels first; groups where they divide. */
int draw_conv(struct draft *d, const struct generator *g)
{
    const int n = dims_of(g), transposed = strncmp(g->op, "conv_transpose", 14) == 0;
    const struct want want = {n + 2, n + 2, g->lo, g->hi, 0, 0, 0, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const int64_t c = term_of(d, t)->shape[1], groups = c % 2 == 0 && draw_chance(d, 3) ? 2 : 1,
                  o = groups * draw_between(d, 1, 2);
    int64_t weight[5] = {transposed ? c : o, (transposed ? o : c) / groups};
    /* No wider than the image, dilated by 2 as well. */
    for (int i = 0; i < n; i++) {
        const int most = ((int)term_of(d, t)->shape[2 + i] + 1) / 2;
        weight[2 + i] = draw_between(d, 1, most < 3 ? most : 3);
    }
    put_int(d, "groups", groups);
    put_list(d, "stride", n, 1, 2);
    put_list(d, "dilation", n, 1, 2);
    put_list(d, "padding", n, 0, transposed ? 0 : 2);
    return put_input(d, draw_leaf(d, FILL_REAL, n + 2, weight, -0.5, 0.5)) &&
           (draw_chance(d, 2) || put_input(d, draw_leaf(d, FILL_REAL, 1, &o, -1, 1)));
}

int draw_pool(struct draft *d, const struct generator *g)
{
    const int n = dims_of(g);
    const struct want want = {n + 1, n + 2, -HUGE_VAL, HUGE_VAL, 0, 0, g->distinct, 1, 3, 0};
    if (!put_input(d, draw_term(d, &want)))
        return 0;
    if (strncmp(g->op, "adaptive", 8) == 0) {
        put_list(d, "output_size", n, 1, 4);
        return 1;
    }
    put_list(d, "kernel_size", n, 2, 3);
    if (draw_chance(d, 2))
        put_list(d, "stride", n, 1, 3);
    put_list(d, "padding", n, 0, 1);
    if (draw_chance(d, 3))
        put_bool(d, "ceil_mode", 1);
    return 1;
}

int draw_interpolate(struct draft *d, const struct generator *g)
{
    (void)g;
    const struct want want = {4, 4, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 1, 0, 0};
    const int64_t size[] = {draw_between(d, 1, 7), draw_between(d, 1, 7)};
    put_ints(d, "size", 2, size);
    if (draw_chance(d, 2)) {
        put_text(d, "mode", "bilinear");
        if (draw_chance(d, 2))
            put_bool(d, "align_corners", 1);
        if (draw_chance(d, 2))
            put_bool(d, "antialias", 1);
    }
    return put_input(d, draw_term(d, &want));
}

/* Points anywhere in the image and a little beyond. */
int draw_sampled(struct draft *d, const struct generator *g)
{
    const struct want want = {4, 4, -9, 9, 0, 0, 0, 1, 0, 0};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const int t = draw_term(d, &want);
    (void)g;
    if (!put_input(d, t))
        return 0;
    const int64_t shape[] = {term_of(d, t)->shape[0], draw_between(d, 1, 4), draw_between(d, 1, 4), 2};
    put_text(d, "padding_mode", paddings[draw_below(d, 3)]);
    if (draw_chance(d, 2))
        put_bool(d, "align_corners", 1);
    return put_input(d, draw_leaf(d, FILL_REAL, 4, shape, -1.2, 1.2));
}

/* Windows of two dims, and how many there are along each. */
struct windows {
    int64_t kernel[2], stride[2], padding[2], dilation[2], size[2], n[2];
};

/* 0 where they do not fit into what they have of the image. */
static int draw_windows(struct draft *d, struct windows *w)
{
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = draw_between(d, 1, 3);
        w->stride[i] = draw_between(d, 1, 2);
        w->padding[i] = draw_below(d, 2);
        w->dilation[i] = draw_between(d, 1, 2);
        const int64_t left = w->size[i] + 2 * w->padding[i] - w->dilation[i] * (w->kernel[i] - 1) - 1;
        if (left < 0 || w->size[i] == 0)
            return 0;
        w->n[i] = left / w->stride[i] + 1;
    }
    put_ints(d, "kernel_size", 2, w->kernel);
    put_ints(d, "stride", 2, w->stride);
    put_ints(d, "padding", 2, w->padding);
    put_ints(d, "dilation", 2, w->dilation);
    return 1;
}

int draw_columns(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 3, 4);
    if (!put_input(d, t))
        return 0;
    struct windows w = {.size = {size_at(d, t, -2), size_at(d, t, -1)}};
    return draw_windows(d, &w);
}

int draw_folded(struct draft *d, const struct generator *g)
{
    struct windows w = {.size = {draw_between(d, 1, 6), draw_between(d, 1, 6)}};
    (void)g;
    if (!draw_windows(d, &w))
        return 0;
    const int64_t shape[] = {draw_between(d, 1, 3), draw_between(d, 1, 2) * w.kernel[0] * w.kernel[1], w.n[0] * w.n[1]};
    const int ndim = draw_between(d, 2, 3);
    put_ints(d, "output_size", 2, w.size);
    return put_input(d, draw_leaf(d, FILL_REAL, ndim, shape + 3 - ndim, -2, 2));
}
