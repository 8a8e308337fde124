/* oneDNN 2.x through its C interface. */
#include "peer_onednn.h"

#include <dnnl.h>

#include <stdlib.h>
#include <string.h>

/* Of libgomp, which oneDNN uses; the number is the calling thread's own. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);

/* The last one is the primitive's scratch pad: oneDNN's own would belong to the thread that made the primitive, and
 * others run it. */
enum { ARGS = 4 };

struct peer_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t desc, hint;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[ARGS];
    void *data[ARGS];
    dnnl_exec_arg_t args[ARGS];
};

/* What a pass reads and writes, and under which names. */
static const struct pass_row {
    dnnl_query_t query[ARGS];
    int arg[ARGS];
} passes[] = {
    [CONV_FORWARD] = {{dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md, dnnl_query_scratchpad_md},
                      {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD}},
    [CONV_BACKWARD_DATA] = {{dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md,
                             dnnl_query_scratchpad_md},
                            {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD}},
    [CONV_BACKWARD_WEIGHTS] = {{dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md,
                                dnnl_query_scratchpad_md},
                               {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD}},
};

static int good(dnnl_status_t status)
{
    return status == dnnl_success;
}

static int describe(struct peer_onednn *p, const struct conv_shape *s, enum conv_pass pass)
{
    static const dnnl_format_tag_t channels_last[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
    const dnnl_format_tag_t tag = channels_last[s->dims - 1];
    const int64_t pad = (s->kernel - 1) / 2;
    dnnl_dims_t src = {s->batch, s->in}, dst = {s->batch, s->out}, weights = {s->out, s->in}, strides, padding;
    dnnl_memory_desc_t x, w, y;
    for (int d = 0; d < s->dims; d++) {
        src[2 + d] = s->size[d];
        dst[2 + d] = (s->size[d] + 2 * pad - s->kernel) / s->stride + 1;
        weights[2 + d] = s->kernel;
        strides[d] = s->stride;
        padding[d] = pad;
    }
    if (!good(dnnl_memory_desc_init_by_tag(&x, 2 + s->dims, src, dnnl_f32, tag)) ||
        !good(dnnl_memory_desc_init_by_tag(&w, 2 + s->dims, weights, dnnl_f32, dnnl_format_tag_any)) ||
        !good(dnnl_memory_desc_init_by_tag(&y, 2 + s->dims, dst, dnnl_f32, tag)))
        return 0;
    dnnl_convolution_desc_t forward, backward;
    if (!good(dnnl_convolution_forward_desc_init(&forward, dnnl_forward_training, dnnl_convolution_direct, &x, &w, NULL,
                                                 &y, strides, padding, padding)) ||
        !good(dnnl_primitive_desc_create(&p->hint, &forward, p->attr, p->engine, NULL)))
        return 0;
    if (pass == CONV_FORWARD)
        return good(dnnl_primitive_desc_clone(&p->desc, p->hint));
    dnnl_status_t status = pass == CONV_BACKWARD_DATA
                               ? dnnl_convolution_backward_data_desc_init(&backward, dnnl_convolution_direct, &x, &w,
                                                                          &y, strides, padding, padding)
                               : dnnl_convolution_backward_weights_desc_init(&backward, dnnl_convolution_direct, &x, &w,
                                                                             NULL, &y, strides, padding, padding);
    return good(status) && good(dnnl_primitive_desc_create(&p->desc, &backward, p->attr, p->engine, p->hint));
}

static int allocate(struct peer_onednn *p, enum conv_pass pass)
{
    for (int i = 0; i < ARGS; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(p->desc, passes[pass].query[i], 0);
        const size_t bytes = dnnl_memory_desc_get_size(md);
        p->data[i] = aligned_alloc(4096, (bytes / 4096 + 1) * 4096);
        if (p->data[i] == NULL)
            return 0;
        float *x = p->data[i];
        for (size_t j = 0; j < bytes / sizeof *x; j++)
            x[j] = (float)(j % 127) / 64 - 1;
        if (!good(dnnl_memory_create(&p->memory[i], md, p->engine, p->data[i])))
            return 0;
        p->args[i].arg = passes[pass].arg[i];
        p->args[i].memory = p->memory[i];
    }
    return 1;
}

struct peer_onednn *peer_onednn_create(const struct conv_shape *shape, enum conv_pass pass)
{
    struct peer_onednn *p = calloc(1, sizeof *p);
    if (p != NULL && good(dnnl_engine_create(&p->engine, dnnl_cpu, 0)) &&
        good(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags)) &&
        good(dnnl_primitive_attr_create(&p->attr)) &&
        good(dnnl_primitive_attr_set_scratchpad_mode(p->attr, dnnl_scratchpad_mode_user)) && describe(p, shape, pass) &&
        allocate(p, pass) && good(dnnl_primitive_create(&p->primitive, p->desc)))
        return p;
    peer_onednn_destroy(&p);
    return NULL;
}

void peer_onednn_destroy(struct peer_onednn **peer)
{
    struct peer_onednn *p = *peer;
    if (p == NULL)
        return;
    if (p->primitive != NULL)
        dnnl_primitive_destroy(p->primitive);
    for (int i = 0; i < ARGS; i++) {
        if (p->memory[i] != NULL)
            dnnl_memory_destroy(p->memory[i]);
        free(p->data[i]);
    }
    if (p->desc != NULL)
        dnnl_primitive_desc_destroy(p->desc);
    if (p->hint != NULL)
        dnnl_primitive_desc_destroy(p->hint);
    if (p->attr != NULL)
        dnnl_primitive_attr_destroy(p->attr);
    if (p->stream != NULL)
        dnnl_stream_destroy(p->stream);
    if (p->engine != NULL)
        dnnl_engine_destroy(p->engine);
    free(p);
    *peer = NULL;
}

int peer_onednn_run(struct peer_onednn *p, int threads, int64_t n)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    int fine = 1;
    for (int64_t i = 0; i < n && fine; i++)
        fine =
            good(dnnl_primitive_execute(p->primitive, p->stream, ARGS, p->args)) && good(dnnl_stream_wait(p->stream));
    omp_set_num_threads(before);
    return fine;
}

const char *peer_onednn_kernel(const struct peer_onednn *p)
{
    const char *name = "";
    dnnl_primitive_desc_query(p->desc, dnnl_query_impl_info_str, 0, &name);
    return name;
}
