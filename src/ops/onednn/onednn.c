/* oneDNN 2.6. What is known of its fast code is in the design notes: dense channels-last data with a weight layout of
 * its own choice runs at full speed; strided views fall to reference code, which is never used here.
 *
 * Primitives are kept by problem: making one takes up to a few milliseconds. Their scratch pads and reordered
 * weights share two buffers of the library's own, which grow as needed: all of it is used by one kernel at a time. */
#include "ops/onednn/onednn_primitive.h"

#include "core/base/processor.h"

#include <pthread.h>
#include <string.h>

/* Of libgomp, which oneDNN uses; the number is the calling thread's own. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);

enum { MAX_PRIMITIVES = 1024 };

static stn_status grow(struct stni_onednn *library, struct stni_onednn_buffer *buffer, size_t bytes)
{
    if (bytes <= buffer->bytes)
        return STN_OK;
    stni_device_deallocate(library->device, buffer->data, buffer->bytes);
    *buffer = (struct stni_onednn_buffer){0};
    library->held = NULL;
    STNI_TRY(stni_device_allocate(library->device, bytes, &buffer->data));
    buffer->bytes = bytes;
    return STN_OK;
}

static void primitive_destroy(struct stni_onednn_primitive *p)
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
    struct stni_onednn_primitive *p, *next;
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
    STNI_TRY(stni_onednn_status(dnnl_primitive_attr_create(&library->add_attr)));
    STNI_TRY(stni_onednn_status(dnnl_post_ops_create(&ops)));
    stn_status status = stni_onednn_status(dnnl_post_ops_append_sum(ops, 1));
    if (status == STN_OK)
        status = stni_onednn_status(dnnl_primitive_attr_set_post_ops(library->add_attr, ops));
    dnnl_post_ops_destroy(ops);
    return status;
}

/* Whether 16-bit products are faster than those of the same numbers as f32: with matrix tiles (AMX), and where the
 * instruction that adds up pairs of bf16 has the rate of those for f32, which without tiles is so on other makers'
 * processors than Intel's. */
static int has_fast_bf16(void)
{
    const int isa = (int)dnnl_get_effective_cpu_isa(), pairs = dnnl_cpu_isa_avx512_core_bf16,
              tiles = dnnl_cpu_isa_avx512_core_amx;
    return (isa & tiles) == tiles || ((isa & pairs) == pairs && !stni_processor_is_intel());
}

static stn_status create(stn_context *context, struct stni_onednn *library)
{
    library->device = context->device;
    library->refusals = &context->foreign.refusals[STNI_LIBRARY_ONEDNN];
    library->threads = context->threads > 1 ? context->threads : 1;
    library->bf16 = has_fast_bf16();
    STNI_TRY(stni_onednn_status(dnnl_engine_create(&library->engine, dnnl_cpu, 0)));
    STNI_TRY(stni_onednn_status(dnnl_stream_create(&library->stream, library->engine, dnnl_stream_default_flags)));
    STNI_TRY(stni_onednn_status(dnnl_primitive_attr_create(&library->attr)));
    STNI_TRY(stni_onednn_status(dnnl_primitive_attr_set_scratchpad_mode(library->attr, dnnl_scratchpad_mode_user)));
    return make_add_attr(library);
}

/* Made at first use. A context that could not make it does without it from then on: the choice of kernel must be the
 * same when the workspace size is computed and when the kernel runs. */
STNI_COLD static struct stni_onednn *make_library(stn_context *context)
{
    struct stni_onednn *library = stni_calloc(1, sizeof *library);
    if (library == NULL || create(context, library) != STN_OK) {
        if (library != NULL)
            destroy(library);
        context->foreign.without |= 1u << STNI_LIBRARY_ONEDNN;
        stni_log(context, STN_LOG_WARNING, "oneDNN could not be set up: our own kernels serve");
        return NULL;
    }
    context->op_cache[STNI_OP_CACHE_ONEDNN].state = library;
    context->op_cache[STNI_OP_CACHE_ONEDNN].destroy = destroy;
    return library;
}

struct stni_onednn *stni_onednn_of(stn_context *context)
{
    if (context == NULL || !stni_foreign_has(&context->foreign, STNI_LIBRARY_ONEDNN))
        return NULL;
    struct stni_onednn *library = context->op_cache[STNI_OP_CACHE_ONEDNN].state;
    return library != NULL ? library : make_library(context);
}

int stni_onednn_prefers_bf16(const struct stni_onednn *library)
{
    return library->bf16;
}
/* The table */

