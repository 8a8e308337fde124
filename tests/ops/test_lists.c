/* Lists that callers give as a count and a pointer: a count out of range, and no list where the count says that
 * there is one. */
#include "ranks.h"

static stn_tensor *call_sum(stn_tensor *x, int n) { return stn_sum(x, n, NULL, 0); }
static stn_tensor *call_logsumexp(stn_tensor *x, int n) { return stn_logsumexp(x, n, NULL, 0); }
static stn_tensor *call_var(stn_tensor *x, int n) { return stn_var(x, n, NULL, 1, 0); }
static stn_tensor *call_weighted_mean(stn_tensor *x, int n) { return stn_weighted_mean(x, x, n, NULL, 0); }
static stn_tensor *call_vector_norm(stn_tensor *x, int n) { return stn_vector_norm(x, 2, n, NULL, 0); }
static stn_tensor *call_normalize(stn_tensor *x, int n) { return stn_normalize(x, 2, n, NULL, 1e-12); }
static stn_tensor *call_rmse(stn_tensor *x, int n) { return stn_rmse(x, x, NULL, n, NULL, 0); }
static stn_tensor *call_squeeze(stn_tensor *x, int n) { return stn_squeeze(x, n, NULL); }
static stn_tensor *call_fftshift(stn_tensor *x, int n) { return stn_fftshift(x, n, NULL); }
static stn_tensor *call_fftn(stn_tensor *x, int n) { return stn_fftn(x, n, NULL, NULL, STN_FFT_BACKWARD); }
static stn_tensor *call_view(stn_tensor *x, int n) { return stn_view(x, n, NULL); }
static stn_tensor *call_expand(stn_tensor *x, int n) { return stn_expand(x, n, NULL); }
static stn_tensor *call_permute(stn_tensor *x, int n) { return stn_permute(x, n, NULL); }
static stn_tensor *call_movedim_from(stn_tensor *x, int n) { return stn_movedim(x, n, NULL, (const int[]){0, 1}); }
static stn_tensor *call_movedim_to(stn_tensor *x, int n) { return stn_movedim(x, n, (const int[]){0, 1}, NULL); }
static stn_tensor *call_unflatten(stn_tensor *x, int n) { return stn_unflatten(x, 0, n, NULL); }
static stn_tensor *call_repeat(stn_tensor *x, int n) { return stn_repeat(x, n, NULL); }
static stn_tensor *call_pad(stn_tensor *x, int n) { return stn_pad(x, n, NULL, STN_PAD_CONSTANT, 0); }
static stn_tensor *call_roll(stn_tensor *x, int n) { return stn_roll(x, n, NULL, NULL); }
static stn_tensor *call_flip(stn_tensor *x, int n) { return stn_flip(x, n, NULL); }
static stn_tensor *call_layer_norm(stn_tensor *x, int n) { return stn_layer_norm(x, n, NULL, NULL, NULL, 1e-5); }
static stn_tensor *call_index_put(stn_tensor *x, int n) { return stn_index_put(x, n, NULL, x, 0); }

