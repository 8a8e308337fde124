/* Handles that outlive their context: released in any order, on any thread, they give everything back. */
#include "core/counted.h"
#include "harness.h"
#include "core/core_ranks.h"

#include "core/tensor/dlpack.h"
#include "core/tensor/tensor.h"

#include <pthread.h>

enum { N = 100, BYTES = N * (int)sizeof(float) };

static stn_context *open_context(void)
{
    stn_context_options options = ranks_options();
    stn_context *context = NULL;
    CHECK_STATUS(stni_context_create_core(&options, &context, NULL), STN_OK);
    return context;
}

static stn_tensor *vector(stn_context *context)
{
    const stn_spec *spec = NULL;
    int64_t n = N;
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 1, &n, &spec), STN_OK);
    return stn_from_host(context, spec, host);
}

static void check_values(const stn_tensor *tensor)
{
    const float *data = stn_tensor_data(tensor);
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += data[i] != (float)i;
    CHECK_I64(wrong, 0);
    CHECK_I64(stn_tensor_shape(tensor)[0], N);
}

static stn_tensor *view_of(stn_tensor *base)
{
    stn_tensor *view = NULL;
    CHECK_STATUS(stni_tensor_on(base->context, base->spec, base->storage, base->data, NULL, 0, &view), STN_OK);
    stni_tensor_show(view, base);
    return view;
}

static void memory_comes_back_with_each_handle(void)
{
    int64_t live = counted_live(), bytes = counted_device_bytes();
    stn_context *context = open_context();
    stn_tensor *a = vector(context), *b = vector(context), *dropped = vector(context), *view = view_of(a);
    stn_tensor_release(&dropped);
    stni_context_destroy_core(context);
    int64_t held = counted_device_bytes() - bytes;
    CHECK(held >= 2 * BYTES && held < 3 * BYTES); /* nothing but the two */
    stn_tensor_release(&a);
    check_values(view);
    stn_tensor_release(&view);
    CHECK_I64(counted_device_bytes() - bytes, held / 2);
    check_values(b);
    stn_tensor_release(&b);
    CHECK_I64(counted_device_bytes(), bytes);
    CHECK_I64(counted_live(), live);
}

static void specs_outlive_their_context_and_its_tensors(void)
{
    int64_t live = counted_live();
    stn_context *context = open_context();
    const stn_spec *spec = NULL, *again;
    const int64_t shape[] = {3, 5};
    stn_tensor *tensor = vector(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stni_context_destroy_core(context);
    again = stn_spec_retain(spec);
    stn_spec_release(&spec);
    stn_tensor_release(&tensor);
    CHECK_I64(stn_spec_numel(again), 15);
    stn_spec_release(&again);
    CHECK_I64(counted_live(), live);
}

static void exports_outlive_their_context(void)
{
    int64_t live = counted_live();
    stn_context *context = open_context();
    stn_tensor *tensor = vector(context), *other = vector(context);
    struct DLManagedTensorVersioned *managed = NULL;
    CHECK_STATUS(stn_tensor_to_dlpack(tensor, &managed), STN_OK);
    stn_tensor_release(&tensor);
    stni_context_destroy_core(context);
    stn_tensor_release(&other);
    CHECK_NEAR((double)((const float *)managed->dl_tensor.data)[N - 1], N - 1, 0);
    managed->deleter(managed);
    CHECK_I64(counted_live(), live);
}

/* A handle whose memory is lent by an export of another: the release of one releases the next, seven times. */
static void handles_that_own_handles_go_in_a_chain(void)
{
    int64_t live = counted_live();
    stn_context *context = open_context();
    stn_tensor *tensor = vector(context), *other = vector(context);
    for (int i = 0; i < 7; i++) {
        struct DLManagedTensorVersioned *managed = NULL;
        CHECK_STATUS(stn_tensor_to_dlpack(tensor, &managed), STN_OK);
        stn_tensor_release(&tensor);
        tensor = stn_tensor_from_dlpack(context, managed);
    }
    stni_context_destroy_core(context);
    check_values(tensor);
    stn_tensor_release(&tensor);
    check_values(other);
    stn_tensor_release(&other);
    CHECK_I64(counted_live(), live);
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

static void lent_memory_is_given_back_when_its_last_handle_goes(void)
{
    int64_t live = counted_live(), n = N;
    float lent[N] = {0};
    int calls = 0;
    stn_context *context = open_context();
    stn_tensor *tensor = stn_wrap(context, STN_DTYPE_F32, 1, &n, NULL, lent, count_call, &calls);
    stni_context_destroy_core(context);
    CHECK_I64(calls, 0);
    stn_tensor_release(&tensor);
    CHECK_I64(calls, 1);
    CHECK_I64(counted_live(), live);
}

static void what_outlives_its_context_is_refused_with_a_reason(void)
{
    int64_t live = counted_live();
    float host[N] = {0};
    stn_context *context = open_context();
    stn_tensor *tensor = vector(context);
    const stn_spec *spec = stn_spec_retain(stn_tensor_spec(tensor));
    stni_context_destroy_core(context);
    context = stn_tensor_context(tensor);
    CHECK_STATUS(stn_to_host(tensor, host, sizeof host), STN_ERR_STATE);
    CHECK_STR(stn_context_error_text(context),
              "the context was destroyed, and of its handles nothing can be made any more");
    stn_tensor *made = stn_empty(context, spec);
    CHECK_I64(stn_tensor_is_error(made), 1);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    stn_scope_begin(context);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_STATE);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_STATE);
    stn_context_trim(context);
    stn_context_stats_reset(context);
    stn_context_dump_calls(context);
    CHECK_STATUS(stn_context_status(context), STN_ERR_STATE);
    CHECK(stn_context_comm(context) == NULL);
    stn_spec_release(&spec);
    stn_tensor_release(&tensor);
    stn_tensor_release(&made); /* an error tensor: harmless, though its context is gone */
    CHECK_I64(counted_live(), live);
}

