/* Convolutions that are drawn, each by oneDNN and by our own kernels: small sizes, in which windows hang over the ends
 * in every way, for it is there that its code for one processor or another is wrong. */
#include "harness.h"

#include "core/context/context.h"
#include "ops/conv/conv_naive.h"
#include "ops/conv/reference.h"
#include "ops/onednn/onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* 0 … n - 1 */
static int64_t draw(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* Sizes, steps and pads that fit. */
static void draw_dim(struct stni_conv_problem *p, int d)
{
    int64_t extent;
    do {
        p->in[d] = 1 + draw(8), p->kernel[d] = 1 + draw(5), p->stride[d] = 1 + draw(3);
        p->dilation[d] = draw(3) ? 1 : 1 + draw(3);
        p->pad_low[d] = draw(2) ? 0 : draw(6), p->pad_high[d] = draw(2) ? p->pad_low[d] : draw(6);
        extent = (p->kernel[d] - 1) * p->dilation[d] + 1;
    } while (p->in[d] + p->pad_low[d] + p->pad_high[d] < extent);
    p->out[d] = (p->in[d] + p->pad_low[d] + p->pad_high[d] - extent) / p->stride[d] + 1;
    p->pad_high[d] = (p->out[d] - 1) * p->stride[d] + extent - p->in[d] - p->pad_low[d];
}

static struct stni_conv_problem draw_problem(int32_t kind, int dims)
{
    struct stni_conv_problem p;
    memset(&p, 0, sizeof p);
    p.kind = kind, p.dims = dims, p.dtype = p.weight_dtype = STN_DTYPE_F32;
    p.n = 1 + draw(2), p.groups = draw(4) ? 1 : 1 + draw(3);
    p.c = p.groups * (draw(3) ? 1 + draw(5) : 16), p.o = p.groups * (draw(3) ? 1 + draw(5) : 16);
    p.has_bias = kind == STNI_CONV_FORWARD && draw(2);
    for (int d = 0; d < dims; d++)
        draw_dim(&p, d);
    return p;
}

/* Whole numbers, whose sums are exact in any order. */
static float *numbers(int64_t n)
{
    float *a = malloc(((size_t)n + 1) * sizeof *a);
    for (int64_t i = 0; i < n; i++)
        a[i] = (float)(draw(9) - 4);
    return a;
}

static float *copy_of(const float *a, int64_t n)
{
    float *b = malloc(((size_t)n + 1) * sizeof *b);
    memcpy(b, a, (size_t)n * sizeof *b);
    return b;
}

static void solve_ourselves(enum stni_isa isa, const struct stni_conv_problem *p, const struct stni_conv_data *data)
{
    void *workspace = aligned_alloc(64, stni_conv_reference_workspace(p) / 64 * 64 + 64);
    stni_conv_reference(isa, p, data, workspace);
    free(workspace);
}

static void describe(const struct stni_conv_problem *p, const char *name)
{
    fprintf(stderr, "  kind %d, n %d, groups %d, c %d, o %d, %s; in kernel stride dilation low high:", (int)p->kind,
            (int)p->n, (int)p->groups, (int)p->c, (int)p->o, name);
    for (int d = 0; d < p->dims; d++)
        fprintf(stderr, " (%d %d %d %d %d %d)", (int)p->in[d], (int)p->kernel[d], (int)p->stride[d],
                (int)p->dilation[d], (int)p->pad_low[d], (int)p->pad_high[d]);
    fprintf(stderr, "\n");
}

/* @return 1 where oneDNN serves it. */
static int check(stn_context *context, const struct stni_conv_problem *p)
{
    struct stni_onednn *library = stni_onednn_of(context);
    const int64_t n[] = {problem_size(p, p->o, p->out), problem_size(p, p->c, p->in), weight_size(p)};
    float *y = numbers(n[STNI_CONV_Y]), *x = numbers(n[STNI_CONV_X]), *weight = numbers(n[STNI_CONV_WEIGHT]);
    float *const role[] = {[STNI_CONV_Y] = y, [STNI_CONV_X] = x, [STNI_CONV_WEIGHT] = weight};
    float *const bias = numbers(p->o), *const want = copy_of(role[p->kind], n[p->kind]);
    struct stni_conv_data data = {.x = x, .y = y, .weight = weight, .bias = p->has_bias ? bias : NULL, .images = 1};
    int64_t solved;
    const int serves = stni_onednn_conv(library, p, &data, &solved) == STN_OK;
    void **const target[] = {[STNI_CONV_Y] = &data.y, [STNI_CONV_X] = &data.x, [STNI_CONV_WEIGHT] = &data.weight};
    *target[p->kind] = want;
    solve_ourselves(context->isa, p, &data);
    int64_t wrong = 0;
    for (int64_t i = 0; serves && i < n[p->kind]; i++)
        wrong += role[p->kind][i] != want[i];
    if (!CHECK_I64(wrong, 0))
        describe(p, stni_onednn_conv_name(library, p));
    float *const all[] = {y, x, weight, bias, want};
    for (int i = 0; i < 5; i++)
        free(all[i]);
    return serves;
}

static void check_drawn(int dims, int n)
{
    const stn_context_options options = {.size = sizeof options};
    stn_context *context = NULL;
    int served = 0;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    for (int i = 0; i < n; i++) {
        const struct stni_conv_problem p = draw_problem(i % 3, dims);
        served += check(context, &p);
    }
    CHECK(served > n / 2);
    stn_context_destroy(&context);
}

static void lines_and_images_are_convolved_as_by_us(void)
{
    state = 3;
    check_drawn(1, 600);
    check_drawn(2, 1200);
}

static void volumes_are_convolved_as_by_us(void)
{
    state = 7;
    check_drawn(3, 4000);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"lines_and_images_are_convolved_as_by_us", lines_and_images_are_convolved_as_by_us},
        {"volumes_are_convolved_as_by_us", volumes_are_convolved_as_by_us},
    };
    return TEST_MAIN(argc, argv, cases);
}
