/* A failure that one rank alone meets: its peers learn of it, with its rank and reason, by their next collective,
 * long before the deadline; and the rank's own text stays. On threads and on MPI. */
#include "ranks.h"

#include "core/context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAILING = 1 };

static const double deadline = 60, soon = 25; /* seconds */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Memory of the devices, which one thread can be refused */

static _Thread_local int refused;

static void *allocate(void *arg, size_t bytes, size_t alignment)
{
    (void)arg;
    return refused ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void deallocate(void *arg, void *pointer, size_t bytes)
{
    (void)arg, (void)bytes;
    free(pointer);
}

/* A way to fail: what all ranks do, and what the failing one keeps. */
struct way {
    const char *name;
    void (*run)(stn_context *context, stn_tensor *x, int fails);
    stn_status status;
    const char *reason; /* a part of the text */
    int is_agreed;      /* all ranks return it, and the mesh stays usable; else the family is aborted */
};

static void memory_of_an_op(stn_context *context, stn_tensor *x, int fails)
{
    (void)context;
    refused = fails;
    stn_add(x, x);
    refused = 0;
}

static void memory_of_a_redistribution(stn_context *context, stn_tensor *x, int fails)
{
    const stn_placement replicate = stn_replicate();
    (void)context;
    refused = fails;
    stn_redistribute_to(x, &replicate);
    refused = 0;
}

static void memory_of_a_backward(stn_context *context, stn_tensor *x, int fails)
{
    (void)context;
    stn_tensor *loss = stn_sum(stn_mul(x, x), 0, NULL, 0);
    refused = fails;
    stn_backward(loss);
    refused = 0;
}

/* An op that does nothing, and whose backward finds no memory and says so to the queue. */
static stn_status shelf_check(stn_op_call *call)
{
    const stn_spec *in = call->in_spec[0];
    call->out_meta[0] = (stn_meta){.dtype = stn_spec_dtype(in), .ndim = stn_spec_ndim(in)};
    memcpy(call->out_meta[0].shape, stn_spec_shape(in), (size_t)stn_spec_ndim(in) * sizeof(int64_t));
    return STN_OK;
}

static stn_status shelf_place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status shelf_run(stn_op_call *call)
{
    (void)call;
    return STN_OK;
}

static stn_status shelf_backward(stn_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    if (*(const int *)call->arg == 0)
        return STN_OK;
    return stn_queue_fail(stn_context_queue(call->context), STN_ERR_MEMORY, "the shelf is full");
}

static void memory_of_a_backward_function(stn_context *context, stn_tensor *x, int fails)
{
    static const stn_input_schema input[] = {{.name = "input"}};
    static const stn_op_impl impl = {
        .check = shelf_check, .place = shelf_place, .run = shelf_run, .backward = shelf_backward};
    static const int full = 1, roomy = 0;
    static _Thread_local stn_op_desc desc; /* read for as long as there are nodes */
    const stn_op *op = NULL;
    stn_tensor *out = NULL;
    desc = (stn_op_desc){.size = sizeof desc, .name = "shelf", STN_INPUTS(input), .n_outputs = 1, .impl = &impl};
    desc.arg = (void *)(uintptr_t)(fails ? &full : &roomy);
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &out), STN_OK);
    stn_backward(stn_sum(stn_mul(out, out), 0, NULL, 0));
}

static void memory_of_values_from_the_host(stn_context *context, stn_tensor *x, int fails)
{
    static const double values[1000];
    refused = fails;
    stn_from_host(context, stn_tensor_spec(x), values);
    refused = 0;
}

static stn_status broken_kernel(stn_queue *queue, const void *args)
{
    return *(const int *)args ? stn_queue_fail(queue, STN_ERR_DEVICE, "a fan has stopped") : STN_OK;
}

static void kernel(stn_context *context, stn_tensor *x, int fails)
{
    (void)x;
    stn_queue_launch(stn_context_queue(context), broken_kernel, &fails, sizeof fails);
}

static stn_status silent_kernel_body(stn_queue *queue, const void *args)
{
    (void)queue;
    return *(const int *)args ? STN_ERR_DEVICE : STN_OK;
}

static void kernel_without_a_text(stn_context *context, stn_tensor *x, int fails)
{
    (void)x;
    stn_queue_launch(stn_context_queue(context), silent_kernel_body, &fails, sizeof fails);
}

static stn_status broken_function(stn_local_call *call)
{
    if (*(const int *)call->arg)
        return STN_ERR_IO;
    call->out[0] = stn_mul_number(call->in[0], 2);
    return STN_OK;
}

