/* Memory that callers bring: what no kernel of the device reaches is refused before any does, and what the device says
 * of a failure is told. */
#include "harness.h"
#include "on_ranks.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <stdlib.h>
#include <string.h>

enum { N = 3, RANKS = 2 };

/* A kept error of this text is forgotten. */
static void check_refused(stn_context *context, const char *part)
{
    char text[256] = "";
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    if (!CHECK(strstr(text, part) != NULL))
        CHECK_STR(text, part);
}

static stn_tensor *wrapped(stn_context *context, double *data)
{
    return stn_wrap(context, STN_DTYPE_F64, 1, (const int64_t[]){N}, NULL, data, NULL, NULL);
}

/* Where kernels reach all of the host's memory nothing is to be refused. */
static stn_status hosts_body(stn_context *context, void *arg)
{
    stn_comm *const comm = stn_context_comm(context);
    double own[N] = {1, 2, 3};
    (void)arg;
    if (stni_device_reaches(context->device, own))
        return STN_OK;
    CHECK(stn_tensor_is_error(wrapped(context, own)));
    check_refused(context, "wrap: data got memory that device");
    CHECK_STATUS(stn_comm_all_reduce(comm, own, own, N, STN_DTYPE_F64, STN_SUM, NULL), STN_ERR_ARGUMENT);
    CHECK(strstr(stn_comm_error_text(comm), "all_reduce: send got memory that device cuda does not reach") != NULL);
    CHECK_NEAR(own[N - 1], 3, 0);
    CHECK_STATUS(stn_comm_broadcast(comm, own, N, STN_DTYPE_F64, 0, NULL), STN_ERR_ARGUMENT);
    return stn_agree(context, STN_OK, NULL);
}

/* Pinned memory is read and written where it lies. */
static stn_status pinned_body(stn_context *context, void *arg)
{
    const stn_device_ops *const ops = context->device->ops;
    const int64_t size = stn_context_size(context);
    void *pinned = NULL;
    double got[N];
    (void)arg;
    if (context->device->is_cpu)
        return STN_OK;
    CHECK_STATUS(ops->host_allocate(context->device->impl, N * sizeof(double), &pinned), STN_OK);
    memcpy(pinned, (const double[]){1, 2, 3}, N * sizeof(double));
    CHECK_STATUS(stn_comm_all_reduce(stn_context_comm(context), pinned, pinned, N, STN_DTYPE_F64, STN_SUM, NULL),
                 STN_OK);
    stn_scope_begin(context);
    CHECK_STATUS(stn_to_host(stn_mul_number(wrapped(context, pinned), 2), got, sizeof got), STN_OK);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], 2 * (double)(size * (i + 1)), 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    ops->host_deallocate(context->device->impl, pinned, N * sizeof(double));
    return STN_OK;
}

/* A copy to nowhere, which the driver refuses; compute-sanitizer, for which there are few of everything, takes a
 * refusal for a fault. */
static stn_status failing_body(stn_context *context, void *arg)
{
    double here[N] = {1, 2, 3};
    char text[256] = "";
    (void)arg;
    if (context->device->is_cpu || getenv("STN_TEST_FEW"))
        return STN_OK;
    CHECK_STATUS(stni_fail_queue(context, stni_queue_copy(context->queue, NULL, here, sizeof here, STNI_COPY_TO_HOST)),
                 STN_ERR_DEVICE);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DEVICE);
    CHECK_STR(text, "a copy of device cuda failed: invalid argument");
    return STN_OK;
}

static void the_hosts_memory_is_refused(void)
{
    on_ranks(RANKS, hosts_body, NULL, NULL);
}

static void pinned_memory_is_used_where_it_lies(void)
{
    on_ranks(RANKS, pinned_body, NULL, NULL);
}

static void what_the_device_says_is_told(void)
{
    on_ranks(1, failing_body, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"the_hosts_memory_is_refused", the_hosts_memory_is_refused},
        {"pinned_memory_is_used_where_it_lies", pinned_memory_is_used_where_it_lies},
        {"what_the_device_says_is_told", what_the_device_says_is_told},
    };
    return TEST_MAIN(argc, argv, cases);
}
