/* What is no view has memory of its own in every layout, also where an op has nothing to do: a change in place of the
 * result leaves the input as it was, and one of the input the result. */
#include "ranks.h"

enum { N = 2 * 4 * 1 * 6 };
static const int64_t shape[] = {2, 4, 1, 6}, zeros[8];

static stn_tensor *indices(stn_tensor *x, int64_t n)
{
    stn_context *context = stn_tensor_context(x);
    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(x));
    const stn_placement whole = stn_replicate();
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &whole, STN_DTYPE_I64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *at = stn_arange(context, spec, 0, 1);
    stn_spec_release(&spec);
    return at;
}

static stn_tensor *repeat_once(stn_tensor *x)
{
    return stn_repeat(x, 4, (int64_t[]){1, 1, 1, 1});
}
static stn_tensor *repeat_in_front(stn_tensor *x)
{
    return stn_repeat(x, 5, (int64_t[]){1, 1, 1, 1, 1});
}
static stn_tensor *repeat_one(stn_tensor *x)
{
    return stn_repeat(x, 5, (int64_t[]){2, 1, 1, 3, 1});
}
static stn_tensor *repeat_two(stn_tensor *x)
{
    return stn_repeat(x, 4, (int64_t[]){1, 2, 2, 1});
}
static stn_tensor *shuffle(stn_tensor *x)
{
    return stn_pixel_shuffle(x, 1);
}
static stn_tensor *shuffle_more(stn_tensor *x)
{
    return stn_pixel_shuffle(x, 2);
}
static stn_tensor *unshuffle(stn_tensor *x)
{
    return stn_pixel_unshuffle(x, 1);
}
static stn_tensor *diff(stn_tensor *x)
{
    return stn_diff(x, 0, 1, NULL, NULL);
}
static stn_tensor *shift(stn_tensor *x)
{
    return stn_fftshift(x, 1, (int[]){2});
}
static stn_tensor *roll(stn_tensor *x)
{
    return stn_roll(x, 1, zeros, (int[]){1});
}
static stn_tensor *roll_flat(stn_tensor *x)
{
    return stn_roll(x, 1, zeros, NULL);
}
static stn_tensor *flip(stn_tensor *x)
{
    return stn_flip(x, 1, (int[]){2});
}
static stn_tensor *pad(stn_tensor *x)
{
    return stn_pad(x, 4, zeros, STN_PAD_CONSTANT, 0);
}
static stn_tensor *pad_around(stn_tensor *x)
{
    return stn_pad(x, 4, zeros, STN_PAD_CIRCULAR, 0);
}
static stn_tensor *pad_sphere(stn_tensor *x)
{
    return stn_pad_sphere(x, 0, 0, 2, 1, STN_POLES_ON_ROWS);
}
static stn_tensor *cat(stn_tensor *x)
{
    return stn_cat(1, &x, 1);
}
static stn_tensor *stack(stn_tensor *x)
{
    return stn_stack(1, &x, 0);
}
static stn_tensor *triangle(stn_tensor *x)
{
    return stn_tril(x, 100);
}
static stn_tensor *index_all(stn_tensor *x)
{
    return stn_index_select(x, 1, indices(x, 4));
}
static stn_tensor *index_none(stn_tensor *x)
{
    return stn_index_fill(x, 1, indices(x, 0), 7);
}
static stn_tensor *interleave(stn_tensor *x)
{
    return stn_repeat_interleave(x, 1, (int[]){1});
}
static stn_tensor *clone(stn_tensor *x)
{
    return stn_clone(x);
}
static stn_tensor *conjugate(stn_tensor *x)
{
    return stn_conj(x);
}
static stn_tensor *real(stn_tensor *x)
{
    return stn_real(x);
}
static stn_tensor *rounded(stn_tensor *x)
{
    return stn_round(x, 0);
}
static stn_tensor *clamp(stn_tensor *x)
{
    return stn_clamp(x, -1e9, 1e9);
}
static stn_tensor *sum(stn_tensor *x)
{
    return stn_sum(x, 1, (int[]){2}, 1);
}
static stn_tensor *sum_less(stn_tensor *x)
{
    return stn_sum(x, 1, (int[]){2}, 0);
}
static stn_tensor *mean(stn_tensor *x)
{
    return stn_mean(x, 1, (int[]){2}, 1);
}
static stn_tensor *norm(stn_tensor *x)
{
    return stn_vector_norm(x, 1, 1, (int[]){2}, 0);
}
static stn_tensor *logsumexp(stn_tensor *x)
{
    return stn_logsumexp(x, 1, (int[]){2}, 0);
}
static stn_tensor *cumsum(stn_tensor *x)
{
    return stn_cumsum(x, 2);
}
static stn_tensor *cummax(stn_tensor *x)
{
    return stn_cummax(x, 2, NULL);
}
static stn_tensor *sort(stn_tensor *x)
{
    return stn_sort(x, 2, 0, NULL);
}
static stn_tensor *topk(stn_tensor *x)
{
    return stn_topk(x, 1, 2, 1, NULL);
}
static stn_tensor *kth(stn_tensor *x)
{
    return stn_kthvalue(x, 1, 2, 0, NULL);
}
static stn_tensor *max_dim(stn_tensor *x)
{
    return stn_max_dim(x, 2, 0, NULL);
}
static stn_tensor *median(stn_tensor *x)
{
    return stn_median_dim(x, 2, 0, NULL);
}

