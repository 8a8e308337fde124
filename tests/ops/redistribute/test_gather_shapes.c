/* Ranks that know the shape of their own chunk alone ask each other: from_local_gather_shapes, spec_of_chunks. */
#include "ops/against_one.h"
#include "ranks.h"

enum { RANKS = 3, ROWS = 7, COLUMNS = 2, N = ROWS * COLUMNS };

static const int64_t shape_2d[] = {ROWS, COLUMNS}, sizes_rows[] = {4, 0, 3};

/* A local tensor of this shape, full of `value`. */
static stn_tensor *filled(stn_context *context, const int64_t *shape, double value)
{
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_full(context, spec, value);
    stn_spec_release(&spec);
    return tensor;
}

/* Sizes that nobody knows beforehand. */
static stn_status gather_body(stn_context *context, void *arg)
{
    int rank = stn_context_rank(context);
    const int64_t shape[] = {sizes_rows[rank], COLUMNS};
    stn_placement rows[] = {stn_shard(0)};
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    double got[N];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *local = filled(context, shape, rank + 1);
    stn_set_requires_grad(local, 1);
    stn_tensor *x = stn_from_local_gather_shapes(local, mesh, rows, STN_GRAD_PER_RANK);
    const int64_t *const sizes[] = {sizes_rows, NULL};
    stn_tensor *like = test_tensor(context, mesh, rows, STN_DTYPE_F64, 2, shape_2d, sizes, test_value);
    CHECK(stn_tensor_spec(x) == stn_tensor_spec(like));
    CHECK(stn_tensor_data(x) == stn_tensor_data(local));
    test_read(x, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], i / COLUMNS < 4 ? 1 : 3, 0);
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad(context, 1, &x, &like, 1, &local, 0, 0, &grad), STN_OK);
    against_one_compare(stn_from_local(grad, stn_tensor_spec(like), STN_GRAD_PER_RANK), (test_read(like, got, N), got),
                        0);
    return stn_scope_end(context);
}

static void shapes_are_gathered_where_only_the_ranks_know_them(void)
{
    test_ranks(RANKS, gather_body, NULL);
}

