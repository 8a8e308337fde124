/* Convolutions on the CPU: by oneDNN, or by our own kernels for f64, for empty chunks, and where oneDNN has nothing
 * as fast. */
#include "ops/conv/conv_cpu.h"

#include "core/box/box.h"
#include "core/device/device.h"
#include "core/base/dtype.h"
#include "ops/conv/conv_blocks.h"
#include "ops/conv/direct.h"
#include "ops/conv/reference.h"
#include "ops/cpu/widen.h"

#include <string.h>

/* How problems are solved: the same choice when the size of the workspace is computed and when the kernel runs. */
struct way {
    struct stni_onednn *library; /* NULL: our own kernels */
    int widen;                   /* x and y become f32 first, and the weight unless it is so */
};

/* Our own kernels have one thread. */
static int is_ours(const stn_queue *queue, const struct stni_conv_problem *p)
{
    if (p->dtype == STN_DTYPE_F64 || p->dtype == STN_DTYPE_C128)
        return 1;
    return p->dtype == STN_DTYPE_F32 && queue->context->threads <= 1 && stni_conv_direct_is_best(p);
}

static struct way choose(const stn_queue *queue, const struct stni_conv_problem *p)
{
    const stn_dtype dtype = (stn_dtype)p->dtype;
    struct way way = {NULL, stni_wide_dtype(dtype) != dtype};
    if (!is_ours(queue, p))
        way.library = stni_onednn_of(queue->context);
    if (dtype == STN_DTYPE_BF16 && way.library != NULL && stni_onednn_prefers_bf16(way.library))
        way.widen = 0;
    return way;
}

static size_t workspace_bytes(const struct stni_conv_args *a, const struct way *way);
static stn_status solve_wide(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_args *a);

/* Where oneDNN refused after all, or was not asked: by our own kernels, which know f32 and f64, with a workspace made
 * for it. */
static stn_status solve_refused(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_problem *p,
                                const struct stni_conv_data *data)
{
    struct stni_conv_args a = {.problem = *p, .data = *data};
    const struct way way = {library, stni_wide_dtype((stn_dtype)p->dtype) != (stn_dtype)p->dtype};
    const size_t bytes = way.widen ? workspace_bytes(&a, &way) : stni_conv_reference_workspace(p);
    if (bytes > 0 && stni_device_allocate(queue->device, bytes, &a.workspace) != STN_OK)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: workspace of a convolution (%zu bytes)", bytes);
    stn_status status = STN_OK;
    if (way.widen)
        status = solve_wide(queue, library, &a);
    else
        stni_conv_reference(queue->isa, p, data, a.workspace);
    stni_device_deallocate(queue->device, a.workspace, bytes);
    return status;
}

/* What is left to do when some images have been solved. */
static struct stni_conv_data data_after(const struct stni_conv_problem *p, const struct stni_conv_data *data,
                                        int64_t solved)
{
    int64_t element = (int64_t)stn_dtype_size((stn_dtype)p->dtype);
    struct stni_conv_data left = *data;
    left.images -= solved;
    left.x = (char *)data->x + solved * data->x_step * element;
    left.y = (char *)data->y + solved * data->y_step * element;
    left.accumulate = data->accumulate || solved > 0;
    return left;
}

/* Images of a batch that oneDNN is given at once. One that is work enough costs nothing by itself. */
static int64_t images_at_once(const struct stni_conv_problem *p)
{
    enum { WORTH = 1000 * 1000 }; /* multiplications: about 10 us */
    int64_t terms = 1, work = p->o * (p->c / p->groups);
    for (int d = 0; d < p->dims; d++) {
        terms *= p->out[d];
        work *= p->out[d] * p->kernel[d];
    }
    return work > WORTH || terms > STNI_CONV_TERMS_AT_ONCE ? 1 : STNI_CONV_TERMS_AT_ONCE / terms;
}

/* A whole batch, or images of a batch one by one. */
static stn_status ask_library(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_problem *p,
                              const struct stni_conv_data *data)
{
    int64_t solved = 0;
    const int asks = !stni_conv_is_empty(p) && !is_ours(queue, p); /* of a wide problem that is known here only */
    stn_status status = asks ? stni_onednn_conv(library, p, data, &solved) : STN_ERR_UNSUPPORTED;
    if (status == STN_ERR_UNSUPPORTED) {
        const struct stni_conv_data left = solved > 0 ? data_after(p, data, solved) : *data;
        return solve_refused(queue, library, p, &left);
    }
    return status == STN_OK ? STN_OK
                            : stn_queue_fail(queue, status, "convolution: oneDNN failed: %s", stn_status_text(status));
}

/* The gradient by the weight of a batch, a few images at a time. */
static stn_status sum_batch(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_problem *p,
                            const struct stni_conv_data *data)
{
    const int64_t most = images_at_once(p);
    struct stni_conv_data part = *data;
    struct stni_conv_problem few = *p;
    few.n = 1;
    part.x_step = stni_conv_elements(&few, STNI_CONV_X), part.y_step = stni_conv_elements(&few, STNI_CONV_Y);
    for (int64_t at = 0; at < p->n; at += most) {
        few.n = p->n - at < most ? p->n - at : most;
        STNI_TRY(ask_library(queue, library, &few, &part));
        part = data_after(p, &part, few.n);
        part.images = 1;
    }
    return STN_OK;
}

