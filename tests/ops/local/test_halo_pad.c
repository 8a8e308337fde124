/* Chunks with margins, over the poles too, and their adjoint: in random layouts, widths and modes against the
 * definition, position by position. */
#include "core/shard/mesh.h"
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

enum { WIDE = 5 }; /* wider than many chunks */

/* What stands at a position of an endless line: an element of the n, or -1 for a zero. */
static int64_t element_at(stn_padding_mode mode, int64_t n, int64_t at)
{
    const int64_t period = 2 * (n - 1);
    if (at >= 0 && at < n)
        return at;
    switch (mode) {
    case STN_PADDING_ZEROS: break;
    case STN_PADDING_REPLICATE: return at < 0 ? 0 : n - 1;
    case STN_PADDING_CIRCULAR: return (at % n + n) % n;
    case STN_PADDING_REFLECT: at = (at % period + period) % period; return at < n ? at : period - at;
    }
    return -1;
}

/* The row that one meets who walks on over a pole. */
static int64_t row_beyond(stn_poles poles, int64_t n, int64_t at)
{
    const int64_t on = poles == STN_POLES_ON_ROWS;
    return at < 0 ? -1 - at + on : 2 * n - 1 - at - on;
}

struct drawn {
    struct random_shape shape;
    stn_halo halo;
};

/* The linear index of the element at a position, -1 for a zero. */
static int64_t index_at(const struct drawn *c, const int64_t *position)
{
    int64_t at[STN_MAX_NDIM], index = 0;
    memcpy(at, position, (size_t)c->shape.ndim * sizeof *at);
    const int lat = c->halo.latitude, lon = c->halo.longitude;
    const int is_beyond = c->halo.poles && (at[lat] < 0 || at[lat] >= c->shape.shape[lat]);
    if (is_beyond) {
        at[lat] = row_beyond(c->halo.poles, c->shape.shape[lat], at[lat]);
        at[lon] += c->shape.shape[lon] / 2;
    }
    for (int d = 0; d < c->shape.ndim; d++) {
        const int64_t element = element_at(c->halo.mode[d], c->shape.shape[d], at[d]);
        if (element < 0)
            return -1;
        index = index * c->shape.shape[d] + element;
    }
    return index;
}

static void draw_poles(uint64_t *state, struct drawn *c)
{
    const int lat = (int)world_random(state, (uint64_t)c->shape.ndim), lon = (lat + 1) % c->shape.ndim;
    c->halo.poles = (stn_poles)(1 + world_random(state, 2));
    c->halo.latitude = lat, c->halo.longitude = lon;
    c->shape.shape[lon] += c->shape.shape[lon] % 2;
    c->halo.mode[lon] = STN_PADDING_CIRCULAR;
    for (int d = 0; d < c->shape.ndim; d++)
        if (d != lat && d != lon)
            c->halo.below[d] = c->halo.above[d] = 0;
    const int64_t most = c->shape.shape[lat] - (c->halo.poles == STN_POLES_ON_ROWS);
    c->halo.below[lat] = most > 0 ? (int64_t)world_random(state, (uint64_t)most + 1) : 0;
    c->halo.above[lat] = most > 0 ? (int64_t)world_random(state, (uint64_t)most + 1) : 0;
}

static void draw(uint64_t *state, struct drawn *c)
{
    memset(c, 0, sizeof *c);
    random_shape(state, &c->shape);
    c->halo.size = sizeof c->halo;
    for (int d = 0; d < c->shape.ndim && d < STN_MAX_HALO_NDIM; d++) {
        const int64_t n = c->shape.shape[d], mode = (int64_t)world_random(state, 4);
        int64_t most = mode == STN_PADDING_REFLECT && n <= WIDE ? n - 1 : d == 0 ? WIDE : 2;
        most = most < 0 || (n == 0 && mode != STN_PADDING_ZEROS) ? 0 : most;
        c->halo.mode[d] = (stn_padding_mode)mode;
        c->halo.below[d] = (int64_t)world_random(state, (uint64_t)most + 1);
        c->halo.above[d] = (int64_t)world_random(state, (uint64_t)most + 1);
    }
    if (c->shape.ndim >= 2 && world_random(state, 2))
        draw_poles(state, c);
}