/* oneDNN 2.6 works out convolutions in variables that all threads share: of two that were made at once, one left out
 * taps of its kernel. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static stn_status make(struct stni_onednn *library, struct stni_onednn_primitive *p)
{
    if (stni_refuses(&library->refusals->question))
        return STN_ERR_UNSUPPORTED;
    pthread_mutex_lock(&making);
    const int is_conv = p->key.conv.n > 0;
    const stn_status status = (is_conv ? stni_onednn_make_conv : stni_onednn_make_product)(library, p);
    pthread_mutex_unlock(&making);
    return status;
}

/* Finds or makes a primitive; a problem that oneDNN refused is remembered too, so that no second attempt is made. */
static stn_status find(struct stni_onednn *library, const struct stni_onednn_key *key,
                       struct stni_onednn_primitive **out)
{
    struct stni_onednn_primitive *p;
    HASH_FIND(hh, library->primitives, key, sizeof *key, p);
    if (p == NULL) {
        if (HASH_COUNT(library->primitives) >= MAX_PRIMITIVES)
            primitives_clear(library);
        p = stni_calloc(1, sizeof *p);
        if (p == NULL)
            return STN_ERR_MEMORY;
        p->key = *key;
        stn_status status = make(library, p);
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
    return memory == NULL ? STN_OK : stni_onednn_status(dnnl_memory_set_data_handle(memory, data));
}

static stn_status execute(struct stni_onednn *library, const struct stni_onednn_primitive *p)
{
    if (stni_refuses(&library->refusals->run))
        return STN_ERR_UNSUPPORTED;
    return stni_onednn_status(dnnl_primitive_execute(p->run, library->stream, p->n_args, p->args));
}

static stn_status run_reorder(struct stni_onednn *library, dnnl_primitive_t reorder, dnnl_memory_t from,
                              dnnl_memory_t to)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return stni_onednn_status(dnnl_primitive_execute(reorder, library->stream, 2, args));
}

/* Brings the weight into the primitive's layout, unless it lies there still from the last problem. */
static stn_status reorder_weight(struct stni_onednn *library, const struct stni_onednn_primitive *p,
                                 const struct stni_conv_data *data)
{
    const dnnl_memory_desc_t *wanted;
    STNI_TRY(stni_onednn_status(dnnl_memory_get_memory_desc(p->b, &wanted)));
    if (data->same_weight && library->held == data->weight && dnnl_memory_desc_equal(wanted, &library->held_desc))
        return STN_OK;
    library->held = NULL;
    STNI_TRY(run_reorder(library, p->reorder, p->plain, p->b));
    library->held = data->weight;
    library->held_desc = *wanted;
    return STN_OK;
}

/* The weight, and what is the same for all images. */
static stn_status prepare_conv(struct stni_onednn *library, struct stni_onednn_primitive *p,
                               const struct stni_conv_data *data)
{
    if (p->plain != NULL)
        STNI_TRY(grow(library, &library->weight, p->weight_bytes));
    STNI_TRY(grow(library, &library->scratch, p->scratch_bytes));
    STNI_TRY(set(p->scratch, library->scratch.data));
    STNI_TRY(set(p->bias, data->bias));
    STNI_TRY(set(p->plain, data->weight));
    STNI_TRY(set(p->b, p->plain != NULL ? library->weight.data : data->weight));
    if (p->key.conv.kind == STNI_CONV_GRAD_WEIGHT)
        library->held = NULL;
    else if (p->plain != NULL)
        STNI_TRY(reorder_weight(library, p, data));
    return STN_OK;
}

static stn_status run_conv(struct stni_onednn *library, struct stni_onednn_primitive *p,
                           const struct stni_conv_data *data, int64_t *solved)
{
    int gradient = p->key.conv.kind == STNI_CONV_GRAD_WEIGHT;
    int64_t element = (int64_t)stn_dtype_size((stn_dtype)p->key.conv.dtype);
    STNI_TRY(prepare_conv(library, p, data));
    for (int64_t i = 0; i < data->images; i++, ++*solved) {
        STNI_TRY(set(p->a, (char *)data->x + i * data->x_step * element));
        STNI_TRY(set(p->c, (char *)data->y + i * data->y_step * element));
        STNI_TRY(execute(library, p));
        if (gradient)
            STNI_TRY(run_reorder(library, i > 0 || data->accumulate ? p->reorder_add : p->reorder, p->b, p->plain));
    }
    return stni_onednn_status(dnnl_stream_wait(library->stream));
}

stn_status stni_onednn_conv(struct stni_onednn *library, const struct stni_conv_problem *problem,
                            const struct stni_conv_data *data, int64_t *solved)
{
    struct stni_onednn_key key;
    struct stni_onednn_primitive *p;
    memset(&key, 0, sizeof key);
    key.conv = *problem;
    *solved = 0;
    int threads = omp_get_max_threads();
    omp_set_num_threads(library->threads);
    stn_status status = find(library, &key, &p);
    if (status == STN_OK)
        status = run_conv(library, p, data, solved);
    omp_set_num_threads(threads);
    return status;
}

void stni_onednn_forget_weight(struct stni_onednn *library)
{
    if (library != NULL)
        library->held = NULL;
}

