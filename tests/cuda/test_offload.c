/* Tensors in memory of the host: weights, gradients, state and averages there, layers on the device. The same bits as
 * with all of it on the device, and as much less of the device's memory as lies on the host. */
#include "harness.h"
#include "on_ranks.h"

#include "core/context/context.h"
#include "core/tensor/dlpack.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 7, ROWS = 9, LAYERS = 3, STEPS = 3, RANKS = 3, ELEMENTS = LAYERS * WIDTH * WIDTH };

static const int64_t square[] = {WIDTH, WIDTH}, wide[] = {ROWS, WIDTH};

struct model {
    stn_context *context;
    stn_tensor *w[LAYERS], *x;
    stn_named_tensor named[LAYERS];
    stn_optimizer *optimizer;
    stn_average *average;
};

static double value(int64_t i)
{
    return 0.05 * (double)(i * 7 % 19 - 9);
}

/* The second weight has all of its rows on the last rank. */
static stn_tensor *weight(stn_context *context, const stn_mesh *mesh, int layer)
{
    double values[WIDTH * WIDTH];
    int64_t sizes[RANKS] = {0};
    sizes[stn_context_size(context) - 1] = WIDTH;
    const stn_spec *spec = stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, square);
    for (int i = 0; i < WIDTH * WIDTH; i++)
        values[i] = value(i + layer);
    if (layer == 1)
        spec = stn_spec_with_sizes(spec, 0, stn_context_size(context), sizes);
    stn_tensor *w = stn_from_host_global(context, spec, values);
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    return w;
}

static struct model model_of(stn_context *context, int on_host)
{
    static const char *const names[LAYERS] = {"a", "b", "c"};
    double values[ROWS * WIDTH];
    const stn_mesh *mesh = on_ranks_line(context);
    struct model m = {.context = context};
    for (int i = 0; i < ROWS * WIDTH; i++)
        values[i] = value(i);
    m.x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, wide), values);
    if (on_host)
        CHECK_STATUS(stn_host_memory_begin(context), STN_OK);
    for (int k = 0; k < LAYERS; k++) {
        m.w[k] = weight(context, mesh, k);
        m.named[k] = (stn_named_tensor){names[k], m.w[k]};
    }
    if (on_host)
        stn_host_memory_end(context);
    const stn_parameter_group group = {.size = sizeof group, .n = LAYERS, .parameters = m.named};
    CHECK_STATUS(stn_adamw_create(context, NULL, &m.optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(m.optimizer, &group), STN_OK);
    CHECK_STATUS(stn_average_create(context, LAYERS, m.named, &m.average), STN_OK);
    return m;
}

static void release(struct model *m)
{
    stn_optimizer_destroy(&m->optimizer);
    stn_average_destroy(&m->average);
}

static stn_tensor *gradient(const struct model *m, int k)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(m->w[k], &grad), STN_OK);
    return grad;
}

static stn_tensor *loss_of(const struct model *m)
{
    stn_tensor *y = m->x;
    const stn_spec *whole = stn_spec_of(on_ranks_line(m->context), STN_DTYPE_F64, "R", 2, square);
    for (int k = 0; k < LAYERS; k++)
        y = stn_tanh(stn_matmul(y, stn_redistribute(m->w[k], whole)));
    return stn_mean(stn_mul(y, y), 0, NULL, 0);
}

/* Two backwards, of which the second adds to the gradients, and all that uses these. Clipped ones are new tensors. */
static void step(const struct model *m, int clips)
{
    stn_scope_begin(m->context);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_backward(loss_of(m)), STN_OK);
    if (clips)
        CHECK_STATUS(stn_clip_grad_norm(m->context, LAYERS, m->w, 0.5, NULL), STN_OK);
    CHECK_STATUS(stn_optimizer_step(m->optimizer), STN_OK);
    CHECK_STATUS(stn_average_update(m->average, 0.5), STN_OK);
    CHECK_STATUS(stn_scope_end(m->context), STN_OK);
}

static void keep(const struct model *m, double *to)
{
    for (int k = 0; k < LAYERS; k++) {
        on_ranks_keep(m->context, m->w[k], to + (ptrdiff_t)2 * k * WIDTH * WIDTH);
        on_ranks_keep(m->context, stn_average_at(m->average, k).tensor, to + (ptrdiff_t)(2 * k + 1) * WIDTH * WIDTH);
    }
}

static stn_stats memory_of(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats;
}