/* One rank's chunk with margins. */
struct padded {
    int ndim;
    int64_t shape[STN_MAX_NDIM], first[STN_MAX_NDIM], n; /* position of its first element */
};

static struct padded padded_of(const struct drawn *c, const stn_spec *spec, int rank)
{
    struct padded p = {.ndim = c->shape.ndim, .n = 1};
    stn_spec_chunk(spec, rank, p.shape, p.first);
    for (int d = 0; d < p.ndim; d++) {
        p.first[d] -= c->halo.below[d];
        p.shape[d] += p.shape[d] > 0 ? c->halo.below[d] + c->halo.above[d] : 0;
        p.n *= p.shape[d];
    }
    return p;
}

static int64_t source_of(const struct drawn *c, const struct padded *p, int64_t i)
{
    int64_t position[STN_MAX_NDIM];
    for (int d = p->ndim - 1; d >= 0; d--) {
        position[d] = p->first[d] + i % p->shape[d];
        i /= p->shape[d];
    }
    return index_at(c, position);
}

static double weight(int owner, int64_t i)
{
    return test_value(1000 * owner + i);
}

/* Whose weights a rank has: its own, or those of the first of all ranks that hold the same chunk. */
static int owner_of(const stn_spec *spec, int rank, stn_grad_convention convention)
{
    int coordinate[STN_MAX_MESH_NDIM];
    const stn_mesh *mesh = stn_spec_mesh(spec);
    if (convention == STN_GRAD_PER_RANK || !stni_mesh_find(mesh, rank, coordinate))
        return rank;
    for (int a = 0; a < stn_mesh_ndim(mesh); a++)
        if (stn_spec_placement(spec, a).kind != STN_PLACE_SHARD)
            coordinate[a] = 0;
    return stn_mesh_rank_at(mesh, coordinate);
}

static stn_tensor *weights_of(stn_context *context, const struct padded *p, int owner)
{
    const stn_spec *spec;
    double *data = calloc((size_t)p->n + 1, sizeof *data);
    for (int64_t i = 0; i < p->n; i++)
        data[i] = weight(owner, i);
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, p->ndim, p->shape, NULL, &spec);
    stn_tensor *tensor = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    free(data);
    return tensor;
}

/* Each element gets what stands at all its places, of every rank; replicas count once where they are one value. */
static void add_up(const struct drawn *c, const stn_spec *spec, int world, stn_grad_convention convention, double *sum)
{
    for (int r = 0; r < world; r++) {
        const struct padded p = padded_of(c, spec, r);
        const int owner = owner_of(spec, r, convention);
        int coordinate[STN_MAX_MESH_NDIM];
        if (!stni_mesh_find(stn_spec_mesh(spec), r, coordinate) || (convention == STN_GRAD_REPLICATED && owner != r))
            continue;
        for (int64_t i = 0; i < p.n; i++)
            if (source_of(c, &p, i) >= 0)
                sum[source_of(c, &p, i)] += weight(owner, i);
    }
}

static void check_padded(const struct drawn *c, const struct padded *p, stn_tensor *tensor, const double *values)
{
    double *got = calloc((size_t)p->n + 1, sizeof *got);
    CHECK(stn_spec_mesh(stn_tensor_spec(tensor)) == NULL);
    for (int d = 0; d < p->ndim; d++)
        CHECK_I64(stn_tensor_shape(tensor)[d], p->shape[d]);
    CHECK_STATUS(stn_to_host(tensor, got, (size_t)p->n * sizeof *got), STN_OK);
    for (int64_t i = 0; i < p->n; i++)
        CHECK_NEAR(got[i], source_of(c, p, i) < 0 ? 0 : values[source_of(c, p, i)], 1e-13);
    free(got);
}

/* The spec without pending reductions: that of gradients, and of what margins are fetched from. */
static stn_spec const *whole_of(const stn_spec *spec)
{
    const stn_spec *whole;
    CHECK_STATUS(stn_gradient_spec(spec, &whole), STN_OK);
    return whole;
}

