/* pad_sphere on ranks: drawn grids, widths and layouts against a walk over the sphere, position by position; its
 * gradients; a convolution of the whole sphere; what travels, what is refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static const int worlds[] = {1, 2, 3, 6};

struct sphere {
    int lat_dim, lon_dim;
    int64_t lat, lon;
    stn_poles poles;
};

static stn_tensor *call_pad(stn_tensor *const *in, const void *arg)
{
    const struct sphere *s = arg;
    return stn_pad_sphere(in[0], s->lat, s->lon, s->lat_dim, s->lon_dim, s->poles);
}

/* Walks from a row and a column, which may lie beyond the ends, to those of the grid: over a pole to the other half. */
static void walk(const struct sphere *s, int64_t rows, int64_t columns, int64_t *row, int64_t *column)
{
    const int64_t on = s->poles == STN_POLES_ON_ROWS;
    if (*row < 0 || *row >= rows) {
        *row = *row < 0 ? -1 - *row + on : 2 * rows - 1 - *row - on;
        *column += columns / 2;
    }
    *column = (*column + 2 * columns) % columns;
}

static int from_front(int dim, int ndim)
{
    return dim < 0 ? dim + ndim : dim;
}

static void pad_shape(const struct sphere *s, int ndim, const int64_t *shape, int64_t *padded)
{
    memcpy(padded, shape, (size_t)ndim * sizeof *padded);
    padded[from_front(s->lat_dim, ndim)] += 2 * s->lat;
    padded[from_front(s->lon_dim, ndim)] += 2 * s->lon;
}

/* The linear index in the grid of element i of the padded tensor. */
static int64_t source_of(const struct sphere *s, int ndim, const int64_t *shape, int64_t i)
{
    const int lat = from_front(s->lat_dim, ndim), lon = from_front(s->lon_dim, ndim);
    int64_t padded[STN_MAX_NDIM], at[STN_MAX_NDIM], index = 0;
    pad_shape(s, ndim, shape, padded);
    for (int d = ndim - 1; d >= 0; i /= padded[d], d--)
        at[d] = i % padded[d];
    at[lat] -= s->lat, at[lon] -= s->lon;
    walk(s, shape[lat], shape[lon], &at[lat], &at[lon]);
    for (int d = 0; d < ndim; d++)
        index = index * shape[d] + at[d];
    return index;
}

/* Two to four dims, rows and columns anywhere among them, widths up to all there are. */
static void draw_grid(uint64_t *state, struct random_shape *shape, struct sphere *s)
{
    *shape = (struct random_shape){.ndim = 2 + (int)world_random(state, 3)};
    for (int d = 0; d < shape->ndim; d++)
        shape->shape[d] = 1 + (int64_t)world_random(state, 3);
    const int lat = (int)world_random(state, (uint64_t)shape->ndim),
              lon = (lat + 1 + (int)world_random(state, (uint64_t)shape->ndim - 1)) % shape->ndim;
    *s = (struct sphere){.poles = world_random(state, 2) ? STN_POLES_BETWEEN_ROWS : STN_POLES_ON_ROWS};
    const int64_t rows = world_random(state, 20) ? 1 + (int64_t)world_random(state, 5) : 0,
                  columns = world_random(state, 20) ? 2 + 2 * (int64_t)world_random(state, 4) : 0,
                  most = s->poles == STN_POLES_ON_ROWS && rows > 0 ? rows - 1 : rows;
    shape->shape[lat] = rows, shape->shape[lon] = columns;
    s->lat = (int64_t)world_random(state, (uint64_t)most + 1);
    s->lon = (int64_t)world_random(state, (uint64_t)columns + 1);
    s->lat_dim = lat - (int)world_random(state, 2) * shape->ndim;
    s->lon_dim = lon - (int)world_random(state, 2) * shape->ndim;
}