const char *stni_onednn_conv_name(struct stni_onednn *library, const struct stni_conv_problem *problem)
{
    struct stni_onednn_key key;
    struct stni_onednn_primitive *p;
    memset(&key, 0, sizeof key);
    key.conv = *problem;
    return find(library, &key, &p) == STN_OK ? p->name : "";
}

/* A matrix's strides with a distance of lines that is a line's length at least, as oneDNN wants it even where there
 * is only one. */
static void fill_matrix(int64_t rows, int64_t cols, int64_t *row, int64_t *col)
{
    int64_t length = *col == 1 ? cols : rows, *distance = *col == 1 ? row : col;
    if (*distance < length)
        *distance = length;
}

/* The product with every stride that says nothing filled in: oneDNN has nothing but its reference code where one is
 * 0. */
static struct stni_onednn_product fill_strides(const struct stni_onednn_product *product)
{
    struct stni_onednn_product q = *product;
    fill_matrix(q.m, q.k, &q.a_row, &q.a_col);
    fill_matrix(q.k, q.n, &q.b_row, &q.b_col);
    if (q.c_row < q.n)
        q.c_row = q.n;
    if (q.batch == 1) {
        q.a_batch = q.a_col == 1 ? q.m * q.a_row : q.k * q.a_col;
        q.b_batch = q.b_col == 1 ? q.k * q.b_row : q.n * q.b_col;
        q.c_batch = q.m * q.c_row;
    }
    return q;
}

/* By oneDNN's plain function, which needs no primitive: one product after the other. */
static stn_status run_sgemm(struct stni_onednn *library, const struct stni_onednn_product *q, const float *a,
                            const float *b, float *c)
{
    char a_form = q->a_col == 1 ? 'N' : 'T', b_form = q->b_col == 1 ? 'N' : 'T';
    int64_t lda = q->a_col == 1 ? q->a_row : q->a_col, ldb = q->b_col == 1 ? q->b_row : q->b_col;
    for (int64_t i = 0; i < q->batch; i++) {
        if (stni_refuses(&library->refusals->run))
            return STN_ERR_UNSUPPORTED;
        STNI_TRY(stni_onednn_status(dnnl_sgemm(a_form, b_form, q->m, q->n, q->k, 1, a + i * q->a_batch, lda,
                                               b + i * q->b_batch, ldb, 0, c + i * q->c_batch, q->c_row)));
    }
    return STN_OK;
}

static stn_status run_primitive(struct stni_onednn *library, const struct stni_onednn_product *product, void *a,
                                void *b, void *c)
{
    struct stni_onednn_key key;
    struct stni_onednn_primitive *p;
    memset(&key, 0, sizeof key);
    key.product = *product;
    STNI_TRY(find(library, &key, &p));
    STNI_TRY(grow(library, &library->scratch, p->scratch_bytes));
    STNI_TRY(set(p->scratch, library->scratch.data));
    STNI_TRY(set(p->a, a));
    STNI_TRY(set(p->b, b));
    STNI_TRY(set(p->c, c));
    STNI_TRY(execute(library, p));
    return stni_onednn_status(dnnl_stream_wait(library->stream));
}

/* By a primitive for all products, or where a factor is shared, which oneDNN has no fast code for, by one for each. */
static stn_status run_primitives(struct stni_onednn *library, const struct stni_onednn_product *q, char *a, char *b,
                                 char *c)
{
    const int64_t element = (int64_t)stn_dtype_size((stn_dtype)q->dtype);
    if (q->batch == 1 || (q->a_batch > 0 && q->b_batch > 0))
        return run_primitive(library, q, a, b, c);
    struct stni_onednn_product one = *q;
    one.batch = 1;
    one = fill_strides(&one);
    for (int64_t i = 0; i < q->batch; i++)
        STNI_TRY(run_primitive(library, &one, a + i * q->a_batch * element, b + i * q->b_batch * element,
                               c + i * q->c_batch * element));
    return STN_OK;
}

stn_status stni_onednn_product(struct stni_onednn *library, const struct stni_onednn_product *product, const void *a,
                               const void *b, void *c)
{
    const struct stni_onednn_product q = fill_strides(product);
    int threads = omp_get_max_threads();
    omp_set_num_threads(library->threads);
    /* Several threads share the products of a batch; one has nothing to gain from a primitive, nor has a product of
     * a factor that is shared. */
    int is_f32 = q.dtype == STN_DTYPE_F32, is_shared = q.a_batch == 0 || q.b_batch == 0;
    stn_status status = STN_ERR_UNSUPPORTED;
    if (!is_f32 || (q.batch > 1 && library->threads > 1 && !is_shared))
        status = run_primitives(library, &q, (void *)(uintptr_t)a, (void *)(uintptr_t)b, c);
    if (is_f32 && status == STN_ERR_UNSUPPORTED)
        status = run_sgemm(library, &q, a, b, c);
    omp_set_num_threads(threads);
    return status;
}