/* A 2 x 2 mesh in a world of five: rows by y, columns by x; the rank outside passes nothing. */
static stn_status gather_grid_body(stn_context *context, void *arg)
{
    static const int64_t heights[] = {3, 1}, widths[] = {0, 4};
    const stn_mesh *mesh = test_mesh(context, 2, 2);
    stn_placement grid[] = {stn_shard(0), stn_shard(1)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *local = NULL;
    if (stn_mesh_contains_me(mesh)) {
        const int64_t shape[] = {heights[stn_mesh_coordinate(mesh, 0)], widths[stn_mesh_coordinate(mesh, 1)]};
        local = filled(context, shape, stn_mesh_coordinate(mesh, 0));
    }
    stn_tensor *x = stn_from_local_gather_shapes(local, mesh, grid, STN_GRAD_PER_RANK);
    const stn_spec *spec = stn_tensor_spec(x);
    if (CHECK_I64(stn_spec_ndim(spec), 2)) {
        CHECK_I64(stn_spec_shape(spec)[0], 4);
        CHECK_I64(stn_spec_shape(spec)[1], 4);
    }
    static const double want[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
    against_one_compare(x, want, 0);
    return stn_scope_end(context);
}

static void ranks_outside_the_mesh_learn_the_shape(void)
{
    test_ranks(5, gather_grid_body, NULL);
}

/* Both axes of a 2 x 3 mesh cut dim 0, the first one first, in pieces of 2, 0, 1 and 0, 3, 1 rows. Rank 6 is
 * outside. */
static stn_status two_axes_body(stn_context *context, void *arg)
{
    static const int64_t rows[] = {2, 0, 1, 0, 3, 1}, shape[] = {7, 2};
    const int64_t *const sizes[] = {rows, NULL};
    const int rank = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    const stn_placement both[] = {stn_shard(0), stn_shard(0)};
    const stn_spec *spec = NULL;
    double want[14];
    (void)arg;
    stn_scope_begin(context);
    const stn_tensor *like = test_tensor(context, mesh, both, STN_DTYPE_F64, 2, shape, sizes, test_value);
    const int64_t mine[] = {rank < 6 ? rows[rank] : 0, 2};
    stn_tensor *local = rank < 6 ? filled(context, mine, rank) : NULL;
    stn_tensor *x = stn_from_local_gather_shapes(local, mesh, both, STN_GRAD_PER_RANK);
    CHECK(stn_tensor_spec(x) == stn_tensor_spec(like));
    for (int i = 0, r = 0; r < 6; r++)
        for (int k = 0; k < 2 * (int)rows[r]; k++)
            want[i++] = r;
    against_one_compare(x, want, 0);
    if (rank < 6) { /* the last one is not asked */
        CHECK_STATUS(stn_spec_of_chunks(mesh, both, STN_DTYPE_F64, 2, mine, &spec), STN_OK);
        CHECK(spec == stn_tensor_spec(like));
        stn_spec_release(&spec);
    }
    return stn_scope_end(context);
}

static void several_axes_may_cut_a_dim_into_sizes_that_nobody_knows(void)
{
    test_ranks(7, two_axes_body, NULL);
}

/* Each row of a 2 x 2 mesh asks for itself: rows of other sizes, of which none waits for the other. */
static stn_status rows_ask_body(stn_context *context, void *arg)
{
    const stn_mesh *grid = test_mesh(context, 2, 2), *row;
    const stn_placement cut[] = {stn_shard(0)};
    const int axis = 1, y = stn_context_rank(context) / 2, x = stn_context_rank(context) % 2;
    const stn_spec *spec = NULL;
    (void)arg;
    CHECK_STATUS(stn_mesh_slice(grid, 1, &axis, &row), STN_OK);
    for (int times = 0; times < (y ? 1 : 3); times++) {
        const int64_t mine[] = {10 * y + x + times};
        CHECK_STATUS(stn_spec_of_chunks(row, cut, STN_DTYPE_F32, 1, mine, &spec), STN_OK);
        CHECK_I64(stn_spec_shape(spec)[0], 20 * y + 1 + 2 * times);
        CHECK_I64(stn_spec_local_shape(spec)[0], mine[0]);
        stn_spec_release(&spec);
    }
    return STN_OK;
}

static void ranks_of_a_mesh_ask_each_other_alone(void)
{
    test_ranks(4, rows_ask_body, NULL);
}

struct ask {
    const char *text;
    stn_status status;
    int wrong; /* the rank that says something else than the others, of three; 3 is outside */
    stn_dtype dtype;
    int ndim;
    int64_t shape[2];
};

static stn_status asked_wrongly_body(stn_context *context, void *arg)
{
    static const struct ask asks[] = {
        {"spec_of_chunks: chunk of rank 1 has no shape, wanted up to 8 sizes from 0 on",
         STN_ERR_ARGUMENT,
         1,
         STN_DTYPE_F32,
         2,
         {2, -4}},
        {"spec_of_chunks: chunk of rank 2 has no shape, wanted up to 8 sizes from 0 on",
         STN_ERR_ARGUMENT,
         2,
         STN_DTYPE_F32,
         9,
         {2, 4}},
        {"spec_of_chunks: chunk of rank 2 has 5 elements along dim 1, wanted 4 as the others",
         STN_ERR_SHAPE,
         2,
         STN_DTYPE_F32,
         2,
         {2, 5}},
        {"spec_of_chunks: chunk of rank 1 has 1 dims, wanted 2 as the others",
         STN_ERR_SHAPE,
         1,
         STN_DTYPE_F32,
         1,
         {2, 0}},
        {"spec_of_chunks: chunk of rank 1 is f64, wanted f32 as the others",
         STN_ERR_DTYPE,
         1,
         STN_DTYPE_F64,
         2,
         {2, 4}},
    };
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    const stn_placement rows[] = {stn_shard(0)}, far[] = {stn_shard(9)};
    const int rank = stn_context_rank(context);
    const int64_t shape[] = {2, 4};
    const stn_spec *spec = NULL;
    (void)arg;
    for (size_t i = 0; i < sizeof asks / sizeof *asks && rank < RANKS; i++) {
        const struct ask *a = &asks[i];
        stn_spec_of_chunks(mesh, rows, rank == a->wrong ? a->dtype : STN_DTYPE_F32, rank == a->wrong ? a->ndim : 2,
                           rank == a->wrong ? a->shape : shape, &spec);
        CHECK_ERROR(context, a->status, a->text);
        CHECK(spec == NULL);
    }
    stn_spec_of_chunks(mesh, rank < RANKS ? far : rows, STN_DTYPE_F32, 2, shape, &spec);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                rank < RANKS ? "spec_of_chunks: placements[0] shards dim 9, wanted 0 to 7"
                             : "spec_of_chunks: this rank is not one of the mesh");
    stn_spec_of_chunks(mesh, NULL, STN_DTYPE_F32, 2, shape, &spec);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "spec_of_chunks: placements got NULL");
    return STN_OK;
}