/* Forward, gradient, the derivative of the gradient; then the adjoint, and its gradient. */
static void check_case(stn_context *context, const struct drawn *c, const stn_spec *spec,
                       stn_grad_convention convention, const double *values, const double *others)
{
    const stn_spec *whole = whole_of(spec);
    const int rank = stn_context_rank(context),
              has_rank = stn_mesh_contains_me(stn_spec_mesh(spec)) || c->shape.ndim > 0;
    struct padded p = padded_of(c, whole, rank);
    const int64_t n = against_one_numel(&c->shape);
    double *sum = calloc((size_t)n + 1, sizeof *sum);
    stn_tensor *x = against_one_tensor(context, spec, values), *h = against_one_tensor(context, whole, others), *grad,
               *back;
    stn_tensor *w = weights_of(context, &p, owner_of(whole, rank, convention));
    stn_set_requires_grad(x, 1);
    stn_set_requires_grad(w, 1);
    add_up(c, whole, stn_context_size(context), convention, sum);
    stn_tensor *y = stn_halo_pad(x, &c->halo, convention);
    CHECK_STR(stn_tensor_is_error(y) ? stn_context_error_text(context) : "", "");
    if (has_rank)
        check_padded(c, &p, y, values);
    CHECK_STATUS(stn_grad(context, 1, &y, &w, 1, &x, 1, 1, &grad), STN_OK);
    against_one_compare(grad, sum, 1e-12);
    CHECK_STATUS(stn_grad(context, 1, &grad, &h, 1, &w, 0, 0, &back), STN_OK);
    if (has_rank)
        check_padded(c, &p, back, others);
    if (convention == STN_GRAD_REPLICATED) {
        stn_tensor *added = stn_halo_unpad_add(w, whole, &c->halo, convention);
        against_one_compare(added, sum, 1e-12);
        CHECK_STATUS(stn_grad(context, 1, &added, &h, 1, &w, 0, 0, &back), STN_OK);
        if (has_rank)
            check_padded(c, &p, back, others);
    }
    stn_spec_release(&whole);
    free(sum);
}

static stn_status body(stn_context *context, void *arg)
{
    uint64_t state = 77;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        struct drawn c;
        stn_scope_begin(context);
        draw(&state, &c);
        const int64_t n = against_one_numel(&c.shape);
        double *values = against_one_draw(&state, n), *others = against_one_draw(&state, n);
        const stn_mesh *mesh = random_mesh(&state, context);
        const stn_spec *spec = random_spec(&state, context, mesh, &c.shape, STN_DTYPE_F64, 1u << STN_SUM);
        check_case(context, &c, spec, i % 2 ? STN_GRAD_PER_RANK : STN_GRAD_REPLICATED, values, others);
        stn_spec_release(&spec);
        free(values);
        free(others);
        if (!CHECK_STATUS(stn_scope_end(context), STN_OK))
            return STN_OK;
    }
    return STN_OK;
}

static void margins_and_their_adjoint_are_those_of_one_process(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], body, NULL);
}

/* Thousands of elements go to one, whose sum keeps its digits. All terms are numbers of either dtype. */

static double narrow_weight(int64_t i)
{
    return 1 + (double)(37 * i % 128) / 128;
}

static stn_tensor *narrow_weights(stn_context *context, const struct padded *p, stn_dtype dtype)
{
    const stn_spec *spec;
    double *data = calloc((size_t)p->n + 1, sizeof *data);
    for (int64_t i = 0; i < p->n; i++)
        data[i] = narrow_weight(i);
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, p->ndim, p->shape, NULL, &spec);
    stn_tensor *tensor = stn_cast(stn_from_host(context, spec, data), dtype);
    stn_spec_release(&spec);
    free(data);
    return tensor;
}

