/* What a call costs the host: an add of one element, beside a bare launch of the kernel that it launches, with the
 * same arguments. */
#include "bench.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <stddef.h>
#include <string.h>

enum { BURST = 64 /* calls: fewer than may stand in line at a device, so that no launch waits for it */ };

static const double ALLOWED_SECONDS = 1e-6; /* of the host over the launch */

/* The launch of a call, kept. */
static _Thread_local struct {
    stn_status (*launch)(void *impl, void *queue, stn_queue *handle, stn_kernel_fn kernel, const void *args,
                         size_t size);
    stn_kernel_fn kernel;
    size_t size;
    int n;
    _Alignas(max_align_t) char args[STN_MAX_KERNEL_ARGS];
} kept;

static stn_status keep_launch(void *impl, void *queue, stn_queue *handle, stn_kernel_fn kernel, const void *args,
                              size_t size)
{
    kept.kernel = kernel;
    kept.size = size;
    kept.n++;
    memcpy(kept.args, args, size);
    return kept.launch(impl, queue, handle, kernel, args, size);
}

struct operands {
    stn_tensor *a, *b;
};

/* A sum, which lives as long as its kernel is launched. */
static stn_tensor *add_and_keep(struct bench_rank *rank, const struct operands *x)
{
    stn_device_ops *table = &rank->context->device->table;
    kept.launch = table->launch;
    kept.n = 0;
    table->launch = keep_launch;
    stn_tensor *sum = stn_add(x->a, x->b);
    table->launch = kept.launch;
    return sum;
}

static stn_status call_add(struct bench_rank *rank)
{
    const struct operands *x = rank->arg;
    return stn_tensor_is_error(stn_add(x->a, x->b)) ? STN_ERR_INTERNAL : STN_OK;
}

static stn_status launch_bare(struct bench_rank *rank)
{
    return stn_queue_launch(rank->context->queue, kept.kernel, kept.args, kept.size);
}

static void measure_add(struct bench_rank *rank, struct operands *x, const char *label, const char *beyond)
{
    struct bench_row row = {
        .name = "host", .burst = BURST, .clock = BENCH_HOST, .ours = call_add, .peer = launch_bare, .arg = x};
    strcpy(row.label, label);
    const struct bench_times times = bench_measure(rank, &row);
    const double over = times.ours - times.peer > 1e-9 ? times.ours - times.peer : 1e-9; /* less is noise */
    if (times.ours >= 0)
        bench_print(rank, "host", beyond, over * 1e6, ALLOWED_SECONDS * 1e6, "us", ALLOWED_SECONDS / over);
}

static void body(struct bench_rank *rank)
{
    const int64_t one = 1;
    struct operands x = {.a = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 1, &one),
                         .b = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 1, &one)};
    stn_tensor *sum = add_and_keep(rank, &x);
    stn_status status = stn_context_status(rank->context);
    if (bench_ready(rank, "host", status == STN_OK && kept.n != 1 ? STN_ERR_INTERNAL : status)) {
        measure_add(rank, &x, "add of 1, beside its launch", "add of 1 beyond its launch, beside 1 us");
        stn_set_requires_grad(x.a, 1);
        stn_set_requires_grad(x.b, 1);
        measure_add(rank, &x, "add of 1 with gradient, beside its launch", "the same beyond it, beside 1 us");
    }
    stn_tensor_release(&sum);
    stn_tensor_release(&x.a);
    stn_tensor_release(&x.b);
}

void bench_host(struct bench *bench)
{
    bench_launch(bench, 1, body);
}
