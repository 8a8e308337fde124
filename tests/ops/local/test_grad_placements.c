/* Crossing over with a placement of the gradient for each axis; operands of every pending reduction and their
 * gradients. */
#include "core/shard/mesh.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 5, N = 2 * ROWS };

static const int64_t shape_2d[] = {ROWS, 2};

static const stn_spec *spec_of(stn_context *context, const stn_mesh *mesh, const stn_placement *placements)
{
    const stn_spec *spec = NULL;
    (void)context;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, STN_DTYPE_F64, 2, shape_2d, NULL, &spec), STN_OK);
    return spec;
}

/* A local tensor of the shape of this rank's chunk. */
static stn_tensor *local_of(stn_context *context, const stn_spec *like, double (*value)(int rank, int64_t i))
{
    const stn_spec *spec;
    double data[N];
    const int64_t n = stn_spec_local_numel(like);
    for (int64_t i = 0; i < n; i++)
        data[i] = value(stn_context_rank(context), i);
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, stn_spec_local_shape(like), NULL, &spec);
    stn_tensor *tensor = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

static double weight(int rank, int64_t i)
{
    (void)i;
    return rank + 2;
}

static double five(int rank, int64_t i)
{
    (void)rank, (void)i;
    return 5;
}

static void check_all(stn_tensor *tensor, double want)
{
    double values[N];
    for (int i = 0; i < N; i++)
        values[i] = want;
    against_one_compare(tensor, values, 1e-15);
}

static stn_tensor *gradient(stn_tensor *of, stn_tensor *y, stn_tensor *cotangent, int create_graph)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad(stn_tensor_context(of), 1, &y, &cotangent, 1, &of, 1, create_graph, &grad), STN_OK);
    return grad;
}