static void function_on_chunks(stn_context *context, stn_tensor *x, int fails)
{
    static const int yes = 1, no = 0;
    const stn_spec *spec = stn_tensor_spec(x);
    stn_tensor *y;
    (void)context;
    stn_local_map_options map = {.size = sizeof map,
                                 .function = broken_function,
                                 .arg = (void *)(uintptr_t)(fails ? &yes : &no),
                                 .out_specs = &spec};
    stn_local_map(&map, 1, &x, 1, &y);
}

static stn_status broken_tensor_hook(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)gradient, (void)instead;
    return *(const int *)arg ? STN_ERR_VALUE : STN_OK;
}

static void hook_of_a_tensor(stn_context *context, stn_tensor *x, int fails)
{
    const stn_placement replicate = stn_replicate();
    (void)context;
    stn_tensor *y = stn_mul(x, x);
    stn_add_tensor_hook(y, broken_tensor_hook, &fails, NULL);
    stn_backward(stn_sum(stn_redistribute_to(y, &replicate), 0, NULL, 0));
}

static stn_status broken_grad_hook(stn_tensor *leaf, void *arg)
{
    (void)leaf;
    return *(const int *)arg ? STN_ERR_VALUE : STN_OK;
}

static void hook_of_a_leaf(stn_context *context, stn_tensor *x, int fails)
{
    (void)context;
    stn_add_grad_hook(x, broken_grad_hook, &fails, NULL);
    stn_backward(stn_sum(stn_mul(x, x), 0, NULL, 0));
}

/* The sync alone runs it. */
static void hook_of_a_leaf_that_waits(stn_context *context, stn_tensor *x, int fails)
{
    stn_add_grad_hook(x, broken_grad_hook, &fails, NULL);
    stn_no_sync_begin(context);
    stn_backward(stn_sum(stn_mul(x, x), 0, NULL, 0));
    stn_no_sync_end(context);
    stn_grad_sync(context, 1, &x);
}

/* What ops of hooks find on the failing rank alone. */
static stn_status multiply(stn_context *context, int fails)
{
    const int64_t n[] = {3, 6};
    if (fails)
        stn_matmul(test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n[0], NULL, test_value),
                   test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n[1], NULL, test_value));
    return stn_context_status(context);
}

static stn_status multiply_in_tensor_hook(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)instead;
    return multiply(stn_tensor_context(gradient), *(const int *)arg);
}

static void op_in_a_hook_of_a_tensor(stn_context *context, stn_tensor *x, int fails)
{
    const stn_placement replicate = stn_replicate();
    (void)context;
    stn_tensor *y = stn_mul(x, x);
    stn_add_tensor_hook(y, multiply_in_tensor_hook, &fails, NULL);
    stn_backward(stn_sum(stn_redistribute_to(y, &replicate), 0, NULL, 0));
}

static stn_status multiply_in_grad_hook(stn_tensor *leaf, void *arg)
{
    return multiply(stn_tensor_context(leaf), *(const int *)arg);
}

static void op_in_a_hook_of_a_leaf(stn_context *context, stn_tensor *x, int fails)
{
    (void)context;
    stn_add_grad_hook(x, multiply_in_grad_hook, &fails, NULL);
    stn_backward(stn_sum(stn_mul(x, x), 0, NULL, 0));
}

static int is_job(void)
{
    return getenv("STN_TEST_MODULES") != NULL;
}

/* Of a file that all ranks see: ranks of a job on one machine have one parent. No collective tells it: one that a
 * peer is still in would be ended by the abort that follows. */
static char path[64];

static void make_path(void)
{
    snprintf(path, sizeof path, "/tmp/stn-one-rank-%d.safetensors", (int)(is_job() ? getppid() : getpid()));
}

static void missing_file(stn_context *context, stn_tensor *x, int fails)
{
    const stn_named_tensor named = {"x", x};
    CHECK_STATUS(stn_save(context, path, 1, &named, 0, NULL), STN_OK);
    stn_load(context, fails ? "/nowhere/x.safetensors" : path, 1, &named);
    if (stn_context_rank(context) == 0)
        unlink(path);
}

static void folder_that_is_not_there(stn_context *context, stn_tensor *x, int fails)
{
    const stn_named_tensor named = {"x", x};
    stn_save(context, fails ? "/nowhere/x.safetensors" : path, 1, &named, 0, NULL);
}

