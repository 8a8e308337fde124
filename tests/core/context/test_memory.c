/* Every allocation of a short program fails once, in turn, then with all that follow it: always a status with a
 * text, nothing leaked. */
#include "core/counted.h"
#include "core/gaps.h"
#include "harness.h"
#include "core/core_ranks.h"

#include "core/tensor/tensor.h"

#include <string.h>

static int releases;

static void count_release(void *arg)
{
    (void)arg;
    releases++;
}

static stn_status make_specs(stn_context *context, const stn_spec **cut, const stn_spec **whole)
{
    static const int one[] = {1};
    static const int64_t shape[] = {6, 50}, pieces[] = {6};
    static const int64_t *const sizes[] = {pieces, NULL};
    static const int order[] = {1, 0};
    stn_spec_options options = {.size = sizeof options, .sizes = sizes, .memory_order = order};
    stn_placement placement = stn_shard(0);
    const stn_mesh *mesh;
    STNI_TRY(stn_mesh_create(context, 1, one, NULL, NULL, &mesh));
    STNI_TRY(stn_spec_create(context, mesh, &placement, STN_DTYPE_F32, 2, shape, &options, cut));
    stn_status status = stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 2, shape, NULL, whole);
    if (status != STN_OK)
        stn_spec_release(cut);
    return status;
}

static stn_status use_gaps(stn_context *context, const stn_spec *spec)
{
    static const int64_t around[] = {1, 2};
    stn_tensor *wide, *dense;
    STNI_TRY(make_with_gaps(context, spec, around, around, &wide));
    stn_status status = stni_tensor_dense(wide, &dense);
    if (status == STN_OK)
        stni_tensor_release_here(dense);
    stni_tensor_release_here(wide);
    return status;
}

static stn_status use_tensors(stn_context *context, const stn_spec *cut, const stn_spec *whole)
{
    static float host[300], wrapped[300];
    stn_tensor *kept = NULL;
    stn_scope_begin(context);
    for (int i = 0; i < 200; i++) /* more than one chunk of handles, and a list that has to grow */
        stn_empty(context, i % 2 == 0 ? cut : whole);
    int before = releases;
    stn_tensor *outside =
        stn_wrap(context, STN_DTYPE_F32, 2, stn_spec_shape(whole), NULL, wrapped, count_release, NULL);
    int wraps = !stn_tensor_is_error(outside);
    stn_tensor *there = stn_from_host(context, cut, host);
    if (stn_context_status(context) == STN_OK)
        use_gaps(context, whole);
    stn_to_host(there, host, sizeof host);
    stn_status status = stn_scope_end_keep(context, there, &kept);
    stn_queue_sync(context->queue);
    stni_lent_take_ended(context);
    /* Taken over and given back, or never taken; a list of the scope that cannot grow gives it back too. */
    CHECK(releases - before == wraps || releases - before == 1);
    if (status == STN_OK)
        stn_tensor_release(&kept);
    return status;
}

/* What a program sees: a context, or an error; tensors, or an error. */
static stn_status run_program(char text[STNI_ERROR_TEXT])
{
    stn_context_options options = ranks_options();
    struct stni_error error = {.status = STN_OK};
    stn_context *context;
    const stn_spec *cut, *whole;
    stn_status status = stni_context_create_core(&options, &context, &error);
    memcpy(text, error.text, STNI_ERROR_TEXT);
    if (status != STN_OK)
        return status;
    status = make_specs(context, &cut, &whole);
    if (status == STN_OK) {
        status = use_tensors(context, cut, whole);
        if (status == STN_OK)
            status = stn_agree(context, STN_OK, NULL);
        stn_context_trim(context);
        stn_spec_release(&cut);
        stn_spec_release(&whole);
    }
    memcpy(text, context->error.text, STNI_ERROR_TEXT);
    stni_context_destroy_core(context);
    return status;
}

/* Returns how many runs failed. */
static int fail_each(int for_ever)
{
    char text[STNI_ERROR_TEXT];
    int64_t live = counted_live(), device_bytes = counted_device_bytes();
    int failed = 0;
    for (int64_t n = 1;; n++) {
        int64_t calls = counted_calls();
        counted_fail_at(n, for_ever);
        stn_status status = run_program(text);
        int over = counted_calls() - calls < n;
        counted_fail_at(0, 0);
        CHECK_I64(counted_live(), live);
        CHECK_I64(counted_device_bytes(), device_bytes);
        if (over) {
            CHECK_STATUS(status, STN_OK);
            return failed;
        }
        /* A refusal of the device is answered with a trim and a second request. What would remember to give wrapped
         * memory back is done without, by a wait. */
        CHECK(status == STN_ERR_MEMORY || (status == STN_OK && (!for_ever || counted_calls() - calls == n)));
        CHECK((status == STN_OK) == (text[0] == '\0'));
        failed += status != STN_OK;
    }
}

static void allocation_that_fails_once_is_a_status(void)
{
    CHECK(fail_each(0) > 20);
}

static void allocation_that_fails_from_now_on_is_a_status(void)
{
    CHECK(fail_each(1) > 20);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"allocation_that_fails_once_is_a_status", allocation_that_fails_once_is_a_status},
        {"allocation_that_fails_from_now_on_is_a_status", allocation_that_fails_from_now_on_is_a_status},
    };
    return TEST_MAIN(argc, argv, cases);
}