stn_status stni_conv_real(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_problem *p,
                          const struct stni_conv_data *data, void *workspace)
{
    if (library == NULL) {
        stni_conv_reference(queue->isa, p, data, workspace);
        return STN_OK;
    }
    const int splits = p->kind == STNI_CONV_GRAD_WEIGHT && data->images == 1 && p->n > 1 && !stni_conv_is_empty(p);
    return splits ? sum_batch(queue, library, p, data) : ask_library(queue, library, p, data);
}

static int64_t times(int64_t n, int dims, const int64_t *extent)
{
    for (int d = 0; d < dims; d++)
        n *= extent[d];
    return n;
}

int64_t stni_conv_elements(const struct stni_conv_problem *p, enum stni_conv_role role)
{
    switch (role) {
    case STNI_CONV_X: return times(p->n * p->c, p->dims, p->in);
    case STNI_CONV_Y: return times(p->n * p->o, p->dims, p->out);
    case STNI_CONV_WEIGHT:
    case STNI_CONV_ROLES: break;
    }
    return times(p->o * (p->c / p->groups), p->dims, p->kernel);
}

/* To x, as libraries give adjoints without a bias; of complex problems to y too. */
static void add_bias(stn_queue *queue, const struct stni_conv_problem *p, const struct stni_conv_data *data)
{
    int to_y = p->kind == STNI_CONV_FORWARD;
    int64_t channels = to_y ? p->o : p->c, elements = stni_conv_elements(p, to_y ? STNI_CONV_Y : STNI_CONV_X);
    if (data->images * elements == 0)
        return;
    stn_box out = {.data = to_y ? data->y : data->x, .ndim = 3, .shape = {data->images, elements / channels, channels},
                   .strides = {to_y ? data->y_step : data->x_step, channels, 1}};
    stn_box bias = out;
    bias.data = data->bias;
    bias.strides[0] = bias.strides[1] = 0;
    const stn_box addends[] = {out, bias};
    stni_box_reduce_now(queue->isa, 1, &out, 2, addends, (stn_dtype)p->dtype, STN_SUM);
}

static stn_status solve(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_args *a,
                        const struct stni_conv_problem *p, const struct stni_conv_data *data, void *workspace)
{
    STNI_TRY(stni_conv_real(queue, library, p, data, workspace));
    if (a->adds_bias)
        add_bias(queue, p, data);
    return STN_OK;
}

/* 16-bit floats */

static int64_t bias_elements(const struct stni_conv_args *a)
{
    return a->adds_bias ? a->problem.c : a->problem.has_bias ? a->problem.o : 0;
}

static size_t wide_bytes(int64_t n)
{
    return ((size_t)n * sizeof(float) + 63) / 64 * 64;
}

static struct stni_conv_problem wide_problem(const struct stni_conv_problem *p)
{
    struct stni_conv_problem wide = *p;
    wide.dtype = wide.weight_dtype = STN_DTYPE_F32;
    return wide;
}

static void convert(void *to, stn_dtype to_dtype, const void *from, stn_dtype from_dtype, int64_t n)
{
    stn_box dst = {.data = to, .ndim = 1, .shape = {n}, .strides = {1}}, src = dst;
    src.data = (void *)(uintptr_t)from;
    stni_convert_box_now(&dst, to_dtype, &src, from_dtype);
}

static float *carve(char **workspace, int64_t n)
{
    float *taken = (float *)(void *)*workspace;
    *workspace += wide_bytes(n);
    return taken;
}

/* One image after the other, through f32 copies of x, y, weight and bias. */
static stn_status solve_wide(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_args *a)
{
    const struct stni_conv_problem *p = &a->problem;
    struct stni_conv_problem wide = wide_problem(p);
    stn_dtype dtype = (stn_dtype)p->dtype;
    int64_t nx = stni_conv_elements(p, STNI_CONV_X), ny = stni_conv_elements(p, STNI_CONV_Y),
            nw = stni_conv_elements(p, STNI_CONV_WEIGHT);
    int same = p->weight_dtype == STN_DTYPE_F32, reads_x = p->kind != STNI_CONV_GRAD_INPUT,
        reads_y = p->kind != STNI_CONV_FORWARD;
    char *workspace = a->workspace;
    struct stni_conv_data data = {.x = carve(&workspace, nx),
                                  .y = carve(&workspace, ny),
                                  .weight = a->data.weight,
                                  .images = 1,
                                  .accumulate = a->data.accumulate};
    if (!same) {
        data.weight = carve(&workspace, nw);
        convert(data.weight, STN_DTYPE_F32, a->data.weight, dtype, nw);
    }
    if (a->data.bias != NULL) {
        data.bias = carve(&workspace, bias_elements(a));
        convert(data.bias, STN_DTYPE_F32, a->data.bias, dtype, bias_elements(a));
    }
    for (int64_t i = 0; i < a->data.images; i++) {
        uint16_t *x = (uint16_t *)a->data.x + i * a->data.x_step, *y = (uint16_t *)a->data.y + i * a->data.y_step;
        if (reads_x)
            convert(data.x, STN_DTYPE_F32, x, dtype, nx);
        if (reads_y)
            convert(data.y, STN_DTYPE_F32, y, dtype, ny);
        STNI_TRY(solve(queue, library, a, &wide, &data, workspace));
        if (!reads_x)
            convert(x, dtype, data.x, STN_DTYPE_F32, nx);
        if (!reads_y)
            convert(y, dtype, data.y, STN_DTYPE_F32, ny);
        data.accumulate = data.same_weight = 1;
    }
    return STN_OK;
}

