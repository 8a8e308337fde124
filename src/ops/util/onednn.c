/* oneDNN 2.6. What is known of its fast code is in the design notes: dense channels-last data with a weight layout of its own choice runs
 * at full speed; strided views fall to reference code, which is never used here.
 *
 * Primitives are kept by problem: making one takes up to a few milliseconds. Their scratch pads and reordered weights share two
 * buffers of the library's own, which grow as needed: all of it is used by one kernel at a time. */
#include "ops/util/onednn.h"

#include "core/hash.h"

#include <dnnl.h>

#include <string.h>

/* Of libgomp, which oneDNN uses; the number is the calling thread's own. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);

enum { MAX_PRIMITIVES = 1024, MAX_ARGS = 5 };

/* Everything that tells problems apart; whole bytes. */
struct key {
    struct stni_conv_problem conv;      /* all zero for a product */
    struct stni_onednn_product product; /* all zero for a convolution */
};

struct buffer {
    void *data;
    size_t bytes;
};

/* A primitive with its memory objects, whose addresses are set before each run. A plain weight and the weight as the primitive wants it
 * are one where their layouts agree; reorders turn one into the other. */
struct primitive {
    UT_hash_handle hh;
    struct key key;
    int refused;      /* oneDNN has nothing for it but its reference code */
    const char *name; /* of the code; oneDNN's own text */
    dnnl_primitive_t run, reorder, reorder_add; /* reorder_add: to a gradient that is there already */
    dnnl_memory_t a, b, c, bias, scratch;       /* a convolution: x, weight, y; a product: its factors and result */
    dnnl_memory_t plain;                        /* weight as the caller has it; NULL: as the primitive wants it */
    size_t weight_bytes, scratch_bytes;
    int n_args;
    dnnl_exec_arg_t args[MAX_ARGS];
};

struct stni_onednn {
    stn_device *device;
    int threads, bf16;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr, add_attr; /* scratch pads are ours; and results are added */
    struct primitive *primitives;
    struct buffer weight, scratch;
    const void *held; /* the weight that lies reordered in `weight`, and how; NULL: none */
    dnnl_memory_desc_t held_desc;
};

static stn_status translate(dnnl_status_t status)
{
    static const struct {
        dnnl_status_t theirs;
        stn_status ours;
    } table[] = {{dnnl_success, STN_OK}, {dnnl_out_of_memory, STN_ERR_MEMORY}, {dnnl_unimplemented, STN_ERR_UNSUPPORTED},
                 {dnnl_invalid_arguments, STN_ERR_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].theirs == status)
            return table[i].ours;
    return STN_ERR_INTERNAL;
}

static dnnl_data_type_t data_type(int32_t dtype)
{
    return dtype == STN_DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

static stn_status grow(struct stni_onednn *library, struct buffer *buffer, size_t bytes)
{
    if (bytes <= buffer->bytes)
        return STN_OK;
    stni_device_deallocate(library->device, buffer->data, buffer->bytes);
    *buffer = (struct buffer){0};
    library->held = NULL;
    STNI_TRY(stni_device_allocate(library->device, bytes, &buffer->data));
    buffer->bytes = bytes;
    return STN_OK;
}

static void primitive_destroy(struct primitive *p)
{
    dnnl_primitive_t primitives[] = {p->run, p->reorder, p->reorder_add};
    dnnl_memory_t memories[] = {p->a, p->b, p->c, p->bias, p->scratch, p->plain};
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++)
        if (primitives[i] != NULL)
            dnnl_primitive_destroy(primitives[i]);
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i] != NULL)
            dnnl_memory_destroy(memories[i]);
    stni_free(p);
}

static void primitives_clear(struct stni_onednn *library)
{
    struct primitive *p, *next;
    HASH_ITER(hh, library->primitives, p, next) {
        HASH_DEL(library->primitives, p);
        primitive_destroy(p);
    }
}