static void pad_plainly(const struct sphere *s, const struct elements *e, struct elements *out)
{
    out->dtype = e->dtype, out->ndim = e->ndim, out->n = 1;
    pad_shape(s, e->ndim, e->shape, out->shape);
    for (int d = 0; d < e->ndim; d++)
        out->n *= out->shape[d];
    for (int64_t i = 0; i < out->n; i++)
        out->v[i] = e->v[source_of(s, e->ndim, e->shape, i)];
}

static stn_status values_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    struct elements *e = calloc(2, sizeof *e);
    (void)arg;
    for (int i = 0; i < 10 * STN_DTYPE_COUNT; i++) {
        struct random_shape shape;
        struct sphere s;
        stn_scope_begin(context);
        draw_grid(&state, &shape, &s);
        elements_draw(&e[0], (stn_dtype)(i % STN_DTYPE_COUNT), shape.ndim, shape.shape, &state);
        pad_plainly(&s, &e[0], &e[1]);
        const stn_mesh *mesh = random_mesh(&state, context);
        stn_tensor *x = layout_tensor_drawn(context, mesh, &e[0], &state);
        if (stn_mesh_contains_me(mesh))
            layout_check(call_pad(&x, &s), &e[1], "padded");
        else
            call_pad(&x, &s);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
            break;
    }
    free(e);
    return STN_OK;
}

static void elements_of_every_dtype_are_those_of_a_walk_over_the_sphere(void)
{
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], values_body, NULL);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 91;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        struct sphere s;
        struct against_one_op op = {.call = call_pad, .arg = &s, .n_in = 1, .tolerance = 1e-14};
        struct random_shape shape;
        draw_grid(&state, &shape, &s);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void gradients_in_every_layout_are_those_of_one_process(void)
{
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], layouts_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 7;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct sphere s;
        struct against_one_op op = {.call = call_pad, .arg = &s, .n_in = 1};
        struct random_shape shape;
        draw_grid(&state, &shape, &s);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 0};
        against_one_differences(context, &state, &op);
        free(values);
    }
    return STN_OK;
}

static void gradients_are_those_of_differences(void)
{
    test_ranks(1, differences_body, NULL);
}

/* The adjoint of y, where y and what was padded lie as drawn. */
static void pull_back(stn_context *context, uint64_t *state, const struct random_shape *shape, const struct sphere *s,
                      const double *y, double *out)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    struct random_shape padded = {.ndim = shape->ndim};
    pad_shape(s, shape->ndim, shape->shape, padded.shape);
    const stn_spec *in = random_spec(state, context, mesh, shape, STN_DTYPE_F64, 0),
                   *of_y = random_spec(state, context, mesh, &padded, STN_DTYPE_F64, 1u << STN_SUM);
    stn_tensor *x = stn_zeros(context, in), *cotangent = against_one_tensor(context, of_y, y), *grad;
    stn_set_requires_grad(x, 1);
    stn_tensor *padded_x = call_pad(&x, s);
    CHECK_STATUS(stn_grad(context, 1, &padded_x, &cotangent, 1, &x, 0, 0, &grad), STN_OK);
    test_read(grad, out, against_one_numel(shape));
    stn_spec_release(&in);
    stn_spec_release(&of_y);
}

/* Each place of an element gives it its cotangent: against a loop, and <pad(x), y> = <x, its adjoint of y>. */
static void check_adjoint(stn_context *context, uint64_t *state, const struct random_shape *shape,
                          const struct sphere *s)
{
    struct random_shape padded = {.ndim = shape->ndim};
    pad_shape(s, shape->ndim, shape->shape, padded.shape);
    const int64_t n = against_one_numel(shape), n_padded = against_one_numel(&padded);
    double *x = against_one_draw(state, n), *y = against_one_draw(state, n_padded), forth = 0, back = 0;
    double *got = calloc((size_t)n + 1, sizeof *got), *want = calloc((size_t)n + 1, sizeof *want);
    pull_back(context, state, shape, s, y, got);
    for (int64_t i = 0; i < n_padded; i++) {
        const int64_t source = source_of(s, shape->ndim, shape->shape, i);
        want[source] += y[i];
        forth += x[source] * y[i];
    }
    for (int64_t i = 0; i < n; i++) {
        CHECK_NEAR(got[i], want[i], 1e-12);
        back += x[i] * got[i];
    }
    CHECK_NEAR(back, forth, 1e-11);
    free(x), free(y), free(got), free(want);
}

