/* Spherical harmonic transforms on ranks: layouts against one process, bits, what moves, what is refused. Complex
 * operands are pairs. What the numbers are: test_harmonics.c. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ops/sht/legendre.h"
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>

enum kind { SHT, ISHT, VSHT, IVSHT, POWER };

struct transform {
    enum kind kind;
    struct random_shape x; /* of coefficients: with the pairs' dim */
    int64_t first, second;
    stn_sht_basis basis;
};

#define BASIS(...)                                                                                                     \
    {                                                                                                                  \
        sizeof(stn_sht_basis), __VA_ARGS__                                                                             \
    }

static const struct transform transforms[] = {
    {SHT, {3, {3, 5, 8}}, 0, 0, BASIS(STN_SHT_LEGENDRE_GAUSS, STN_SHT_ORTHO, 0)},
    {SHT, {2, {6, 7}}, 4, 2, BASIS(STN_SHT_EQUIANGULAR, STN_SHT_FOUR_PI, 1)},
    {SHT, {4, {2, 3, 4, 5}}, 2, 3, BASIS(STN_SHT_LOBATTO, STN_SHT_SCHMIDT, 0)},
    {SHT, {2, {1, 1}}, 0, 0, BASIS(STN_SHT_LEGENDRE_GAUSS, STN_SHT_ORTHO, 0)},
    {SHT, {3, {0, 4, 6}}, 0, 0, BASIS(STN_SHT_EQUIANGULAR, STN_SHT_ORTHO, 0)}, /* no fields */
    {ISHT, {4, {3, 4, 4, 2}}, 5, 8, BASIS(STN_SHT_LEGENDRE_GAUSS, STN_SHT_ORTHO, 0)},
    {ISHT, {3, {5, 2, 2}}, 6, 7, BASIS(STN_SHT_EQUIANGULAR, STN_SHT_FOUR_PI, 1)},
    {ISHT, {3, {2, 4, 2}}, 3, 6, BASIS(STN_SHT_LOBATTO, STN_SHT_SCHMIDT, 0)},
    {ISHT, {3, {1, 1, 2}}, 2, 1, BASIS(STN_SHT_LOBATTO, STN_SHT_ORTHO, 0)},
    {VSHT, {4, {3, 2, 5, 6}}, 0, 0, BASIS(STN_SHT_LEGENDRE_GAUSS, STN_SHT_SCHMIDT, 0)},
    {VSHT, {3, {2, 6, 7}}, 3, 4, BASIS(STN_SHT_EQUIANGULAR, STN_SHT_ORTHO, 1)},
    {IVSHT, {5, {3, 2, 4, 3, 2}}, 5, 6, BASIS(STN_SHT_LOBATTO, STN_SHT_SCHMIDT, 0)},
    {IVSHT, {4, {2, 3, 4, 2}}, 4, 7, BASIS(STN_SHT_LEGENDRE_GAUSS, STN_SHT_FOUR_PI, 1)},
    {POWER, {4, {2, 5, 4, 2}}, 0, 0, BASIS(STN_SHT_EQUIANGULAR, STN_SHT_ORTHO, 0)},
};
enum { N_TRANSFORMS = sizeof transforms / sizeof *transforms };

