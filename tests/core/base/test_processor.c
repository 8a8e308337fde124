/* What is known of a processor, and that no result depends on it. */
#include "harness.h"

#include "core/base/processor.h"
#include "core/context/context.h"
#include "core/device/device.h"

#include <shardtensor/shardtensor.h>

#include <stdlib.h>
#include <string.h>

static void models_are_told_apart(void)
{
    static const struct {
        unsigned family, model;
        int is_zen4;
    } models[] = {{25, 0x11, 1}, {25, 0x61, 1}, {25, 0x74, 1}, {25, 0xa0, 1}, {25, 0x01, 0}, {25, 0x21, 0},
                  {25, 0x50, 0}, {26, 0x11, 0}, {26, 0x02, 0}, {23, 0x11, 0}, {6, 0x6a, 0}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        CHECK_I64(stni_processor_is_zen4(models[i].family, models[i].model), models[i].is_zen4);
    CHECK(!stni_processor_follows_runs() || !stni_processor_is_intel());
}

static void what_the_queue_says_decides_how_far_ahead(void)
{
    CHECK_I64(stni_queue_run_ahead(&(stn_queue){.follows_runs = 1}, 4096), 0);
    CHECK_I64(stni_queue_run_ahead(&(stn_queue){.follows_runs = 0}, 4096), 4096);
}

/* Results that are large enough to be streamed, of rows that no piece divides. */
enum { ROWS = 1031, COLS = 2093, OPS = 9 };

static stn_tensor *call(int op, stn_tensor *x, stn_tensor *y)
{
    static const int rows[] = {0}, cols[] = {1};
    static const int64_t shape[] = {COLS};
    switch (op) {
    case 0: return stn_add(x, y);
    case 1: return stn_mul_number(x, 3);
    case 2: return stn_lt(x, y);
    case 3: return stn_cast(x, STN_DTYPE_BF16);
    case 4: return stn_softmax(x, 1);
    case 5: return stn_layer_norm(x, 1, shape, NULL, NULL, 1e-5);
    case 6: return stn_var(x, 1, cols, 1, 0);
    case 7: return stn_sum(x, 1, rows, 0);
    default: return stn_amax(x, 1, rows, 0);
    }
}

/* All results one after the other. */
static size_t run(stn_context *context, stn_tensor *x, stn_tensor *y, char *out)
{
    size_t bytes = 0;
    for (int op = 0; op < OPS; op++) {
        stn_tensor *result = call(op, x, y);
        const stn_spec *spec = stn_tensor_spec(result);
        const size_t size = (size_t)stn_spec_local_numel(spec) * stn_dtype_size(stn_tensor_dtype(result));
        CHECK_STATUS(stn_to_host(result, out + bytes, size), STN_OK);
        bytes += size;
        stn_tensor_release(&result);
    }
    CHECK_STATUS(stn_context_status(context), STN_OK);
    return bytes;
}

static void no_bit_depends_on_it(void)
{
    const stn_context_options options = {.size = sizeof options, .seed = 3};
    const int64_t shape[] = {ROWS, COLS};
    stn_context *context = NULL;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    CHECK_I64(context->queue->follows_runs, stni_processor_follows_runs());
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *x = stn_randn(context, spec), *y = stn_randn(context, spec);
    char *out[2] = {calloc(8, ROWS * COLS * sizeof(float)), calloc(8, ROWS * COLS * sizeof(float))};
    size_t bytes[2];
    for (int follows = 0; follows < 2; follows++) {
        context->queue->follows_runs = follows;
        bytes[follows] = run(context, x, y, out[follows]);
    }
    CHECK_I64((int64_t)bytes[1], (int64_t)bytes[0]);
    CHECK_I64(memcmp(out[0], out[1], bytes[0]), 0);
    free(out[0]);
    free(out[1]);
    stn_tensor_release(&x);
    stn_tensor_release(&y);
    stn_spec_release(&spec);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"models_are_told_apart", models_are_told_apart},
        {"what_the_queue_says_decides_how_far_ahead", what_the_queue_says_decides_how_far_ahead},
        {"no_bit_depends_on_it", no_bit_depends_on_it},
    };
    return TEST_MAIN(argc, argv, cases);
}