static stn_tensor *pool_mean(stn_tensor *x)
{
    return stn_adaptive_avg_pool2d(x, (int64_t[]){1, 6});
}
static stn_tensor *pool_max(stn_tensor *x)
{
    return stn_adaptive_max_pool2d(x, (int64_t[]){1, 6}, NULL);
}

static stn_tensor *resized(stn_tensor *x)
{
    const stn_interpolate_attrs attrs = {.size = sizeof attrs, .output_size = {1, 6}, .mode = STN_INTERPOLATE_LINEAR};
    return stn_interpolate(x, &attrs);
}

static stn_tensor *transformed(stn_tensor *x)
{
    return stn_real(stn_fft(x, 1, 2, STN_FFT_BACKWARD));
}

/* The columns of windows that do not overlap lie as the padded image does, and the views on the way to them too. */
static stn_tensor *columns(stn_tensor *x)
{
    const stn_pool_attrs attrs = {.size = sizeof attrs, .kernel_size = {2, 1}, .padding = {1, 0}};
    return stn_im2col(x, &attrs);
}
static stn_tensor *columns_alone(stn_tensor *x)
{
    const stn_pool_attrs attrs = {.size = sizeof attrs, .kernel_size = {1, 1}};
    return stn_im2col(x, &attrs);
}

static stn_tensor *(*const list[])(stn_tensor *) = {repeat_once,   repeat_in_front,
                                                    repeat_one,    repeat_two,
                                                    shuffle,       shuffle_more,
                                                    unshuffle,     diff,
                                                    shift,         roll,
                                                    roll_flat,     flip,
                                                    pad,           pad_around,
                                                    cat,           stack,
                                                    triangle,      index_all,
                                                    index_none,    interleave,
                                                    clone,         conjugate,
                                                    real,          rounded,
                                                    clamp,         sum,
                                                    sum_less,      mean,
                                                    norm,          logsumexp,
                                                    cumsum,        cummax,
                                                    sort,          topk,
                                                    kth,           max_dim,
                                                    median,        pool_mean,
                                                    pool_max,      resized,
                                                    transformed,   columns,
                                                    columns_alone, pad_sphere};

static double counted(int64_t i)
{
    return (double)(i + 1);
}

