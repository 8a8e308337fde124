/* A device that comes through the modules' door: its memory, its queues, its kernels. */
#include "harness.h"
#include "module/door.h"
#include "module/probe.h"

#include "core/context/module.h"
#include "core/tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[512];

static stn_context *device_context(void)
{
    stn_context_options options = {.size = sizeof options,
                                   .device = "probe:1",
                                   .module_path = PROBE_FOLDER,
                                   .queue = door_queue(5),
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static void tensors_live_in_device_memory_and_come_back(void)
{
    stn_context *context = device_context();
    int64_t shape[3] = {3, 5, 7};
    float host[105], back[105];
    if (!context)
        return;
    for (int i = 0; i < 105; i++)
        host[i] = (float)i;
    const stn_spec *spec = NULL;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 3, shape, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    memset(back, 0, sizeof back);
    CHECK(!stn_tensor_is_error(tensor));
    CHECK(probe_is_hidden(stn_tensor_data(tensor)));
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_OK);
    CHECK_BYTES(back, host, sizeof host);
    stn_tensor_release(&tensor);
    stn_context_destroy(&context);
}

/* Dims in another order than memory, with gaps. */
static void boxes_are_copied_by_the_devices_kernel(void)
{
    stn_context *context = device_context();
    int32_t host[240], back[240], want[240];
    if (!context)
        return;
    for (int i = 0; i < 240; i++) {
        host[i] = i;
        back[i] = want[i] = -i;
    }
    void *src = door_upload(context, host, sizeof host), *dst = door_upload(context, back, sizeof back);
    stn_box from = {.data = (char *)src + 8, .ndim = 3, .shape = {3, 4, 5}, .strides = {60, 11, 2}};
    stn_box to = {.data = (char *)dst + 12, .ndim = 3, .shape = {3, 4, 5}, .strides = {1, 20, 4}};
    CHECK_STATUS(stni_box_copy(context->queue, &to, &from, sizeof *host), STN_OK);
    memset(&from, 0, sizeof from);
    door_download(context, dst, back, sizeof back);
    for (int i = 0; i < 60; i++)
        want[3 + i / 20 + i / 5 % 4 * 20 + i % 5 * 4] = host[2 + i / 20 * 60 + i / 5 % 4 * 11 + i % 5 * 2];
    CHECK_BYTES(back, want, sizeof want);
    door_discard(context, src, sizeof host);
    door_discard(context, dst, sizeof back);
    stn_context_destroy(&context);
}

/* By its own thread, which runs them while others are launched. */
static void a_trace_names_the_kernels_that_the_device_runs(void)
{
    stn_context *context = device_context();
    char path[] = "module_trace.XXXXXX", trace[1 << 14] = "";
    const int file = mkstemp(path);
    int64_t data[6] = {0};
    if (!context || !CHECK(file >= 0))
        return;
    void *src = door_upload(context, data, sizeof data), *dst = door_upload(context, data, sizeof data);
    stn_box from = {.data = src, .ndim = 1, .shape = {3}, .strides = {2}};
    stn_box to = {.data = dst, .ndim = 1, .shape = {3}, .strides = {1}};
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    for (int i = 0; i < 20; i++)
        CHECK_STATUS(stni_box_copy(context->queue, &to, &from, sizeof *data), STN_OK);
    CHECK_STATUS(stn_trace_end(context, path), STN_OK);
    CHECK(read(file, trace, sizeof trace - 1) > 0);
    int named = 0;
    for (const char *at = trace; (at = strstr(at, "\"name\":\"copy\",\"cat\":\"kernel\"")) != NULL; at++)
        named++;
    CHECK_I64(named, 20);
    close(file);
    unlink(path);
    door_discard(context, src, sizeof data);
    door_discard(context, dst, sizeof data);
    stn_context_destroy(&context);
}

static void copy_from_the_wrong_side_fails_its_queue(void)
{
    stn_context *context = device_context();
    int32_t host[4] = {0};
    if (!context)
        return;
    void *device = door_upload(context, host, sizeof host);
    CHECK_STATUS(stni_queue_copy(context->queue, host, device, sizeof host, STNI_COPY_DEVICE), STN_ERR_DEVICE);
    CHECK(strstr(stn_queue_error_text(context->queue), "a copy of device probe") != NULL);
    stni_queue_recover(context->queue);
    stn_box wrong = {.data = host, .ndim = 1, .shape = {4}, .strides = {1}};
    stn_box right = {.data = device, .ndim = 1, .shape = {4}, .strides = {1}};
    CHECK_STATUS(stni_box_copy(context->queue, &right, &wrong, sizeof *host), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_ERR_DEVICE);
    CHECK(strstr(stn_queue_error_text(context->queue), "address of the host") != NULL);
    stni_queue_recover(context->queue);
    door_discard(context, device, sizeof host);
    stn_context_destroy(&context);
}

static void queues_of_the_device_wait_for_each_other(void)
{
    stn_context *context = device_context();
    int64_t host[2] = {41, 42}, back[2] = {0, 0};
    stn_queue *other = NULL;
    stn_event *event = NULL;
    stn_queue_options options = {.size = sizeof options, .kind = STN_QUEUE_WORKER, .delay_seed = 77};
    if (!context)
        return;
    void *device = door_upload(context, back, sizeof back);
    CHECK_STATUS(stni_queue_create(context->device, &options, &other), STN_OK);
    CHECK_STATUS(stni_event_create(context->device, &event), STN_OK);
    CHECK_PTR(stn_queue_native(other));
    for (int i = 0; i < 50; i++) {
        host[0] = i;
        CHECK_STATUS(stni_queue_copy(other, device, host, sizeof host, STNI_COPY_TO_DEVICE), STN_OK);
        CHECK_STATUS(stni_event_record(event, other), STN_OK);
        CHECK_STATUS(stni_queue_wait(context->queue, event), STN_OK);
        CHECK_STATUS(stni_queue_copy(context->queue, back, device, sizeof back, STNI_COPY_TO_HOST), STN_OK);
        CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
        CHECK_STATUS(stni_event_sync(event), STN_OK);
        CHECK_I64(back[0], i);
    }
    stni_event_destroy(&event);
    stni_queue_destroy(&other);
    door_discard(context, device, sizeof back);
    stn_context_destroy(&context);
}

/* An op of an embedder whose kernel is the module's */

struct probe_attrs {
    double factor;
};

static stn_status probe_check(stn_op_call *call)
{
    const stn_spec *spec = call->in_spec[0];
    call->out_meta[0].dtype = stn_spec_dtype(spec);
    call->out_meta[0].ndim = stn_spec_ndim(spec);
    for (int d = 0; d < stn_spec_ndim(spec); d++)
        call->out_meta[0].shape[d] = stn_spec_shape(spec)[d];
    return STN_OK;
}

static stn_status probe_place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status probe_run(stn_op_call *call)
{
    const struct probe_attrs *attrs = call->attrs;
    struct probe_scale_args args = {stn_tensor_data(call->out[0]), attrs->factor, 6};
    return stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
}

static const stn_op_desc *probe_op(void)
{
    static const stn_input_schema inputs[] = {{.name = "input"}};
    static const stn_attr_schema attrs[] = {{"factor", STN_ATTR_FLOAT, offsetof(struct probe_attrs, factor), NULL}};
    static const stn_kernel_slot slots[] = {{"scale", sizeof(struct probe_scale_args)}};
    static const stn_op_impl impl = {.check = probe_check, .place = probe_place, .run = probe_run, STN_SLOTS(slots)};
    static const stn_op_desc desc = {.size = sizeof desc,
                                     .name = "probe",
                                     STN_INPUTS(inputs),
                                     STN_ATTRS(attrs, struct probe_attrs),
                                     .n_outputs = 1,
                                     .flags = STN_OP_IN_PLACE,
                                     .impl = &impl};
    return &desc;
}

static void kernels_attach_to_an_op_of_the_embedder(void)
{
    stn_context *context = device_context();
    const stn_op *op = NULL;
    const stn_spec *spec = NULL;
    int64_t shape[1] = {6};
    double host[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
    struct probe_attrs attrs = {2.5};
    stn_tensor *out = NULL;
    if (!context)
        return;
    CHECK_STATUS(stn_op_register(context, probe_op(), &op), STN_OK);
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F64, 1, shape, &spec), STN_OK);
    stn_tensor *in = stn_from_host(context, spec, host);
    CHECK_STATUS(stn_op_apply(op, 1, &in, &attrs, 1, &out), STN_ERR_UNSUPPORTED); /* no kernel yet */
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_UNSUPPORTED);
    CHECK_STATUS(stn_context_load_module(context, "probe"), STN_OK);
    CHECK_STATUS(stn_op_apply(op, 1, &in, &attrs, 1, &out), STN_OK);
    CHECK_STATUS(stn_to_host(in, back, sizeof back), STN_OK);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(back[i], 2.5 * host[i], 0);
    attrs.factor = 0; /* which the kernel refuses, later, on its queue */
    stn_op_apply(op, 1, &in, &attrs, 1, &out);
    CHECK_STATUS(stn_to_host(in, back, sizeof back), STN_ERR_VALUE);
    CHECK(strstr(stn_context_error_text(context), "factor got 0") != NULL);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_VALUE);
    stn_tensor_release(&in);
    CHECK_STATUS(stn_context_load_module(context, "absent"), STN_ERR_NOT_FOUND);
    stn_context_destroy(&context);
}