static int64_t bytes_of(const stn_tensor *t)
{
    return stn_spec_local_numel(stn_tensor_spec(t)) * (int64_t)sizeof(double);
}

enum { WEIGHT = 1, STATE = 2, AVERAGE = 1, GRADIENT = 1 };

/* Weights, two of state and the average are there from the beginning, gradients from the first step on. */
static void check_memory(const struct model *m, int on_host, const stn_stats *before, int copies)
{
    const int64_t bytes = copies * (bytes_of(m->w[0]) + bytes_of(m->w[1]) + bytes_of(m->w[2]));
    const int of_host = on_host && !stn_tensor_is_in_host_memory(m->x);
    const stn_stats now = memory_of(m->context);
    CHECK_I64(now.host_live_bytes - before->host_live_bytes, of_host ? bytes : 0);
    CHECK_I64(now.live_bytes - before->live_bytes, bytes_of(m->x) + (of_host ? 0 : bytes));
    for (int k = 0; k < LAYERS; k++) {
        const int wanted = on_host || stn_tensor_is_in_host_memory(m->x);
        CHECK_I64(stn_tensor_is_in_host_memory(m->w[k]), wanted);
        CHECK_I64(stn_tensor_is_in_host_memory(stn_average_at(m->average, k).tensor), wanted);
        if (gradient(m, k))
            CHECK_I64(stn_tensor_is_in_host_memory(gradient(m, k)), wanted);
    }
}

enum repetition { CALLED, CAPTURED, CAPTURED_ADDING };

/* Adding, the steps after the first add to the gradients that the one before left. */
static void forget(const struct model *m, enum repetition how)
{
    if (how != CAPTURED_ADDING)
        CHECK_STATUS(stn_optimizer_zero_grad(m->optimizer), STN_OK);
}

/* What is made now may not lie where the step's kernels write. */
static void run_beside_others(const struct model *m, stn_step *captured)
{
    stn_tensor *others[4 * LAYERS];
    double values[WIDTH * WIDTH];
    stn_tensor *const first = gradient(m, 0);
    const uint64_t version = stn_tensor_version(first);
    CHECK_STATUS(stn_host_memory_begin(m->context), STN_OK);
    for (int i = 0; i < 4 * LAYERS; i++)
        others[i] = stn_ones(m->context, stn_tensor_spec(m->w[i % LAYERS]));
    stn_host_memory_end(m->context);
    CHECK_STATUS(stn_step_run(captured), STN_OK);
    for (int i = 0; i < 4 * LAYERS; i++) {
        memset(values, 0, sizeof values);
        on_ranks_keep(m->context, others[i], values);
        for (int k = 0; k < WIDTH * WIDTH && stn_context_rank(m->context) == 0; k++)
            CHECK_NEAR(values[k], 1, 0);
    }
    CHECK(stn_tensor_version(first) > version);
}

static void repeat(const struct model *m, enum repetition how)
{
    stn_step *captured = NULL;
    for (int i = 0; i < STEPS; i++) {
        if (i == 1 && how != CALLED)
            CHECK_STATUS(stn_capture_begin(m->context), STN_OK);
        if (i < 2 || how == CALLED) {
            forget(m, how);
            step(m, how != CAPTURED_ADDING);
        } else {
            run_beside_others(m, captured);
        }
        if (i == 1 && how != CALLED)
            CHECK_STATUS(stn_capture_end(m->context, &captured), STN_OK);
    }
    stn_step_destroy(&captured);
}

static void train(stn_context *context, int on_host, enum repetition how, double *to)
{
    stn_scope_begin(context);
    struct model m = model_of(context, on_host);
    stn_set_gather_again(context, 1);
    repeat(&m, how);
    for (int k = 0; k < LAYERS && how == CAPTURED_ADDING; k++)
        CHECK_I64(stn_tensor_is_in_host_memory(gradient(&m, k)), stn_tensor_is_in_host_memory(m.w[k]));
    stn_set_gather_again(context, 0);
    keep(&m, to);
    release(&m);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status train_body(stn_context *context, void *arg)
{
    double plain[2 * ELEMENTS] = {0}, other[2 * ELEMENTS] = {0}, *const got = arg;
    train(context, 0, CALLED, plain);
    train(context, 1, CALLED, got);
    train(context, 1, CAPTURED, other);
    if (stn_context_rank(context) == 0) {
        CHECK_BYTES(got, plain, sizeof plain);
        CHECK_BYTES(other, plain, sizeof plain);
    }
    train(context, 0, CAPTURED_ADDING, plain);
    train(context, 1, CAPTURED_ADDING, other);
    if (stn_context_rank(context) == 0)
        CHECK_BYTES(other, plain, sizeof plain);
    return STN_OK;
}

static void training_has_the_same_bits(void)
{
    double want[2 * ELEMENTS], got[2 * ELEMENTS];
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        on_ranks(ranks, train_body, want, got);
        for (int i = 0; i < 2 * ELEMENTS; i++)
            CHECK_NEAR(got[i], want[i], 1e-12);
    }
}

