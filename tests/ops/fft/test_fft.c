/* Fourier transforms on ranks: layouts against one process, the definition, what moves, what is refused. Complex
 * operands are pairs. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

struct transform {
    const char *op;
    struct random_shape x; /* of complex input: with the pairs' dim */
    int n_dims, dims[3];
    int64_t s[3]; /* 0: as it is */
    stn_fft_norm norm;
    enum { AS_INPUT, LEFT, TURNED } to; /* the result's layout */
};

static const struct transform transforms[] = {
    {"fft", {3, {3, 5, 2}}, 1, {1}, {0}, STN_FFT_BACKWARD, AS_INPUT},
    {"fft", {2, {4, 6}}, 1, {0}, {7}, STN_FFT_ORTHO, AS_INPUT}, /* of real numbers */
    {"ifft", {2, {7, 2}}, 1, {0}, {5}, STN_FFT_FORWARD, AS_INPUT},
    {"rfft", {2, {4, 7}}, 1, {-1}, {0}, STN_FFT_ORTHO, AS_INPUT},
    {"rfft", {2, {6, 3}}, 1, {0}, {8}, STN_FFT_FORWARD, AS_INPUT},
    {"irfft", {3, {4, 3, 2}}, 1, {0}, {0}, STN_FFT_BACKWARD, AS_INPUT},
    {"irfft", {3, {5, 3, 2}}, 1, {0}, {7}, STN_FFT_ORTHO, AS_INPUT},
    {"hfft", {2, {4, 2}}, 1, {0}, {0}, STN_FFT_FORWARD, AS_INPUT},
    {"ihfft", {2, {3, 6}}, 1, {1}, {0}, STN_FFT_BACKWARD, AS_INPUT},
    {"fftn", {4, {3, 4, 5, 2}}, 2, {0, 2}, {0}, STN_FFT_ORTHO, AS_INPUT},
    {"fftn", {4, {4, 3, 5, 2}}, 3, {0, 1, 2}, {3, -1, 6}, STN_FFT_BACKWARD, AS_INPUT},
    {"fftn", {3, {4, 6, 2}}, 2, {0, 1}, {0}, STN_FFT_BACKWARD, AS_INPUT},
    {"rfftn", {3, {4, 3, 5}}, 2, {2, 0}, {0}, STN_FFT_FORWARD, AS_INPUT},
    {"irfftn", {4, {3, 2, 4, 2}}, 2, {0, 2}, {4, 5}, STN_FFT_ORTHO, AS_INPUT},
    {"fft", {3, {0, 5, 2}}, 1, {1}, {6}, STN_FFT_ORTHO, AS_INPUT}, /* no lines, and lines of one element */
    {"rfft", {2, {6, 0}}, 1, {0}, {0}, STN_FFT_FORWARD, AS_INPUT},
    {"irfftn", {3, {3, 0, 2}}, 1, {0}, {4}, STN_FFT_BACKWARD, AS_INPUT},
    {"fftn", {3, {1, 1, 2}}, 2, {0, 1}, {0}, STN_FFT_FORWARD, AS_INPUT},
    {"fftn", {4, {3, 4, 5, 2}}, 2, {0, 2}, {0}, STN_FFT_ORTHO, LEFT},
    {"fftn", {4, {4, 3, 5, 2}}, 3, {0, 1, 2}, {3, -1, 6}, STN_FFT_BACKWARD, LEFT},
    {"ifftn", {3, {4, 6, 2}}, 2, {0, 1}, {0}, STN_FFT_BACKWARD, TURNED},
    {"ifftn", {4, {4, 6, 3, 2}}, 1, {1}, {0}, STN_FFT_BACKWARD, TURNED},
    {"rfftn", {3, {4, 3, 5}}, 2, {2, 0}, {0}, STN_FFT_FORWARD, LEFT},
    {"rfftn", {3, {5, 3, 6}}, 3, {0, 1, 2}, {0}, STN_FFT_ORTHO, TURNED},
    {"irfftn", {4, {3, 2, 4, 2}}, 2, {0, 2}, {4, 5}, STN_FFT_ORTHO, LEFT},
    {"irfftn", {4, {3, 5, 4, 2}}, 3, {0, 1, 2}, {0}, STN_FFT_ORTHO, TURNED},
    {"fftn", {3, {0, 5, 2}}, 2, {0, 1}, {2, 6}, STN_FFT_ORTHO, LEFT},
    {"rfftn", {2, {4, 0}}, 1, {0}, {0}, STN_FFT_ORTHO, LEFT},
};
enum { N_TRANSFORMS = sizeof transforms / sizeof *transforms };

