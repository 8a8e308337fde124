/* Lists of parameters: made and added, found, given to what works on all of them; what cannot be one is refused and
 * not listed. */
#include "ranks.h"

#include <string.h>

static const stn_spec *spec_of(stn_context *context, stn_dtype dtype, int64_t rows)
{
    const int ranks = stn_context_size(context);
    const stn_mesh *mesh = test_mesh(context, ranks, 0);
    const stn_placement cut = stn_shard(0);
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, &cut, dtype, 2, (int64_t[]){rows, 3}, NULL, &spec), STN_OK);
    return spec;
}

/* Makes tensors on its way; they are not left behind. */
static stn_tensor *twos(stn_context *context, const stn_spec *spec)
{
    return stn_mul_number(stn_add(stn_ones(context, spec), stn_zeros(context, spec)), 2);
}

static stn_tensor *of_another_spec(stn_context *context, const stn_spec *spec)
{
    const stn_spec *other = spec_of(context, stn_spec_dtype(spec), 11);
    stn_tensor *made = stn_ones(context, other);
    stn_spec_release(&other);
    return made;
}

static stn_tensor *none(stn_context *context, const stn_spec *spec)
{
    (void)context, (void)spec;
    return NULL;
}

static void train_once(stn_context *context, stn_params *params, double want)
{
    stn_optimizer *optimizer = NULL;
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.5};
    double got[15], norm = 0;
    CHECK_STATUS(stn_sgd_create(context, &options, &optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_params(optimizer, params, 0), STN_OK);
    stn_scope_begin(context);
    stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(stn_sum(stn_add(stn_params_find(params, "a"), stn_params_find(params, "b")), 0, NULL, 0)),
                 STN_OK);
    stn_no_sync_end(context);
    CHECK_STATUS(stn_grad_sync(context, stn_params_count(params), stn_params_tensors(params)), STN_OK);
    CHECK_STATUS(stn_clip_grad_norm(context, stn_params_count(params), stn_params_tensors(params), 1e9, &norm), STN_OK);
    CHECK_NEAR(norm * norm, 30, 1e-12);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    CHECK_STATUS(stn_params_zero_grad(params), STN_OK);
    stn_tensor *grad = stn_params_find(params, "a");
    CHECK_STATUS(stn_grad_of(stn_params_find(params, "a"), &grad), STN_OK);
    CHECK(grad == NULL);
    test_read(stn_params_find(params, "b"), got, 15);
    CHECK_NEAR(got[14], want, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_optimizer_destroy(&optimizer);
}

static stn_status use_body(stn_context *context, void *arg)
{
    stn_params *params = NULL;
    const stn_spec *spec = spec_of(context, STN_DTYPE_F64, 5);
    (void)arg;
    CHECK_STATUS(stn_params_create(context, &params), STN_OK);
    CHECK_I64(stn_params_count(params), 0);
    stn_tensor *a = stn_randn(context, spec);
    CHECK_STATUS(stn_params_add(params, "a", a), STN_OK);
    stn_tensor_release(&a); /* the list holds it */
    CHECK(!stn_tensor_is_error(stn_params_make(params, "b", spec, twos)));
    CHECK_I64(stn_params_count(params), 2);
    CHECK(strcmp(stn_params_named(params)[1].name, "b") == 0 &&
          stn_params_named(params)[1].tensor == stn_params_tensors(params)[1]);
    CHECK(stn_params_find(params, "b") == stn_params_tensors(params)[1] && stn_params_find(params, "c") == NULL);
    CHECK(stn_requires_grad(stn_params_tensors(params)[0]) && stn_is_leaf(stn_params_tensors(params)[1]));
    train_once(context, params, 1.5);
    stn_params_destroy(&params);
    CHECK(params == NULL);
    stn_params_destroy(&params);
    stn_spec_release(&spec);
    return STN_OK;
}

static void a_list_serves_optimizers_clipping_and_syncs(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, use_body, NULL);
    test_ranks(6, use_body, NULL); /* an empty chunk */
}