static void check_narrow(stn_context *context, const struct drawn *c, stn_dtype dtype, double bound)
{
    enum { MOST = 64 };
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement rows = stn_shard(0);
    const int64_t n = against_one_numel(&c->shape);
    double sum[MOST] = {0}, got[MOST];
    stn_scope_begin(context);
    const stn_spec *spec = stn_tensor_spec(stn_cast(
        test_tensor(context, mesh, &rows, STN_DTYPE_F64, c->shape.ndim, c->shape.shape, NULL, test_value), dtype));
    for (int r = 0; r < stn_context_size(context); r++) {
        const struct padded p = padded_of(c, spec, r);
        for (int64_t i = 0; i < p.n; i++)
            sum[source_of(c, &p, i)] += narrow_weight(i);
    }
    const struct padded mine = padded_of(c, spec, stn_context_rank(context));
    stn_tensor *added = stn_halo_unpad_add(narrow_weights(context, &mine, dtype), spec, &c->halo, STN_GRAD_REPLICATED);
    test_read(stn_cast(added, STN_DTYPE_F64), got, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], sum[i], bound);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status narrow_body(stn_context *context, void *arg)
{
    static const struct drawn wide[] = {
        {.shape = {2, {7, 3}},
         .halo = {sizeof(stn_halo), .below = {200, 40}, .above = {300, 2},
                  .mode = {STN_PADDING_REPLICATE, STN_PADDING_REPLICATE}}},
        {.shape = {2, {6, 5}},
         .halo = {sizeof(stn_halo), .below = {2, 1500}, .above = {1, 900},
                  .mode = {STN_PADDING_CIRCULAR, STN_PADDING_REPLICATE}}},
        {.shape = {1, {9}},
         .halo = {sizeof(stn_halo), .below = {4000}, .above = {9000}, .mode = {STN_PADDING_REPLICATE}}},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        check_narrow(context, &wide[i], STN_DTYPE_F16, 4 * 0x1p-11);
        check_narrow(context, &wide[i], STN_DTYPE_BF16, 4 * 0x1p-8);
    }
    return STN_OK;
}

static void margins_of_sixteen_bits_are_summed_in_f32(void)
{
    test_ranks(1, narrow_body, NULL);
    test_ranks(3, narrow_body, NULL);
}

/* The library's own pad of the whole, sliced. */
static stn_status pad_body(stn_context *context, void *arg)
{
    static const stn_pad_mode modes[] = {STN_PAD_CONSTANT, STN_PAD_REFLECT, STN_PAD_REPLICATE, STN_PAD_CIRCULAR};
    static const int64_t rows[] = {1, 4, 0}, *const sizes[] = {NULL, NULL, rows, NULL}, shape[] = {1, 2, 5, 6};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const stn_placement cut = stn_shard(2);
    (void)arg;
    for (int m = 0; m < 4; m++) {
        stn_halo halo = {.size = sizeof halo, .below = {0, 0, 4, 1}, .above = {0, 0, 2, 3}};
        stn_scope_begin(context);
        halo.mode[2] = halo.mode[3] = (stn_padding_mode)m;
        stn_tensor *x = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 4, shape, sizes, test_value);
        stn_tensor *padded = stn_pad(stn_full_tensor(x), 4, (int64_t[]){1, 3, 4, 2}, modes[m], 0);
        const int64_t begin = stn_spec_local_offset(stn_tensor_spec(x))[2], n = rows[stn_context_rank(context)];
        stn_tensor *want = stn_narrow(padded, 2, begin, n > 0 ? n + 6 : 0),
                   *got = stn_halo_pad(x, &halo, STN_GRAD_PER_RANK);
        double a[2 * 11 * 10] = {0}, b[2 * 11 * 10] = {0};
        const size_t bytes = n > 0 ? 2 * 10 * (size_t)(n + 6) * sizeof *a : 0;
        CHECK_STATUS(stn_to_host(want, a, bytes), STN_OK);
        CHECK_STATUS(stn_to_host(got, b, bytes), STN_OK);
        CHECK_BYTES(b, a, sizeof a);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_padded_chunk_is_a_slice_of_the_padded_whole(void)
{
    test_ranks(3, pad_body, NULL);
}

/* Rows in longitudes of two ranks: what a pole brings from the other side is one message, and nothing else is sent. */
static stn_status traffic_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement columns = stn_shard(1);
    const stn_halo halo = {.size = sizeof halo,
                           .below = {1, 0},
                           .above = {0, 0},
                           .mode = {STN_PADDING_ZEROS, STN_PADDING_CIRCULAR},
                           .poles = STN_POLES_BETWEEN_ROWS,
                           .latitude = 0,
                           .longitude = 1};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &columns, STN_DTYPE_F64, 2, (int64_t[]){4, 6}, NULL, test_value);
    stn_queue_sync(stn_context_queue(context));
    stn_context_stats_reset(context);
    CHECK(!stn_tensor_is_error(stn_halo_pad(x, &halo, STN_GRAD_PER_RANK)));
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 1);
    CHECK_I64(stats.bytes_sent, 3 * (int64_t)sizeof(double));
    return stn_scope_end(context);
}

