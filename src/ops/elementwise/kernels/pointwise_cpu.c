/* The CPU's kernel of pointwise ops: one dense run of the compute type goes to the op's block at once, everything
 * else by tiles. */
#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/elementwise/kernels/pointwise_tiles.h"

#include "core/device/device.h"

/* The list that each op is a row of. */
enum list { ARITHMETIC, RESTS, TRUTH, COMPARISON, EXPONENTIAL, TRIGONOMETRY, ACTIVATION };

static const uint8_t list_of[STNI_POINTWISE_COUNT] = {
#define ROW(op, ...) [STNI_POINTWISE_##op] = LIST,
#define UNARY(op, ...) [STNI_POINTWISE_##op] = LIST, [STNI_POINTWISE_##op##_backward] = LIST, [STNI_POINTWISE_##op##_double_backward] = LIST,
#define LIST ARITHMETIC
    STNI_VALUES_LIST(ROW)
#undef LIST
#define LIST RESTS
    STNI_RESTS_LIST(ROW)
#undef LIST
#define LIST TRUTH
    STNI_TRUTH_LIST(ROW)
#undef LIST
#define LIST COMPARISON
    STNI_PARTS_LIST(ROW)
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

#define SETS(name) \
    {[STNI_ISA_BASE] = &STNI_ISA_BASE_OF(name), [STNI_ISA_AVX2] = &STNI_ISA_AVX2_OF(name), [STNI_ISA_AVX512] = &STNI_ISA_AVX512_OF(name)}
static const struct stni_pointwise_kernels *const kernels_of[][STNI_ISA_COUNT] = {
    [ARITHMETIC] = SETS(stni_arithmetic_kernels),   [RESTS] = SETS(stni_rests_kernels),
    [TRUTH] = SETS(stni_truth_kernels),             [COMPARISON] = SETS(stni_comparison_kernels),
    [EXPONENTIAL] = SETS(stni_exponential_kernels), [TRIGONOMETRY] = SETS(stni_trigonometry_kernels),
    [ACTIVATION] = SETS(stni_activation_kernels),
};
#undef SETS

stni_pointwise_block_fn stni_pointwise_block_of(enum stni_pointwise_op op, stn_dtype compute_type, enum stni_isa isa)
{
    return kernels_of[list_of[op]][isa]->block[compute_type];
}

static inline stn_status run_block(const struct stni_pointwise_args *args, int64_t n, stni_pointwise_block_fn block)
{
    struct stni_pointwise_block run;
    run.op = args->op;
    run.n = n;
    run.out = args->out.data;
    run.in[0] = args->in[0].data;
    run.in[1] = args->in[args->n_in > 1 ? 1 : 0].data;
    run.in[2] = args->in[args->n_in > 2 ? 2 : 0].data;
    run.a = args->a;
    run.b = args->b;
    run.c = args->c;
    run.buffer = NULL;
    block(&run);
    return STN_OK;
}

static stn_status run_form(stn_queue *queue, const struct stni_pointwise_args *args, int64_t n,
                           stni_pointwise_block_fn block)
{
    const int64_t bytes = n * (int64_t)stn_dtype_size(args->out.dtype);
    if ((args->one_run || stni_pointwise_is_one_run(args)) && !stni_pointwise_is_streamed(args, bytes))
        return run_block(args, n, block);
    stni_pointwise_tiles(queue, args, block);
    return STN_OK;
}

static stn_status run_bf16(stn_queue *queue, const struct stni_pointwise_args *args, int64_t n)
{
    struct stni_pointwise_args own = *args;
    own.compute = STN_DTYPE_BF16;
    return run_form(queue, &own, n, stni_pointwise_block_of(args->op, STN_DTYPE_BF16, queue->isa));
}

/* What is long, or was not looked at yet. */
static __attribute__((noinline)) stn_status run_any(stn_queue *queue, const struct stni_pointwise_args *args, int64_t n,
                                                    stni_pointwise_block_fn block)
{
    return stni_pointwise_has_bf16_block(args) ? run_bf16(queue, args, n) : run_form(queue, args, n, block);
}

stn_status stni_pointwise_cpu(stn_queue *queue, const void *raw)
{
    enum { LARGEST_ELEMENT = 16, SHORT = STNI_STREAMING_RESULT / LARGEST_ELEMENT };
    const struct stni_pointwise_args *args = raw;
    stni_pointwise_block_fn block = stni_pointwise_block_of(args->op, args->compute, queue->isa);
    const int64_t n = args->ndim ? args->shape[0] : 1;
    return args->one_run && n < SHORT ? run_block(args, n, block) : run_any(queue, args, n, block);
}
