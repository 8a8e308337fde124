/* What is not an op and yet works on elements: factories, optimizers, clipping. On a device that is not the CPU they
 * run that device's kernels. */
#include "harness.h"
#include "module/door.h"
#include "module/probe.h"

#include "core/tensor/tensor.h"
#include "ops/factory/factory_kernel.h"
#include "train/update_kernel.h"

#include <shardtensor/shardtensor.h>

#include <string.h>

static stn_context *open_context(const char *device)
{
    stn_context_options options = {
        .size = sizeof options, .device = device, .module_path = PROBE_FOLDER, .queue = door_queue(3), .seed = 77};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

/* The device's kernels: the arithmetic of the CPU's at the true addresses. */

static stn_status probe_factory(stn_queue *queue, const void *raw)
{
    struct stni_factory_args args = *(const struct stni_factory_args *)raw;
    if (!probe_is_hidden(args.dst.data))
        return stn_queue_fail(queue, STN_ERR_DEVICE, "factory.values got an address of the host");
    args.dst.data = probe_true(args.dst.data);
    return stni_factory_cpu(queue, &args);
}

static stn_status probe_update(stn_queue *queue, const void *raw)
{
    struct stni_update_args args = *(const struct stni_update_args *)raw;
    for (int i = 0; i < args.n; i++)
        for (int k = 0; k < STNI_UPDATE_OPERANDS; k++)
            args.chunk[i].at[k] = probe_true(args.chunk[i].at[k]);
    args.numbers.norm_square = probe_true(args.numbers.norm_square);
    return stni_update_cpu(queue, &args);
}

static void add_kernels(stn_context *context)
{
    static const stn_kernel factory = {.size = sizeof factory,
                                       .name = "factory.values",
                                       .device = "probe",
                                       .dtypes = 0xffffffffu,
                                       .args_size = sizeof(struct stni_factory_args),
                                       .function = probe_factory};
    static const stn_kernel update = {.size = sizeof update,
                                      .name = "update.chunks",
                                      .device = "probe",
                                      .dtypes = 1u << STN_DTYPE_F32,
                                      .args_size = sizeof(struct stni_update_args),
                                      .function = probe_update};
    CHECK_STATUS(stn_kernel_register(context, &factory), STN_OK);
    CHECK_STATUS(stn_kernel_register(context, &update), STN_OK);
}

static const stn_spec *spec_of(stn_context *context, int ndim, const int64_t *shape)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, ndim, shape, &spec), STN_OK);
    return spec;
}

static void a_factory_without_a_kernel_names_the_slot(void)
{
    const int64_t shape[1] = {5};
    stn_context *context = open_context("probe");
    if (!context)
        return;
    CHECK(stn_tensor_is_error(stn_ones(context, spec_of(context, 1, shape))));
    CHECK_STR(stn_context_error_text(context), "factory: no kernel 'factory.values' for f32 on device probe");
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_UNSUPPORTED);
    stn_context_destroy(&context);
}

static void make_numbers(const char *device, float *values)
{
    const int64_t shape[2] = {3, 5};
    stn_context *context = open_context(device);
    if (!context)
        return;
    if (strcmp(device, "probe") == 0)
        add_kernels(context);
    stn_scope_begin(context);
    stn_tensor *normal = stn_randn(context, spec_of(context, 2, shape)),
               *line = stn_eye(context, spec_of(context, 2, shape));
    CHECK_STATUS(stn_to_host(normal, values, 15 * sizeof *values), STN_OK);
    CHECK_STATUS(stn_to_host(line, values + 15, 15 * sizeof *values), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

static void factories_run_the_devices_kernel(void)
{
    float on_device[30] = {0}, on_cpu[30] = {0};
    make_numbers("probe", on_device);
    make_numbers("cpu", on_cpu);
    CHECK_BYTES(on_device, on_cpu, sizeof on_cpu);
    CHECK_NEAR(on_cpu[15], 1, 0);
}

static stn_status add_parameter(stn_optimizer *optimizer, stn_tensor *parameter)
{
    const stn_named_tensor named = {"p", parameter};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    return stn_optimizer_add_group(optimizer, &group);
}

/* The loss is the parameter itself: its gradient is 1. */
static void train_once(stn_context *context, stn_tensor *parameter, stn_optimizer *optimizer)
{
    double norm = 0;
    float value = 0;
    CHECK_STATUS(stn_backward(parameter), STN_OK);
    CHECK_STATUS(stn_clip_grad_norm(context, 1, &parameter, 0.25, &norm), STN_OK);
    CHECK_NEAR(norm, 1, 0);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    CHECK_STATUS(stn_to_host(parameter, &value, sizeof value), STN_OK);
    CHECK_NEAR(value, 3 - 0.5 * 0.25, 0);
}

static void clipping_and_updates_run_the_devices_kernel(void)
{
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.5};
    const float start = 3;
    stn_context *context = open_context("probe");
    stn_optimizer *optimizer = NULL;
    if (!context)
        return;
    add_kernels(context);
    stn_tensor *parameter = stn_from_host(context, spec_of(context, 0, NULL), &start);
    CHECK_STATUS(stn_set_requires_grad(parameter, 1), STN_OK);
    CHECK_STATUS(stn_sgd_create(context, &options, &optimizer), STN_OK);
    CHECK_STATUS(add_parameter(optimizer, parameter), STN_OK);
    train_once(context, parameter, optimizer);
    stn_optimizer_destroy(&optimizer);
    stn_tensor_release(&parameter);
    stn_context_destroy(&context);
}

static void an_optimizer_without_a_kernel_is_refused_before_it_begins(void)
{
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.5};
    const float start = 3;
    stn_context *context = open_context("probe");
    stn_optimizer *optimizer = NULL;
    if (!context)
        return;
    stn_tensor *parameter = stn_from_host(context, spec_of(context, 0, NULL), &start);
    CHECK_STATUS(stn_set_requires_grad(parameter, 1), STN_OK);
    CHECK_STATUS(stn_sgd_create(context, &options, &optimizer), STN_OK);
    CHECK_STATUS(add_parameter(optimizer, parameter), STN_ERR_UNSUPPORTED);
    CHECK_STR(stn_context_error_text(context), "optimizer: no kernel for device probe");
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_UNSUPPORTED);
    stn_optimizer_destroy(&optimizer);
    stn_tensor_release(&parameter);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_factory_without_a_kernel_names_the_slot", a_factory_without_a_kernel_names_the_slot},
        {"factories_run_the_devices_kernel", factories_run_the_devices_kernel},
        {"clipping_and_updates_run_the_devices_kernel", clipping_and_updates_run_the_devices_kernel},
        {"an_optimizer_without_a_kernel_is_refused_before_it_begins",
         an_optimizer_without_a_kernel_is_refused_before_it_begins},
        {"door_gave_all_memory_back", door_gave_all_memory_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
