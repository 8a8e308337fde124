/* NULL for what a function is asked about: the neutral value that its header promises, and no crash. One that gives a
 * status gives STN_ERR_ARGUMENT, and says why where there is a context to keep it in. */
#include "ranks.h"

#include <stdio.h>
#include <string.h>

static void contexts(void)
{
    char text[8] = "before";
    uint64_t seed = 3, stream = 4;
    CHECK_I64(stn_context_rank(NULL), -1);
    CHECK_I64(stn_context_size(NULL), 0);
    CHECK(stn_context_comm(NULL) == NULL);
    CHECK(stn_context_queue(NULL) == NULL);
    CHECK_STATUS(stn_context_status(NULL), STN_ERR_ARGUMENT);
    CHECK_STR(stn_context_error_text(NULL), "");
    CHECK_STATUS(stn_context_take_error(NULL, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "");
    CHECK_STATUS(stn_context_take_error(NULL, NULL, 100), STN_ERR_ARGUMENT);
    stn_context_random_state(NULL, &seed, &stream);
    CHECK_I64((int64_t)(seed | stream), 0);
    stn_context_random_state(NULL, NULL, NULL);
    stn_context_set_random_state(NULL, 1, 2);
    CHECK_STATUS(stn_agree(NULL, STN_OK, NULL), STN_ERR_ARGUMENT);
    stn_scope_begin(NULL);
    stn_scope_agree(NULL);
    CHECK_STATUS(stn_scope_end(NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_scope_end_keep(NULL, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_scope_end_keep_all(NULL, 0, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_set_halo_overlap(NULL, STN_HALO_OVERLAP_NEVER), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_set_ring_attention(NULL, STN_RING_ATTENTION_NEVER), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_stats(NULL, NULL), STN_ERR_ARGUMENT);
    stn_context_stats_reset(NULL);
    stn_context_trim(NULL);
    stn_context_dump_calls(NULL);
    CHECK_STATUS(stn_trace_begin(NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_trace_end(NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_trace_summary(NULL, NULL, 100), STN_ERR_ARGUMENT);
}

static stn_status no_kernel(stn_queue *queue, const void *args)
{
    (void)queue, (void)args;
    return STN_OK;
}

static void no_call(void *arg)
{
    (void)arg;
}

static void communicators_and_queues(void)
{
    CHECK_I64(stn_comm_rank(NULL), -1);
    CHECK_I64(stn_comm_size(NULL), 0);
    CHECK_STR(stn_comm_error_text(NULL), "");
    CHECK_STATUS(stn_comm_barrier(NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_launch(NULL, no_kernel, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_sync(NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_fail(NULL, STN_ERR_IO, "of nobody's"), STN_ERR_IO);
    stn_queue_value_error(NULL, 1, 1, 1, NULL);
    CHECK(stn_queue_value_record(NULL) == NULL);
    CHECK(stn_queue_native(NULL) == NULL);
    CHECK_STATUS(stn_queue_call(NULL, no_call, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_capture_begin(NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_capture_end(NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_graph_launch(NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STR(stn_queue_error_text(NULL), "");
}

static void files_and_training(void)
{
    CHECK_I64(stn_file_count(NULL), 0);
    CHECK(stn_file_at(NULL, 0) == NULL);
    CHECK(stn_file_find(NULL, "w") == NULL);
    CHECK(stn_file_metadata(NULL, "key") == NULL);
    CHECK_STATUS(stn_file_read(NULL, NULL, 0, 0, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_file_open(NULL, NULL, NULL, 100), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_load_metadata(NULL, NULL, NULL, 100), STN_ERR_ARGUMENT);
    CHECK_I64(stn_params_count(NULL), 0);
    CHECK(stn_params_named(NULL) == NULL);
    CHECK(stn_params_tensors(NULL) == NULL);
    CHECK(stn_params_find(NULL, NULL) == NULL);
    CHECK(stn_params_get(NULL, NULL, NULL, NULL) == NULL);
    CHECK_STATUS(stn_optimizer_add_params(NULL, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_I64(stn_optimizer_steps(NULL), 0);
    stn_optimizer_set_rate_factor(NULL, 1);
    CHECK(stn_average_at(NULL, 0).tensor == NULL);
    CHECK_I64(stn_step_graphs(NULL) + stn_step_calls(NULL), 0);
    CHECK(stn_step_call_name(NULL, 0) == NULL);
}

static void specs_meshes_and_tensors(void)
{
    char text[32];
    CHECK_I64(stn_mesh_ndim(NULL) + stn_mesh_size(NULL) + stn_mesh_axis_size(NULL, 0) + stn_mesh_contains_me(NULL), 0);
    CHECK(stn_mesh_axis_name(NULL, 0) == NULL);
    CHECK_I64(stn_mesh_axis(NULL, NULL), -1);
    CHECK_I64(stn_mesh_coordinate(NULL, 0), -1);
    CHECK_I64(stn_mesh_rank_at(NULL, NULL), -1);
    CHECK(stn_spec_mesh(NULL) == NULL);
    CHECK_I64(stn_spec_shape(NULL)[0] + stn_spec_local_shape(NULL)[0] + stn_spec_local_offset(NULL)[0], 0);
    CHECK_I64(stn_spec_ndim(NULL) + stn_spec_numel(NULL) + stn_spec_local_numel(NULL), 0);
    stn_spec_chunk(NULL, 0, NULL, NULL);
    CHECK(stn_spec_with_sizes(NULL, 0, 1, NULL) == NULL);
    CHECK_I64((int64_t)stn_spec_write(NULL, NULL, 100), 0);
    CHECK_I64(stn_spec_describe(NULL, NULL, 100), (int64_t)strlen("no spec"));
    CHECK_I64(stn_spec_describe(NULL, text, sizeof text), (int64_t)strlen("no spec"));
    CHECK_STR(text, "no spec");
    CHECK(stn_tensor_context(NULL) == NULL && stn_tensor_spec(NULL) == NULL && stn_tensor_data(NULL) == NULL);
    CHECK_I64(stn_tensor_shape(NULL)[0] + stn_tensor_local_shape(NULL)[0] + stn_tensor_strides(NULL)[0], 0);
    CHECK_I64(stn_tensor_ndim(NULL) + stn_tensor_is_view(NULL) + stn_tensor_is_frozen(NULL), 0);
    CHECK_I64((int64_t)stn_tensor_version(NULL), 0);
    CHECK_STATUS(stn_tensor_keep_routes(NULL, 1), STN_ERR_ARGUMENT);
    CHECK_I64(stn_tensor_keeps_routes(NULL), 0);
    CHECK_I64(stn_tensor_describe(NULL, NULL, 100), (int64_t)strlen("no tensor"));
    CHECK(!stn_requires_grad(NULL) && !stn_is_leaf(NULL) && stn_grad_fn(NULL) == NULL);
    CHECK_STATUS(stn_grad_of(NULL, NULL), STN_ERR_ARGUMENT);
    CHECK(stn_op_descriptor(NULL) == NULL && stn_op_signature(NULL) == NULL && stn_op_find(NULL, NULL) == NULL);
    CHECK_I64(stn_op_number(NULL), -1);
}

/* What the functions of an op are helped by. */
static void services_of_ops(void)
{
    CHECK_STATUS(stn_op_fail(NULL, STN_ERR_SHAPE, "of nobody's"), STN_ERR_SHAPE);
    CHECK_I64((int64_t)stn_op_workspace(NULL, 0, STN_DTYPE_F32, NULL), 0);
    CHECK_STATUS(stn_op_scratch(NULL, 1, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_op_alias(NULL, 0, NULL, 0, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_op_halo(NULL, NULL, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_op_halo_box(NULL, NULL, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_op_halo_add(NULL, NULL, NULL, NULL), STN_ERR_ARGUMENT);
}

/* Where an object is there and what it should write to, or read from, is not. */

static void of_tensors(stn_context *context, stn_tensor *x)
{
    CHECK_I64(stn_tensor_describe(x, NULL, 100), stn_tensor_describe(x, NULL, 0));
    CHECK_I64(stn_spec_describe(stn_tensor_spec(x), NULL, 100), stn_spec_describe(stn_tensor_spec(x), NULL, 0));
    CHECK(stn_spec_write(stn_tensor_spec(x), NULL, 100000) > 0);
    CHECK_STATUS(stn_grad_of(x, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "stn_grad_of: out got NULL, wanted a place for it");
    CHECK_STATUS(stn_to_host(x, NULL, 2 * sizeof(double)), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "to_host: data got NULL");
    CHECK_STATUS(stn_item(stn_sum(x, 0, NULL, 0), NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "NULL");
    stn_scope_begin(context);
    CHECK_STATUS(stn_scope_end_keep(context, x, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "scope_end_keep: out got NULL, wanted where to put the handle");
}

static void of_queues(stn_context *context)
{
    stn_queue *queue = stn_context_queue(context);
    stn_context_random_state(context, NULL, NULL);
    CHECK_STATUS(stn_trace_begin(context), STN_OK);
    CHECK_STATUS(stn_trace_summary(context, NULL, 100), STN_OK);
    CHECK_STATUS(stn_trace_end(context, "/dev/null"), STN_OK);
    CHECK_STATUS(stn_queue_call(queue, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_capture_begin(queue), STN_OK);
    CHECK_STATUS(stn_queue_capture_end(queue, NULL), STN_ERR_ARGUMENT);
    stn_graph *graph = NULL;
    CHECK_STATUS(stn_queue_capture_end(queue, &graph), STN_OK);
    stn_graph_destroy(&graph);
    stn_queue_value_error(queue, 0, 0, 1, NULL);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 100), STN_ERR_VALUE);
    CHECK_STATUS(stn_queue_launch(queue, NULL, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_STR(stn_queue_error_text(queue), "launch: kernel got NULL, wanted a function");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_launch(queue, no_kernel, NULL, 8), STN_ERR_ARGUMENT);
    CHECK_STR(stn_queue_error_text(queue), "launch: args got NULL, wanted args_size bytes");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
}

static void of_files(stn_context *context, stn_tensor *x)
{
    const stn_named_tensor named = {"x", x};
    const char *path = "null_arguments.safetensors";
    stn_file *file = NULL;
    CHECK_STATUS(stn_save(context, path, 1, &named, 0, NULL), STN_OK);
    CHECK_STATUS(stn_file_open(path, &file, NULL, 100), STN_OK);
    CHECK(stn_file_find(file, NULL) == NULL);
    CHECK(stn_file_metadata(file, NULL) == NULL);
    CHECK_STATUS(stn_file_read(file, stn_file_at(file, 0), 0, 8, NULL), STN_ERR_ARGUMENT);
    stn_file_close(&file);
    remove(path);
}

/* What makes something, without a place for it. */
static void of_creators(stn_context *context, const stn_spec *spec)
{
    static const stn_op_desc desc = {.size = sizeof desc, .name = "mine"};
    const stn_mesh *mesh = test_mesh(context, 1, 0);
    CHECK_STATUS(stn_params_create(context, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "params_create: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_sgd_create(context, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "sgd_create: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_adamw_create(context, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "adamw_create: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_adam_create(context, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "adam_create: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_average_create(context, 0, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "average_create: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_mesh_slice(mesh, 0, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "mesh_slice: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_mesh_axes_comm(mesh, 0, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "mesh_axes_comm: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_gradient_spec(spec, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "gradient_spec: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_op_register(context, &desc, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "stn_op_register: out got NULL, wanted where to put the result");
    CHECK_STATUS(stn_handler_set(context, NULL, NULL, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "stn_handler_set: name got NULL, wanted an op's name");
}

static stn_status places_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, (int64_t[]){2}, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    of_tensors(context, x);
    of_files(context, stn_detach(x));
    of_queues(context);
    of_creators(context, stn_tensor_spec(x));
    return stn_scope_end(context);
}

static void what_has_no_place_to_go_is_refused(void)
{
    test_ranks(1, places_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"contexts", contexts},
        {"communicators_and_queues", communicators_and_queues},
        {"files_and_training", files_and_training},
        {"specs_meshes_and_tensors", specs_meshes_and_tensors},
        {"services_of_ops", services_of_ops},
        {"what_has_no_place_to_go_is_refused", what_has_no_place_to_go_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
