/* The CPU's kernel of pointwise ops: one dense run of the compute type goes to the op's block at once, everything else by tiles. */
#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/elementwise/kernels/pointwise_tiles.h"

#include "core/device/device.h"

static int is_run(const struct stni_pointwise_args *args, const struct stni_pointwise_operand *operand)
{
    return operand->data && operand->dtype == args->compute && (args->ndim == 0 || operand->strides[0] == 1);
}

/* 1, and the operands in `block`, where everything is one dense run of the compute type, in which no divisor must be looked at. */
static int is_one_run(const struct stni_pointwise_args *args, struct stni_pointwise_block *block)
{
    if (args->ndim > 1 || args->divides || !is_run(args, &args->out))
        return 0;
    block->out = args->out.data;
    for (int i = 0; i < args->n_in; i++)
        if (!is_run(args, &args->in[i]))
            return 0;
    for (int i = 0; i < STNI_POINTWISE_MAX_IN; i++)
        block->in[i] = args->in[i < args->n_in ? i : 0].data;
    return 1;
}

/* Sizes of elements are looked up for long runs only. */
static int is_streamed(const struct stni_pointwise_args *args, int64_t n)
{
    enum { LARGEST_ELEMENT = 16 };
    return n >= STNI_STREAMING_RESULT / LARGEST_ELEMENT &&
           stni_pointwise_is_streamed(args, n * (int64_t)stn_dtype_size(args->compute));
}

/* The list that each op is a row of. */
enum list { ARITHMETIC, COMPARISON, EXPONENTIAL, TRIGONOMETRY, ACTIVATION };

static const uint8_t list_of[STNI_POINTWISE_COUNT] = {
#define ROW(op, ...) [STNI_POINTWISE_##op] = LIST,
#define UNARY(op, ...) [STNI_POINTWISE_##op] = LIST, [STNI_POINTWISE_##op##_backward] = LIST, [STNI_POINTWISE_##op##_double_backward] = LIST,
#define LIST ARITHMETIC
    STNI_ARITHMETIC_LIST(ROW)
#undef LIST
#define LIST COMPARISON
    STNI_COMPARISON_LIST(ROW)
#undef LIST
#define LIST EXPONENTIAL
    STNI_EXPONENTIAL_LIST(UNARY)
#undef LIST
#define LIST TRIGONOMETRY
    STNI_TRIGONOMETRY_LIST(UNARY)
#undef LIST
#define LIST ACTIVATION
    STNI_ACTIVATION_LIST(UNARY)
#undef LIST
#undef ROW
#undef UNARY
};

static const struct stni_pointwise_kernels *kernels_of(enum list list, enum stni_isa isa)
{
    switch (list) {
    case ARITHMETIC: return STNI_ISA_PICK(stni_arithmetic_kernels, isa);
    case COMPARISON: return STNI_ISA_PICK(stni_comparison_kernels, isa);
    case EXPONENTIAL: return STNI_ISA_PICK(stni_exponential_kernels, isa);
    case TRIGONOMETRY: return STNI_ISA_PICK(stni_trigonometry_kernels, isa);
    case ACTIVATION: return STNI_ISA_PICK(stni_activation_kernels, isa);
    }
    return NULL;
}

stni_pointwise_block_fn stni_pointwise_block_of(enum stni_pointwise_op op, stn_dtype compute_type, enum stni_isa isa)
{
    return kernels_of((enum list)list_of[op], isa)->block[compute_type];
}

stn_status stni_pointwise_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_pointwise_args *args = raw;
    stni_pointwise_block_fn block = stni_pointwise_block_of(args->op, args->compute, queue->isa);
    struct stni_pointwise_block run;
    run.n = args->ndim ? args->shape[0] : 1;
    if (!is_one_run(args, &run) || is_streamed(args, run.n)) {
        stni_pointwise_tiles(queue, args, block);
        return STN_OK;
    }
    run.buffer = NULL;
    run.op = args->op;
    run.a = args->a;
    run.b = args->b;
    run.c = args->c;
    block(&run);
    return STN_OK;
}
