/* Memory that a captured step names stays for its repetitions: what the caller lent it, and its own where the device
 * has no more. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBERS = 4 };

/* Memory of the caller's that a step reads */

static int given_back;

static void give_back(void *memory)
{
    free(memory);
    given_back++;
}

static stn_tensor *wrapped_sum(stn_context *context, float **memory)
{
    const int64_t shape[] = {NUMBERS};
    stn_tensor *sum;
    *memory = malloc(NUMBERS * sizeof **memory);
    for (int i = 0; i < NUMBERS; i++)
        (*memory)[i] = (float)i;
    stn_scope_begin(context);
    sum = stn_sum(stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, *memory, give_back, *memory), 0, NULL, 0);
    CHECK_STATUS(stn_scope_end_keep(context, sum, &sum), STN_OK);
    return sum;
}

static stn_status wrapped_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_stats stats = {.size = sizeof stats};
    double value;
    float *memory;
    given_back = 0;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *sum = wrapped_sum(context, &memory);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    if (!CHECK_I64(given_back, 0))
        goto out;
    memory[0] = 100;
    CHECK_STATUS(stn_step_run(step), STN_OK);
    CHECK_STATUS(stn_item(sum, &value), STN_OK);
    CHECK_NEAR(value, 106, 0);
out:
    stn_step_destroy(&step);
    stn_queue_sync(stn_context_queue(context));
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK); /* an action */
    CHECK_I64(given_back, 1);
    stn_tensor_release(&sum);
    return stn_context_status(context);
}

static void memory_that_a_step_wraps_stays(void)
{
    test_ranks(1, wrapped_body, NULL);
}

/* Memory of a step is its own, also where the device has no more: what others have cached goes back */

enum { KIB = 1024, BUDGET = 120 * KIB, TRACKED = 64 };

static struct {
    void *pointer[TRACKED]; /* allocated since a capture began */
    size_t used;
    int n, is_on, n_lost;
} device;

static void *budget_allocate(void *arg, size_t bytes, size_t alignment)
{
    (void)arg;
    if (device.is_on && device.used + bytes > BUDGET)
        return NULL;
    void *pointer = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    device.used += bytes;
    if (device.is_on && device.n < TRACKED)
        device.pointer[device.n++] = pointer;
    return pointer;
}

static void budget_deallocate(void *arg, void *pointer, size_t bytes)
{
    (void)arg;
    for (int i = 0; i < device.n; i++)
        device.n_lost += device.pointer[i] == pointer;
    device.used -= bytes;
    memset(pointer, 0xff, bytes); /* NaNs, for who reads it too late */
    free(pointer);
}

static stn_tensor *block(stn_context *context, int64_t kib, double value)
{
    const int64_t shape[] = {kib * (KIB / (int64_t)sizeof(float))};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_full(context, spec, value);
    stn_spec_release(&spec);
    return tensor;
}

static stn_status scarce_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_context_trim(context);
    device.used = 0;
    stn_tensor *cached = block(context, 60, 1);
    stn_tensor_release(&cached);
    device.is_on = 1;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *first = block(context, 24, 2);
    stn_tensor_release(&first);
    stn_tensor *second = block(context, 50, 3); /* for which the cached one has to go */
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    CHECK(device.n > 1);
    if (CHECK_I64(device.n_lost, 0))
        CHECK_STATUS(stn_step_run(step), STN_OK);
    device.is_on = device.n = 0;
    stn_step_destroy(&step);
    stn_tensor_release(&second);
    return stn_context_status(context);
}

static void memory_of_a_step_does_not_go_back_where_there_is_no_more(void)
{
    const stn_allocator allocator = {
        .size = sizeof allocator, .allocate = budget_allocate, .deallocate = budget_deallocate};
    const stn_context_options options = {.size = sizeof options, .allocator = &allocator};
    memset(&device, 0, sizeof device);
    CHECK_STATUS(test_launch(1, &options, scarce_body, NULL), STN_OK);
}

/* An output that outlives its step goes back to the device when its handle does: behind what is queued and reads it */

static stn_status be_late(stn_queue *queue, const void *args)
{
    (void)queue, (void)args;
    usleep(50000);
    return STN_OK;
}

static stn_status outlives_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    float got[KIB / sizeof(float)] = {0};
    stn_tensor *x = block(context, 1, 2);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *y = stn_add_number(x, 1);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_step_destroy(&step);
    CHECK_STATUS(stn_queue_launch(stn_context_queue(context), be_late, NULL, 0), STN_OK);
    stn_tensor *z = stn_mul(y, y);
    stn_tensor_release(&y);
    stn_mul_number_(z, 1); /* takes notice of it */
    CHECK_STATUS(stn_to_host(z, got, sizeof got), STN_OK);
    CHECK_NEAR(got[0], 9, 0);
    CHECK_NEAR(got[KIB / sizeof(float) - 1], 9, 0);
    stn_tensor_release(&z);
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void what_outlives_its_step_is_read_before_it_goes_back(void)
{
    const stn_allocator allocator = {
        .size = sizeof allocator, .allocate = budget_allocate, .deallocate = budget_deallocate};
    const stn_context_options options = {.size = sizeof options, .allocator = &allocator};
    memset(&device, 0, sizeof device);
    CHECK_STATUS(test_launch(1, &options, outlives_body, NULL), STN_OK);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"memory_that_a_step_wraps_stays", memory_that_a_step_wraps_stays},
        {"memory_of_a_step_does_not_go_back_where_there_is_no_more",
         memory_of_a_step_does_not_go_back_where_there_is_no_more},
        {"what_outlives_its_step_is_read_before_it_goes_back", what_outlives_its_step_is_read_before_it_goes_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
