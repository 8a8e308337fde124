/* oneDNN 2.x through its C interface. */
#include "peer_primitive.h"

#include "buffers.h"

#include <dnnl.h>

#include <stdlib.h>

/* Of libgomp, which oneDNN uses; the number is the calling thread's own. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);

/* Everything that one of the primitives may read or write; what it has no use for has size 0. */
static const struct operand {
    dnnl_query_t query;
    int index, arg;
} operands[] = {
    {dnnl_query_src_md, 0, DNNL_ARG_SRC},
    {dnnl_query_dst_md, 0, DNNL_ARG_DST},
    {dnnl_query_dst_md, 1, DNNL_ARG_MEAN},
    {dnnl_query_dst_md, 2, DNNL_ARG_VARIANCE},
    {dnnl_query_workspace_md, 0, DNNL_ARG_WORKSPACE},
};

enum { OPERANDS = sizeof operands / sizeof operands[0] };

struct peer_primitive {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[OPERANDS];
    void *data[OPERANDS];
    dnnl_exec_arg_t args[OPERANDS];
    int n_args;
};

static int good(dnnl_status_t status)
{
    return status == dnnl_success;
}

static int make_desc(struct peer_primitive *p, const void *desc)
{
    return good(dnnl_primitive_desc_create(&p->desc, desc, NULL, p->engine, NULL));
}

static int describe_pool(struct peer_primitive *p, const struct peer_primitive_shape *s, const dnnl_memory_desc_t *x,
                         const dnnl_memory_desc_t *y)
{
    const dnnl_alg_kind_t kind = s->kind == PEER_MAX_POOL ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
    const dnnl_dims_t strides = {s->stride, s->stride, s->stride}, kernel = {s->kernel, s->kernel, s->kernel};
    const dnnl_dims_t padding = {s->padding, s->padding, s->padding};
    dnnl_pooling_desc_t desc;
    return good(dnnl_pooling_forward_desc_init(&desc, dnnl_forward_training, kind, x, y, strides, kernel, padding,
                                               padding)) &&
           make_desc(p, &desc);
}

static int describe_norm(struct peer_primitive *p, const struct peer_primitive_shape *s, const dnnl_memory_desc_t *x)
{
    dnnl_layer_normalization_desc_t layer;
    dnnl_batch_normalization_desc_t batch;
    if (s->kind == PEER_LAYER_NORM)
        return good(dnnl_layer_normalization_forward_desc_init(&layer, dnnl_forward_training, x, NULL, 1e-5f, 0)) &&
               make_desc(p, &layer);
    return good(dnnl_batch_normalization_forward_desc_init(&batch, dnnl_forward_training, x, 1e-5f, 0)) &&
           make_desc(p, &batch);
}

static int describe_function(struct peer_primitive *p, const struct peer_primitive_shape *s,
                             const dnnl_memory_desc_t *x)
{
    const dnnl_alg_kind_t kind = s->kind == PEER_EXP       ? dnnl_eltwise_exp
                                 : s->kind == PEER_SIGMOID ? dnnl_eltwise_logistic
                                                           : dnnl_eltwise_gelu_tanh;
    dnnl_eltwise_desc_t desc;
    return good(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training, kind, x, 0, 0)) && make_desc(p, &desc);
}

/* Dims behind the channels after the primitive. */
static int64_t result_size(const struct peer_primitive_shape *s, int64_t n)
{
    if (s->kind == PEER_BILINEAR)
        return n * s->factor;
    return s->kernel ? (n + 2 * s->padding - s->kernel) / s->stride + 1 : n;
}