static int takes_pairs(const struct transform *t)
{
    return t->x.shape[t->x.ndim - 1] == 2;
}

/* Axis a cuts dim a + 1, the last one none. One process has no mesh. */
static stn_tensor *call_to(stn_tensor *x, const struct transform *t)
{
    const stn_spec *spec = stn_tensor_spec(x);
    const stn_mesh *mesh = stn_spec_mesh(spec);
    const int64_t *s = t->s[0] ? t->s : NULL;
    stn_placement turned[STN_MAX_MESH_NDIM], *placements = mesh && t->to == TURNED ? turned : NULL;
    for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++)
        turned[a] = a + 1 < stn_spec_ndim(spec) ? stn_shard(a + 1) : stn_replicate();
    if (t->op[0] == 'f')
        return stn_fftn_to(x, t->n_dims, s, t->dims, t->norm, placements);
    if (t->op[0] == 'r')
        return stn_rfftn_to(x, t->n_dims, s, t->dims, t->norm, placements);
    if (t->op[1] == 'f')
        return stn_ifftn_to(x, t->n_dims, s, t->dims, t->norm, placements);
    return stn_irfftn_to(x, t->n_dims, s, t->dims, t->norm, placements);
}

static stn_tensor *call_transform(stn_tensor *const *in, const void *arg)
{
    const struct transform *t = arg;
    const char *op = t->op;
    stn_tensor *x = takes_pairs(t) ? stn_view_as_complex(in[0]) : in[0];
    const int64_t n = t->s[0];
    if (t->to != AS_INPUT) {
        x = call_to(x, t);
        return op[0] == 'i' && op[1] == 'r' ? x : stn_view_as_real(x);
    }
    if (op[0] == 'f')
        x = op[3] ? stn_fftn(x, t->n_dims, n ? t->s : NULL, t->dims, t->norm) : stn_fft(x, n, t->dims[0], t->norm);
    else if (op[0] == 'r')
        x = op[4] ? stn_rfftn(x, t->n_dims, n ? t->s : NULL, t->dims, t->norm) : stn_rfft(x, n, t->dims[0], t->norm);
    else if (op[0] == 'h')
        return stn_hfft(x, n, t->dims[0], t->norm);
    else if (op[1] == 'r')
        return op[5] ? stn_irfftn(x, t->n_dims, n ? t->s : NULL, t->dims, t->norm)
                     : stn_irfft(x, n, t->dims[0], t->norm);
    else
        x = op[1] == 'h' ? stn_ihfft(x, n, t->dims[0], t->norm) : stn_ifft(x, n, t->dims[0], t->norm);
    return stn_view_as_real(x);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 23;
    (void)arg;
    for (int round = 0; round < test_draws(8); round++)
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

/* By the definitions, with N = 6, from 4 elements: cut off or filled up. */
static stn_status values_body(stn_context *context, void *arg)
{
    enum { M = 4, N = 6 };
    double x[M], got[2 * N];
    (void)arg;
    for (int j = 0; j < M; j++)
        x[j] = test_value(j);
    stn_scope_begin(context);
    stn_tensor *input = against_one_local(context, STN_DTYPE_F64, &(struct random_shape){1, {M}}, x);
    for (int norm = STN_FFT_BACKWARD; norm <= STN_FFT_FORWARD; norm++) {
        const double there = norm == STN_FFT_ORTHO ? 1 / sqrt(N) : norm == STN_FFT_FORWARD ? 1.0 / N : 1;
        const double back = norm == STN_FFT_ORTHO ? 1 / sqrt(N) : norm == STN_FFT_BACKWARD ? 1.0 / N : 1;
        test_read(stn_view_as_real(stn_fft(input, N, 0, (stn_fft_norm)norm)), got, 2 * N);
        for (int k = 0; k < N; k++) {
            double _Complex want = 0;
            for (int j = 0; j < M; j++)
                want += there * x[j] * cexp(-2 * M_PI * I * j * k / N);
            CHECK(cabs(__builtin_complex(got[2 * k], got[2 * k + 1]) - want) < 1e-14);
        }
        test_read(stn_irfft(input, N, 0, (stn_fft_norm)norm), got, N);
        for (int k = 0; k < N; k++) {
            const double want = back * (x[0] + 2 * x[1] * cos(2 * M_PI * k / N) + 2 * x[2] * cos(4 * M_PI * k / N) +
                                        x[3] * cos(M_PI * k));
            CHECK(fabs(got[k] - want) < 1e-14);
        }
    }
    return stn_scope_end(context);
}

static void norms_and_lengths_are_those_of_the_definition(void)
{
    test_ranks(1, values_body, NULL);
}

/* What a rank sends with (p - 1) / p of its chunk in each exchange, and what it holds at most. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { ROWS = 12, COLS = 6, CHUNK = ROWS / 3 * COLS * 2 * 8 };
    const int64_t shape[] = {ROWS, COLS, 2};
    const stn_placement rows = stn_shard(0), pending = stn_partial(STN_SUM);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_view_as_complex(test_tensor(context, mesh, &rows, STN_DTYPE_F64, 3, shape, NULL, test_value));
    stn_tensor *p =
        stn_view_as_complex(test_tensor(context, mesh, &pending, STN_DTYPE_F64, 3, shape, NULL, test_value));
    stn_context_stats_reset(context);
    stn_tensor *y = stn_fft2(x, NULL, NULL, STN_FFT_BACKWARD);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.redistributions, 2);
    CHECK_I64(stats.bytes_sent, 2 * CHUNK * 2 / 3);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_SHARD);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).dim, 0);
    stn_context_stats_reset(context);
    stn_fft(x, 0, 1, STN_FFT_ORTHO);
    y = stn_fftn(p, 2, NULL, NULL, STN_FFT_BACKWARD);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.bytes_sent, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_PARTIAL);
    y = stn_rfft(stn_real(x), 0, 0, STN_FFT_BACKWARD); /* 7 of 12 rows, where they are */
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_SHARD);
    stn_context_stats_reset(context);
    stn_rfftn(stn_real(x), 2, NULL, (const int[]){1, 0}, STN_FFT_BACKWARD);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.redistributions, 2);
    return stn_scope_end(context);
}