static void requests_that_nobody_waited_for_outlive_their_context(void)
{
    int64_t live = counted_live(), x[4] = {1, 2, 3, 4};
    stn_context *context = open_context();
    stn_request *requests[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_comm_all_reduce(stn_context_comm(context), x, x, 4, STN_DTYPE_I64, STN_SUM, &requests[i]),
                     STN_OK);
    stni_context_destroy_core(context);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_request_wait(&requests[i]), STN_OK);
    CHECK_I64(counted_live(), live);
}

enum { HANDLES = 2000, THREADS = 3 };

struct work {
    stn_tensor *tensors[HANDLES];
    const stn_spec *specs[HANDLES];
};

static void *release_all(void *arg)
{
    struct work *work = arg;
    for (int i = 0; i < HANDLES; i++) {
        stn_tensor_release(&work->tensors[i]);
        stn_spec_release(&work->specs[i]);
    }
    return NULL;
}

/* Each thread has a reference to each tensor, so that they compete for being the last; and so does the destruction. */
static void last_handles_may_go_on_other_threads_while_the_context_is_destroyed(void)
{
    static struct work work[THREADS];
    int64_t live = counted_live();
    pthread_t threads[THREADS];
    stn_context *context = open_context();
    for (int i = 0; i < HANDLES; i++)
        for (int t = 0; t < THREADS; t++) {
            work[t].tensors[i] = t == 0 ? vector(context) : stn_tensor_retain(work[0].tensors[i]);
            work[t].specs[i] = stn_spec_retain(stn_tensor_spec(work[0].tensors[i]));
        }
    for (int t = 0; t < THREADS; t++)
        CHECK_I64(pthread_create(&threads[t], NULL, release_all, &work[t]), 0);
    stni_context_destroy_core(context);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    CHECK_I64(counted_live(), live);
    CHECK_I64(counted_device_bytes(), 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"memory_comes_back_with_each_handle", memory_comes_back_with_each_handle},
        {"specs_outlive_their_context_and_its_tensors", specs_outlive_their_context_and_its_tensors},
        {"exports_outlive_their_context", exports_outlive_their_context},
        {"handles_that_own_handles_go_in_a_chain", handles_that_own_handles_go_in_a_chain},
        {"lent_memory_is_given_back_when_its_last_handle_goes", lent_memory_is_given_back_when_its_last_handle_goes},
        {"what_outlives_its_context_is_refused_with_a_reason", what_outlives_its_context_is_refused_with_a_reason},
        {"requests_that_nobody_waited_for_outlive_their_context",
         requests_that_nobody_waited_for_outlive_their_context},
        {"last_handles_may_go_on_other_threads_while_the_context_is_destroyed",
         last_handles_may_go_on_other_threads_while_the_context_is_destroyed},
    };
    return TEST_MAIN(argc, argv, cases);
}