static const struct way ways[] = {
    {"memory of an op", memory_of_an_op, STN_ERR_MEMORY, "out of memory", 0},
    {"memory of a redistribution", memory_of_a_redistribution, STN_ERR_MEMORY, "out of memory", 0},
    {"memory of a backward", memory_of_a_backward, STN_ERR_MEMORY, "out of memory", 0},
    {"memory of a backward function", memory_of_a_backward_function, STN_ERR_MEMORY,
     "stn_backward: the backward of shelf returned \"the shelf is full\"", 0},
    {"memory of values from the host", memory_of_values_from_the_host, STN_ERR_MEMORY, "out of memory", 0},
    {"kernel", kernel, STN_ERR_DEVICE, "a fan has stopped", 0},
    {"kernel without a text", kernel_without_a_text, STN_ERR_DEVICE, "device error", 0},
    {"function on chunks", function_on_chunks, STN_ERR_IO,
     "local_map: the function returned \"input or output failed\"", 1},
    {"hook of a tensor", hook_of_a_tensor, STN_ERR_CALLBACK, "a tensor hook returned \"a value is out of range\"", 1},
    {"hook of a leaf", hook_of_a_leaf, STN_ERR_CALLBACK, "a gradient hook returned \"a value is out of range\"", 1},
    {"hook of a leaf that waits", hook_of_a_leaf_that_waits, STN_ERR_CALLBACK,
     "a gradient hook returned \"a value is out of range\"", 1},
    {"op in a hook of a tensor", op_in_a_hook_of_a_tensor, STN_ERR_SHAPE, "matmul: got shapes (3) and (6)", 1},
    {"op in a hook of a leaf", op_in_a_hook_of_a_leaf, STN_ERR_SHAPE, "matmul: got shapes (3) and (6)", 1},
    {"missing file", missing_file, STN_ERR_IO, "load: /nowhere/x.safetensors: ", 1},
    {"folder that is not there", folder_that_is_not_there, STN_ERR_IO, "save: /nowhere/x.safetensors: ", 1},
};

static void check_text(const struct way *way, const char *text, int names_rank)
{
    char who[16];
    snprintf(who, sizeof who, "rank %d: ", FAILING);
    if (!CHECK(strstr(text, way->reason) != NULL) || !CHECK(!names_rank || strstr(text, who) != NULL))
        fprintf(stderr, "%s: %s\n", way->name, text);
}

/* The family is aborted: the next collective says why on every rank, and so does each after it. */
static void check_aborted(const struct way *way, stn_context *context, stn_tensor *x)
{
    const int fails = stn_context_rank(context) == FAILING;
    const stn_status wanted = fails ? way->status : STN_ERR_PEER;
    stn_comm *comm = stn_context_comm(context);
    double value;
    stn_item(stn_sum(x, 0, NULL, 0), &value);
    CHECK_STATUS(stn_context_status(context), wanted);
    check_text(way, stn_context_error_text(context), !fails);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), wanted);
    CHECK_STATUS(stn_comm_barrier(comm, NULL), wanted);
    check_text(way, stn_comm_error_text(comm), !fails);
}

static void check_agreed(const struct way *way, stn_context *context, stn_tensor *x)
{
    double value, sum = 0;
    CHECK_STATUS(stn_context_status(context), way->status);
    check_text(way, stn_context_error_text(context), 1);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), way->status);
    CHECK_STATUS(stn_item(stn_sum(x, 0, NULL, 0), &value), STN_OK);
    for (int i = 0; i < 7; i++)
        sum += test_value(i);
    CHECK_NEAR(value, sum, 1e-12);
}

static stn_status way_body(stn_context *context, void *arg)
{
    const struct way *way = arg;
    const int64_t shape[] = {7};
    const stn_placement shard = stn_shard(0);
    const double begin = seconds();
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &shard, STN_DTYPE_F64, 1,
                                shape, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    way->run(context, x, stn_context_rank(context) == FAILING);
    (way->is_agreed ? check_agreed : check_aborted)(way, context, x);
    stn_scope_end(context);
    stni_context_sync(context, STN_SYNC_CALLER); /* what the queue has left, which the launch would tell of */
    stn_context_take_error(context, NULL, 0);
    if (!CHECK(seconds() - begin < soon))
        fprintf(stderr, "%s: %g s\n", way->name, seconds() - begin);
    return STN_OK;
}

static void peers_learn_the_rank_and_the_reason(void)
{
    make_path();
    const stn_allocator allocator = {.size = sizeof allocator, .allocate = allocate, .deallocate = deallocate};
    const stn_context_options options = {.size = sizeof options, .allocator = &allocator, .deadline_seconds = deadline};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        CHECK_STATUS(test_launch(is_job() ? 0 : 3, &options, way_body, (void *)(uintptr_t)&ways[i]), STN_OK);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"peers_learn_the_rank_and_the_reason", peers_learn_the_rank_and_the_reason},
    };
    return TEST_MAIN(argc, argv, cases);
}
