/* permute, slice and cat on ranks: random layouts against one process, what travels, what shares memory, what is
 * refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static const int worlds[] = {1, 2, 3, 6};

static void in_worlds(stn_rank_main body)
{
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        test_ranks(worlds[i], body, NULL);
}

struct slicing {
    int dim;
    int64_t start, end, step;
};

static stn_tensor *call_slice(stn_tensor *const *in, const void *arg)
{
    const struct slicing *s = arg;
    return stn_slice(in[0], s->dim, s->start, s->end, s->step);
}

static stn_status slices_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct against_one_op op = {.call = call_slice, .n_in = 1};
        struct random_shape shape;
        random_shape(&state, &shape);
        if (shape.ndim == 0)
            shape = (struct random_shape){1, {7}};
        int dim = (int)world_random(&state, (uint64_t)shape.ndim);
        uint64_t n = (uint64_t)shape.shape[dim];
        struct slicing s = {dim - (int)world_random(&state, 2) * shape.ndim, (int64_t)world_random(&state, n + 3) - 2,
                            (int64_t)world_random(&state, 2 * n + 3) - (int64_t)n / 2,
                            1 + (int64_t)world_random(&state, 3)};
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        op.arg = &s;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void slices_in_every_layout_give_what_one_process_gives(void)
{
    in_worlds(slices_body);
}

struct catting {
    int n, dim;
};

static stn_tensor *call_cat(stn_tensor *const *in, const void *arg)
{
    const struct catting *c = arg;
    return stn_cat(c->n, in, c->dim);
}

static stn_status cats_body(stn_context *context, void *arg)
{
    uint64_t state = 43;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct against_one_op op = {.call = call_cat, .n_in = 1 + (int)world_random(&state, 3)};
        struct random_shape shape;
        struct catting c = {op.n_in, 0};
        double *values[3];
        random_shape(&state, &shape);
        if (shape.ndim == 0)
            shape = (struct random_shape){1, {3}};
        c.dim = (int)world_random(&state, (uint64_t)shape.ndim);
        for (int k = 0; k < op.n_in; k++) {
            shape.shape[c.dim] = (int64_t)world_random(&state, 6);
            values[k] = against_one_draw(&state, against_one_numel(&shape));
            stn_dtype dtype = world_random(&state, 4) == 0 ? STN_DTYPE_F32 : STN_DTYPE_F64;
            op.in[k] = (struct against_one_input){dtype, shape, values[k], 1u << STN_SUM};
        }
        op.arg = &c;
        op.tolerance = 1e-6; /* f32 gradients */
        against_one_check(context, &state, random_mesh(&state, context), &op);
        for (int k = 0; k < op.n_in; k++)
            free(values[k]);
    }
    return STN_OK;
}

static void cats_in_every_layout_give_what_one_process_gives(void)
{
    in_worlds(cats_body);
}

static stn_tensor *call_permute(stn_tensor *const *in, const void *arg)
{
    const int *dims = arg;
    return stn_permute(in[0], dims[0], dims + 1);
}

static stn_status permutes_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct against_one_op op = {.call = call_permute, .n_in = 1};
        struct random_shape shape;
        int dims[1 + STN_MAX_NDIM];
        random_shape(&state, &shape);
        dims[0] = shape.ndim;
        for (int d = 0; d < shape.ndim; d++) {
            int at = (int)world_random(&state, (uint64_t)d + 1);
            dims[1 + d] = dims[1 + at];
            dims[1 + at] = d;
        }
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        op.arg = dims;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void permutes_in_every_layout_give_what_one_process_gives(void)
{
    in_worlds(permutes_body);
}

static stn_tensor *cut_rows(stn_context *context, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    stn_placement shard[] = {stn_shard(0)};
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), shard, STN_DTYPE_F32, 2, shape, NULL,
                       test_value);
}

/* Rows 2 … 8 of 10 on 3 ranks that hold 4, 3 and 3: 2, 3 and 2 of them. */
static stn_status sharing_body(stn_context *context, void *arg)
{
    static const int64_t kept[] = {2, 3, 2};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = cut_rows(context, 10, 5);
    stn_set_requires_grad(x, 1);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_slice(x, 0, 2, 9, 1), *z = stn_slice(x, -1, 1, INT64_MAX, 2);
    CHECK_I64(test_stats(context).allocations, 0);
    CHECK_I64(stn_tensor_local_shape(y)[0], kept[stn_context_rank(context)]);
    CHECK_I64(stn_tensor_strides(z)[1], 2);
    CHECK((char *)stn_tensor_data(y) - (char *)stn_tensor_data(x) == (stn_context_rank(context) == 0 ? 40 : 0));
    stn_tensor *g = stn_slice(x, 0, 2, 9, 1), *grad;
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_STATUS(stn_grad(context, 1, &y, &g, 1, &x, 0, 0, &grad), STN_OK);
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(x));
    CHECK_I64(test_stats(context).redistributions, 0);
    return stn_scope_end(context);
}

static void slices_share_memory_and_move_nothing_either_way(void)
{
    test_ranks(3, sharing_body, NULL);
}

static stn_status local_cat_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {cut_rows(context, 10, 5), cut_rows(context, 10, 2), cut_rows(context, 10, 0)};
    stn_context_stats_reset(context);
    stn_tensor *y = stn_cat(3, in, 1);
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(test_stats(context).allocations, 1);
    CHECK_I64(stn_tensor_shape(y)[1], 7);
    return stn_scope_end(context);
}

static void cat_along_a_dim_that_is_not_cut_moves_nothing(void)
{
    test_ranks(3, local_cat_body, NULL);
}

