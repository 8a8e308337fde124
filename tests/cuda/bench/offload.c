/* Tensors in memory of the host: what reading and writing them costs beside the device's own copies of as many bytes,
 * and an optimizer's step there beside the same in the device's memory. */
#include "bench.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <string.h>

/* One parameter with all that belongs to it. */
struct trained {
    stn_tensor *parameter;
    stn_optimizer *optimizer;
};

struct both {
    size_t bytes;
    stn_tensor *here; /* of the device */
    struct trained on_host, on_device;
};

static stn_status copy(struct bench_rank *rank, const stn_tensor *to, const stn_tensor *from)
{
    const struct both *b = rank->arg;
    return stni_queue_copy(rank->context->queue, stn_tensor_data(to), stn_tensor_data(from), b->bytes,
                           STNI_COPY_DEVICE);
}

static stn_status copy_in(struct bench_rank *rank)
{
    const struct both *b = rank->arg;
    return copy(rank, b->here, b->on_host.parameter);
}

static stn_status copy_out(struct bench_rank *rank)
{
    const struct both *b = rank->arg;
    return copy(rank, b->on_host.parameter, b->here);
}

static stn_status take(struct bench_rank *rank)
{
    const struct both *b = rank->arg;
    stn_copy_(b->here, stn_detach(b->on_host.parameter));
    return stn_context_status(rank->context);
}

static stn_status put(struct bench_rank *rank)
{
    const struct both *b = rank->arg;
    stn_copy_(stn_detach(b->on_host.parameter), b->here);
    return stn_context_status(rank->context);
}

static stn_status step_on_host(struct bench_rank *rank)
{
    return stn_optimizer_step(((const struct both *)rank->arg)->on_host.optimizer);
}

static stn_status step_on_device(struct bench_rank *rank)
{
    return stn_optimizer_step(((const struct both *)rank->arg)->on_device.optimizer);
}

/* With a gradient. */
static stn_status make(struct bench_rank *rank, int on_host, struct trained *out)
{
    stn_context *context = rank->context;
    const int64_t shape[] = {rank->bench->side, rank->bench->side};
    stn_tensor *loss = NULL;
    if (on_host)
        STNI_TRY(stn_host_memory_begin(context));
    out->parameter = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 2, shape);
    if (on_host)
        stn_host_memory_end(context);
    STNI_TRY(stn_set_requires_grad(out->parameter, 1));
    stn_scope_begin(context);
    loss = stn_sum(out->parameter, 0, NULL, 0);
    stn_backward(loss);
    STNI_TRY(stn_scope_end(context));
    const stn_named_tensor named = {"w", out->parameter};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    STNI_TRY(stn_adamw_create(context, NULL, &out->optimizer));
    return stn_optimizer_add_group(out->optimizer, &group);
}

static stn_status make_both(struct bench_rank *rank, struct both *both)
{
    const int64_t shape[] = {rank->bench->side, rank->bench->side};
    both->bytes = (size_t)(shape[0] * shape[1]) * sizeof(float);
    both->here = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 2, shape);
    STNI_TRY(make(rank, 1, &both->on_host));
    return make(rank, 0, &both->on_device);
}

static void measure(struct bench_rank *rank, struct both *both)
{
    const struct {
        const char *label;
        bench_call ours, peer;
        double bytes; /* that cross the bus for each of the parameter's */
    } rows[] = {{"to the device", take, copy_in, 1},
                {"to the host", put, copy_out, 1},
                {"AdamW of f32, beside the device's memory", step_on_host, step_on_device, 7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench_row row = {.name = "offload",
                                .ours = rows[i].ours,
                                .peer = rows[i].peer,
                                .unit = "GB/s",
                                .work = 1e-9 * rows[i].bytes * (double)both->bytes,
                                .arg = both};
        strcpy(row.label, rows[i].label);
        bench_measure(rank, &row);
    }
}

static void release(struct trained *trained)
{
    stn_optimizer_destroy(&trained->optimizer);
    stn_tensor_release(&trained->parameter);
}

static void body(struct bench_rank *rank)
{
    struct both both = {0};
    if (bench_ready(rank, "offload", make_both(rank, &both)))
        measure(rank, &both);
    release(&both.on_host);
    release(&both.on_device);
    stn_tensor_release(&both.here);
}

void bench_offload(struct bench *bench)
{
    bench_launch(bench, 1, body);
}
