/* Memory of a caller's: tensors over it, when it goes back and how often, what is refused and stays the caller's. */
#include "core/counted.h"
#include "harness.h"
#include "core/core_ranks.h"

#include "core/tensor/tensor.h"

#include <string.h>

static int64_t live_tensors(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.live_tensors;
}

struct owned {
    float data[6];
    atomic_int released;
    atomic_int kernels_ended;
};

static void owner_gets_it_back(void *arg)
{
    struct owned *owned = arg;
    atomic_fetch_add(&owned->released, 1);
    CHECK_I64(atomic_load(&owned->kernels_ended), 3); /* never before the last use */
}

static stn_status use_owned(stn_queue *queue, const void *args)
{
    (void)queue;
    struct owned *owned = *(struct owned *const *)args;
    atomic_fetch_add(&owned->kernels_ended, 1);
    return STN_OK;
}

static void wrap_memory(stn_context *context, void *arg)
{
    context->device->is_cpu = arg == NULL;
    static const int64_t shape[] = {2, 2}, strides[] = {3, 1};
    struct owned owned = {.data = {1, 2, 3, 4, 5, 6}}, *pointer = &owned;
    float back[4];
    stn_tensor *tensor = stn_wrap(context, STN_DTYPE_F32, 2, shape, strides, owned.data, owner_gets_it_back, &owned);
    CHECK(stn_tensor_data(tensor) == owned.data);
    CHECK_I64((int64_t)tensor->storage->bytes, 5 * 4);
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_OK);
    CHECK_NEAR(back[2], 4, 0);
    stn_tensor *second = stn_tensor_retain(tensor);
    stn_tensor_release(&tensor);
    CHECK_I64(live_tensors(context), 1);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_queue_launch(context->queue, use_owned, &pointer, sizeof pointer), STN_OK);
    stn_tensor_release(&second);
    CHECK_I64(live_tensors(context), 0);
    stn_queue_sync(context->queue);
    CHECK_I64(live_tensors(context), 0); /* an action of the context's */
    CHECK_I64(atomic_load(&owned.released), 1);
}

static void wrapped_memory_goes_back_once_after_its_last_use(void)
{
    int other_device = 1;
    on_one_rank(wrap_memory, NULL);
    on_one_rank(wrap_memory, &other_device);
}

static void count_release(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void wrap_on_a_failed_queue(stn_context *context, void *arg)
{
    atomic_int *released = arg;
    static const int64_t shape[] = {1};
    static float data;
    stn_tensor *tensor = stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, &data, count_release, released);
    stn_queue_fail(context->queue, STN_ERR_DEVICE, "gone");
    stn_tensor_release(&tensor);
    tensor = NULL;
    CHECK_I64(live_tensors(context), 0);
}

static void wrap_and_leave(stn_context *context, void *arg)
{
    static const int64_t shape[] = {1};
    static float data;
    stn_scope_begin(context); /* ends with the context */
    CHECK_I64(stn_tensor_is_error(stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, &data, count_release, arg)), 0);
}

/* A storage that outlives its tensors. */
static void wrap_and_leave_the_storage(stn_context *context, void *arg)
{
    static const int64_t shape[] = {1};
    static float data;
    stn_tensor *tensor = stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, &data, count_release, arg);
    stni_storage_retain(tensor->storage);
    stn_tensor_release(&tensor);
    CHECK_I64(live_tensors(context), 0);
    CHECK_I64(atomic_load((atomic_int *)arg), 2);
}

static void wrapped_memory_goes_back_from_failed_queues_and_ended_contexts(void)
{
    atomic_int released = 0;
    on_one_rank(wrap_on_a_failed_queue, &released);
    CHECK_I64(atomic_load(&released), 1);
    on_one_rank(wrap_and_leave, &released);
    CHECK_I64(atomic_load(&released), 2);
    on_one_rank(wrap_and_leave_the_storage, &released);
    CHECK_I64(atomic_load(&released), 3);
}

static void check_wrap_refusal(stn_context *context, stn_tensor *result, const char *part)
{
    CHECK(result == context->error_tensor);
    if (!CHECK(strstr(stn_context_error_text(context), part) != NULL))
        CHECK_STR(stn_context_error_text(context), part);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
}

static void refuse_wraps(stn_context *context, void *arg)
{
    static const int64_t shape[] = {2, 2}, backward[] = {-2, 1}, far[] = {INT64_MAX, 1}, large[] = {2, INT64_MAX / 4},
                         negative[] = {2, -1};
    double data[4];
    atomic_int *n = arg;
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_F64, 2, shape, NULL, NULL, count_release, n),
                       "data got NULL, wanted 4 elements");
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_F64, 2, shape, backward, data, count_release, n),
                       "strides[0] got -2");
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_F64, 2, shape, far, data, count_release, n),
                       "address space");
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_F64, 2, shape, large, data, count_release, n),
                       "address space");
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_F64, 2, shape, NULL, (char *)data + 4, count_release, n),
                       "multiple of 8");
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_F64, 2, negative, NULL, data, count_release, n),
                       "shape[1]");
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_F64, 9, shape, NULL, data, count_release, n), "ndim");
    check_wrap_refusal(context, stn_wrap(context, STN_DTYPE_COUNT, 2, shape, NULL, data, count_release, n), "dtype");
    CHECK(stn_wrap(NULL, STN_DTYPE_F64, 2, shape, NULL, data, count_release, n) == NULL);
    CHECK_I64(live_tensors(context), 0);
}

/* The storage has a handle, the tensor gets none. */
static void wrap_without_a_handle(stn_context *context, void *arg)
{
    static const int64_t shape[] = {1};
    static float data;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, shape, NULL, &spec), STN_OK);
    stn_scope_begin(context);
    do
        stn_empty(context, spec);
    while (context->tensor_slab->free != NULL);
    counted_fail_at(1, 0);
    CHECK(stn_wrap(context, STN_DTYPE_F32, 1, shape, NULL, &data, count_release, arg) == context->error_tensor);
    counted_fail_at(0, 0);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_MEMORY);
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    CHECK_I64(stats.live_storages, 0);
    stn_spec_release(&spec);
}

static void refused_memory_stays_the_callers(void)
{
    atomic_int released = 0;
    on_one_rank(refuse_wraps, &released);
    on_one_rank(wrap_without_a_handle, &released);
    CHECK_I64(atomic_load(&released), 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"wrapped_memory_goes_back_once_after_its_last_use", wrapped_memory_goes_back_once_after_its_last_use},
        {"wrapped_memory_goes_back_from_failed_queues_and_ended_contexts",
         wrapped_memory_goes_back_from_failed_queues_and_ended_contexts},
        {"refused_memory_stays_the_callers", refused_memory_stays_the_callers},
    };
    return TEST_MAIN(argc, argv, cases);
}