static stn_tensor *call_transform(stn_tensor *const *in, const void *arg)
{
    const struct transform *t = arg;
    switch (t->kind) {
    case SHT: return stn_view_as_real(stn_sht(in[0], t->first, t->second, &t->basis));
    case ISHT: return stn_isht(stn_view_as_complex(in[0]), t->first, t->second, &t->basis);
    case VSHT: return stn_view_as_real(stn_vsht(in[0], t->first, t->second, &t->basis));
    case POWER: return stn_degree_power(stn_view_as_complex(in[0]));
    case IVSHT: return stn_ivsht(stn_view_as_complex(in[0]), t->first, t->second, &t->basis);
    }
    return NULL;
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 31;
    (void)arg;
    for (int round = 0; round < test_draws(6); round++)
        for (int i = 0; i < N_TRANSFORMS; i++) {
            const struct transform *t = &transforms[i];
            double *x = against_one_draw(&state, against_one_numel(&t->x));
            struct against_one_op op = {.call = call_transform, .arg = t, .n_in = 1, .tolerance = 1e-13};
            op.in[0] = (struct against_one_input){STN_DTYPE_F64, t->x, x, 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            free(x);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

/* Fields of 13 x 20 elements and their coefficients, in f32: sums in another order would show. */
enum {
    FIELDS = 3,
    NLAT = 13,
    NLON = 20,
    LMAX = 13,
    MMAX = 11,
    N_FIELD = FIELDS * NLAT * NLON,
    N_COEFFICIENTS = FIELDS * LMAX * MMAX * 2
};
static const stn_sht_basis gauss = BASIS(STN_SHT_LEGENDRE_GAUSS, STN_SHT_ORTHO, 0);

static float *transform_of(stn_context *context, const stn_mesh *mesh, const stn_placement *placements,
                           const int64_t *const *sizes, int inverse)
{
    const int64_t field[] = {FIELDS, NLAT, NLON}, coefficients[] = {FIELDS, LMAX, MMAX, 2};
    const int n = inverse ? N_FIELD : N_COEFFICIENTS;
    float *out = malloc((size_t)n * sizeof *out);
    stn_tensor *x = test_tensor(context, mesh, placements, STN_DTYPE_F32, inverse ? 4 : 3,
                                inverse ? coefficients : field, sizes, test_value);
    x = inverse ? stn_isht(stn_view_as_complex(x), NLAT, NLON, &gauss)
                : stn_view_as_real(stn_sht(x, LMAX, MMAX, &gauss));
    stn_to_host(stn_full_tensor(x), out, (size_t)n * sizeof *out);
    return out;
}

static stn_status bits_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 3), *one = test_mesh(context, 6, 0);
    const stn_placement placements[][2] = {{stn_shard(1), stn_shard(2)}, {stn_shard(2), stn_shard(1)},
                                           {stn_shard(2), stn_shard(2)}, {stn_shard(1), stn_shard(1)},
                                           {stn_shard(0), stn_shard(2)}, {stn_shard(1), stn_replicate()}};
    const int64_t uneven[] = {0, 7, 4}, *const sizes[STN_MAX_NDIM] = {NULL, NULL, uneven};
    (void)arg;
    for (int inverse = 0; inverse < 2; inverse++) {
        stn_scope_begin(context);
        const int n = inverse ? N_FIELD : N_COEFFICIENTS;
        const stn_placement whole = stn_replicate();
        float *want = transform_of(context, one, &whole, NULL, inverse);
        for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
            float *got = transform_of(context, mesh, placements[i], NULL, inverse);
            CHECK_BYTES(got, want, (size_t)n * sizeof *got);
            free(got);
        }
        if (inverse) {
            float *got = transform_of(context, mesh, placements[0], sizes, inverse);
            CHECK_BYTES(got, want, (size_t)n * sizeof *got);
            free(got);
        }
        free(want);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void bits_are_those_of_one_process(void)
{
    test_ranks(6, bits_body, NULL);
}

/* Which axes cut the last two dims of `x`. */
static void check_cut(const stn_tensor *x, int rows, int columns)
{
    const int ndim = stn_tensor_ndim(x);
    for (int axis = 0; axis < 2; axis++) {
        const stn_placement p = stn_spec_placement(stn_tensor_spec(x), axis);
        CHECK_I64(p.kind, STN_PLACE_SHARD);
        CHECK_I64(p.dim, axis == rows ? ndim - 2 : axis == columns ? ndim - 1 : -1);
    }
}

/* The exchanges of a transform of a leaf, and of its gradient. */
static void check_exchanges(stn_context *context, enum kind kind, stn_tensor *x, int64_t n)
{
    const struct transform t = {.kind = kind, .first = n, .second = n, .basis = gauss};
    x = stn_detach(x);
    stn_set_requires_grad(x, 1);
    test_stats_reset(context);
    stn_tensor *y = call_transform(&x, &t);
    CHECK_I64(test_stats_reset(context).redistributions, 3);
    CHECK_STATUS(stn_backward(stn_sum(stn_square(y), 0, NULL, 0)), STN_OK);
    CHECK_I64(test_stats_reset(context).redistributions, 3);
}

static stn_status moves_body(stn_context *context, void *arg)
{
    enum { N = 8, CHUNK = N * N / 4 * 8 /* bytes of a field's f64 */ };
    const int64_t shape[] = {N, N, N};
    const stn_placement both[] = {stn_shard(1), stn_shard(2)}, fields[] = {stn_shard(0), stn_replicate()};
    const stn_mesh *mesh = test_mesh(context, 2, 2);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, both, STN_DTYPE_F64, 3, shape, NULL, test_value);
    stn_tensor *y = test_tensor(context, mesh, fields, STN_DTYPE_F64, 3, shape, NULL, test_value);
    test_stats_reset(context);
    stn_tensor *c = stn_sht(x, 4, 4, &gauss);
    stn_stats stats = test_stats_reset(context);
    check_cut(c, 0, 1);
    CHECK_I64(stats.redistributions, 3);
    /* The field once, half of its waves once, and its coefficients once. */
    CHECK(stats.bytes_sent <= N * (CHUNK + CHUNK + 4 * 4 / 4 * 16));
    stn_tensor *back = stn_isht(c, N, N, &gauss);
    stats = test_stats_reset(context);
    check_cut(back, 0, 1);
    CHECK_I64(stats.redistributions, 3);
    stn_tensor *vectors = stn_stack(2, (stn_tensor *[]){x, x}, 1);
    check_exchanges(context, SHT, x, 4);
    check_exchanges(context, ISHT, stn_view_as_real(c), N);
    check_exchanges(context, VSHT, vectors, 4);
    check_exchanges(context, IVSHT, stn_view_as_real(stn_vsht(vectors, 4, 4, &gauss)), N);
    test_stats_reset(context);
    c = stn_sht(y, 0, 0, &gauss);
    stn_isht(c, N, N, &gauss);
    stats = test_stats_reset(context);
    CHECK_I64(stats.redistributions, 0);
    CHECK_I64(stats.bytes_sent, 0);
    return stn_scope_end(context);
}

static void each_cut_dim_costs_one_exchange_and_one_leads_back(void)
{
    test_ranks(4, moves_body, NULL);
}

/* Degrees are cut as latitudes are, orders as longitudes; and back. */
static stn_status proportions_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {8, 12}, rows[] = {6, 2}, columns[] = {2, 0, 10}, *const sizes[] = {rows, columns};
    const stn_placement both[] = {stn_shard(0), stn_shard(1)};
    int64_t got[3];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 3), both, STN_DTYPE_F64, 2, shape, sizes, test_value);
    stn_tensor *c = stn_sht(x, 4, 6, &gauss);
    CHECK_I64(stn_spec_sizes(stn_tensor_spec(c), 0, got), 2);
    CHECK(got[0] == 3 && got[1] == 1);
    CHECK_I64(stn_spec_sizes(stn_tensor_spec(c), 1, got), 3);
    CHECK(got[0] == 1 && got[1] == 0 && got[2] == 5);
    CHECK(stn_tensor_spec(stn_isht(c, 8, 12, &gauss)) == stn_tensor_spec(x));
    return stn_scope_end(context);
}

