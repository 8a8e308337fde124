/* How fast the kernels that serve the library itself move memory on a CUDA device: gigabytes read and written a second, of the best of several
 * rounds. */
#include "programs.h"

#include "core/box/box.h"
#include "core/context/context.h"
#include "core/device/device.h"

#include <shardtensor/module.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 5, LAUNCHES = 20, SIDE = 4096, LEAST_SIDE = 4, BOXES = 5 };

static stn_context *context;
static int64_t side = SIDE;
static stn_box box[BOXES];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static stn_status copy_dense(void)
{
    return stni_box_copy(context->queue, &box[0], &box[1], sizeof(float));
}

static stn_status copy_transposed(void)
{
    stn_box turned = box[1];
    turned.strides[0] = 1;
    turned.strides[1] = side;
    return stni_box_copy(context->queue, &box[0], &turned, sizeof(float));
}

static stn_status copy_rows(void)
{
    stn_box to = box[0], from = box[1];
    to.shape[1] = from.shape[1] = side - 3;
    return stni_box_copy(context->queue, &to, &from, sizeof(float));
}

static stn_status fill(void)
{
    stn_fill_args args = {.data = box[0].data, .count = side * side, .element_size = sizeof(float)};
    return stn_queue_launch(context->queue, context->device->fill, &args, sizeof args);
}

static stn_status reduce_two(void)
{
    return stni_box_reduce(context->queue, 1, box, 2, box + 1, STN_DTYPE_F32, STN_SUM);
}

static stn_status reduce_four(void)
{
    return stni_box_reduce(context->queue, 1, box, 4, box + 1, STN_DTYPE_F32, STN_SUM);
}

static const struct row {
    const char *name;
    int boxes; /* that are read or written */
    stn_status (*run)(void);
} rows[] = {
    {"copy, dense", 2, copy_dense},
    {"copy, transposed", 2, copy_transposed},
    {"copy, rows of odd length", 2, copy_rows},
    {"fill", 1, fill},
    {"sum of 2", 3, reduce_two},
    {"sum of 4", 5, reduce_four},
};

/* Seconds of one launch among many; below 0 where one failed. */
static double measure(const struct row *row, int launches)
{
    double best = -1;
    for (int round = 0; round <= ROUNDS; round++) {
        stn_status status = stn_queue_sync(context->queue);
        double started = now();
        for (int i = 0; i < launches && status == STN_OK; i++)
            status = row->run();
        if (status != STN_OK || stn_queue_sync(context->queue) != STN_OK)
            return -1;
        double seconds = (now() - started) / launches;
        if (round > 0 && (best < 0 || seconds < best)) /* the first one loads the kernels */
            best = seconds;
    }
    return best;
}

static stn_status make_boxes(void)
{
    for (int i = 0; i < BOXES; i++) {
        box[i] = (stn_box){.ndim = 2, .shape = {side, side}, .strides = {side, 1}};
        stn_fill_args args = {.count = side * side, .element_size = sizeof(float)};
        STNI_TRY(stni_device_allocate(context->device, (size_t)(side * side) * sizeof(float), &box[i].data));
        args.data = box[i].data;
        STNI_TRY(stn_queue_launch(context->queue, context->device->fill, &args, sizeof args));
    }
    return stn_queue_sync(context->queue);
}

int bench(const char *folder, int argc, char **argv)
{
    const int launches = argc > 1 ? atoi(argv[1]) : LAUNCHES;
    side = argc > 2 ? atoi(argv[2]) : SIDE;
    char text[512] = "";
    int failed = 0;
    stn_context_options options = {.size = sizeof options, .device = "cuda", .module_path = folder, .error_text = text,
                                   .error_text_size = sizeof text};
    if (launches < 1 || side < LEAST_SIDE || stn_context_create(&options, &context) != STN_OK || make_boxes() != STN_OK) {
        const char *why = context ? stn_queue_error_text(context->queue) : "bench: launches and side are numbers, side at least 4";
        fprintf(stderr, "%s\n", text[0] ? text : why);
        return 1;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double seconds = measure(&rows[i], launches), bytes = (double)rows[i].boxes * (double)(side * side) * sizeof(float);
        failed |= seconds < 0;
        printf("%-26s %9.1f us %9.1f GB/s\n", rows[i].name, seconds * 1e6, bytes / seconds / 1e9);
    }
    for (int i = 0; i < BOXES; i++)
        stni_device_deallocate(context->device, box[i].data, (size_t)(side * side) * sizeof(float));
    stn_context_destroy(&context);
    return failed;
}