static void wrong_chunks_are_told_to_all_ranks_of_the_mesh(void)
{
    test_ranks(RANKS + 1, asked_wrongly_body, NULL);
}

/* One rank outside the mesh: what it gets is a view there too, and has a history. */
static stn_status outside_body(stn_context *context, void *arg)
{
    const int first = *(int *)arg ? 0 : 1, ranks[] = {first, first + 1}, n = 2;
    const stn_mesh *mesh;
    stn_placement rows[] = {stn_shard(0)};
    const int64_t shape[] = {2, 3};
    CHECK_STATUS(stn_mesh_create(context, 1, &n, NULL, ranks, &mesh), STN_OK);
    stn_scope_begin(context);
    stn_tensor *local = stn_mesh_contains_me(mesh) ? filled(context, shape, 2) : NULL;
    stn_tensor *x = stn_from_local_gather_shapes(local, mesh, rows, STN_GRAD_PER_RANK);
    CHECK(stn_tensor_is_error(stn_square_(x)));
    CHECK_ERROR(context, STN_ERR_STATE,
                "square_: 'input' is a view that need not share memory and cannot be changed in place");
    CHECK(!stn_requires_grad(x));
    if (local)
        CHECK_STATUS(stn_set_requires_grad(local, 1), STN_OK);
    x = stn_from_local_gather_shapes(local, mesh, rows, STN_GRAD_PER_RANK);
    CHECK(stn_requires_grad(x));
    CHECK_STATUS(stn_backward(stn_sum(stn_square(x), 0, NULL, 0)), STN_OK);
    if (local) {
        stn_tensor *grad;
        double got[6];
        CHECK_STATUS(stn_grad_of(local, &grad), STN_OK);
        CHECK_STATUS(stn_to_host(grad, got, sizeof got), STN_OK);
        for (int i = 0; i < 6; i++)
            CHECK_NEAR(got[i], 4, 0);
    }
    return stn_scope_end(context);
}

static void ranks_outside_the_mesh_get_a_view_with_a_history_as_the_others(void)
{
    for (int at_front = 0; at_front < 2; at_front++)
        test_ranks(RANKS, outside_body, &at_front);
}

static stn_status disagreement_body(stn_context *context, void *arg)
{
    int rank = stn_context_rank(context);
    const int64_t shape[] = {2, rank == 2 ? 5 : 4};
    stn_placement rows[] = {stn_shard(0)};
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *local = filled(context, shape, 1);
    stn_from_local_gather_shapes(local, mesh, rows, STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "from_local_gather_shapes: local of rank 2 has 5 elements along dim 1, wanted 4 as the others");
    stn_from_local_gather_shapes(rank == 1 ? NULL : local, mesh, rows, STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "from_local_gather_shapes: local of rank 1 is missing or on a mesh, wanted a local tensor");
    return stn_scope_end(context);
}

static void shapes_that_disagree_are_refused_on_every_rank(void)
{
    test_ranks(RANKS, disagreement_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"shapes_are_gathered_where_only_the_ranks_know_them", shapes_are_gathered_where_only_the_ranks_know_them},
        {"ranks_outside_the_mesh_learn_the_shape", ranks_outside_the_mesh_learn_the_shape},
        {"several_axes_may_cut_a_dim_into_sizes_that_nobody_knows",
         several_axes_may_cut_a_dim_into_sizes_that_nobody_knows},
        {"ranks_of_a_mesh_ask_each_other_alone", ranks_of_a_mesh_ask_each_other_alone},
        {"wrong_chunks_are_told_to_all_ranks_of_the_mesh", wrong_chunks_are_told_to_all_ranks_of_the_mesh},
        {"ranks_outside_the_mesh_get_a_view_with_a_history_as_the_others",
         ranks_outside_the_mesh_get_a_view_with_a_history_as_the_others},
        {"shapes_that_disagree_are_refused_on_every_rank", shapes_that_disagree_are_refused_on_every_rank},
    };
    return TEST_MAIN(argc, argv, cases);
}