static stn_status memory_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int on_host = 0; on_host < 2; on_host++) {
        stn_scope_begin(context);
        const stn_stats before = memory_of(context);
        struct model m = model_of(context, on_host);
        check_memory(&m, on_host, &before, WEIGHT + STATE + AVERAGE);
        stn_scope_begin(context);
        CHECK_STATUS(stn_backward(loss_of(&m)), STN_OK);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        check_memory(&m, on_host, &before, WEIGHT + STATE + AVERAGE + GRADIENT);
        step(&m, 0);
        check_memory(&m, on_host, &before, WEIGHT + STATE + AVERAGE + GRADIENT);
        release(&m);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void memory_lies_where_it_was_asked_for(void)
{
    on_ranks(RANKS, memory_body, NULL, NULL);
}

/* A vector of this rank alone. */
static stn_tensor *local_ones(stn_context *context)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, (const int64_t[]){WIDTH}, NULL, &spec), STN_OK);
    stn_tensor *ones = stn_ones(context, spec);
    stn_spec_release(&spec);
    return ones;
}

/* Groups that train apart join gradients of leaves of their own. */
static stn_status joined_body(stn_context *context, void *arg)
{
    stn_tensor *grad = NULL, *x;
    double got[WIDTH];
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_host_memory_begin(context), STN_OK);
    stn_tensor *w = local_ones(context);
    stn_host_memory_end(context);
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    x = stn_mul_number(stn_detach(w), stn_context_rank(context) + 1);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(w, x), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_all_reduce(1, &w, on_ranks_line(context), 0, STN_SUM), STN_OK);
    CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
    CHECK(stn_tensor_is_in_host_memory(grad));
    CHECK_STATUS(stn_to_host(grad, got, sizeof got), STN_OK);
    for (int i = 0; i < WIDTH; i++)
        CHECK_NEAR(got[i], stn_context_size(context) * (stn_context_size(context) + 1) / 2, 0);
    return stn_scope_end(context);
}

static void joined_gradients_lie_there_too(void)
{
    on_ranks(RANKS, joined_body, NULL, NULL);
}

/* Where all that is made lies on the host, a parameter of the device keeps its gradient beside it: first, added to and
 * clipped. What the optimizer and the average keep of it is made there. */
