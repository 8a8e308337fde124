/* Ops of tensors that lie in memory and not in a cache: those that move it beside the device's copy of as many
 * bytes, products beside what the device could multiply at its highest clock. */
#include "bench.h"

#include <stdio.h>

/* x and y of rows x columns, weight and bias of a row. */
struct operands {
    int64_t columns;
    stn_tensor *x, *y, *weight, *bias;
};

static stn_status made(stn_tensor *tensor)
{
    return stn_tensor_is_error(tensor) ? STN_ERR_INTERNAL : STN_OK;
}

static stn_status call_add(struct bench_rank *rank)
{
    const struct operands *o = rank->arg;
    return made(stn_add(o->x, o->y));
}

static stn_status call_exp(struct bench_rank *rank)
{
    const struct operands *o = rank->arg;
    return made(stn_exp(o->x));
}

static stn_status call_gelu(struct bench_rank *rank)
{
    const struct operands *o = rank->arg;
    return made(stn_gelu(o->x, STN_GELU_ERF));
}

static stn_status call_softmax(struct bench_rank *rank)
{
    const struct operands *o = rank->arg;
    return made(stn_softmax(o->x, 1));
}

static stn_status call_layer_norm(struct bench_rank *rank)
{
    const struct operands *o = rank->arg;
    return made(stn_layer_norm(o->x, 1, &o->columns, o->weight, o->bias, 1e-5));
}

static stn_status call_sum(struct bench_rank *rank)
{
    const struct operands *o = rank->arg;
    static const int rows[] = {1};
    return made(stn_sum(o->x, 1, rows, 0));
}

static stn_status call_matmul(struct bench_rank *rank)
{
    const struct operands *o = rank->arg;
    return made(stn_matmul(o->x, o->y));
}

static const struct {
    const char *label;
    int tensors; /* that are read or written */
    bench_call call;
} movers[] = {
    {"add", 3, call_add},
    {"exp", 2, call_exp},
    {"gelu", 2, call_gelu},
    {"softmax", 2, call_softmax},
    {"layer_norm", 2, call_layer_norm},
    {"sum of rows", 1, call_sum},
};

static struct operands make(struct bench_rank *rank, stn_dtype dtype, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    return (struct operands){.columns = columns,
                             .x = bench_tensor(rank, NULL, stn_replicate(), dtype, 2, shape),
                             .y = bench_tensor(rank, NULL, stn_replicate(), dtype, 2, shape),
                             .weight = bench_tensor(rank, NULL, stn_replicate(), dtype, 1, &columns),
                             .bias = bench_tensor(rank, NULL, stn_replicate(), dtype, 1, &columns)};
}

static void release(struct operands *o)
{
    stn_tensor_release(&o->x);
    stn_tensor_release(&o->y);
    stn_tensor_release(&o->weight);
    stn_tensor_release(&o->bias);
}

/* Tensors of as many bytes in each dtype, twice a square of f32: more than caches hold. */
static void measure_movers(struct bench_rank *rank, stn_dtype dtype)
{
    const int64_t side = rank->bench->side, rows = 2 * side * (int64_t)sizeof(float) / (int64_t)stn_dtype_size(dtype);
    const size_t bytes = (size_t)(2 * side * side) * sizeof(float);
    struct operands o = make(rank, dtype, rows, side);
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++) {
        struct bench_row row = {.name = "op",
                                .ours = movers[i].call,
                                .peer = bench_copy,
                                .unit = "GB/s",
                                .work = 1e-9 * movers[i].tensors * (double)bytes,
                                .arg = &o};
        snprintf(row.label, sizeof row.label, "%s, %s, %lld x %lld", movers[i].label, stn_dtype_name(dtype),
                 (long long)rows, (long long)side);
        rank->bytes = (size_t)movers[i].tensors * bytes / 2; /* a copy reads and writes */
        bench_measure(rank, &row);
    }
    release(&o);
}

static void measure_matmul(struct bench_rank *rank, stn_dtype dtype)
{
    const int64_t n = rank->bench->side;
    const double operations = 2 * (double)n * (double)n * (double)n;
    struct operands o = make(rank, dtype, n, n);
    struct bench_row row = {.name = "op",
                            .ours = call_matmul,
                            .peer_seconds = operations / bench_peak(dtype),
                            .unit = "TFLOP/s",
                            .work = 1e-12 * operations,
                            .arg = &o};
    snprintf(row.label, sizeof row.label, "matmul, %s, %lld^3, beside the units", stn_dtype_name(dtype), (long long)n);
    bench_measure(rank, &row);
    release(&o);
}

static void body(struct bench_rank *rank)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16};
    const int64_t side = rank->bench->side;
    if (!bench_ready(rank, "op", bench_copy_make(rank, 3 * (size_t)(side * side) * sizeof(float))))
        return;
    for (int i = 0; i < 2; i++)
        measure_movers(rank, dtypes[i]);
    for (int i = 0; i < 2; i++)
        measure_matmul(rank, dtypes[i]);
}

void bench_ops(struct bench *bench)
{
    bench_launch(bench, 1, body);
}