static stn_status check_turn(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_I64(context->device->index, stn_context_rank(context) % 2);
    return STN_OK;
}

static void ranks_that_name_no_device_get_them_in_turn(void)
{
    stn_launch_options options = {
        .size = sizeof options,
        .ranks = 3,
        .context = {
            .size = sizeof options.context, .device = "probe", .module_path = PROBE_FOLDER, .queue = door_queue(9)}};
    CHECK_STATUS(stn_launch(&options, check_turn, NULL), STN_OK);
}

/* It has no reduction that is exact. */
static void reproducible_sums_are_refused(void)
{
    stn_context_options options = {.size = sizeof options,
                                   .device = "probe:1",
                                   .module_path = PROBE_FOLDER,
                                   .queue = door_queue(5),
                                   .reproducible_sums = 1,
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_UNSUPPORTED);
    CHECK(context == NULL);
    CHECK_STR(text, "context: reproducible_sums is for ranks of the CPU, got device 'probe:1'");
}

static void *nothing(void *arg, size_t bytes, void *stream)
{
    (void)arg, (void)bytes, (void)stream;
    return NULL;
}

static void take_nothing(void *arg, void *pointer, size_t bytes, void *stream)
{
    (void)arg, (void)pointer, (void)bytes, (void)stream;
}