/* Three ranks whose cotangents are 2, 3 and 4; the derivative of the gradient goes back in the same way. */
static stn_status take_body(stn_context *context, void *arg)
{
    const stn_placement cases[] = {stn_replicate(), stn_partial(STN_SUM), stn_partial(STN_AVG)};
    const double wanted[] = {5, 9, 3}, back[] = {1, 1, 1. / 3};
    const stn_placement whole = stn_replicate(), rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    (void)arg;
    for (int c = 0; c < 3; c++) {
        stn_scope_begin(context);
        const stn_spec *spec = spec_of(context, mesh, &whole);
        stn_tensor *x = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
        stn_tensor *w = local_of(context, spec, c == 0 ? five : weight),
                   *ones = stn_add_number(stn_mul_number(stn_detach(x), 0), 1);
        stn_set_requires_grad(x, 1);
        stn_set_requires_grad(w, 1);
        stn_tensor *grad = gradient(x, stn_to_local_with(x, &cases[c]), w, 1);
        check_all(grad, wanted[c]);
        stn_tensor *second = gradient(w, grad, ones, 0);
        double got[N];
        CHECK_STATUS(stn_to_host(second, got, sizeof got), STN_OK);
        CHECK_NEAR(got[0], back[c], 1e-15);
        stn_tensor *s = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
        stn_set_requires_grad(s, 1);
        check_all(gradient(s, stn_full_tensor_with(s, &cases[c]), w, 0), wanted[c]);
        stn_spec_release(&spec);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void cotangents_of_copies_are_one_value_or_a_sum_or_a_mean(void)
{
    test_ranks(3, take_body, NULL);
}

/* Six ranks: the sum along y, one value along x, in rows 0 1 2 and 3 4 5 of the mesh. */
static double by_row(int rank, int64_t i)
{
    (void)i;
    return rank / 3 + 1;
}

static stn_status axes_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    const stn_placement whole[] = {stn_replicate(), stn_replicate()}, mixed[] = {stn_partial(STN_SUM), stn_replicate()};
    (void)arg;
    stn_scope_begin(context);
    const stn_spec *spec = spec_of(context, mesh, whole);
    stn_tensor *x = test_tensor(context, mesh, whole, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    stn_set_requires_grad(x, 1);
    check_all(gradient(x, stn_to_local_with(x, mixed), local_of(context, spec, by_row), 0), 3);
    stn_tensor *local = local_of(context, spec, five);
    stn_set_requires_grad(local, 1);
    double got[N];
    stn_tensor *cotangent = test_tensor(context, mesh, whole, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    CHECK_STATUS(stn_to_host(gradient(local, stn_from_local_with(local, spec, mixed), cotangent, 0), got, sizeof got),
                 STN_OK);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], stn_mesh_coordinate(mesh, 0) == 0 ? test_value(i) : 0, 0);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void each_axis_has_a_placement_of_its_own(void)
{
    test_ranks(6, axes_body, NULL);
}

/* Addends that the program itself reduces: all ranks go on to one loss, 2 sum(t^2), t the sum. */
static stn_status addends_body(stn_context *context, void *arg)
{
    const stn_placement pending = stn_partial(STN_SUM), one = stn_replicate();
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    double want[N];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &pending, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    stn_set_requires_grad(x, 1);
    stn_tensor *t = stn_dist_all_reduce(stn_to_local_with(x, &one), mesh, STN_SUM, STN_GRAD_REPLICATED), *grad;
    CHECK_STATUS(stn_backward(stn_mul_number(stn_sum(stn_mul(t, t), 0, NULL, 0), 2)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    for (int i = 0; i < N; i++)
        want[i] = 4 * test_value(i);
    against_one_compare(grad, want, 1e-14);
    return stn_scope_end(context);
}

static void addends_that_the_program_reduces_have_gradients(void)
{
    test_ranks(3, addends_body, NULL);
}

/* Operands with ties, zeros and signs: element i of rank r. */
static double operand(int rank, int64_t i)
{
    static const double table[] = {0, 3, -2, 1.5, 3, 0.5, -1};
    return table[(rank * 3 + i * (rank + 2)) % 7];
}

/* The chunks of all ranks that reduce to this rank's elements, one after the other: those with its coordinates along
 * sharded axes. */
static int peers_of(const stn_spec *spec, int *peers)
{
    const stn_mesh *mesh = stn_spec_mesh(spec);
    int n = 0, coordinate[STN_MAX_MESH_NDIM];
    for (int r = 0; r < mesh->size; r++) {
        int differs = !stni_mesh_find(mesh, r, coordinate);
        for (int a = 0; a < mesh->ndim; a++)
            differs |= stn_spec_placement(spec, a).kind == STN_PLACE_SHARD && coordinate[a] != mesh->coordinate[a];
        if (!differs)
            peers[n++] = r;
    }
    return n;
}

static double reduced(stn_reduce_op op, const int *peers, int n, int64_t i, int without)
{
    double value = op == STN_PROD ? 1 : op == STN_MAX ? -INFINITY : INFINITY;
    for (int p = 0; p < n; p++) {
        const double x = operand(peers[p], i);
        if (peers[p] != without)
            value = op == STN_PROD ? value * x : op == STN_MAX ? fmax(value, x) : fmin(value, x);
    }
    return value;
}

static double derivative(stn_reduce_op op, const int *peers, int n, int rank, int64_t i)
{
    const double extreme = reduced(op, peers, n, i, -1);
    int ties = 0;
    if (op == STN_PROD)
        return reduced(op, peers, n, i, rank);
    for (int p = 0; p < n; p++)
        ties += operand(peers[p], i) == extreme;
    return operand(rank, i) == extreme ? 1.0 / ties : 0;
}

struct reduced_case {
    int rows, columns;
    stn_placement placements[2];
};

static stn_status reduced_body(stn_context *context, void *arg)
{
    const struct reduced_case *c = arg;
    const int rank = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, c->rows, c->columns);
    const stn_placement one_value[] = {c->placements[0].kind == STN_PLACE_SHARD ? c->placements[0] : stn_replicate(),
                                       stn_replicate()};
    const stn_reduce_op op =
        (stn_reduce_op)(c->placements[0].kind == STN_PLACE_PARTIAL ? c->placements[0] : c->placements[1]).op;
    int peers[8];
    double got[N], values[N];
    stn_scope_begin(context);
    const stn_spec *spec = spec_of(context, mesh, c->placements);
    const int n = peers_of(spec, peers);
    stn_tensor *local = local_of(context, spec, operand), *plain = local_of(context, spec, operand);
    stn_set_requires_grad(local, 1);
    stn_tensor *y = stn_from_local_with(local, spec, one_value);
    CHECK(stn_tensor_spec(y) == spec);
    test_read(y, got, N);
    test_read(stn_from_local(plain, spec, STN_GRAD_PER_RANK), values, N);
    CHECK_BYTES(got, values, sizeof got);
    stn_tensor *cotangent = test_tensor(context, mesh, one_value, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    const int64_t local_n = stn_spec_local_numel(spec), first = stn_spec_local_offset(spec)[0] * 2;
    CHECK_STATUS(stn_to_host(gradient(local, y, cotangent, 0), got, (size_t)local_n * sizeof *got), STN_OK);
    for (int64_t i = 0; i < local_n; i++)
        CHECK_NEAR(got[i], test_value(first + i) * derivative(op, peers, n, rank, i), 1e-14);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void operands_of_every_pending_reduction_have_gradients(void)
{
    static const stn_reduce_op ops[] = {STN_PROD, STN_MIN, STN_MAX};
    for (int o = 0; o < 3; o++) {
        const stn_placement p = stn_partial(ops[o]);
        struct reduced_case cases[] = {
            {1, 0, {p}}, {2, 0, {p}}, {3, 0, {p}}, {2, 2, {p, p}}, {3, 2, {stn_shard(0), p}}};
        for (int c = 0; c < 5; c++)
            test_ranks(cases[c].rows * (cases[c].columns ? cases[c].columns : 1), reduced_body, &cases[c]);
    }
}

/* y = x_0 x_1 x_2: the derivative of sum_r v_r dy/dx_r by x_s is the sum over r other than s of v_r times the third
 * operand. */
static stn_status twice_body(stn_context *context, void *arg)
{
    const stn_placement pending = stn_partial(STN_PROD), whole = stn_replicate();
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const int rank = stn_context_rank(context);
    double got[N];
    (void)arg;
    stn_scope_begin(context);
    const stn_spec *spec = spec_of(context, mesh, &pending);
    stn_tensor *local = local_of(context, spec, operand), *v = local_of(context, spec, weight);
    stn_set_requires_grad(local, 1);
    stn_tensor *ones = stn_add_number(
        stn_mul_number(test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, shape_2d, NULL, test_value), 0), 1);
    stn_tensor *first = gradient(local, stn_from_local(local, spec, STN_GRAD_PER_RANK), ones, 1);
    CHECK_STATUS(stn_to_host(gradient(local, first, v, 0), got, sizeof got), STN_OK);
    const int a = (rank + 1) % 3, b = (rank + 2) % 3;
    for (int64_t i = 0; i < N; i++)
        CHECK_NEAR(got[i], weight(a, i) * operand(b, i) + weight(b, i) * operand(a, i), 1e-13);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void a_pending_product_is_differentiated_twice(void)
{
    test_ranks(3, twice_body, NULL);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_placement rows = stn_shard(0), whole = stn_replicate(), average = stn_partial(STN_AVG),
                        largest = stn_partial(STN_MAX);
    const stn_mesh *mesh = test_mesh(context, 2, 0), *grid = test_mesh(context, 1, 2);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *s = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    stn_tensor *r = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    stn_to_local_with(s, &whole);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
           "to_local_with: grad_placements[0] got Replicate, wanted the same where the tensor is Shard(0)");
    stn_to_local_with(r, &largest);
    CHECK_ERROR(
        context, STN_ERR_ARGUMENT,
        "to_local_with: grad_placements[0] got Partial(max), wanted Replicate, Partial(sum) or Partial(avg) where the "
        "tensor is Replicate");
    stn_to_local_with(r, NULL);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "to_local_with: grad_placements got NULL, wanted one for each axis of the mesh");
    stn_from_local_with(stn_to_local(r, STN_GRAD_PER_RANK), stn_tensor_spec(r), &average);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
           "from_local_with: grad_placements[0] got Partial(avg), wanted Replicate or Partial(sum) where the tensor is "
           "Replicate");
    stn_full_tensor_with(s, &rows);
    CHECK_ERROR(
        context, STN_ERR_ARGUMENT,
        "full_tensor_with: grad_placements[0] got Shard(0), wanted Replicate, Partial(sum) or Partial(avg) where the "
        "tensor is Replicate");
    const stn_placement anything[] = {largest, stn_partial(STN_SUM)}, both[] = {whole, whole};
    stn_tensor *g = test_tensor(context, grid, both, STN_DTYPE_F64, 2, shape_2d, NULL, test_value);
    CHECK(!stn_tensor_is_error(stn_to_local_with(g, anything))); /* an axis of one rank */
    return stn_scope_end(context);
}

static void other_placements_are_refused_by_axis(void)
{
    test_ranks(2, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"cotangents_of_copies_are_one_value_or_a_sum_or_a_mean",
         cotangents_of_copies_are_one_value_or_a_sum_or_a_mean},
        {"each_axis_has_a_placement_of_its_own", each_axis_has_a_placement_of_its_own},
        {"addends_that_the_program_reduces_have_gradients", addends_that_the_program_reduces_have_gradients},
        {"operands_of_every_pending_reduction_have_gradients", operands_of_every_pending_reduction_have_gradients},
        {"a_pending_product_is_differentiated_twice", a_pending_product_is_differentiated_twice},
        {"other_placements_are_refused_by_axis", other_placements_are_refused_by_axis},
    };
    return TEST_MAIN(argc, argv, cases);
}