static stn_status parted_body(stn_context *context, void *arg)
{
    stn_tensor *grad = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *w = local_ones(context);
    const stn_named_tensor named = {"w", w};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    struct model m = {.context = context};
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    CHECK_STATUS(stn_host_memory_begin(context), STN_OK);
    stn_scope_begin(context);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(i < 2 ? stn_backward(stn_sum(stn_mul(w, w), 0, NULL, 0))
                           : stn_clip_grad_norm(context, 1, &w, 0.5, NULL),
                     STN_OK);
        CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
        CHECK_I64(stn_tensor_is_in_host_memory(grad), context->device->is_cpu);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    const int64_t before = memory_of(context).host_live_bytes;
    CHECK_STATUS(stn_adamw_create(context, NULL, &m.optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(m.optimizer, &group), STN_OK);
    CHECK_STATUS(stn_average_create(context, 1, &named, &m.average), STN_OK);
    stn_host_memory_end(context);
    CHECK_I64(memory_of(context).host_live_bytes - before,
              context->device->is_cpu ? 0 : (STATE + AVERAGE) * bytes_of(w));
    CHECK_STATUS(stn_optimizer_step(m.optimizer), STN_OK);
    CHECK_STATUS(stn_average_update(m.average, 0.5), STN_OK);
    release(&m);
    return stn_scope_end(context);
}

static void gradients_of_the_device_stay_there(void)
{
    on_ranks(1, parted_body, NULL, NULL);
}

/* What was saved from the device comes back to the host. */
static stn_status file_body(stn_context *context, void *arg)
{
    double before[2 * ELEMENTS] = {0}, after[2 * ELEMENTS] = {0};
    stn_scope_begin(context);
    struct model saved = model_of(context, 0), loaded = model_of(context, 1);
    step(&saved, 1);
    CHECK_STATUS(stn_optimizer_save(saved.optimizer, arg), STN_OK);
    CHECK_STATUS(stn_optimizer_load(loaded.optimizer, arg), STN_OK);
    CHECK_STATUS(stn_optimizer_zero_grad(saved.optimizer), STN_OK);
    step(&saved, 1);
    step(&loaded, 1);
    for (int k = 0; k < LAYERS; k++) {
        on_ranks_keep(context, saved.w[k], before + (ptrdiff_t)k * WIDTH * WIDTH);
        on_ranks_keep(context, loaded.w[k], after + (ptrdiff_t)k * WIDTH * WIDTH);
        CHECK(stn_tensor_is_in_host_memory(loaded.w[k]));
    }
    CHECK_BYTES(after, before, sizeof after);
    release(&saved);
    release(&loaded);
    return stn_scope_end(context);
}

static void files_are_read_into_it(void)
{
    char path[] = "/tmp/stn-offload-XXXXXX";
    const int file = mkstemp(path);
    if (!CHECK(file >= 0))
        return;
    close(file);
    on_ranks(RANKS, file_body, path, path);
    unlink(path);
}

/* Other libraries find the CPU's memory, once the queue has come so far. */
static stn_status handed_body(stn_context *context, void *arg)
{
    struct DLManagedTensorVersioned *managed = NULL;
    int32_t type = 0, index = -1;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_host_memory_begin(context), STN_OK);
    stn_tensor *t = stn_add_number(local_ones(context), 2);
    stn_host_memory_end(context);
    CHECK_STATUS(stn_tensor_dlpack_device(t, &type, &index), STN_OK);
    CHECK_I64(type, STNI_DL_CPU);
    CHECK_I64(index, 0);
    for (int on = 0; on < 2; on++) {
        CHECK_STATUS(on && !context->device->is_cpu ? stn_tensor_to_dlpack_on(t, STN_DLPACK_LEGACY, &managed)
                                                    : stn_tensor_to_dlpack(t, &managed),
                     STN_OK);
        CHECK_I64(managed->dl_tensor.device.device_type, STNI_DL_CPU);
        for (int i = 0; i < WIDTH; i++)
            CHECK_NEAR(((const double *)managed->dl_tensor.data)[i], 3, 0);
        managed->deleter(managed);
    }
    return stn_scope_end(context);
}

static void other_libraries_read_it_on_the_host(void)
{
    on_ranks(1, handed_body, NULL, NULL);
}

/* Ends that nothing began are none. */
static stn_status nesting_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    const int on_cpu = stn_tensor_is_in_host_memory(local_ones(context));
    CHECK_I64(on_cpu, context->device->is_cpu);
    stn_host_memory_end(context);
    CHECK_STATUS(stn_host_memory_begin(context), STN_OK);
    CHECK_STATUS(stn_host_memory_begin(context), STN_OK);
    stn_host_memory_end(context);
    CHECK(stn_tensor_is_in_host_memory(local_ones(context)));
    stn_host_memory_end(context);
    CHECK_I64(stn_tensor_is_in_host_memory(stn_clone(local_ones(context))), on_cpu);
    CHECK_STATUS(stn_host_memory_begin(NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_host_memory_begin(context), STN_OK);
    stn_context_fail(context, STN_ERR_VALUE, NULL);
    CHECK_STATUS(stn_host_memory_begin(context), STN_ERR_VALUE); /* begun all the same */
    stn_host_memory_end(context);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_VALUE);
    CHECK(stn_tensor_is_in_host_memory(local_ones(context)));
    stn_host_memory_end(context);
    CHECK_I64(stn_tensor_is_in_host_memory(NULL), 0);
    return stn_scope_end(context);
}

static void parts_nest(void)
{
    on_ranks(1, nesting_body, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"training_has_the_same_bits", training_has_the_same_bits},
        {"memory_lies_where_it_was_asked_for", memory_lies_where_it_was_asked_for},
        {"joined_gradients_lie_there_too", joined_gradients_lie_there_too},
        {"gradients_of_the_device_stay_there", gradients_of_the_device_stay_there},
        {"files_are_read_into_it", files_are_read_into_it},
        {"other_libraries_read_it_on_the_host", other_libraries_read_it_on_the_host},
        {"parts_nest", parts_nest},
    };
    return TEST_MAIN(argc, argv, cases);
}
