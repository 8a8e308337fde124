/* Local tensors beside tensors on a mesh: refused, or taken for replicated ones, with a word to the log or without. And
 * memory that is immutable. */
#include "ranks.h"

#include <shardtensor/train.h>

#include <stdatomic.h>
#include <string.h>

enum { N = 5 };

struct told {
    atomic_int warnings;
    char text[256];
};

static void listen(void *arg, stn_log_level level, int rank, const char *text)
{
    struct told *told = arg;
    if (level != STN_LOG_WARNING || rank != 0)
        return;
    atomic_fetch_add(&told->warnings, 1);
    strncpy(told->text, text, sizeof told->text - 1);
}

static stn_tensor *local_vector(stn_context *context, int64_t n, int ndim)
{
    const stn_spec *spec;
    double data[N];
    for (int64_t i = 0; i < n; i++)
        data[i] = test_value(i + 20);
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, ndim, &n, NULL, &spec);
    stn_tensor *tensor = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

static stn_tensor *on_mesh(stn_context *context, int ranks)
{
    const stn_placement rows = stn_shard(0);
    return test_tensor(context, test_mesh(context, ranks, 0), &rows, STN_DTYPE_F64, 1, (int64_t[]){N}, NULL,
                       test_value);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_mul(on_mesh(context, 2), local_vector(context, N, 1));
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "mul: input 'other' is local, wanted on a mesh as the others");
    return stn_scope_end(context);
}

static void local_tensors_are_refused_unless_asked_for(void)
{
    test_ranks(2, refused_body, NULL);
}

/* y = x l + s with l of N elements and s of none; the gradient of l is the whole one on every member. A rank outside of
 * the mesh goes along. */
static stn_status promoted_body(stn_context *context, void *arg)
{
    const int ranks = stn_context_size(context) > 3 ? 3 : stn_context_size(context);
    double want[N], got[N];
    stn_tensor *grad;
    (void)arg;
    for (int i = 0; i < 2; i++) {
        stn_scope_begin(context);
        stn_tensor *x = on_mesh(context, ranks), *l = local_vector(context, N, 1), *s = local_vector(context, 1, 0);
        stn_set_requires_grad(l, 1);
        stn_set_requires_grad(s, 1);
        stn_tensor *y = stn_add(stn_mul(l, x), s);
        for (int k = 0; k < N; k++)
            want[k] = test_value(k) * test_value(k + 20) + test_value(20);
        test_compare(y, want, N, 1e-15);
        CHECK(stn_spec_placement(stn_tensor_spec(y), 0).kind == STN_PLACE_SHARD || ranks == 1);
        CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
        CHECK_STATUS(stn_grad_of(l, &grad), STN_OK);
        if (stn_mesh_contains_me(stn_spec_mesh(stn_tensor_spec(x)))) {
            CHECK_STATUS(stn_to_host(grad, got, sizeof got), STN_OK);
            for (int k = 0; k < N; k++)
                CHECK_NEAR(got[k], test_value(k), 0);
            CHECK_STATUS(stn_grad_of(s, &grad), STN_OK);
            CHECK_STATUS(stn_to_host(grad, got, sizeof *got), STN_OK);
            CHECK_NEAR(got[0], N, 0);
        }
        stn_tensor *plain = local_vector(context, N, 1);
        stn_mul_(plain, x);
        CHECK_ERROR(context, STN_ERR_ARGUMENT, "mul_: input 'other' is on a mesh, wanted local as the others");
        CHECK(stn_mul_(stn_clone(x), plain) != NULL);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void local_tensors_stand_for_replicated_ones(void)
{
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int warn = 0; warn < 2; warn++) {
            struct told told = {0, ""};
            stn_context_options options = {.size = sizeof options,
                                           .log = listen,
                                           .log_arg = &told,
                                           .log_level = STN_LOG_WARNING,
                                           .promotion = warn ? STN_PROMOTE_WARN : STN_PROMOTE_SILENT};
            CHECK_STATUS(test_launch(ranks, &options, promoted_body, NULL), STN_OK);
            CHECK_I64(atomic_load(&told.warnings), warn ? 3 : 0); /* mul, add, mul_: once each */
            CHECK(!warn ||
                  strstr(told.text, "is local and others are on a mesh: it is taken for a replicated tensor") != NULL);
        }
}

static void an_unknown_choice_is_refused(void)
{
    char text[200] = "";
    stn_context *context = NULL;
    const stn_context_options options = {
        .size = sizeof options, .promotion = (stn_promotion)9, .error_text = text, .error_text_size = sizeof text};
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_ARGUMENT);
    CHECK_STR(text, "context: promotion got 9, wanted an stn_promotion");
}