static void destroy(void *state)
{
    struct stni_onednn *library = state;
    primitives_clear(library);
    stni_device_deallocate(library->device, library->weight.data, library->weight.bytes);
    stni_device_deallocate(library->device, library->scratch.data, library->scratch.bytes);
    if (library->add_attr != NULL)
        dnnl_primitive_attr_destroy(library->add_attr);
    if (library->attr != NULL)
        dnnl_primitive_attr_destroy(library->attr);
    if (library->stream != NULL)
        dnnl_stream_destroy(library->stream);
    if (library->engine != NULL)
        dnnl_engine_destroy(library->engine);
    stni_free(library);
}

/* Attributes of reorders that add to what is there. */
static stn_status make_add_attr(struct stni_onednn *library)
{
    dnnl_post_ops_t ops = NULL;
    STNI_TRY(translate(dnnl_primitive_attr_create(&library->add_attr)));
    STNI_TRY(translate(dnnl_post_ops_create(&ops)));
    stn_status status = translate(dnnl_post_ops_append_sum(ops, 1));
    if (status == STN_OK)
        status = translate(dnnl_primitive_attr_set_post_ops(library->add_attr, ops));
    dnnl_post_ops_destroy(ops);
    return status;
}

static stn_status create(stn_context *context, struct stni_onednn *library)
{
    library->device = context->device;
    library->threads = context->threads > 1 ? context->threads : 1;
    library->bf16 = ((int)dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
    STNI_TRY(translate(dnnl_engine_create(&library->engine, dnnl_cpu, 0)));
    STNI_TRY(translate(dnnl_stream_create(&library->stream, library->engine, dnnl_stream_default_flags)));
    STNI_TRY(translate(dnnl_primitive_attr_create(&library->attr)));
    STNI_TRY(translate(dnnl_primitive_attr_set_scratchpad_mode(library->attr, dnnl_scratchpad_mode_user)));
    return make_add_attr(library);
}

stn_status stni_onednn_get(stn_context *context, struct stni_onednn **out)
{
    struct stni_op_cache *cache = &context->op_cache[STNI_OP_CACHE_ONEDNN];
    if (cache->state == NULL) {
        struct stni_onednn *library = stni_calloc(1, sizeof *library);
        if (library == NULL)
            return stni_fail_memory(context, "oneDNN's engine", sizeof *library);
        stn_status status = create(context, library);
        if (status != STN_OK) {
            destroy(library);
            return stni_fail_rank(context, status, "oneDNN's engine could not be made");
        }
        cache->state = library;
        cache->destroy = destroy;
    }
    *out = cache->state;
    return STN_OK;
}

int stni_onednn_has_bf16(const struct stni_onednn *library)
{
    return library->bf16;
}

/* A memory object without an address, put among the arguments as `arg`. */
static stn_status add_arg(struct stni_onednn *library, struct primitive *p, int arg, const dnnl_memory_desc_t *desc,
                          dnnl_memory_t *memory)
{
    STNI_TRY(translate(dnnl_memory_create(memory, desc, library->engine, DNNL_MEMORY_NONE)));
    p->args[p->n_args++] = (dnnl_exec_arg_t){arg, *memory};
    return STN_OK;
}

static stn_status add_scratch(struct stni_onednn *library, struct primitive *p, const_dnnl_primitive_desc_t desc)
{
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    return p->scratch_bytes == 0 ? STN_OK : add_arg(library, p, DNNL_ARG_SCRATCHPAD, scratch, &p->scratch);
}

/* STN_ERR_UNSUPPORTED for oneDNN's reference code. */
static stn_status read_name(struct primitive *p, const_dnnl_primitive_desc_t desc)
{
    STNI_TRY(translate(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &p->name)));
    return strncmp(p->name, "ref", 3) == 0 ? STN_ERR_UNSUPPORTED : STN_OK;
}