static void a_cut_dim_costs_one_exchange_each_way(void)
{
    test_ranks(3, moves_body, NULL);
}

/* Two axes cut both dims that are transformed: nothing is gathered where a third one takes the cuts. */
static stn_status pencil_body(stn_context *context, void *arg)
{
    enum { N = 6, CHUNK = N * N * N / 6 * 2 * 8 };
    const int64_t shape[] = {N, N, N, 2};
    const stn_placement cut[] = {stn_shard(0), stn_shard(1)};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_view_as_complex(
        test_tensor(context, test_mesh(context, 2, 3), cut, STN_DTYPE_F64, 4, shape, NULL, test_value));
    stn_context_stats_reset(context);
    stn_fftn(x, 3, NULL, NULL, STN_FFT_BACKWARD);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.redistributions, 2);
    CHECK(stats.bytes_sent < 2 * CHUNK);
    stn_tensor *real = stn_real(x);
    stn_context_stats_reset(context);
    stn_tensor *half = stn_rfftn(real, 2, NULL, (const int[]){0, 1}, STN_FFT_BACKWARD);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.redistributions, 2);
    stn_context_stats_reset(context);
    stn_irfftn(half, 2, NULL, (const int[]){0, 1}, STN_FFT_BACKWARD);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.redistributions, 2);
    return stn_scope_end(context);
}

/* There and back: the last exchange of the one is not undone, and the other's is the only one. */
static stn_status left_body(stn_context *context, void *arg)
{
    enum { N = 12 };
    const int64_t shape[] = {N, N, N};
    const stn_placement cut[] = {stn_shard(0), stn_shard(1)};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    for (int is_real = 0; is_real < 2; is_real++) {
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, test_mesh(context, 2, 3), cut, STN_DTYPE_F64, 3, shape, NULL, test_value);
        if (!is_real)
            x = stn_cast(x, STN_DTYPE_C128);
        stn_set_requires_grad(x, 1);
        stn_context_stats_reset(context);
        stn_tensor *y = is_real ? stn_rfftn_to(x, 3, NULL, NULL, STN_FFT_ORTHO, NULL)
                                : stn_fftn_to(x, 3, NULL, NULL, STN_FFT_ORTHO, NULL);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.redistributions, 1);
        stn_context_stats_reset(context);
        stn_tensor *z = is_real ? stn_irfftn_to(y, 3, shape, NULL, STN_FFT_ORTHO, cut)
                                : stn_ifftn_to(y, 3, NULL, NULL, STN_FFT_ORTHO, cut);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.redistributions, 1);
        CHECK(stn_tensor_spec(z) == stn_tensor_spec(x));
        stn_tensor *loss = stn_sum(is_real ? z : stn_real(z), 0, NULL, 0);
        stn_context_stats_reset(context);
        stn_backward(loss);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.redistributions, 2);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return stn_context_status(context);
}

static void what_stays_where_it_is_comes_back_by_one_exchange(void)
{
    test_ranks(6, left_body, NULL);
}