/* Device 0 has no such entries in its table, and that of device 1 ends before them. */
static void a_callers_allocator_is_refused_by_a_device_that_takes_none(void)
{
    const stn_device_allocator allocator = {.size = sizeof allocator, .allocate = nothing, .deallocate = take_nothing};
    for (int i = 0; i < 2; i++) {
        char device[] = "probe:0", want[160];
        device[sizeof device - 2] = (char)('0' + i);
        stn_context_options options = {.size = sizeof options,
                                       .device = device,
                                       .module_path = PROBE_FOLDER,
                                       .device_allocator = &allocator,
                                       .error_text = text,
                                       .error_text_size = sizeof text};
        stn_context *context = NULL;
        CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_UNSUPPORTED);
        CHECK(context == NULL);
        snprintf(
            want, sizeof want,
            "context: device_allocator: device 'probe:%d' takes no memory of a caller's (allocate_from): not supported",
            i);
        CHECK_STR(text, want);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"tensors_live_in_device_memory_and_come_back", tensors_live_in_device_memory_and_come_back},
        {"boxes_are_copied_by_the_devices_kernel", boxes_are_copied_by_the_devices_kernel},
        {"a_trace_names_the_kernels_that_the_device_runs", a_trace_names_the_kernels_that_the_device_runs},
        {"copy_from_the_wrong_side_fails_its_queue", copy_from_the_wrong_side_fails_its_queue},
        {"queues_of_the_device_wait_for_each_other", queues_of_the_device_wait_for_each_other},
        {"kernels_attach_to_an_op_of_the_embedder", kernels_attach_to_an_op_of_the_embedder},
        {"ranks_that_name_no_device_get_them_in_turn", ranks_that_name_no_device_get_them_in_turn},
        {"reproducible_sums_are_refused", reproducible_sums_are_refused},
        {"a_callers_allocator_is_refused_by_a_device_that_takes_none",
         a_callers_allocator_is_refused_by_a_device_that_takes_none},
        {"door_gave_all_memory_back", door_gave_all_memory_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