static stn_status make_reorder(struct stni_onednn *library, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                               dnnl_primitive_attr_t attr, dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t desc = NULL;
    STNI_TRY(translate(dnnl_reorder_primitive_desc_create(&desc, from, library->engine, to, library->engine, attr)));
    stn_status status = translate(dnnl_primitive_create(out, desc));
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* Convolutions */

struct conv_descs {
    dnnl_memory_desc_t x, weight, plain, y, bias;
};

/* The weight in any layout (`weight`) and row-major (`plain`). */
static stn_status describe_conv(const struct stni_conv_problem *p, struct conv_descs *d)
{
    static const dnnl_format_tag_t data[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
    static const dnnl_format_tag_t weight[2][3] = {{dnnl_oiw, dnnl_oihw, dnnl_oidhw}, {dnnl_goiw, dnnl_goihw, dnnl_goidhw}};
    int grouped = p->groups > 1, nd = p->dims, at = 0;
    dnnl_dims_t x = {p->n, p->c}, y = {p->n, p->o}, w = {0}, bias = {p->o};
    if (grouped)
        w[at++] = p->groups;
    w[at++] = p->o / p->groups;
    w[at++] = p->c / p->groups;
    for (int i = 0; i < nd; i++) {
        x[2 + i] = p->in[i];
        y[2 + i] = p->out[i];
        w[at++] = p->kernel[i];
    }
    dnnl_data_type_t type = data_type(p->dtype), weight_type = data_type(p->weight_dtype);
    STNI_TRY(translate(dnnl_memory_desc_init_by_tag(&d->x, 2 + nd, x, type, data[nd - 1])));
    STNI_TRY(translate(dnnl_memory_desc_init_by_tag(&d->y, 2 + nd, y, type, data[nd - 1])));
    STNI_TRY(translate(dnnl_memory_desc_init_by_tag(&d->weight, at, w, weight_type, dnnl_format_tag_any)));
    STNI_TRY(translate(dnnl_memory_desc_init_by_tag(&d->plain, at, w, weight_type, weight[grouped][nd - 1])));
    return translate(dnnl_memory_desc_init_by_tag(&d->bias, 1, bias, weight_type, dnnl_a));
}

/* The descriptor of a convolution; those of gradients need the forward one's as a hint. */
static stn_status conv_desc(struct stni_onednn *library, const struct stni_conv_problem *p, const struct conv_descs *d,
                            int32_t kind, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    dnnl_dims_t stride = {0}, dilation = {0}, low = {0}, high = {0};
    for (int i = 0; i < p->dims; i++) {
        stride[i] = p->stride[i];
        dilation[i] = p->dilation[i] - 1;
        low[i] = p->pad_low[i];
        high[i] = p->pad_high[i];
    }
    dnnl_convolution_desc_t desc;
    dnnl_status_t status;
    if (kind == STNI_CONV_FORWARD)
        status = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct, &d->x, &d->weight,
                                                            p->has_bias ? &d->bias : NULL, &d->y, stride, dilation, low, high);
    else if (kind == STNI_CONV_GRAD_INPUT)
        status = dnnl_dilated_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &d->x, &d->weight, &d->y, stride,
                                                                  dilation, low, high);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &d->x, &d->weight, NULL, &d->y,
                                                                     stride, dilation, low, high);
    STNI_TRY(translate(status));
    return translate(dnnl_primitive_desc_create(out, &desc, library->attr, library->engine, hint));
}