static stn_status adjoint_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct random_shape shape;
        struct sphere s;
        stn_scope_begin(context);
        draw_grid(&state, &shape, &s);
        check_adjoint(context, &state, &shape, &s);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
            return STN_OK;
    }
    return STN_OK;
}

static void cotangents_of_margins_go_back_to_where_they_came_from(void)
{
    test_ranks(1, adjoint_body, NULL);
    test_ranks(3, adjoint_body, NULL);
}

/* A rank's chunk with margins is a part of the padded whole. */
static void check_chunk(stn_tensor *x, const struct sphere *s)
{
    enum { ROWS = 5, COLUMNS = 8, MOST = 2 * (ROWS + 2 * ROWS) * (COLUMNS + 2 * COLUMNS) };
    stn_halo halo = {.size = sizeof halo, .poles = s->poles, .latitude = 1, .longitude = 2};
    double whole[MOST], chunk[MOST];
    const int64_t width[] = {0, s->lat, s->lon}, columns = COLUMNS + 2 * s->lon, rows = ROWS + 2 * s->lat;
    halo.below[1] = halo.above[1] = s->lat;
    halo.below[2] = halo.above[2] = s->lon;
    halo.mode[2] = STN_PADDING_CIRCULAR;
    test_read(call_pad(&x, s), whole, 2 * rows * columns);
    stn_tensor *local = stn_halo_pad(x, &halo, STN_GRAD_REPLICATED);
    const int64_t *shape = stn_tensor_shape(local), *offset = stn_spec_local_offset(stn_tensor_spec(x));
    CHECK_STATUS(stn_to_host(local, chunk, (size_t)(shape[0] * shape[1] * shape[2]) * sizeof *chunk), STN_OK);
    for (int64_t i = 0, k = 0; i < shape[0]; i++)
        for (int64_t row = 0; row < shape[1]; row++)
            for (int64_t column = 0; column < shape[2]; column++)
                CHECK_NEAR(chunk[k++], whole[((offset[0] + i) * rows + offset[1] + row) * columns + offset[2] + column],
                           0);
    CHECK(shape[1] == 0 || shape[1] == stn_tensor_local_shape(x)[1] + 2 * width[1]);
}

static stn_status chunks_body(stn_context *context, void *arg)
{
    static const char *const layouts[] = {"S1,S2", "S2,S1", "S1,S1", "S2,S2", "S0,S2", "R,S1"};
    static const int64_t shape[] = {2, 5, 8};
    const stn_mesh *mesh = test_mesh(context, 2, stn_context_size(context) / 2);
    (void)arg;
    for (int i = 0; i < 12; i++) {
        struct sphere s = {1, 2, 1 + i % 4, 1 + i % 3, i < 6 ? STN_POLES_BETWEEN_ROWS : STN_POLES_ON_ROWS};
        double values[80];
        stn_scope_begin(context);
        for (int k = 0; k < 80; k++)
            values[k] = test_value(k);
        const stn_spec *spec = stn_spec_of(mesh, STN_DTYPE_F64, layouts[i % 6], 3, shape);
        check_chunk(against_one_tensor(context, spec, values), &s);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
            return STN_OK;
    }
    return STN_OK;
}

static void chunks_with_margins_are_parts_of_the_padded_whole(void)
{
    test_ranks(4, chunks_body, NULL);
    test_ranks(6, chunks_body, NULL);
}

enum { LAT = 5, LON = 6, REACH = 2, KERNEL = 2 * REACH + 1 };

