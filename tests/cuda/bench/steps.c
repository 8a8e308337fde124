/* Captured steps, repeated, beside the same calls: of many small ops, and of collectives of NCCL, whose world is of
 * one rank, so that nothing but the way to it is measured. */
#include "bench.h"

#include "core/context/context.h"

#include <stdio.h>

enum { OPS = 100, OP_ELEMENTS = 1024, REDUCTIONS = 20, ROWS_OF_REDUCTION = 64 /* times the side: 1 MiB of f32 */ };

struct work {
    bench_call call;
    stn_tensor *a, *b, *sum; /* sum: where reductions go */
    stn_comm *comm;          /* the world's: asking for it waits for the queue, which a step cannot do */
    stn_step *step;
};

static stn_status call_ops(struct bench_rank *rank)
{
    const struct work *w = rank->arg;
    stn_tensor *x = w->a;
    for (int i = 0; i < OPS; i++)
        x = i % 2 ? stn_add(x, w->b) : stn_mul(x, w->b);
    return stn_tensor_is_error(x) ? STN_ERR_INTERNAL : STN_OK;
}

static stn_status call_reductions(struct bench_rank *rank)
{
    const struct work *w = rank->arg;
    const int64_t n = stn_spec_local_numel(stn_tensor_spec(w->sum));
    for (int i = 0; i < REDUCTIONS; i++) {
        if (stn_tensor_is_error(stn_add_(w->a, w->b, 1)))
            return STN_ERR_INTERNAL;
        STNI_TRY(stn_comm_all_reduce(w->comm, stn_tensor_data(w->a), stn_tensor_data(w->sum), n, STN_DTYPE_F32, STN_SUM,
                                     NULL));
    }
    return STN_OK;
}

static stn_status repeat(struct bench_rank *rank)
{
    const struct work *w = rank->arg;
    return stn_step_run(w->step);
}

static stn_status capture(struct bench_rank *rank, struct work *work)
{
    STNI_TRY(stn_capture_begin(rank->context));
    rank->arg = work;
    stn_scope_begin(rank->context);
    const stn_status called = bench_explain(rank, work->call(rank)),
                     ended = bench_explain(rank, stn_scope_end(rank->context));
    const stn_status captured = stn_capture_end(rank->context, &work->step);
    return called != STN_OK ? called : ended != STN_OK ? ended : captured;
}

static void measure(struct bench_rank *rank, struct work *work, const char *name, const char *what)
{
    static const struct {
        enum bench_clock clock;
        const char *label;
    } sides[] = {{BENCH_DEVICE, "repeated, on the device"}, {BENCH_HOST, "repeated, of the host"}};
    if (!bench_ready(rank, name, capture(rank, work)))
        return;
    for (int i = 0; i < 2; i++) {
        struct bench_row row = {.name = name, .clock = sides[i].clock, .ours = repeat, .peer = work->call, .arg = work};
        snprintf(row.label, sizeof row.label, "%s %s, graphs: %d", what, sides[i].label, stn_step_graphs(work->step));
        bench_measure(rank, &row);
    }
}

static void run(struct bench_rank *rank, bench_call call, const char *name, const char *what, int64_t elements)
{
    struct work work = {.call = call,
                        .comm = stn_context_comm(rank->context),
                        .a = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 1, &elements),
                        .b = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 1, &elements),
                        .sum = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 1, &elements)};
    measure(rank, &work, name, what);
    stn_step_destroy(&work.step);
    stn_tensor_release(&work.a);
    stn_tensor_release(&work.b);
    stn_tensor_release(&work.sum);
}

static void ops_body(struct bench_rank *rank)
{
    run(rank, call_ops, "step", "100 ops", OP_ELEMENTS);
}

static void nccl_body(struct bench_rank *rank)
{
    run(rank, call_reductions, "nccl", "20 all-reduces", ROWS_OF_REDUCTION * rank->bench->side);
}

void bench_steps(struct bench *bench)
{
    bench_launch(bench, 1, ops_body);
    bench_launch_nccl(bench, 1, nccl_body);
}
