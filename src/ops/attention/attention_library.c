#include "ops/attention/attention_library.h"

#include "core/base/status.h"
#include "ops/attention/attention_scratch.h"

#include <string.h>

enum { TILE = 64 /* rows and keys */, WIDEST = 256, ELEMENT = 2 /* bytes */, SCRATCH_ALIGNMENT = 256 };

/* Scores from which on it is asked: a plan takes cuDNN some 50 ms, once, and up to a second where it compiles a kernel;
 * fewer are a few microseconds' work for our own kernels. */
enum { LEAST_SCORES = 1 << 18 };

/* Bytes of the gradient of one head's scores, which cuDNN keeps. */
#define MOST_OF_A_HEAD ((int64_t)1 << 30)

enum { BATCH, HEAD, ROW }; /* of strides */

typedef struct stni_cudnn_attention problem;

static const struct stni_attention_operand *operand_of(const struct stni_attention_args *args, int operand)
{
    const struct stni_attention_operand *const operands[] = {
        [STNI_CUDNN_QUERY] = &args->query,
        [STNI_CUDNN_KEY] = &args->key,
        [STNI_CUDNN_VALUE] = &args->value,
        [STNI_CUDNN_OUT] = &args->out,
        [STNI_CUDNN_LSE] = &args->lse,
        [STNI_CUDNN_GRAD] = &args->grad,
        [STNI_CUDNN_GRAD_QUERY] = &args->grad_query.at,
        [STNI_CUDNN_GRAD_KEY] = &args->grad_key.at,
        [STNI_CUDNN_GRAD_VALUE] = &args->grad_value.at,
    };
    return operands[operand];
}

static int operands_of(int is_gradient)
{
    return is_gradient ? STNI_CUDNN_GRAD_VALUE + 1 : STNI_CUDNN_LSE + 1;
}

static int64_t heads_of(const problem *p, int operand)
{
    return stni_cudnn_is_by_keys(operand) ? p->key_heads : p->heads;
}

/* The batch as elements and heads, the last of its dims: at most one before that is longer than 1. @return that one, -1
 * where there is none, -2 where there are several. */
static int batch_dim(const struct stni_attention_args *args)
{
    int found = -1;
    for (int d = 0; d < args->n_batch - 1; d++)
        if (args->batch[d] != 1)
            found = found == -1 ? d : -2;
    return found;
}

/* Groups of query heads that share a head of keys begin with the chunk's first. */
static int tell_heads(const struct stni_attention_args *args, problem *p)
{
    const int dim = batch_dim(args);
    const int64_t heads = args->n_batch > 0 ? args->batch[args->n_batch - 1] : 1, group = args->group;
    p->batch = dim >= 0 ? args->batch[dim] : 1;
    p->heads = heads;
    p->key_heads = heads / group;
    return dim > -2 && heads % group == 0 && args->head % group == 0 && args->key_head == args->head / group;
}

/* Strides along dims of one element are those of dense tensors; 0 elsewhere, of what is broadcast, is refused. */
static int tell_strides(const struct stni_attention_args *args, problem *p, int operand)
{
    const struct stni_attention_operand *o = operand_of(args, operand);
    const int dim = batch_dim(args), is_lse = operand == STNI_CUDNN_LSE;
    const int64_t heads = heads_of(p, operand), rows = stni_cudnn_is_by_keys(operand) ? args->s : args->l;
    int64_t *stride = p->stride[operand];
    stride[ROW] = o->row;
    stride[HEAD] = heads > 1 ? o->batch[args->n_batch - 1] : rows * stride[ROW];
    stride[BATCH] = dim >= 0 ? o->batch[dim] : heads * stride[HEAD];
    if ((uintptr_t)o->data % STNI_CUDNN_ALIGNMENT != 0 || (is_lse ? o->row != 1 : o->col != 1))
        return 0;
    for (int k = 0; k < 3; k++)
        if (stride[k] <= 0 || (!is_lse && stride[k] * ELEMENT % STNI_CUDNN_ALIGNMENT != 0))
            return 0;
    return 1;
}

/* Keys that some row attends to, and how: cuDNN knows the diagonal of a square that begins with the first row, or ends
 * with the last one. */
static int tell_keys(const struct stni_attention_args *args, problem *p)
{
    const int64_t end = args->row_offset + args->l;
    p->rows = args->l;
    p->keys = args->is_causal && end < args->s ? end : args->s;
    p->causal = args->is_causal;
    p->is_last = args->is_causal && args->row_offset > 0;
    return p->rows >= TILE && p->keys >= TILE && (!p->is_last || end <= args->s);
}

static int is_width(int64_t width)
{
    return width > 0 && width <= WIDEST && width * ELEMENT % STNI_CUDNN_ALIGNMENT == 0;
}

/* The problem as cuDNN is asked for it. 0: it is none of its. It rounds what it gives, which parts of the keys do not
 * want (attention_ring_forward.c). Gradients of keys that several heads share are refused:
 * cuDNN rounds those of each head to 16 bits before it adds them up, and was wrong where it was told to keep them in
 * f32 (9.19 on an H200). */