/* The result is doubled, then the input tripled: neither sees the other's change. */
static void check(stn_context *context, const stn_placement *place, int f)
{
    double made[6 * N], doubled[6 * N], kept[N];
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), place, STN_DTYPE_F64, 4,
                                shape, NULL, counted);
    stn_tensor *y = list[f](x);
    const int64_t n = stn_spec_numel(stn_tensor_spec(y));
    CHECK(!stn_tensor_is_view(y) && !stn_tensor_is_view(x));
    test_read(y, made, n);
    CHECK(stn_mul_number_(y, 2) == y && stn_tensor_version(x) == 0);
    test_read(x, kept, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(kept[i], counted(i), 0);
    CHECK(stn_mul_number_(x, 3) == x && stn_tensor_version(y) == 1);
    test_read(y, doubled, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(doubled[i], 2 * made[i], 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status memory_body(stn_context *context, void *arg)
{
    const stn_placement places[] = {stn_replicate(), stn_shard(0), stn_shard(1), stn_shard(2), stn_shard(3)};
    (void)arg;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (size_t f = 0; f < sizeof list / sizeof *list; f++)
            check(context, &places[p], (int)f);
    return STN_OK;
}

static void results_that_are_no_views_have_memory_of_their_own(void)
{
    for (int n = 1; n <= 3; n++)
        test_ranks(n, memory_body, NULL);
}

/* A leaf's copy is a result as any other: not the leaf, and with its gradient. */
static stn_status gradient_body(stn_context *context, void *arg)
{
    const stn_placement cut = stn_shard(1);
    stn_tensor *(*const copies[])(stn_tensor *) = {repeat_once, repeat_in_front, shuffle, diff, shift};
    double got[N];
    (void)arg;
    for (size_t f = 0; f < sizeof copies / sizeof *copies; f++) {
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &cut, STN_DTYPE_F64, 4,
                                    shape, NULL, counted);
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *y = copies[f](x);
        CHECK(stn_requires_grad(y) && !stn_is_leaf(y));
        CHECK(stn_mul_number_(y, 3) == y);
        CHECK_STATUS(stn_backward(stn_sum(y, 0, NULL, 0)), STN_OK);
        stn_tensor *grad;
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        test_read(grad, got, N);
        for (int i = 0; i < N; i++)
            CHECK_NEAR(got[i], 3, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void copies_of_leaves_are_none(void)
{
    test_ranks(3, gradient_body, NULL);
}

/* An op made of others, whose first result is a transposed tensor of which a graph keeps another view. */
static stn_status turn_and_square(stn_op_call *call)
{
    stn_tensor *twice = stn_mul_number(call->in[0], 2);
    call->out[0] = stn_transpose(twice, 0, 1);
    stn_tensor *seen = stn_transpose(twice, 0, 1);
    call->out[1] = stn_mul(seen, seen);
    return stn_context_status(call->context);
}

static stn_status kept_body(stn_context *context, void *arg)
{
    static const stn_input_schema inputs[] = {{.name = "input"}};
    static const stn_op_impl impl = {.compose = turn_and_square};
    static const stn_op_desc desc = {
        .size = sizeof desc, .name = "turn_and_square", STN_INPUTS(inputs), .n_outputs = 2, .impl = &impl};
    const stn_placement places[] = {stn_replicate(), stn_shard(0), stn_shard(3)};
    const stn_op *op;
    double got[N];
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    for (int p = 0; p < 3; p++) {
        stn_tensor *out[2] = {NULL}, *grad = NULL;
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &places[p],
                                    STN_DTYPE_F64, 4, shape, NULL, counted);
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        CHECK_STATUS(stn_call(context, "turn_and_square", 1, &x, 0, NULL, 2, out), STN_OK);
        CHECK(!stn_tensor_is_view(out[0]) && stn_mul_number_(out[0], 3) == out[0]);
        CHECK_STATUS(stn_backward(stn_sum(stn_add(out[0], out[1]), 0, NULL, 0)), STN_OK);
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        test_read(grad, got, N);
        for (int i = 0; i < N; i++)
            CHECK_NEAR(got[i], 6 + 8 * counted(i), 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void results_whose_memory_a_graph_keeps_have_their_own(void)
{
    test_ranks(1, kept_body, NULL);
    test_ranks(3, kept_body, NULL);
}

/* What an op saw on the way is gone when it returns: its results may be changed where a gradient follows, too. */
static stn_status way_body(stn_context *context, void *arg)
{
    const int64_t sizes[] = {2, 4};
    (void)arg;
    for (int placed = 0; placed < 9; placed++)
        for (int dim = 0; dim < 2; dim++) {
            const stn_placement all[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
            const stn_placement places[] = {all[placed / 3], all[placed % 3]};
            stn_scope_begin(context);
            stn_tensor *x = test_tensor(context, test_mesh(context, 2, 3), places, STN_DTYPE_F64, 2, sizes, NULL,
                                        counted);
            CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
            stn_tensor *made[] = {stn_sort(x, dim, 1, NULL), stn_topk(x, 2, dim, 1, NULL), stn_cumsum(x, dim),
                                  stn_softmax(x, dim), stn_roll(x, 1, (int64_t[]){1}, &dim)};
            for (size_t i = 0; i < sizeof made / sizeof *made; i++)
                CHECK(!stn_tensor_is_view(made[i]) && stn_mul_number_(made[i], 2) == made[i]);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void results_made_by_way_of_views_are_changed_where_gradients_follow(void)
{
    test_ranks(6, way_body, NULL);
}

/* A gradient that backward has squeezed is no view either: it is changed where a gradient follows. */
static stn_status squeezed_body(stn_context *context, void *arg)
{
    const stn_placement places[] = {stn_replicate(), stn_shard(0)}, whole = stn_replicate();
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (int p = 0; p < 2; p++) {
        double got[4];
        stn_tensor *grad = NULL;
        stn_scope_begin(context);
        stn_tensor *v = test_tensor(context, mesh, &places[p], STN_DTYPE_F64, 1, (int64_t[]){4}, NULL, counted);
        stn_tensor *w = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, (int64_t[]){4, 2}, NULL, counted);
        CHECK_STATUS(stn_set_requires_grad(v, 1), STN_OK);
        stn_tensor *y = stn_matmul(v, w), *cotangent = stn_detach(stn_matmul(v, w));
        CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &v, 0, 0, &grad), STN_OK);
        CHECK(!stn_tensor_is_view(grad) && stn_copy_(grad, v) == grad);
        test_read(stn_detach(grad), got, 4);
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(got[i], counted(i), 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void gradients_are_no_views(void)
{
    test_worlds(squeezed_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"results_that_are_no_views_have_memory_of_their_own", results_that_are_no_views_have_memory_of_their_own},
        {"copies_of_leaves_are_none", copies_of_leaves_are_none},
        {"gradients_are_no_views", gradients_are_no_views},
        {"results_whose_memory_a_graph_keeps_have_their_own", results_whose_memory_a_graph_keeps_have_their_own},
        {"results_made_by_way_of_views_are_changed_where_gradients_follow",
         results_made_by_way_of_views_are_changed_where_gradients_follow},
    };
    return TEST_MAIN(argc, argv, cases);
}