static void pencils_are_turned_not_gathered(void)
{
    test_ranks(6, pencil_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[16];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {3, 4}}, zeros);
    stn_tensor *z = stn_cast(x, STN_DTYPE_C64);
    CHECK_REFUSED(context, stn_fft(stn_cast(x, STN_DTYPE_BF16), 0, -1, STN_FFT_BACKWARD), STN_ERR_DTYPE,
                  "fft: 'input' got bf16, wanted f32, f64 or complex: there are no transforms of 16-bit floats");
    CHECK_REFUSED(context, stn_rfft(z, 0, -1, STN_FFT_BACKWARD), STN_ERR_DTYPE,
                  "rfft: 'input' got c64, wanted a real dtype");
    CHECK_REFUSED(context, stn_ifft(x, -3, 1, STN_FFT_BACKWARD), STN_ERR_ARGUMENT,
                  "ifft: 'n' got -3 points along dim 1, wanted at least 1");
    CHECK_REFUSED(context, stn_fftn(x, 2, NULL, (const int[]){1, -1}, STN_FFT_ORTHO), STN_ERR_ARGUMENT,
                  "fftn: 'dim' got -1 for a dim that it names already, wanted distinct dims");
    CHECK_REFUSED(context, stn_fftn_to(x, 0, NULL, NULL, STN_FFT_ORTHO, (const stn_placement[]){STN_R}),
                  STN_ERR_ARGUMENT, "fftn_to: 'placements' are given, wanted NULL for a local 'input'");
    CHECK_REFUSED(context, stn_view_as_complex(x), STN_ERR_SHAPE,
                  "view_as_complex: 'input' got shape (3, 4), wanted a last dim of 2");
    CHECK_REFUSED(context, stn_view_as_real(x), STN_ERR_DTYPE, "view_as_real: 'input' got f32, wanted a complex dtype");
    return stn_scope_end(context);
}

static stn_status placements_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {3, 4};
    const stn_placement rows = stn_shard(0), none = stn_shard(2), pending = stn_partial(STN_SUM);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), &rows, STN_DTYPE_F64, 2, shape, NULL, test_value);
    CHECK_REFUSED(context, stn_fftn_to(x, 2, NULL, NULL, STN_FFT_ORTHO, &none), STN_ERR_ARGUMENT,
                  "fftn_to: 'placements[0]' is neither Replicate nor Shard of one of the 2 dims");
    CHECK_REFUSED(context, stn_irfftn_to(x, 2, NULL, NULL, STN_FFT_ORTHO, &pending), STN_ERR_ARGUMENT,
                  "irfftn_to: 'placements[0]' is neither Replicate nor Shard of one of the 2 dims");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
    test_ranks(2, placements_body, NULL);
}

/* A context keeps 128 plans, and two for a transform of two dims: the one that fills the list, too. */
static stn_status many_plans_body(stn_context *context, void *arg)
{
    enum { SIZES = 150, OTHER = 4 };
    double at_once[SIZES * OTHER], in_turn[SIZES * OTHER];
    (void)arg;
    for (int64_t n = 1; n <= SIZES; n++) {
        const int64_t s[] = {n, OTHER};
        const struct random_shape shape = {2, {n, OTHER / 2 + 1}};
        double values[SIZES * OTHER];
        for (int64_t i = 0; i < n * OTHER; i++)
            values[i] = test_value(i);
        stn_scope_begin(context);
        stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shape, values);
        test_read(stn_irfft2(x, s, NULL, STN_FFT_BACKWARD), at_once, n * OTHER);
        test_read(stn_irfft(stn_ifft(x, 0, 0, STN_FFT_BACKWARD), OTHER, 1, STN_FFT_BACKWARD), in_turn, n * OTHER);
        for (int64_t i = 0; i < n * OTHER; i++)
            CHECK(fabs(at_once[i] - in_turn[i]) < 1e-14);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void two_dims_at_once_find_their_plans_among_many(void)
{
    test_ranks(1, many_plans_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"norms_and_lengths_are_those_of_the_definition", norms_and_lengths_are_those_of_the_definition},
        {"a_cut_dim_costs_one_exchange_each_way", a_cut_dim_costs_one_exchange_each_way},
        {"what_stays_where_it_is_comes_back_by_one_exchange", what_stays_where_it_is_comes_back_by_one_exchange},
        {"pencils_are_turned_not_gathered", pencils_are_turned_not_gathered},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
        {"two_dims_at_once_find_their_plans_among_many", two_dims_at_once_find_their_plans_among_many},
    };
    return TEST_MAIN(argc, argv, cases);
}