/* A weight is made once, at the place that asks first, and drawn once. */
static stn_status get_body(stn_context *context, void *arg)
{
    stn_params *params = NULL;
    const stn_spec *spec = spec_of(context, STN_DTYPE_F64, 5), *ones = spec_of(context, STN_DTYPE_F64, 7);
    double drawn[15], wanted[15];
    (void)arg;
    CHECK_STATUS(stn_params_create(context, &params), STN_OK);
    const uint64_t stream = stn_mesh_random_stream(stn_spec_mesh(spec));
    stn_tensor *a = stn_params_get(params, "a", spec, stn_randn);
    CHECK(!stn_tensor_is_error(a) && stn_is_leaf(a) && stn_requires_grad(a));
    CHECK_I64((int64_t)(stn_mesh_random_stream(stn_spec_mesh(spec)) - stream), 1);
    stn_tensor *b = stn_params_get(params, "b", ones, stn_ones);
    CHECK(stn_params_get(params, "a", spec, stn_zeros) == a && stn_params_get(params, "b", ones, stn_zeros) == b);
    CHECK_I64((int64_t)(stn_mesh_random_stream(stn_spec_mesh(spec)) - stream), 1);
    CHECK_I64(stn_params_count(params), 2);
    CHECK(stn_params_find(params, "a") == a && stn_params_tensors(params)[1] == b);
    stn_mesh_set_random_stream(stn_spec_mesh(spec), stream);
    stn_tensor *again = stn_params_make(params, "c", spec, stn_randn);
    test_read(a, drawn, 15);
    test_read(again, wanted, 15);
    CHECK_BYTES(drawn, wanted, sizeof drawn);
    stn_tensor *added = stn_rand(context, spec);
    CHECK_STATUS(stn_params_add(params, "d", added), STN_OK);
    CHECK(stn_params_get(params, "d", spec, stn_zeros) == added);
    stn_tensor_release(&added);
    stn_params_destroy(&params);
    stn_spec_release(&spec);
    stn_spec_release(&ones);
    return STN_OK;
}

static void a_weight_is_made_where_it_is_first_asked_for(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, get_body, NULL);
    test_ranks(6, get_body, NULL); /* an empty chunk */
}

