/* The CPU's kernel of Fourier transforms: where a dim is strided, a few lines side by side are transposed into
 * buffers, so that every cache line is read once; then they are transformed one by one, and transposed back. */
#include "ops/fft/transform.h"

#include "core/box/box_kernel.h"
#include "core/device/device.h"

#include <complex.h>
#include <string.h>

#define T float
#define COMPLEX_T float _Complex
#define NAME(f) f##_f32
#include "ops/fft/fft_lines_tmpl.h"

#define T double
#define COMPLEX_T double _Complex
#define NAME(f) f##_f64
#include "ops/fft/fft_lines_tmpl.h"

static const struct line_functions {
    void (*pair)(const void *reals, void *line, int64_t n);
    void (*scale)(void *line, int64_t n, double factor);
    void (*scale_half)(void *line, int64_t n, double scale, double interior);
} functions_f32 = {pair_f32, scale_f32, scale_half_f32}, functions_f64 = {pair_f64, scale_f64, scale_half_f64};

/* Lines side by side in a tensor: elements of 1 << `size_log2` bytes, `step` elements apart; `lane` elements from
 * line to line. */
struct lines {
    char *at;
    int size_log2;
    int64_t n, step, lane, width;
};

struct launch {
    const struct stni_fft_args *args;
    const struct stni_transform *transform;
    char *from, *to, *work; /* 64-byte aligned: `lanes` lines of `pitch` bytes each; work of the transform */
    int64_t lanes;
    size_t pitch;
    const struct stni_copy_kernels *copy;
    const struct line_functions *line;
    int real_log2; /* of the bytes of a real number */
};

static void copy_line(const struct launch *c, int size_log2, char *dst, int64_t dst_step, const char *src,
                      int64_t src_step, int64_t n)
{
    if (dst_step == 1 && src_step == 1)
        memcpy(dst, src, (size_t)n << size_log2);
    else
        c->copy->elements[size_log2](dst, dst_step << size_log2, src, src_step << size_log2, n);
}

/* From lines of a tensor to contiguous ones, `pitch` bytes apart. */
static void move_in(const struct launch *c, char *to, const struct lines *from)
{
    const size_t pitch = c->pitch;
    const int64_t lane = from->lane << from->size_log2;
    if (from->lane == 1 && from->width > 1)
        c->copy->transpose[from->size_log2](to, (int64_t)pitch, from->at, from->step << from->size_log2, from->n,
                                            from->width, 0, 0);
    else
        for (int64_t l = 0; l < from->width; l++)
            copy_line(c, from->size_log2, to + (size_t)l * pitch, 1, from->at + l * lane, from->step, from->n);
}

static void move_out(const struct launch *c, const struct lines *to, const char *from)
{
    const size_t pitch = c->pitch;
    const int64_t lane = to->lane << to->size_log2;
    if (to->lane == 1 && to->width > 1)
        c->copy->transpose[to->size_log2](to->at, to->step << to->size_log2, from, (int64_t)pitch, to->width, to->n, 0,
                                          0);
    else
        for (int64_t l = 0; l < to->width; l++)
            copy_line(c, to->size_log2, to->at + l * lane, to->step, from + (size_t)l * pitch, 1, to->n);
}

/* Real elements that become complex lines go by way of the results' buffer, which is free until the transform. */
static void pack(const struct launch *c, const struct lines *in)
{
    const struct stni_fft_args *a = c->args;
    move_in(c, a->real_in ? c->to : c->from, in);
    for (size_t l = 0; l < (size_t)in->width; l++) {
        if (a->real_in)
            c->line->pair(c->to + l * c->pitch, c->from + l * c->pitch, a->n_in);
        if (a->kind == STNI_TRANSFORM_RESTORE)
            c->line->scale_half(c->from + l * c->pitch, a->n, 1, a->interior);
    }
}

static void scale(const struct launch *c, char *line)
{
    const struct stni_fft_args *a = c->args;
    if (a->kind == STNI_TRANSFORM_HALVE)
        c->line->scale_half(line, a->n, a->scale, a->interior);
    else
        c->line->scale(line, a->kind == STNI_TRANSFORM_RESTORE ? a->n_out : 2 * a->n_out, a->scale);
}