/* One channel in, one out. */
static double convolved(const struct sphere *s, const double *x, const double *weight, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t i = 0; i < KERNEL; i++)
        for (int64_t k = 0; k < KERNEL; k++) {
            int64_t at[] = {row + i - REACH, column + k - REACH};
            walk(s, LAT, LON, &at[0], &at[1]);
            sum += weight[i * KERNEL + k] * x[at[0] * LON + at[1]];
        }
    return sum;
}

static stn_status convolution_body(stn_context *context, void *arg)
{
    static const char *const layouts[] = {"S2,S3", "S3,S2", "S2,S2", "S3,S3", "P,S2", "S3,R"};
    static const int64_t shape[] = {1, 1, LAT, LON}, kernel[] = {1, 1, KERNEL, KERNEL};
    const stn_mesh *mesh = test_mesh(context, 2, stn_context_size(context) / 2);
    double x[LAT * LON], weight[KERNEL * KERNEL], got[LAT * LON];
    (void)arg;
    for (int i = 0; i < LAT * LON; i++)
        x[i] = test_value(i);
    for (int i = 0; i < KERNEL * KERNEL; i++)
        weight[i] = test_value(100 + i);
    for (int l = 0; l < 12; l++) {
        struct sphere s = {2, 3, REACH, REACH, l % 2 ? STN_POLES_BETWEEN_ROWS : STN_POLES_ON_ROWS};
        stn_scope_begin(context);
        stn_tensor *field = against_one_tensor(context, stn_spec_of(mesh, STN_DTYPE_F64, layouts[l / 2], 4, shape), x);
        stn_tensor *w = against_one_tensor(context, stn_spec_of(mesh, STN_DTYPE_F64, "R,R", 4, kernel), weight);
        test_read(stn_conv2d(call_pad(&field, &s), w, NULL, NULL), got, LAT * LON);
        for (int i = 0; i < LAT * LON; i++)
            CHECK_NEAR(got[i], convolved(&s, x, weight, i / LON, i % LON), 1e-12);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
            return STN_OK;
    }
    return STN_OK;
}

static void a_convolution_of_the_result_is_one_of_the_whole_sphere(void)
{
    test_ranks(4, convolution_body, NULL);
    test_ranks(6, convolution_body, NULL);
}

/* What a gradient sends, and in how many calls. */
static stn_stats stats_of_gradient(stn_context *context, stn_tensor *y, stn_tensor *x)
{
    stn_tensor *grad, *cotangent = stn_detach(y);
    test_stats_reset(context);
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &x, 0, 0, &grad), STN_OK);
    return test_stats_reset(context);
}

/* 4 x 6 on 2 ranks. Each has 3 columns, and 4 with margins: of those that it shows of each of 4 rows the other has one,
 * and three of each of the 2 turned ones. Backward also agrees once, as that of a roll that moves nothing does. With 2
 * rows each has all that it shows. */
static stn_status bytes_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {4, 6}, one[] = {1};
    const stn_placement rows[] = {stn_shard(0)}, columns[] = {stn_shard(1)};
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_tensor *x = stn_detach(test_tensor(context, mesh, columns, STN_DTYPE_F32, 2, shape, NULL, test_value));
    stn_set_requires_grad(x, 1);
    stn_pad_sphere(x, 1, 1, 0, 1, STN_POLES_ON_ROWS); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    stn_tensor *y = stn_pad_sphere(x, 1, 1, 0, 1, STN_POLES_ON_ROWS);
    CHECK_I64(test_stats(context).collectives, 1);
    CHECK_I64(test_stats_reset(context).bytes_sent, (4 + 2 * 3) * 4);
    const stn_stats back = stats_of_gradient(context, y, x),
                    agreed = stats_of_gradient(context, stn_roll(x, 1, one, (const int[]){0}), x);
    CHECK_I64((int64_t)(back.collectives - agreed.collectives), 1);
    CHECK_I64((int64_t)(back.bytes_sent - agreed.bytes_sent), (4 + 2 * 3) * 4);
    stn_tensor *z = test_tensor(context, mesh, rows, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_context_stats_reset(context);
    stn_pad_sphere(z, 1, 1, 0, 1, STN_POLES_BETWEEN_ROWS);
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(test_stats(context).allocations, 1);
    return stn_scope_end(context);
}