/* The weight as the primitive wants it, and the way from and to the plain one. */
static stn_status add_weight(struct stni_onednn *library, struct primitive *p, const struct conv_descs *d,
                             const dnnl_memory_desc_t *wanted)
{
    int gradient = p->key.conv.kind == STNI_CONV_GRAD_WEIGHT;
    STNI_TRY(add_arg(library, p, gradient ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, wanted, &p->b));
    p->weight_bytes = dnnl_memory_desc_get_size(wanted);
    if (dnnl_memory_desc_equal(wanted, &d->plain) && !gradient)
        return STN_OK;
    STNI_TRY(translate(dnnl_memory_create(&p->plain, &d->plain, library->engine, DNNL_MEMORY_NONE)));
    const dnnl_memory_desc_t *from = gradient ? wanted : &d->plain, *to = gradient ? &d->plain : wanted;
    STNI_TRY(make_reorder(library, from, to, NULL, &p->reorder));
    return gradient ? make_reorder(library, from, to, library->add_attr, &p->reorder_add) : STN_OK;
}

static stn_status fill_conv(struct stni_onednn *library, struct primitive *p, const struct conv_descs *d,
                            const_dnnl_primitive_desc_t desc)
{
    static const struct {
        int x, y;
        dnnl_query_t weight;
    } kinds[] = {[STNI_CONV_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_DST, dnnl_query_weights_md},
                 [STNI_CONV_GRAD_INPUT] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, dnnl_query_weights_md},
                 [STNI_CONV_GRAD_WEIGHT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, dnnl_query_diff_weights_md}};
    int32_t kind = p->key.conv.kind;
    STNI_TRY(read_name(p, desc));
    STNI_TRY(add_arg(library, p, kinds[kind].x, &d->x, &p->a));
    STNI_TRY(add_arg(library, p, kinds[kind].y, &d->y, &p->c));
    if (p->key.conv.has_bias)
        STNI_TRY(add_arg(library, p, DNNL_ARG_BIAS, &d->bias, &p->bias));
    STNI_TRY(add_weight(library, p, d, dnnl_primitive_desc_query_md(desc, kinds[kind].weight, 0)));
    STNI_TRY(add_scratch(library, p, desc));
    return translate(dnnl_primitive_create(&p->run, desc));
}

