/* Attention on the CPU, compiled once per instruction set: blocks of query rows against blocks of key rows. Products
 * are those of ops/cpu/gemm.h. */
#include "ops/attention/attention_block.h"

#define TEMPLATE "ops/attention/attention_rows_tmpl.h"
#include "core/box/each_float.h"

static void forward(const struct stni_attention_args *p)
{
    static const block_fn of[] = {forward_f32, forward_f64, forward_bf16, forward_f16};
    walk(p, of[p->dtype]);
}

static size_t element_of_sums(const struct stni_attention_args *p)
{
    return stn_dtype_size(stni_wide_dtype(p->dtype));
}

/* Where sums are made. */
static void open_sum(const struct stni_attention_args *p, struct stni_attention_sum *sum)
{
    if (sum->wide != NULL)
        sum->at.data = sum->wide;
    if (sum->at.data != NULL && sum->n > 0)
        memset(sum->at.data, 0, (size_t)sum->n * element_of_sums(p));
}

static void close_sum(const struct stni_attention_args *p, const struct stni_attention_sum *sum)
{
    const stn_box to = {.data = sum->at.data, .ndim = 1, .shape = {sum->n}, .strides = {1}};
    stn_box from = to;
    from.data = sum->wide;
    if (sum->wide != NULL && sum->at.data != NULL && sum->n > 0)
        stni_convert_box_now(&to, p->dtype, &from, STN_DTYPE_F32);
}

static void backward(const struct stni_attention_args *p)
{
    static const block_fn of[] = {backward_f32, backward_f64, backward_bf16, backward_f16};
    struct stni_attention_args sums = *p;
    struct stni_attention_sum *const opened[] = {&sums.grad_query, &sums.grad_key, &sums.grad_value, &sums.grad_mask};
    const struct stni_attention_sum *const made[] = {&p->grad_query, &p->grad_key, &p->grad_value, &p->grad_mask};
    for (int i = 0; i < 4; i++)
        open_sum(p, opened[i]);
    walk(&sums, of[p->dtype]);
    for (int i = 0; i < 4; i++)
        close_sum(p, made[i]);
}

stn_status STNI_ISA_NAME(stni_attention)(stn_queue *queue, const void *args)
{
    (void)queue;
    forward(args);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_attention_backward)(stn_queue *queue, const void *args)
{
    (void)queue;
    backward(args);
    return STN_OK;
}