/* Where lines of the result are as the transform wants them, it writes there. */
static int is_direct(const struct lines *out)
{
    return out->step == 1 && ((uintptr_t)out->at | (uint64_t)(out->lane << out->size_log2)) % 64 == 0;
}

static void run_lanes(const struct launch *c, int64_t in_at, int64_t out_at, int64_t width)
{
    const struct stni_fft_args *a = c->args;
    const int inner = a->ndim - 1;
    const enum stni_transform_kind kind = a->kind;
    const int in_log2 = c->real_log2 + !(a->real_in || kind == STNI_TRANSFORM_HALVE);
    const int out_log2 = c->real_log2 + (kind != STNI_TRANSFORM_RESTORE);
    const struct lines in = {(char *)a->in + (in_at << in_log2), in_log2, a->n_in, a->step_in, a->strides_in[inner],
                             width};
    const struct lines out = {(char *)a->out + (out_at << out_log2), out_log2, a->n_out, a->step_out,
                              a->strides_out[inner], width};
    const int direct = is_direct(&out);
    pack(c, &in);
    for (int64_t l = 0; l < width; l++) {
        char *line = direct ? out.at + (l * out.lane << out_log2) : c->to + (size_t)l * c->pitch;
        c->transform->run(c->transform, c->from + (size_t)l * c->pitch, line, c->work);
        scale(c, line);
    }
    if (!direct)
        move_out(c, &out, c->to);
}

enum { LINE_BYTES = 64 };

/* Lines side by side, as many as stay in the cache, a little more apart than they are long. */
static void size_buffers(struct launch *c)
{
    enum { BUFFER_BYTES = 1 << 19, MOST_LANES = 16 };
    const size_t real = stn_dtype_size(c->args->real);
    c->pitch = ((size_t)c->args->n * 2 * real + 2 * LINE_BYTES) / LINE_BYTES * LINE_BYTES;
    c->lanes = (int64_t)(BUFFER_BYTES / c->pitch);
    c->lanes = c->args->step_in == 1 || c->lanes < 1 ? 1 : c->lanes > MOST_LANES ? MOST_LANES : c->lanes;
}

/* Makes the plan too, which the kernel finds: that it cannot be made, the context learns. */
size_t stni_fft_workspace(stn_queue *queue, const void *args)
{
    const struct stni_fft_args *a = args;
    struct launch c = {.args = a};
    if (stni_transform_get(queue->context, a->kind, a->real, a->n, &c.transform) != STN_OK)
        return 0;
    size_buffers(&c);
    return (c.transform->work_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES + 2 * (size_t)c.lanes * c.pitch;
}

stn_status stni_fft_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_fft_args *a = raw;
    const int inner = a->ndim - 1;
    const int is_f64 = a->real == STN_DTYPE_F64;
    struct launch c = {.args = a,
                       .transform = stni_transform_find(queue->context, a->kind, a->real, a->n),
                       .work = a->workspace,
                       .copy = STNI_ISA_PICK(stni_copy_kernels, queue->isa),
                       .line = is_f64 ? &functions_f64 : &functions_f32,
                       .real_log2 = is_f64 ? 3 : 2};
    if (!c.transform)
        return stn_queue_fail(queue, STN_ERR_INTERNAL, "a Fourier transform without a plan");
    size_buffers(&c);
    c.from = c.work + (c.transform->work_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    c.to = c.from + (size_t)c.lanes * c.pitch;
    int64_t index[STN_MAX_NDIM] = {0}, in = 0, out = 0;
    for (;;) {
        for (int64_t l = 0; l < a->shape[inner]; l += c.lanes) {
            const int64_t width = a->shape[inner] - l < c.lanes ? a->shape[inner] - l : c.lanes;
            run_lanes(&c, in + l * a->strides_in[inner], out + l * a->strides_out[inner], width);
        }
        int d = inner - 1;
        for (; d >= 0; d--) {
            const int64_t moved = ++index[d] < a->shape[d] ? 1 : 1 - a->shape[d];
            in += moved * a->strides_in[d];
            out += moved * a->strides_out[d];
            if (moved == 1)
                break;
            index[d] = 0;
        }
        if (d < 0)
            return STN_OK;
    }
}