static const struct {
    stn_tensor *(*call)(stn_tensor *x, int n);
    int n;
    const char *text;
} refused[] = {
    {call_sum, 1, "sum: 'dims' got NULL, wanted 'n_dims' = 1 entries"},
    {call_sum, 9, "sum: 'n_dims' got 9, wanted 0 to 8"},
    {call_sum, -1, "sum: 'n_dims' got -1, wanted 0 to 8"},
    {call_logsumexp, 2, "logsumexp: 'dims' got NULL, wanted 'n_dims' = 2 entries"},
    {call_var, 1, "var: 'dims' got NULL, wanted 'n_dims' = 1 entries"},
    {call_weighted_mean, 1, "weighted_mean: 'dims' got NULL, wanted 'n_dims' = 1 entries"},
    {call_vector_norm, 1, "vector_norm: 'dims' got NULL, wanted 'n_dims' = 1 entries"},
    {call_normalize, 1, "normalize: 'dims' got NULL, wanted 'n_dims' = 1 entries"},
    {call_rmse, 1, "rmse: 'dims' got NULL, wanted 'n_dims' = 1 entries"},
    {call_squeeze, 1, "squeeze: 'dims' got NULL, wanted 'n' = 1 entries"},
    {call_squeeze, 9, "squeeze: 'n' got 9, wanted 0 to 8"},
    {call_fftshift, 1, "fftshift: 'dims' got NULL, wanted 'n_dims' = 1 entries"},
    {call_fftshift, -1, "fftshift: 'n_dims' got -1, wanted 0 to 8"},
    {call_fftn, 9, "fftn: 'n' got 9, wanted 0 to 8"},
    {call_view, 2, "view: 'shape' got NULL, wanted 'ndim' = 2 entries"},
    {call_expand, 2, "expand: 'shape' got NULL, wanted 'ndim' = 2 entries"},
    {call_permute, 2, "permute: 'dims' got NULL, wanted 'ndim' = 2 entries"},
    {call_permute, -1, "permute: 'ndim' got -1, wanted 0 to 8"},
    {call_movedim_from, 2, "movedim: 'source' got NULL, wanted 'n' = 2 entries"},
    {call_movedim_to, 2, "movedim: 'destination' got NULL, wanted 'n' = 2 entries"},
    {call_unflatten, 2, "unflatten: 'sizes' got NULL, wanted 'n' = 2 entries"},
    {call_unflatten, 0, "unflatten: 'n' got 0, wanted 1 to 8"},
    {call_repeat, 2, "repeat: 'repeats' got NULL, wanted 'n' = 2 entries"},
    {call_pad, 4, "pad: 'padding' got NULL, wanted 'n' = 4 entries"},
    {call_roll, 1, "roll: 'shifts' got NULL, wanted 'n' = 1 entries"},
    {call_roll, 0, "roll: 'n' got 0, wanted 1 to 8"},
    {call_flip, 1, "flip: 'dims' got NULL, wanted 'n' = 1 entries"},
    {call_layer_norm, 1, "layer_norm: 'normalized_shape' got NULL, wanted 'n_dims' = 1 entries"},
    {call_layer_norm, 0, "layer_norm: 'n_dims' got 0, wanted 1 to 8"},
    {call_index_put, 1, "index_put: 'indices' got NULL, wanted 'n' = 1 entries"},
};

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement rows = stn_shard(0);
    (void)arg;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F32, 2, (int64_t[]){4, 3}, NULL, test_value);
        CHECK(stn_tensor_is_error(refused[i].call(x, refused[i].n)));
        CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, refused[i].text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void lists_that_are_not_there_or_too_long_are_refused_by_name(void)
{
    test_ranks(1, refused_body, NULL);
    test_ranks(3, refused_body, NULL);
}

static stn_status all_body(stn_context *context, void *arg)
{
    double want = 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x =
        test_tensor(context, test_mesh(context, stn_context_size(context), 0), (const stn_placement[]){STN_S(0)},
                    STN_DTYPE_F64, 2, (int64_t[]){4, 3}, NULL, test_value);
    for (int64_t i = 0; i < 12; i++)
        want += test_value(i);
    test_compare(stn_sum(x, 0, NULL, 0), &want, 1, 1e-12);
    CHECK_I64(stn_tensor_ndim(stn_squeeze(stn_unsqueeze(x, 0), 0, NULL)), 2);
    return stn_scope_end(context);
}

static void a_count_of_0_stands_for_all_dims(void)
{
    test_ranks(1, all_body, NULL);
    test_ranks(3, all_body, NULL);
}

/* Without a first tensor there is no context to keep an error in. */
static void lists_of_tensors_that_are_not_there_give_nothing(void)
{
    CHECK(stn_cat(2, NULL, 0) == NULL);
    CHECK(stn_stack(2, NULL, 0) == NULL);
    CHECK(stn_einsum("i,i->", 2, NULL) == NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"lists_that_are_not_there_or_too_long_are_refused_by_name",
         lists_that_are_not_there_or_too_long_are_refused_by_name},
        {"a_count_of_0_stands_for_all_dims", a_count_of_0_stands_for_all_dims},
        {"lists_of_tensors_that_are_not_there_give_nothing", lists_of_tensors_that_are_not_there_give_nothing},
    };
    return TEST_MAIN(argc, argv, cases);
}
