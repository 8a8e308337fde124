/* How fast the kernels that serve the library itself move memory, beside the device's copy of as many bytes as they
 * read and write. */
#include "bench.h"

#include "core/box/box.h"
#include "core/context/context.h"
#include "core/device/device.h"

#include <string.h>

enum { BOXES = 5 };

struct boxes {
    int64_t side;
    stn_box box[BOXES];
};

static stn_status copy_dense(struct bench_rank *rank)
{
    const struct boxes *b = rank->arg;
    return stni_box_copy(rank->context->queue, &b->box[0], &b->box[1], sizeof(float));
}

static stn_status copy_transposed(struct bench_rank *rank)
{
    const struct boxes *b = rank->arg;
    stn_box turned = b->box[1];
    turned.strides[0] = 1;
    turned.strides[1] = b->side;
    return stni_box_copy(rank->context->queue, &b->box[0], &turned, sizeof(float));
}

static stn_status copy_rows(struct bench_rank *rank)
{
    const struct boxes *b = rank->arg;
    stn_box to = b->box[0], from = b->box[1];
    to.shape[1] = from.shape[1] = b->side - 3;
    return stni_box_copy(rank->context->queue, &to, &from, sizeof(float));
}

static stn_status fill(struct bench_rank *rank)
{
    const struct boxes *b = rank->arg;
    const stn_fill_args args = {.data = b->box[0].data, .count = b->side * b->side, .element_size = sizeof(float)};
    return stn_queue_launch(rank->context->queue, rank->context->device->fill, &args, sizeof args);
}

static stn_status reduce_two(struct bench_rank *rank)
{
    const struct boxes *b = rank->arg;
    return stni_box_reduce(rank->context->queue, 1, b->box, 2, b->box + 1, STN_DTYPE_F32, STN_SUM);
}

static stn_status reduce_four(struct bench_rank *rank)
{
    const struct boxes *b = rank->arg;
    return stni_box_reduce(rank->context->queue, 1, b->box, 4, b->box + 1, STN_DTYPE_F32, STN_SUM);
}

static const struct {
    const char *label;
    int boxes; /* that are read or written */
    bench_call run;
} rows[] = {
    {"copy, dense", 2, copy_dense},
    {"copy, transposed", 2, copy_transposed},
    {"copy, rows of odd length", 2, copy_rows},
    {"fill", 1, fill},
    {"sum of 2", 3, reduce_two},
    {"sum of 4", 5, reduce_four},
};

static void measure(struct bench_rank *rank, struct boxes *boxes)
{
    const size_t bytes = (size_t)(boxes->side * boxes->side) * sizeof(float);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench_row row = {.name = "memory",
                                .ours = rows[i].run,
                                .peer = bench_copy,
                                .unit = "GB/s",
                                .work = 1e-9 * rows[i].boxes * (double)bytes,
                                .arg = boxes};
        strcpy(row.label, rows[i].label);
        rank->bytes = (size_t)rows[i].boxes * bytes / 2; /* a copy reads and writes */
        bench_measure(rank, &row);
    }
}

static void body(struct bench_rank *rank)
{
    struct boxes boxes = {.side = rank->bench->side};
    stn_tensor *tensors[BOXES];
    const int64_t shape[] = {boxes.side, boxes.side};
    for (int i = 0; i < BOXES; i++) {
        tensors[i] = bench_tensor(rank, NULL, stn_replicate(), STN_DTYPE_F32, 2, shape);
        boxes.box[i] = (stn_box){
            .data = stn_tensor_data(tensors[i]), .ndim = 2, .shape = {shape[0], shape[1]}, .strides = {boxes.side, 1}};
    }
    if (bench_ready(rank, "memory", bench_copy_make(rank, BOXES * (size_t)(shape[0] * shape[1]) * sizeof(float) / 2)))
        measure(rank, &boxes);
    for (int i = 0; i < BOXES; i++)
        stn_tensor_release(&tensors[i]);
}

void bench_memory(struct bench *bench)
{
    bench_launch(bench, 1, body);
}