static void one_exchange_moves_what_changes_ranks(void)
{
    test_ranks(2, bytes_body, NULL);
}

/* The largest of what ranks hold is found when it is asked for. */
static stn_status pending_body(stn_context *context, void *arg)
{
    static const struct sphere s = {0, 1, 2, 1, STN_POLES_BETWEEN_ROWS};
    const int64_t shape[] = {3, 4};
    const int rank = stn_context_rank(context);
    double held[12], got[42];
    (void)arg;
    stn_scope_begin(context);
    const stn_spec *spec = stn_spec_of(test_mesh(context, 2, 0), STN_DTYPE_F64, "P(max)", 2, shape);
    for (int i = 0; i < 12; i++)
        held[i] = i % 2 == rank ? test_value(i) : -2;
    stn_tensor *x = stn_from_host(context, spec, held), *y = call_pad(&x, &s);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_PARTIAL);
    test_read(y, got, 42);
    for (int i = 0; i < 42; i++)
        CHECK_NEAR(got[i], test_value(source_of(&s, 2, shape, i)), 0);
    return stn_scope_end(context);
}

static void whatever_is_pending_stays(void)
{
    test_ranks(2, pending_body, NULL);
}

/* Nine places of each element: 256 and eight ones, of which bf16 would lose each that is added to it alone. */
static stn_status halves_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, 2};
    stn_placement rows[] = {stn_shard(0)};
    double cotangents[36], got[4];
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_tensor *x = stn_detach(
        stn_cast(test_tensor(context, mesh, rows, STN_DTYPE_F32, 2, shape, NULL, test_value), STN_DTYPE_BF16));
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_pad_sphere(x, 2, 2, 0, 1, STN_POLES_BETWEEN_ROWS), *grad;
    for (int i = 0; i < 36; i++)
        cotangents[i] = i / 6 / 2 == 1 && i % 6 / 2 == 1 ? 256 : 1;
    const stn_spec *padded = stn_spec_of(mesh, STN_DTYPE_F64, "R", 2, (int64_t[]){6, 6});
    stn_tensor *c = stn_cast(against_one_tensor(context, padded, cotangents), STN_DTYPE_BF16);
    CHECK_STATUS(stn_grad(context, 1, &y, &c, 1, &x, 0, 0, &grad), STN_OK);
    CHECK_I64(stn_tensor_dtype(grad), STN_DTYPE_BF16);
    test_read(stn_cast(grad, STN_DTYPE_F32), got, 4);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(got[i], 264, 0);
    return stn_scope_end(context);
}