static stn_status make_conv(struct stni_onednn *library, struct primitive *p)
{
    struct conv_descs d;
    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    const struct stni_conv_problem *conv = &p->key.conv;
    STNI_TRY(describe_conv(conv, &d));
    STNI_TRY(conv_desc(library, conv, &d, STNI_CONV_FORWARD, NULL, &forward));
    stn_status status = STN_OK;
    if (conv->kind != STNI_CONV_FORWARD)
        status = conv_desc(library, conv, &d, conv->kind, forward, &backward);
    if (status == STN_OK)
        status = fill_conv(library, p, &d, backward != NULL ? backward : forward);
    if (backward != NULL)
        dnnl_primitive_desc_destroy(backward);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

/* Products */

static stn_status make_product(struct stni_onednn *library, struct primitive *p)
{
    const struct stni_onednn_product *q = &p->key.product;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_dims_t a_dims = {q->batch, q->m, q->k}, a_strides = {q->a_batch, q->a_row, q->a_col};
    dnnl_dims_t b_dims = {q->batch, q->k, q->n}, b_strides = {q->b_batch, q->b_row, q->b_col};
    dnnl_dims_t c_dims = {q->batch, q->m, q->n}, c_strides = {q->c_batch, q->c_row, 1};
    dnnl_data_type_t type = data_type(q->dtype);
    STNI_TRY(translate(dnnl_memory_desc_init_by_strides(&a, 3, a_dims, type, a_strides)));
    STNI_TRY(translate(dnnl_memory_desc_init_by_strides(&b, 3, b_dims, type, b_strides)));
    STNI_TRY(translate(dnnl_memory_desc_init_by_strides(&c, 3, c_dims, type, c_strides)));
    STNI_TRY(translate(dnnl_matmul_desc_init(&matmul, &a, &b, NULL, &c)));
    STNI_TRY(translate(dnnl_primitive_desc_create(&desc, &matmul, library->attr, library->engine, NULL)));
    stn_status status;
    STNI_TRY_GOTO(read_name(p, desc), out);
    STNI_TRY_GOTO(add_arg(library, p, DNNL_ARG_SRC, &a, &p->a), out);
    STNI_TRY_GOTO(add_arg(library, p, DNNL_ARG_WEIGHTS, &b, &p->b), out);
    STNI_TRY_GOTO(add_arg(library, p, DNNL_ARG_DST, &c, &p->c), out);
    STNI_TRY_GOTO(add_scratch(library, p, desc), out);
    status = translate(dnnl_primitive_create(&p->run, desc));
out:
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* The table */

/* Finds or makes a primitive; what oneDNN refused is remembered too. */
static stn_status find(struct stni_onednn *library, const struct key *key, struct primitive **out)
{
    struct primitive *p;
    HASH_FIND(hh, library->primitives, key, sizeof *key, p);
    if (p == NULL) {
        if (HASH_COUNT(library->primitives) >= MAX_PRIMITIVES)
            primitives_clear(library);
        p = stni_calloc(1, sizeof *p);
        if (p == NULL)
            return STN_ERR_MEMORY;
        p->key = *key;
        stn_status status = key->conv.n > 0 ? make_conv(library, p) : make_product(library, p);
        p->refused = status == STN_ERR_UNSUPPORTED;
        unsigned before = HASH_COUNT(library->primitives);
        if (status == STN_OK || p->refused) {
            HASH_ADD(hh, library->primitives, key, sizeof p->key, p);
            status = HASH_COUNT(library->primitives) > before ? STN_OK : STN_ERR_MEMORY;
        }
        if (status != STN_OK) {
            primitive_destroy(p);
            return status;
        }
    }
    *out = p;
    return p->refused ? STN_ERR_UNSUPPORTED : STN_OK;
}

static stn_status set(dnnl_memory_t memory, void *data)
{
    return memory == NULL ? STN_OK : translate(dnnl_memory_set_data_handle(memory, data));
}

static stn_status run_reorder(struct stni_onednn *library, dnnl_primitive_t reorder, dnnl_memory_t from, dnnl_memory_t to)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return translate(dnnl_primitive_execute(reorder, library->stream, 2, args));
}

/* Brings the weight into the primitive's layout, unless it lies there still from the last problem. */
static stn_status reorder_weight(struct stni_onednn *library, const struct primitive *p, const struct stni_conv_data *data)
{
    const dnnl_memory_desc_t *wanted;
    STNI_TRY(translate(dnnl_memory_get_memory_desc(p->b, &wanted)));
    if (data->same_weight && library->held == data->weight && dnnl_memory_desc_equal(wanted, &library->held_desc))
        return STN_OK;
    STNI_TRY(run_reorder(library, p->reorder, p->plain, p->b));
    library->held = data->weight;
    library->held_desc = *wanted;
    return STN_OK;
}

static stn_status run_conv(struct stni_onednn *library, struct primitive *p, const struct stni_conv_data *data)
{
    int gradient = p->key.conv.kind == STNI_CONV_GRAD_WEIGHT;
    int64_t element = (int64_t)stn_dtype_size((stn_dtype)p->key.conv.dtype);
    if (p->plain != NULL)
        STNI_TRY(grow(library, &library->weight, p->weight_bytes));
    STNI_TRY(grow(library, &library->scratch, p->scratch_bytes));
    STNI_TRY(set(p->scratch, library->scratch.data));
    STNI_TRY(set(p->bias, data->bias));
    STNI_TRY(set(p->plain, data->weight));
    STNI_TRY(set(p->b, p->plain != NULL ? library->weight.data : data->weight));
    if (gradient)
        library->held = NULL;
    else if (p->plain != NULL)
        STNI_TRY(reorder_weight(library, p, data));
    for (int64_t i = 0; i < data->images; i++) {
        STNI_TRY(set(p->a, (char *)data->x + i * data->x_step * element));
        STNI_TRY(set(p->c, (char *)data->y + i * data->y_step * element));
        STNI_TRY(translate(dnnl_primitive_execute(p->run, library->stream, p->n_args, p->args)));
        if (gradient)
            STNI_TRY(run_reorder(library, i > 0 || data->accumulate ? p->reorder_add : p->reorder, p->b, p->plain));
    }
    return translate(dnnl_stream_wait(library->stream));
}

stn_status stni_onednn_conv(struct stni_onednn *library, const struct stni_conv_problem *problem,
                            const struct stni_conv_data *data)
{
    struct key key;
    struct primitive *p;
    memset(&key, 0, sizeof key);
    key.conv = *problem;
    int threads = omp_get_max_threads();
    omp_set_num_threads(library->threads);
    stn_status status = find(library, &key, &p);
    if (status == STN_OK)
        status = run_conv(library, p, data);
    omp_set_num_threads(threads);
    return status;
}

const char *stni_onednn_conv_name(struct stni_onednn *library, const struct stni_conv_problem *problem)
{
    struct key key;
    struct primitive *p;
    memset(&key, 0, sizeof key);
    key.conv = *problem;
    return find(library, &key, &p) == STN_OK ? p->name : "";
}

/* How sgemm is told of a matrix: whether it lies transposed, and the distance of its lines, which it wants to be a line's length at
 * least even where there is only one. */
static int64_t describe_matrix(int64_t rows, int64_t cols, int64_t row, int64_t col, char *turned)
{
    int64_t length = col == 1 ? cols : rows, distance = col == 1 ? row : col;
    *turned = col == 1 ? 'N' : 'T';
    return distance > length ? distance : length;
}

/* By oneDNN's plain function, which needs no primitive: one product after the other. */
static stn_status run_sgemm(const struct stni_onednn_product *q, const float *a, const float *b, float *c)
{
    char a_turned, b_turned;
    int64_t lda = describe_matrix(q->m, q->k, q->a_row, q->a_col, &a_turned);
    int64_t ldb = describe_matrix(q->k, q->n, q->b_row, q->b_col, &b_turned);
    for (int64_t i = 0; i < q->batch; i++)
        STNI_TRY(translate(dnnl_sgemm(a_turned, b_turned, q->m, q->n, q->k, 1, a + i * q->a_batch, lda, b + i * q->b_batch, ldb, 0,
                                      c + i * q->c_batch, q->c_row)));
    return STN_OK;
}

static stn_status run_product(struct stni_onednn *library, const struct stni_onednn_product *product, void *a, void *b, void *c)
{
    struct key key;
    struct primitive *p;
    memset(&key, 0, sizeof key);
    key.product = *product;
    STNI_TRY(find(library, &key, &p));
    STNI_TRY(grow(library, &library->scratch, p->scratch_bytes));
    STNI_TRY(set(p->scratch, library->scratch.data));
    STNI_TRY(set(p->a, a));
    STNI_TRY(set(p->b, b));
    STNI_TRY(set(p->c, c));
    STNI_TRY(translate(dnnl_primitive_execute(p->run, library->stream, p->n_args, p->args)));
    return translate(dnnl_stream_wait(library->stream));
}

stn_status stni_onednn_product(struct stni_onednn *library, const struct stni_onednn_product *product, const void *a,
                               const void *b, void *c)
{
    int threads = omp_get_max_threads();
    omp_set_num_threads(library->threads);
    /* Several threads share the products of a batch; one has nothing to gain from a primitive. */
    int is_f32 = product->dtype == STN_DTYPE_F32;
    stn_status status = STN_ERR_UNSUPPORTED;
    if (!is_f32 || (product->batch > 1 && library->threads > 1))
        status = run_product(library, product, (void *)(uintptr_t)a, (void *)(uintptr_t)b, c);
    if (is_f32 && status == STN_ERR_UNSUPPORTED)
        status = run_sgemm(product, a, b, c);
    omp_set_num_threads(threads);
    return status;
}