static void degrees_and_orders_are_cut_in_proportion(void)
{
    test_ranks(6, proportions_body, NULL);
}

/* Where orders take the cuts of latitudes, low ones, which have more functions, are fewer. */
static stn_status orders_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, 16, 16, 2};
    const stn_placement rows = stn_shard(1);
    const struct stni_legendre_function of = {.weighted = 1};
    int64_t sizes[3], cost[3] = {0}, m = 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_view_as_complex(
        test_tensor(context, test_mesh(context, 3, 0), &rows, STN_DTYPE_F64, 4, shape, NULL, test_value));
    stn_tensor *c = stni_legendre_analysis(x, &of, 16);
    CHECK_I64(stn_spec_sizes(stn_tensor_spec(c), 2, sizes), 3);
    CHECK_I64(sizes[0] + sizes[1] + sizes[2], 16);
    for (int piece = 0; piece < 3; piece++)
        for (int64_t i = 0; i < sizes[piece]; i++)
            cost[piece] += 16 - m++ + 2;
    for (int piece = 0; piece < 3; piece++)
        CHECK(cost[piece] > 42 && cost[piece] < 70); /* 168 in all */
    return stn_scope_end(context);
}

static void orders_are_cut_by_what_they_cost(void)
{
    test_ranks(3, orders_body, NULL);
}