/* Nothing writes to a table that was said to be immutable; it is read as ever, and given away without being sent. */
static stn_status frozen_body(stn_context *context, void *arg)
{
    stn_stats stats = {.size = sizeof stats};
    const stn_placement whole = stn_replicate();
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *table = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 1, (int64_t[]){N}, NULL, test_value),
               *local = local_vector(context, N, 1);
    CHECK(!stn_tensor_is_frozen(table));
    CHECK_STATUS(stn_tensor_freeze(table), STN_OK);
    CHECK(stn_tensor_is_frozen(table) && stn_tensor_is_frozen(stn_detach(table)));
    stn_queue_sync(stn_context_queue(context));
    stn_context_stats_reset(context);
    CHECK(!stn_tensor_is_error(stn_mul(stn_to_local(table, STN_GRAD_PER_RANK), local)));
    CHECK(!stn_tensor_is_error(stn_mul(table, table)));
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.bytes_sent, 0);
    return stn_scope_end(context);
}

static stn_status written_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *local = local_vector(context, N, 1), *trained = local_vector(context, N, 1);
    CHECK_STATUS(stn_tensor_freeze(local), STN_OK);
    stn_mul_number_(local, 2);
    CHECK_ERROR(context, STN_ERR_STATE, "mul_: 'input' is immutable and cannot be changed in place");
    stn_dist_broadcast_in_place(local, mesh, 0, NULL);
    char text[200] = "";
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_STATE);
    CHECK(strstr(text, "is immutable and cannot be changed in place") != NULL);
    CHECK_STATUS(stn_set_requires_grad(trained, 1), STN_OK);
    stn_tensor_freeze(trained);
    CHECK_ERROR(context, STN_ERR_STATE,
           "stn_tensor_freeze: the tensor is a leaf that requires grad, wanted one that is not trained");
    CHECK_STATUS(stn_set_requires_grad(local, 1), STN_OK);
    stn_optimizer *optimizer = NULL;
    CHECK_STATUS(stn_sgd_create(context, NULL, &optimizer), STN_OK);
    const stn_named_tensor table = {.name = "table", .tensor = local};
    const stn_parameter_group group = {.size = sizeof group, .parameters = &table, .n = 1};
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_STATE);
    CHECK(strstr(text, "is immutable, wanted a tensor that may be changed") != NULL);
    stn_optimizer_destroy(&optimizer);
    return stn_scope_end(context);
}

/* By another handle, when an optimizer and a mean have it already. */
static stn_status frozen_later_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *trained = local_vector(context, N, 1);
    const stn_named_tensor named = {.name = "w", .tensor = trained};
    const stn_parameter_group group = {.size = sizeof group, .parameters = &named, .n = 1};
    stn_optimizer *optimizer = NULL;
    stn_average *average = NULL;
    CHECK_STATUS(stn_set_requires_grad(trained, 1), STN_OK);
    CHECK_STATUS(stn_sgd_create(context, NULL, &optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    CHECK_STATUS(stn_average_create(context, 1, &named, &average), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(trained, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_tensor_freeze(stn_detach(trained)), STN_OK);
    CHECK_STATUS(stn_average_update(average, 0.5), STN_OK);
    CHECK_STATUS(stn_average_swap(average), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE, "average: 'w' is immutable, wanted a tensor that may be changed");
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE, "optimizer: 'w' is immutable, wanted a tensor that may be changed");
    CHECK_I64(stn_optimizer_steps(optimizer), 0);
    CHECK_I64((int64_t)stn_tensor_version(trained), 0);
    stn_average_destroy(&average);
    stn_optimizer_destroy(&optimizer);
    return stn_scope_end(context);
}

static void immutable_memory_is_read_and_never_written(void)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        test_ranks(ranks, frozen_body, NULL);
        test_ranks(ranks, written_body, NULL);
        test_ranks(ranks, frozen_later_body, NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"local_tensors_are_refused_unless_asked_for", local_tensors_are_refused_unless_asked_for},
        {"local_tensors_stand_for_replicated_ones", local_tensors_stand_for_replicated_ones},
        {"an_unknown_choice_is_refused", an_unknown_choice_is_refused},
        {"immutable_memory_is_read_and_never_written", immutable_memory_is_read_and_never_written},
    };
    return TEST_MAIN(argc, argv, cases);
}