static int describe(struct peer_primitive *p, const struct peer_primitive_shape *s)
{
    static const dnnl_format_tag_t tags[] = {dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    const float factors[] = {(float)s->factor, (float)s->factor, (float)s->factor};
    dnnl_dims_t in, out;
    dnnl_memory_desc_t x, y;
    for (int d = 0; d < s->ndim; d++) {
        in[d] = s->dims[d];
        out[d] = d < 2 ? s->dims[d] : result_size(s, s->dims[d]);
    }
    if (!good(dnnl_memory_desc_init_by_tag(&x, s->ndim, in, dnnl_f32, tags[s->ndim])) ||
        !good(dnnl_memory_desc_init_by_tag(&y, s->ndim, out, dnnl_f32, tags[s->ndim])))
        return 0;
    dnnl_softmax_desc_t softmax;
    dnnl_resampling_desc_t resampling;
    switch (s->kind) {
    case PEER_SOFTMAX:
        return good(dnnl_softmax_forward_desc_init(&softmax, dnnl_forward_training, &x, s->ndim - 1)) &&
               make_desc(p, &softmax);
    case PEER_LAYER_NORM:
    case PEER_BATCH_NORM:
        return describe_norm(p, s, &x);
    case PEER_MAX_POOL:
    case PEER_AVG_POOL:
        return describe_pool(p, s, &x, &y);
    case PEER_BILINEAR:
        return good(dnnl_resampling_forward_desc_init(&resampling, dnnl_forward_training, dnnl_resampling_linear,
                                                      factors, &x, &y)) &&
               make_desc(p, &resampling);
    case PEER_EXP:
    case PEER_SIGMOID:
    case PEER_GELU_TANH:
        return describe_function(p, s, &x);
    }
    return 0;
}

static int allocate(struct peer_primitive *p)
{
    for (int i = 0; i < OPERANDS; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(p->desc, operands[i].query, operands[i].index);
        const size_t bytes = md == NULL ? 0 : dnnl_memory_desc_get_size(md);
        if (bytes == 0)
            continue;
        float *x = buffer_make_large(bytes);
        if (x == NULL)
            return 0;
        p->data[p->n_args] = x;
        for (size_t j = 0; j < bytes / sizeof *x; j++)
            x[j] = (float)(j % 127) / 64 - 1;
        if (!good(dnnl_memory_create(&p->memory[p->n_args], md, p->engine, x)))
            return 0;
        p->args[p->n_args] = (dnnl_exec_arg_t){operands[i].arg, p->memory[p->n_args]};
        p->n_args++;
    }
    return 1;
}

int peer_primitive_is_there(void)
{
    return 1;
}

struct peer_primitive *peer_primitive_create(const struct peer_primitive_shape *shape)
{
    struct peer_primitive *p = calloc(1, sizeof *p);
    if (p != NULL && good(dnnl_engine_create(&p->engine, dnnl_cpu, 0)) &&
        good(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags)) && describe(p, shape) &&
        allocate(p) && good(dnnl_primitive_create(&p->primitive, p->desc)))
        return p;
    peer_primitive_destroy(&p);
    return NULL;
}

void peer_primitive_destroy(struct peer_primitive **peer)
{
    struct peer_primitive *p = *peer;
    if (p == NULL)
        return;
    if (p->primitive != NULL)
        dnnl_primitive_destroy(p->primitive);
    for (int i = 0; i < OPERANDS; i++) {
        if (p->memory[i] != NULL)
            dnnl_memory_destroy(p->memory[i]);
        free(p->data[i]);
    }
    if (p->desc != NULL)
        dnnl_primitive_desc_destroy(p->desc);
    if (p->stream != NULL)
        dnnl_stream_destroy(p->stream);
    if (p->engine != NULL)
        dnnl_engine_destroy(p->engine);
    free(p);
    *peer = NULL;
}

int peer_primitive_run(struct peer_primitive *p, int64_t n)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    int fine = 1;
    for (int64_t i = 0; i < n && fine; i++)
        fine = good(dnnl_primitive_execute(p->primitive, p->stream, p->n_args, p->args)) &&
               good(dnnl_stream_wait(p->stream));
    omp_set_num_threads(before);
    return fine;
}