static int describe(const struct stni_attention_args *args, int is_gradient, problem *p)
{
    memset(p, 0, sizeof *p);
    p->dtype = args->dtype;
    p->is_gradient = is_gradient;
    p->width = args->e;
    p->value_width = args->v;
    if ((args->dtype != STN_DTYPE_BF16 && args->dtype != STN_DTYPE_F16) || args->mask_kind != STNI_ATTENTION_NO_MASK ||
        args->is_wide || args->threshold != 0 || !is_width(p->width) || !is_width(p->value_width))
        return 0;
    if (args->group < 1 || !tell_keys(args, p) || !tell_heads(args, p) ||
        p->batch * p->heads * p->rows * p->keys < LEAST_SCORES)
        return 0;
    if (is_gradient && p->heads != p->key_heads)
        return 0;
    for (int k = 0; k < operands_of(is_gradient); k++)
        if (!tell_strides(args, p, k))
            return 0;
    return 1;
}

/* --- parts of a problem */

static int64_t in_whole(int64_t n, int64_t of)
{
    return (n + of - 1) / of * of;
}

/* The largest divisor of n that is at most `most`, at least 1. */
static int64_t divisor(int64_t n, int64_t most)
{
    int64_t found = most < n ? most : n;
    while (found > 1 && n % found != 0)
        found--;
    return found > 1 ? found : 1;
}

int stni_attention_library_part(const problem *whole, problem *part)
{
    const int64_t of_a_head = ELEMENT * in_whole(whole->rows, TILE) * in_whole(whole->keys, TILE);
    const int64_t most = STNI_ATTENTION_SCRATCH / of_a_head;
    *part = *whole;
    if (!whole->is_gradient)
        return 1;
    part->heads = part->key_heads = divisor(whole->heads, most);
    part->batch = part->heads < whole->heads ? 1 : divisor(whole->batch, most / whole->heads);
    const int64_t *lse = whole->stride[STNI_CUDNN_LSE];
    const int64_t steps = (part->heads < whole->heads ? lse[HEAD] * part->heads : 0) |
                          (part->batch < whole->batch ? lse[BATCH] * part->batch : 0);
    return of_a_head <= MOST_OF_A_HEAD && steps * (int64_t)sizeof(float) % STNI_CUDNN_ALIGNMENT == 0;
}

static size_t bytes_of_means(const problem *part)
{
    const int64_t rows = part->is_gradient ? part->batch * part->heads * part->rows : 0;
    return (size_t)in_whole(rows * (int64_t)sizeof(float), SCRATCH_ALIGNMENT);
}

/* Where part (batch, head) of an operand begins. */
static void *data_of(const struct stni_attention_args *args, const problem *part, int operand, int64_t batch,
                     int64_t head)
{
    const int64_t at = batch * part->stride[operand][BATCH] + head * part->stride[operand][HEAD];
    const int64_t size = operand == STNI_CUDNN_LSE ? (int64_t)sizeof(float) : ELEMENT;
    return (char *)operand_of(args, operand)->data + at * size;
}

static stn_status run_part(stn_queue *queue, const struct stni_attention_args *args, const problem *part, int64_t batch,
                           int64_t head)
{
    const uintptr_t first = ((uintptr_t)args->workspace + SCRATCH_ALIGNMENT - 1) & ~(uintptr_t)(SCRATCH_ALIGNMENT - 1);
    char *const scratch = (char *)args->workspace + (first - (uintptr_t)args->workspace);
    void *data[STNI_CUDNN_ATTENTION_OPERANDS] = {NULL};
    for (int k = 0; k < operands_of((int)part->is_gradient); k++)
        data[k] = data_of(args, part, k, batch, head);
    if (part->is_gradient)
        data[STNI_CUDNN_MEANS] = scratch;
    return stni_cudnn_attention_run(queue, part, (float)args->scale, data, scratch + bytes_of_means(part));
}

size_t stni_attention_library_workspace(stn_queue *queue, const struct stni_attention_args *args, int is_gradient)
{
    problem whole, part;
    size_t bytes = 0;
    if (!describe(args, is_gradient, &whole) || !stni_attention_library_part(&whole, &part) ||
        stni_cudnn_attention_workspace(queue, &part, &bytes) != STN_OK)
        return 0;
    return SCRATCH_ALIGNMENT + bytes_of_means(&part) + bytes;
}

stn_status stni_attention_library_run(stn_queue *queue, const struct stni_attention_args *args, int is_gradient)
{
    problem whole, part;
    if (!describe(args, is_gradient, &whole) || !stni_attention_library_part(&whole, &part))
        return STN_ERR_UNSUPPORTED;
    for (int64_t batch = 0; batch < whole.batch; batch += part.batch)
        for (int64_t head = 0; head < whole.heads; head += part.heads)
            STNI_TRY(run_part(queue, args, &part, batch, head));
    return STN_OK;
}