/* Rates and decays of groups, by one step of gradients that are all 1: p -= rate * (1 + decay p). */
static stn_status add_params_body(stn_context *context, void *arg)
{
    static const double rates[] = {0, 0.25}, wanted[] = {1 - 0.5 * 1.1, 1 - 0.25 * 1.1};
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.5, .weight_decay = 0.1};
    const stn_spec *spec = spec_of(context, STN_DTYPE_F64, 5);
    stn_params *params[2] = {NULL};
    stn_optimizer *optimizer = NULL;
    double got[15];
    (void)arg;
    CHECK_STATUS(stn_sgd_create(context, &options, &optimizer), STN_OK);
    stn_scope_begin(context);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(stn_params_create(context, &params[i]), STN_OK);
        stn_params_get(params[i], i ? "a" : "b", spec, stn_ones);
        CHECK_STATUS(stn_optimizer_add_params(optimizer, params[i], rates[i]), STN_OK);
        stn_params_get(params[i], "later", spec, stn_ones);
    }
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(stn_backward(stn_sum(stn_params_tensors(params[i / 2])[i % 2], 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    for (int i = 0; i < 2; i++) {
        test_read(stn_params_tensors(params[i])[0], got, 15);
        CHECK_NEAR(got[14], wanted[i], 1e-15);
        test_read(stn_params_tensors(params[i])[1], got, 15);
        CHECK_NEAR(got[14], 1, 0);      /* was not there when the list was added */
        stn_params_destroy(&params[i]); /* the optimizer keeps what it was given */
    }
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    stn_optimizer_destroy(&optimizer);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void lists_are_groups_with_rates_of_their_own(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, add_params_body, NULL);
}

static void refused(stn_context *context, const stn_params *params, stn_status got, stn_status want, const char *why)
{
    CHECK_STATUS(got, want);
    char text[512];
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), want);
    if (!CHECK(strstr(text, why) != NULL))
        CHECK_STR(text, why);
    CHECK_I64(stn_params_count(params), 1);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    stn_params *params = NULL;
    const stn_spec *spec = spec_of(context, STN_DTYPE_F64, 5), *whole = spec_of(context, STN_DTYPE_I64, 5);
    (void)arg;
    CHECK_STATUS(stn_params_create(context, &params), STN_OK);
    stn_scope_begin(context);
    stn_tensor *a = stn_params_make(params, "a", spec, stn_ones), *integers = stn_ones(context, whole);
    refused(context, params, stn_params_add(params, "a", a), STN_ERR_ARGUMENT, "'a' is there already");
    refused(context, params, stn_params_add(params, "", a), STN_ERR_ARGUMENT, "got ''");
    refused(context, params, stn_params_add(params, NULL, a), STN_ERR_ARGUMENT, "got NULL");
    refused(context, params, stn_params_add(params, "b", NULL), STN_ERR_ARGUMENT, "'b' got NULL");
    refused(context, params, stn_params_add(params, "b", stn_mul(a, a)), STN_ERR_STATE, "is the result of an op");
    refused(context, params, stn_params_add(params, "b", integers), STN_ERR_DTYPE, "no gradients");
    static const struct {
        stn_initialiser initialiser;
        const char *why;
    } rows[] = {{of_another_spec, "gave another layout"}, {none, "gave NULL"}, {NULL, "no initialiser"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(stn_tensor_is_error(stn_params_make(params, "b", spec, rows[i].initialiser)));
        refused(context, params, STN_ERR_ARGUMENT, STN_ERR_ARGUMENT, rows[i].why);
    }
    stn_params_make(params, "b", whole, stn_randn);
    refused(context, params, STN_ERR_DTYPE, STN_ERR_DTYPE, "floating");
    CHECK_STATUS(stn_params_create(NULL, &params), STN_ERR_ARGUMENT);
    stn_params_destroy(&params);
    stn_spec_release(&spec);
    stn_spec_release(&whole);
    return stn_scope_end(context);
}

static stn_status get_refused_body(stn_context *context, void *arg)
{
    stn_params *params = NULL;
    const stn_spec *spec = spec_of(context, STN_DTYPE_F64, 5), *other = spec_of(context, STN_DTYPE_F64, 6);
    const stn_spec *f32 = spec_of(context, STN_DTYPE_F32, 5);
    (void)arg;
    CHECK_STATUS(stn_params_create(context, &params), STN_OK);
    stn_scope_begin(context);
    stn_params_get(params, "a", spec, stn_ones);
    const struct {
        const char *name;
        const stn_spec *spec;
        stn_initialiser initialiser;
        const char *why;
    } rows[] = {
        {"a", other, stn_ones,
         "'a' is f64 (5, 3) on y=2: Shard(0) sizes 3 2, and got f64 (6, 3) on y=2: Shard(0) sizes 3 3, wanted"},
        {"a", f32, stn_ones,
         "'a' is f64 (5, 3) on y=2: Shard(0) sizes 3 2, and got f32 (5, 3) on y=2: Shard(0) sizes 3 2, wanted"},
        {"a", NULL, stn_ones, "'a' got no spec"},
        {"a", spec, NULL, "'a' got no initialiser"},
        {"b", NULL, stn_ones, "'b' got no spec"},
        {"b", spec, NULL, "'b' got no initialiser"},
        {"b", spec, of_another_spec, "gave another layout"},
        {"", spec, stn_ones, "got ''"},
        {NULL, spec, stn_ones, "got NULL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(stn_tensor_is_error(stn_params_get(params, rows[i].name, rows[i].spec, rows[i].initialiser)));
        CHECK(stn_tensor_is_error(stn_params_get(params, "a", spec, stn_ones))); /* an error is kept */
        refused(context, params, STN_ERR_ARGUMENT, STN_ERR_ARGUMENT, rows[i].why);
    }
    CHECK(stn_params_get(params, "a", spec, stn_ones) == stn_params_find(params, "a"));
    stn_params_destroy(&params);
    stn_spec_release(&spec);
    stn_spec_release(&other);
    stn_spec_release(&f32);
    return stn_scope_end(context);
}

static void another_weight_of_the_same_name_is_refused(void)
{
    test_ranks(2, get_refused_body, NULL);
}

static stn_status add_params_refused_body(stn_context *context, void *arg)
{
    stn_params *params = NULL;
    stn_optimizer *optimizer = NULL;
    const stn_spec *spec = spec_of(context, STN_DTYPE_F64, 5);
    char text[512];
    (void)arg;
    CHECK_STATUS(stn_params_create(context, &params), STN_OK);
    CHECK_STATUS(stn_adamw_create(context, NULL, &optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_params(optimizer, params, 0), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "optimizer: params got a list without any, wanted parameters");
    CHECK_STATUS(stn_optimizer_add_params(optimizer, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "optimizer: params got NULL, wanted parameters");
    stn_params_get(params, "a", spec, stn_ones);
    refused(context, params, stn_optimizer_add_params(optimizer, params, -1), STN_ERR_ARGUMENT, "rate got -1");
    CHECK_STATUS(stn_optimizer_add_params(optimizer, params, 0), STN_OK);
    refused(context, params, stn_optimizer_add_params(optimizer, params, 0), STN_ERR_ARGUMENT, "'a' is there already");
    stn_optimizer_destroy(&optimizer);
    stn_params_destroy(&params);
    stn_spec_release(&spec);
    return STN_OK;
}

static void a_list_that_cannot_be_a_group_is_refused(void)
{
    test_ranks(2, add_params_refused_body, NULL);
}

static void what_is_no_parameter_is_refused(void)
{
    test_ranks(2, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_list_serves_optimizers_clipping_and_syncs", a_list_serves_optimizers_clipping_and_syncs},
        {"a_weight_is_made_where_it_is_first_asked_for", a_weight_is_made_where_it_is_first_asked_for},
        {"lists_are_groups_with_rates_of_their_own", lists_are_groups_with_rates_of_their_own},
        {"another_weight_of_the_same_name_is_refused", another_weight_of_the_same_name_is_refused},
        {"a_list_that_cannot_be_a_group_is_refused", a_list_that_cannot_be_a_group_is_refused},
        {"what_is_no_parameter_is_refused", what_is_no_parameter_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