/* There and back, of whatever the field is by then. */
static stn_status captured_body(stn_context *context, void *arg)
{
    enum { CAPTURED_NLAT = 6, CAPTURED_NLON = 8, CAPTURED = CAPTURED_NLAT * CAPTURED_NLON };
    const int64_t shape[] = {CAPTURED_NLAT, CAPTURED_NLON};
    const stn_placement both[] = {stn_shard(0), stn_shard(1)};
    double want[CAPTURED];
    stn_step *step = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 2), both, STN_DTYPE_F64, 2, shape, NULL, test_value);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *y = stn_isht(stn_sht(x, 0, 0, &gauss), CAPTURED_NLAT, CAPTURED_NLON, &gauss);
    if (CHECK_STATUS(stn_capture_end(context, &step), STN_OK)) {
        stn_mul_number_(x, -3);
        CHECK_STATUS(stn_step_run(step), STN_OK);
        test_read(stn_isht(stn_sht(x, 0, 0, &gauss), CAPTURED_NLAT, CAPTURED_NLON, &gauss), want, CAPTURED);
        test_compare(y, want, CAPTURED, 1e-13); /* on a device not by the same library */
    }
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void a_captured_step_transforms_anew(void)
{
    test_ranks(4, captured_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[64];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {4, 6}}, zeros);
    stn_tensor *z = stn_cast(x, STN_DTYPE_C64);
    stn_tensor *row = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {1, 6}}, zeros);
    const stn_sht_basis old = {.size = 4};
    CHECK_REFUSED(context, stn_sht(z, 0, 0, NULL), STN_ERR_DTYPE, "sht: 'input' got c64, wanted f32 or f64");
    CHECK_REFUSED(context, stn_isht(x, 4, 6, NULL), STN_ERR_DTYPE, "isht: 'input' got f32, wanted c64 or c128");
    CHECK_REFUSED(context, stn_sht(x, -1, 0, NULL), STN_ERR_ARGUMENT, "sht: 'lmax' got -1, wanted 1 to 32768");
    CHECK_REFUSED(context, stn_sht(x, 2, 5, NULL), STN_ERR_ARGUMENT,
                  "sht: 'mmax' got 5, wanted at most nlon / 2 + 1 = 4");
    CHECK_REFUSED(context, stn_isht(z, 4, 9, NULL), STN_ERR_ARGUMENT,
                  "isht: the input's mmax got 6, wanted at most nlon / 2 + 1 = 5");
    CHECK_REFUSED(context, stn_isht(z, 1, 12, NULL), STN_ERR_ARGUMENT, "isht: 'nlat' got 1, wanted 2 to 32768");
    CHECK_REFUSED(context, stn_isht(z, 32769, 12, NULL), STN_ERR_ARGUMENT, "isht: 'nlat' got 32769, wanted 2 to 32768");
    CHECK_REFUSED(context, stn_isht(z, 4, 0, NULL), STN_ERR_ARGUMENT, "isht: 'nlon' got 0, wanted 1 to 131072");
    CHECK_REFUSED(context, stn_sht(row, 0, 0, NULL), STN_ERR_SHAPE,
                  "sht: 'input' got 1 x 6 elements along its last dims, wanted 2 to 32768 x at least 1");
    CHECK_REFUSED(context, stn_sht(stn_select(x, 0, 0), 0, 0, NULL), STN_ERR_SHAPE,
                  "sht: 'input' got 1 dims, wanted at least 2");
    CHECK_REFUSED(context, stn_vsht(x, 0, 0, NULL), STN_ERR_SHAPE, "vsht: 'input' got 2 dims, wanted at least 3");
    CHECK_REFUSED(context, stn_ivsht(stn_unsqueeze(z, 0), 4, 12, NULL), STN_ERR_SHAPE,
                  "ivsht: 'input' got 1 components along dim 0, wanted 2");
    CHECK_REFUSED(context, stn_sht(x, 0, 0, &old), STN_ERR_ARGUMENT,
                  "sht: 'basis' got size 4, wanted sizeof(stn_sht_basis)");
    CHECK_REFUSED(context, stn_sht(x, 0, 0, &(stn_sht_basis)BASIS((stn_sht_grid)7, STN_SHT_ORTHO, 0)), STN_ERR_ARGUMENT,
                  "sht: attribute 'grid' got 7, wanted 0 to 2");
    CHECK_REFUSED(context, stn_degree_power(x), STN_ERR_DTYPE, "degree_power: 'input' got f32, wanted c64 or c128");
    CHECK_REFUSED(context, stn_degree_power(stn_select(z, 0, 0)), STN_ERR_SHAPE,
                  "degree_power: 'input' got 1 dims, wanted at least 2");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"bits_are_those_of_one_process", bits_are_those_of_one_process},
        {"each_cut_dim_costs_one_exchange_and_one_leads_back", each_cut_dim_costs_one_exchange_and_one_leads_back},
        {"degrees_and_orders_are_cut_in_proportion", degrees_and_orders_are_cut_in_proportion},
        {"orders_are_cut_by_what_they_cost", orders_are_cut_by_what_they_cost},
        {"a_captured_step_transforms_anew", a_captured_step_transforms_anew},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