/* 2 tensors of 4 rows on 2 ranks: rank 1 holds rows 2 and 3 of each, and 4 to 7 of the whole. It sends two, rank 0
 * two. */
static stn_status cut_cat_body(stn_context *context, void *arg)
{
    double got[40];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = cut_rows(context, 4, 5), *in[] = {x, x};
    stn_cat(2, in, 0); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    stn_tensor *y = stn_cat(2, in, 0);
    CHECK_I64(test_stats(context).collectives, 1);
    CHECK_I64(test_stats(context).bytes_sent, 2 * 5 * 4);
    test_read(y, got, 40);
    for (int i = 0; i < 40; i++)
        CHECK_NEAR(got[i], (double)(float)test_value(i % 20), 0);
    return stn_scope_end(context);
}

static void cat_along_a_cut_dim_is_one_exchange_of_what_has_to_move(void)
{
    test_ranks(2, cut_cat_body, NULL);
}

/* Of 12 rows on 3 ranks the first 3 are rank 0's and the last 3 rank 2's, without and with what all have between them:
 * each rank keeps what it has, and what all have is cut in proportion. */
static stn_status ends_body(stn_context *context, void *arg)
{
    static const int64_t alone[] = {3, 0, 3}, between[] = {6, 0, 6};
    const int64_t shape[] = {6, 5};
    stn_placement whole[] = {stn_replicate()};
    const int rank = stn_context_rank(context);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = cut_rows(context, 12, 5), *first = stn_slice(x, 0, 0, 3, 1), *last = stn_slice(x, 0, 9, 12, 1);
    stn_tensor *all =
        test_tensor(context, stn_spec_mesh(stn_tensor_spec(x)), whole, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_context_stats_reset(context);
    CHECK_I64(stn_tensor_local_shape(stn_cat(2, (stn_tensor *[]){first, last}, 0))[0], alone[rank]);
    CHECK_I64(stn_tensor_local_shape(stn_cat(3, (stn_tensor *[]){first, all, last}, 0))[0], between[rank]);
    CHECK_I64(test_stats(context).bytes_sent, 0);
    /* Nothing at all, and balanced beside more of it. */
    stn_tensor *none = stn_slice(x, 0, 0, 0, 1);
    CHECK_I64(stn_tensor_local_shape(stn_cat(2, (stn_tensor *[]){none, none}, 0))[0], 0);
    CHECK_I64(stn_tensor_local_shape(stn_cat(2, (stn_tensor *[]){first, x}, 0))[0], 5);
    return stn_scope_end(context);
}

static void each_rank_keeps_its_part_of_what_is_joined(void)
{
    test_ranks(3, ends_body, NULL);
}

static stn_status partial_cat_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {4, 3};
    stn_placement partial[] = {stn_partial(STN_SUM)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), partial, STN_DTYPE_F32, 2, shape, NULL, test_value),
               *in[] = {x, x};
    stn_context_stats_reset(context);
    stn_tensor *y = stn_cat(2, in, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_PARTIAL);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(stn_slice(y, 0, 1, 3, 1)), 0).kind, STN_PLACE_PARTIAL);
    CHECK_I64(test_stats(context).collectives, 0);
    return stn_scope_end(context);
}

static void pending_sums_of_all_tensors_stay_pending(void)
{
    test_ranks(2, partial_cat_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int twice[] = {0, 0}, one[] = {0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = cut_rows(context, 3, 4), *y = cut_rows(context, 4, 5), *in[] = {x, y};
    stn_permute(x, 2, twice);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "permute: 'dims' got 0 for a dim that it names already, wanted distinct dims");
    stn_permute(x, 1, one);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "permute: 'dims' got 1 dims, wanted 2");
    stn_slice(x, 2, 0, 1, 1);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "slice: 'dim' got 2, wanted -2 <= dim < 2");
    stn_slice(x, 0, 0, 1, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "slice: 'step' got 0, wanted at least 1");
    stn_cat(2, in, 0);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "cat: 'tensor1' got shape (4, 5), wanted that of the others, (3, 4), but for dim 0");
    stn_cat(2, in, -3);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "cat: 'dim' got -3, wanted -2 <= dim < 2");
    stn_cat(0, in, 0);
    stn_cat(2, (stn_tensor *[]){x, NULL}, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "cat: input 'tensor1' is missing");
    stn_cat(3, (stn_tensor *[]){x, x, stn_to_local(x, STN_GRAD_PER_RANK)}, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "cat: input 'tensor2' is local, wanted on a mesh as the others");
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"slices_in_every_layout_give_what_one_process_gives", slices_in_every_layout_give_what_one_process_gives},
        {"cats_in_every_layout_give_what_one_process_gives", cats_in_every_layout_give_what_one_process_gives},
        {"permutes_in_every_layout_give_what_one_process_gives", permutes_in_every_layout_give_what_one_process_gives},
        {"slices_share_memory_and_move_nothing_either_way", slices_share_memory_and_move_nothing_either_way},
        {"cat_along_a_dim_that_is_not_cut_moves_nothing", cat_along_a_dim_that_is_not_cut_moves_nothing},
        {"each_rank_keeps_its_part_of_what_is_joined", each_rank_keeps_its_part_of_what_is_joined},
        {"cat_along_a_cut_dim_is_one_exchange_of_what_has_to_move",
         cat_along_a_cut_dim_is_one_exchange_of_what_has_to_move},
        {"pending_sums_of_all_tensors_stay_pending", pending_sums_of_all_tensors_stay_pending},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