static void a_pole_brings_the_other_side_alone(void)
{
    test_ranks(2, traffic_body, NULL);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement rows = stn_shard(0);
    stn_stats stats = {.size = sizeof stats};
    stn_halo negative = {.size = sizeof negative, .below = {-1}},
             wide = {.size = sizeof wide, .above = {5}, .mode = {STN_PADDING_REFLECT}};
    stn_halo pole = {.size = sizeof pole,
                     .below = {1},
                     .mode = {0, STN_PADDING_CIRCULAR},
                     .poles = STN_POLES_ON_ROWS,
                     .longitude = 1};
    stn_halo ok = {.size = sizeof ok, .below = {1}};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, (int64_t[]){5, 3}, NULL, test_value);
    stn_context_stats_reset(context);
    stn_halo_pad(x, &negative, STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "halo_pad: halo: below[0] and above[0] got -1 and 0, wanted widths of 0 or more");
    stn_halo_pad(x, &wide, STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_SHAPE,
           "halo_pad: halo: below[0] and above[0] got 0 and 5, wanted less than the dim's 5 elements to reflect");
    stn_halo_pad(x, &pole, STN_GRAD_PER_RANK);
    CHECK_ERROR(
        context, STN_ERR_ARGUMENT,
        "halo_pad: halo: longitude got 3 elements and mode 3, wanted an even number of them and STN_PADDING_CIRCULAR "
        "to turn them over the poles");
    pole.longitude = 0;
    stn_halo_pad(x, &pole, STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
           "halo_pad: halo: latitude and longitude got 0 and 0, wanted two of the tensor's 2 dims");
    stn_halo_pad(x, &ok, (stn_grad_convention)7);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "halo_pad: convention got 7, wanted STN_GRAD_PER_RANK or STN_GRAD_REPLICATED");
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.messages, 0);
    stn_halo_unpad_add(stn_to_local(x, STN_GRAD_PER_RANK), stn_tensor_spec(x), &ok, STN_GRAD_PER_RANK);
    CHECK_ERROR(context, STN_ERR_SHAPE,
           stn_context_rank(context) == 0
               ? "halo_unpad_add: local got shape (3, 3), wanted this rank's chunk with its margins (4, 3)"
               : "halo_unpad_add: local got shape (2, 3), wanted this rank's chunk with its margins (3, 3)");
    return stn_scope_end(context);
}

static void bad_widths_and_poles_are_refused_before_anything_is_sent(void)
{
    test_ranks(2, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"margins_and_their_adjoint_are_those_of_one_process", margins_and_their_adjoint_are_those_of_one_process},
        {"margins_of_sixteen_bits_are_summed_in_f32", margins_of_sixteen_bits_are_summed_in_f32},
        {"a_padded_chunk_is_a_slice_of_the_padded_whole", a_padded_chunk_is_a_slice_of_the_padded_whole},
        {"a_pole_brings_the_other_side_alone", a_pole_brings_the_other_side_alone},
        {"bad_widths_and_poles_are_refused_before_anything_is_sent",
         bad_widths_and_poles_are_refused_before_anything_is_sent},
    };
    return TEST_MAIN(argc, argv, cases);
}