static size_t workspace_bytes(const struct stni_conv_args *a, const struct way *way)
{
    const struct stni_conv_problem *p = &a->problem;
    struct stni_conv_problem wide = wide_problem(p);
    if (stni_dtype_is_complex((stn_dtype)p->dtype))
        return stni_conv_complex_workspace(way->library, a);
    size_t bytes = way->library != NULL ? 0 : stni_conv_reference_workspace(way->widen ? &wide : p);
    if (!way->widen)
        return bytes;
    for (int role = 0; role < STNI_CONV_ROLES; role++)
        bytes += wide_bytes(stni_conv_elements(p, (enum stni_conv_role)role));
    return bytes + wide_bytes(bias_elements(a));
}

static stn_status solve_complex(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_args *a)
{
    STNI_TRY(stni_conv_complex(queue, library, a));
    if (a->data.bias != NULL)
        add_bias(queue, &a->problem, &a->data);
    return STN_OK;
}

static stn_status solve_block(stn_queue *queue, const struct way *way, const struct stni_conv_args *a)
{
    if (stni_dtype_is_complex((stn_dtype)a->problem.dtype))
        return solve_complex(queue, way->library, a);
    return way->widen ? solve_wide(queue, way->library, a)
                      : solve(queue, way->library, a, &a->problem, &a->data, a->workspace);
}

/* Our own kernels have blocks of their own; a batch without images is one problem, whose gradient by the weight is
 * zero. */
static int64_t block_rows(const stn_queue *queue, const struct way *way, const struct stni_conv_problem *p)
{
    return way->library == NULL || p->n == 0 ? stni_conv_target_rows(p)
                                             : stni_conv_block_rows(p, queue->context->threads);
}

/* The library is made on the context's thread, before a kernel asks for it, also one of our own: that may run on the
 * worker while this is asked about the next problem. */
size_t stni_conv_cpu_workspace(stn_queue *queue, const void *args)
{
    const struct stni_conv_args *a = args;
    stni_onednn_of(queue->context);
    const struct way way = choose(queue, &a->problem);
    const int64_t all = stni_conv_target_rows(&a->problem), rows = block_rows(queue, &way, &a->problem);
    size_t most = 0;
    if (rows >= all)
        return workspace_bytes(a, &way);
    for (int64_t at = 0; at < all; at += rows) {
        struct stni_conv_args block;
        stni_conv_block(a, 0, at, at + rows < all ? at + rows : all, &block);
        const size_t bytes = workspace_bytes(&block, &way);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static stn_status solve_image(stn_queue *queue, const struct way *way, const struct stni_conv_args *a, int64_t image,
                              int64_t rows)
{
    const int64_t all = stni_conv_target_rows(&a->problem);
    for (int64_t at = 0; at < all; at += rows) {
        struct stni_conv_args block;
        stni_conv_block(a, image, at, at + rows < all ? at + rows : all, &block);
        STNI_TRY(solve_block(queue, way, &block));
    }
    return STN_OK;
}

/* All blocks of an image come before the next one, so that rows that two blocks read are still in the cache for the
 * second. */
stn_status stni_conv_cpu(stn_queue *queue, const void *args)
{
    const struct stni_conv_args *a = args;
    const struct way way = choose(queue, &a->problem);
    /* Of the problems with one weight our own kernels may solve the first, and oneDNN another. */
    if (!a->data.same_weight)
        stni_onednn_forget_weight(stni_onednn_of(queue->context));
    const int64_t all = stni_conv_target_rows(&a->problem), rows = block_rows(queue, &way, &a->problem);
    if (rows >= all)
        return solve_block(queue, &way, a);
    for (int64_t image = 0; image < stni_conv_block_images(a); image++)
        STNI_TRY(solve_image(queue, &way, a, image, rows));
    return STN_OK;
}

stn_status stni_conv_add_cpu(stn_queue *queue, const void *args)
{
    const struct stni_conv_add_args *a = args;
    stni_box_add_now(queue->isa, &a->dst, &a->src, a->dtype);
    return STN_OK;
}

stn_status stni_conv_narrow_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct stni_conv_narrow_args *a = args;
    convert(a->dst, a->dtype, a->src, STN_DTYPE_F32, a->n);
    return STN_OK;
}