static void sums_of_halves_are_taken_in_f32(void)
{
    test_ranks(2, halves_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const stn_poles between = STN_POLES_BETWEEN_ROWS, on = STN_POLES_ON_ROWS;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int64_t grid[] = {3, 4}, odd[] = {3, 5};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_zeros(context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 2, grid));
    stn_tensor *y = stn_zeros(context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 2, odd));
    stn_tensor *line = stn_zeros(context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 1, grid));
    stn_context_stats_reset(context);
    CHECK_REFUSED(context, stn_pad_sphere(x, 4, 0, 0, 1, between), STN_ERR_SHAPE,
                  "pad_sphere: 'lat' got 4, wanted 0 to 3: the rows beyond a pole are the grid's own");
    CHECK_REFUSED(context, stn_pad_sphere(x, 3, 0, 0, 1, on), STN_ERR_SHAPE,
                  "pad_sphere: 'lat' got 3, wanted 0 to 2: the rows beyond a pole are the grid's own");
    CHECK_REFUSED(context, stn_pad_sphere(x, -1, 0, 0, 1, on), STN_ERR_SHAPE,
                  "pad_sphere: 'lat' got -1, wanted 0 to 2: the rows beyond a pole are the grid's own");
    CHECK_REFUSED(context, stn_pad_sphere(x, 0, 5, 0, 1, between), STN_ERR_SHAPE,
                  "pad_sphere: 'lon' got 5, wanted 0 to 4: margins go around once");
    CHECK_REFUSED(context, stn_pad_sphere(x, INT64_MAX, INT64_MIN, 0, 1, on), STN_ERR_SHAPE,
                  "pad_sphere: 'lat' got 9223372036854775807, wanted 0 to 2: the rows beyond a pole are the "
                  "grid's own");
    CHECK_REFUSED(context, stn_pad_sphere(x, 1, 1, -1, 0, between), STN_ERR_SHAPE,
                  "pad_sphere: 'lon_dim' has 3 elements, wanted an even number of them to turn over the poles");
    CHECK_REFUSED(context, stn_pad_sphere(y, 0, 1, 0, 1, between), STN_ERR_SHAPE,
                  "pad_sphere: 'lon_dim' has 5 elements, wanted an even number of them to turn over the poles");
    CHECK_REFUSED(context, stn_pad_sphere(x, 1, 1, -1, 1, between), STN_ERR_ARGUMENT,
                  "pad_sphere: 'lat_dim' and 'lon_dim' got -1 and 1, wanted two dims");
    CHECK_REFUSED(context, stn_pad_sphere(x, 1, 1, 2, 1, between), STN_ERR_ARGUMENT,
                  "pad_sphere: 'lat_dim' got 2, wanted -2 <= lat_dim < 2");
    CHECK_REFUSED(context, stn_pad_sphere(x, 1, 1, 0, -3, between), STN_ERR_ARGUMENT,
                  "pad_sphere: 'lon_dim' got -3, wanted -2 <= lon_dim < 2");
    CHECK_REFUSED(context, stn_pad_sphere(line, 1, 1, 0, 1, between), STN_ERR_SHAPE,
                  "pad_sphere: 'input' got 1 dims, wanted latitudes and longitudes");
    CHECK_REFUSED(context, stn_pad_sphere(x, 1, 1, 0, 1, STN_POLES_NONE), STN_ERR_ARGUMENT,
                  "pad_sphere: 'poles' got 0, wanted STN_POLES_BETWEEN_ROWS or STN_POLES_ON_ROWS");
    stn_tensor *long_one = stn_zeros(context, stn_spec_of(mesh, STN_DTYPE_U8, "S0", 2, (int64_t[]){INT64_MAX / 2, 0}));
    CHECK_REFUSED(context, stn_pad_sphere(long_one, INT64_MAX / 2, 0, 0, 1, between), STN_ERR_SHAPE,
                  "pad_sphere: 'lat' and 'lon' got 4611686018427387903 and 0, wanted sizes in int64");
    CHECK_I64(test_stats(context).collectives, 0);
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"elements_of_every_dtype_are_those_of_a_walk_over_the_sphere",
         elements_of_every_dtype_are_those_of_a_walk_over_the_sphere},
        {"gradients_in_every_layout_are_those_of_one_process", gradients_in_every_layout_are_those_of_one_process},
        {"gradients_are_those_of_differences", gradients_are_those_of_differences},
        {"cotangents_of_margins_go_back_to_where_they_came_from",
         cotangents_of_margins_go_back_to_where_they_came_from},
        {"chunks_with_margins_are_parts_of_the_padded_whole", chunks_with_margins_are_parts_of_the_padded_whole},
        {"a_convolution_of_the_result_is_one_of_the_whole_sphere",
         a_convolution_of_the_result_is_one_of_the_whole_sphere},
        {"one_exchange_moves_what_changes_ranks", one_exchange_moves_what_changes_ranks},
        {"whatever_is_pending_stays", whatever_is_pending_stays},
        {"sums_of_halves_are_taken_in_f32", sums_of_halves_are_taken_in_f32},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
