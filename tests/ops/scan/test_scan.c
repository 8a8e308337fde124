/* cumsum, cumprod, cummax, cummin, logcumsumexp, and prod: layouts against one process with second derivatives,
 * zeros, NaN, ties, what moves, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ops/layouts.h"
#include "ops/scan/scan.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { SUM, PROD, MAX, MIN, LOGSUMEXP, AFFINE, EXCLUSIVE, LAGGED, ALL };

struct scan {
    enum kind kind;
    struct random_shape x;
    int dim, zeros; /* ALL: prod over dims 0 and `dim` */
};

static const struct scan scans[] = {
    {SUM, {3, {3, 7, 2}}, 1, 0},       {SUM, {1, {9}}, -1, 0},      {PROD, {2, {7, 3}}, 0, 0},         {PROD, {2, {4, 5}}, 1, 1},
    {PROD, {2, {4, 5}}, 1, 3},         {MAX, {3, {2, 6, 3}}, 1, 0}, {MIN, {2, {3, 8}}, -1, 0},         {LOGSUMEXP, {2, {6, 4}}, 0, 0},
    {LOGSUMEXP, {3, {2, 3, 5}}, 2, 0}, {AFFINE, {2, {3, 7}}, 1, 0}, {EXCLUSIVE, {2, {6, 3}}, 0, 1},    {LAGGED, {3, {2, 6, 2}}, 1, 0},
    {ALL, {3, {3, 2, 4}}, 2, 0},       {ALL, {3, {3, 2, 4}}, 2, 1}, {ALL, {3, {3, 2, 4}}, 2, 4},       {SUM, {0, {0}}, 0, 0},
    {LOGSUMEXP, {0, {0}}, -1, 0},      {MAX, {0, {0}}, 0, 0},      {MAX, {2, {0, 4}}, 1, 0},          {MIN, {2, {3, 0}}, 1, 0},
    {PROD, {2, {0, 3}}, 0, 0},         {ALL, {3, {3, 0, 2}}, 1, 0},
};
enum { N_SCANS = sizeof scans / sizeof *scans };

static stn_tensor *call_scan(stn_tensor *const *in, const void *arg)
{
    const struct scan *s = arg;
    switch (s->kind) {
    case SUM: return stn_cumsum(in[0], s->dim);
    case PROD: return stn_cumprod(in[0], s->dim);
    case MAX: return stn_cummax(in[0], s->dim, NULL);
    case MIN: return stn_cummin(in[0], s->dim, NULL);
    case LOGSUMEXP: return stn_logcumsumexp(in[0], s->dim);
    case AFFINE: return stni_affine_scan(in[0], in[1], s->dim, 0, STNI_SCAN_INCLUSIVE);
    case EXCLUSIVE: return stni_affine_scan(in[0], in[1], s->dim, 1, STNI_SCAN_EXCLUSIVE);
    case LAGGED: return stni_affine_scan(in[0], in[1], s->dim, 0, STNI_SCAN_LAGGED);
    case ALL: return stn_prod(in[0], 2, (int[]){0, s->dim}, 0);
    }
    return NULL;
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    (void)arg;
    for (int round = 0; round < test_draws(6); round++)
        for (int i = 0; i < N_SCANS; i++) {
            const struct scan *s = &scans[i];
            const int64_t n = against_one_numel(&s->x);
            double *x = against_one_draw(&state, n), *y = against_one_draw(&state, n);
            const int two = s->kind >= AFFINE && s->kind <= LAGGED;
            struct against_one_op op = {.call = call_scan, .arg = s, .n_in = two ? 2 : 1, .tolerance = 1e-11};
            for (int64_t k = 0; k < n; k++)
                x[k] += x[k] < 0 ? -0.3 : 0.3;
            for (int z = 0; z < s->zeros; z++)
                x[(5 * z + 1) % n] = 0;
            op.in[0] = (struct against_one_input){STN_DTYPE_F64, s->x, x, 1u << STN_SUM};
            op.in[1] = (struct against_one_input){STN_DTYPE_F64, s->x, y, 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            free(x), free(y);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

/* A plain loop for every dtype, along the middle one of three dims. */
static void expect(enum kind kind, const struct elements *in, struct elements *out, struct elements *index)
{
    const int64_t n = in->shape[1], step = in->shape[2];
    *out = *index = *in;
    out->dtype = kind <= PROD && !stn_dtype_is_differentiable(in->dtype) ? STN_DTYPE_I64 : in->dtype;
    index->dtype = STN_DTYPE_I64;
    for (int64_t at = 0; at < in->n; at++) {
        const int64_t i = at / step % n, from = i > 0 ? (int64_t)creal(index->v[at - step]) : 0;
        const double x = creal(in->v[at]), best = creal(in->v[at - (i - from) * step]);
        const double _Complex before = i > 0 ? out->v[at - step] : kind == PROD;
        const int wins = kind == MAX ? x >= best : x <= best;
        index->v[at] = (double)(wins ? i : from);
        out->v[at] = kind == SUM ? before + in->v[at] : kind == PROD ? before * in->v[at] : wins ? x : best;
    }
}

static stn_status dtypes_body(stn_context *context, void *arg)
{
    uint64_t seed = 5;
    (void)arg;
    for (int d = 0; d < 3 * STN_DTYPE_COUNT; d++)
        for (int k = SUM; k <= MIN; k++) {
            const stn_dtype dtype = (stn_dtype)(d % STN_DTYPE_COUNT);
            const int64_t shape[] = {2, k == PROD ? 3 : 7, 3};
            struct elements in, want, index;
            stn_tensor *at = NULL;
            if (k >= MAX && stni_dtype_is_complex(dtype))
                continue;
            stn_scope_begin(context);
            elements_draw(&in, dtype, 3, shape, &seed);
            expect((enum kind)k, &in, &want, &index);
            stn_tensor *x =
                layout_tensor_drawn(context, test_mesh(context, 3, stn_context_size(context) / 3), &in, &seed);
            stn_tensor *y = k == MAX   ? stn_cummax(x, 1, &at)
                            : k == MIN ? stn_cummin(x, 1, &at)
                            : k == SUM ? stn_cumsum(x, 1)
                                       : stn_cumprod(x, -2);
            layout_check(y, &want, "scan");
            if (at)
                layout_check(at, &index, "indices");
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void every_dtype_gives_what_a_loop_gives(void)
{
    test_ranks(3, dtypes_body, NULL);
    test_ranks(6, dtypes_body, NULL);
}

/* A NaN is the extreme from where it stands, and the sum of nothing is nothing, on whichever rank. */
static stn_status specials_body(stn_context *context, void *arg)
{
    enum { N = 7 };
    static const double values[N] = {-INFINITY, -2, 5, NAN, 7, 1000, 3};
    const int64_t shape[] = {N}, sizes[] = {2, 0, 5}, *const uneven[] = {sizes};
    const stn_placement cut = stn_shard(0);
    double got[N];
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_tensor *at;
    stn_spec_options options = {.size = sizeof options, .sizes = uneven};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &cut, STN_DTYPE_F64, 1, shape, &options, &spec), STN_OK);
    stn_tensor *x = against_one_tensor(context, spec, values);
    test_read(stn_cummax(x, 0, &at), got, N);
    CHECK_NEAR(got[2], 5, 0);
    for (int i = 3; i < N; i++)
        CHECK(isnan(got[i]));
    test_read(at, got, N);
    CHECK_NEAR(got[2], 2, 0);
    CHECK_NEAR(got[6], 3, 0);
    stn_tensor *finite = stn_masked_fill(x, stn_isnan(x), 6);
    test_read(stn_logcumsumexp(finite, 0), got, N);
    CHECK(got[0] == -INFINITY);
    CHECK_NEAR(got[1], -2, 1e-15);
    CHECK_NEAR(got[4], log(exp(-2) + exp(5) + exp(6) + exp(7)), 1e-15);
    CHECK_NEAR(got[5], 1000, 1e-15);
    CHECK_NEAR(got[6], 1000, 1e-15);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void nan_wins_and_infinities_do_not_make_one(void)
{
    test_ranks(3, specials_body, NULL);
}

enum { LINES = 19, LENGTH = 333 };

/* What element i of line l comes to in a plain loop. With NaNs where the dtype has them, and equal elements. */
static void loop_over_line(enum kind kind, const double *x, int64_t step, int64_t n, double *out, double *index)
{
    for (int64_t i = 0; i < n; i++) {
        const double v = x[i * step], last = i > 0 ? out[(i - 1) * step] : 0;
        const int takes = i == 0 || isnan(v) || (kind == MAX ? v >= last : v <= last);
        out[i * step] = kind == SUM ? last + v : takes ? v : last;
        index[i * step] = takes ? (double)i : index[(i - 1) * step];
    }
}

static void check_long(stn_tensor *x, int dim, enum kind kind)
{
    double in[LINES * LENGTH], wanted[LINES * LENGTH], index[LINES * LENGTH], got[LINES * LENGTH];
    stn_tensor *at = NULL, *y = kind == SUM   ? stn_cumsum(x, dim)
                                : kind == MAX ? stn_cummax(x, dim, &at)
                                              : stn_cummin(x, dim, &at);
    const int64_t lines = dim == 1 ? LINES : LENGTH, n = dim == 1 ? LENGTH : LINES, step = dim == 1 ? 1 : LENGTH;
    test_read(stn_cast(x, STN_DTYPE_F64), in, LINES * LENGTH);
    for (int64_t l = 0; l < lines; l++)
        loop_over_line(kind, in + l * (dim == 1 ? LENGTH : 1), step, n, wanted + l * (dim == 1 ? LENGTH : 1),
                       index + l * (dim == 1 ? LENGTH : 1));
    test_read(stn_cast(y, STN_DTYPE_F64), got, LINES * LENGTH);
    for (int i = 0; i < LINES * LENGTH; i++)
        CHECK(got[i] == wanted[i] || (isnan(got[i]) && isnan(wanted[i])));
    if (at) {
        test_read(stn_cast(at, STN_DTYPE_F64), got, LINES * LENGTH);
        CHECK_BYTES(got, index, sizeof got);
    }
}

/* Lines that are longer than what is compared or converted at once, along and across the memory, whole and cut. */
static stn_status long_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_I64,
                                       STN_DTYPE_I32, STN_DTYPE_U8,  STN_DTYPE_BOOL};
    const int64_t shape[] = {LINES, LENGTH};
    double values[LINES * LENGTH];
    (void)arg;
    for (int d = 0; d < (int)(sizeof dtypes / sizeof *dtypes); d++)
        for (int cut = 0; cut < 2; cut++) {
            const stn_placement placement = stn_shard(cut);
            const stn_spec *spec;
            for (int i = 0; i < LINES * LENGTH; i++)
                values[i] =
                    i % 997 == 500 && stni_dtype_is_floating(dtypes[d]) ? (double)NAN : (double)(i * 7919 % 200);
            stn_scope_begin(context);
            CHECK_STATUS(stn_spec_create(context, test_mesh(context, stn_context_size(context), 0), &placement,
                                         STN_DTYPE_F64, 2, shape, NULL, &spec),
                         STN_OK);
            stn_tensor *x = stn_cast(against_one_tensor(context, spec, values), dtypes[d]);
            stn_tensor *forms[] = {x, stn_select(stn_stack(2, (stn_tensor *[]){x, x}, 2), 2, 1)}; /* the second with a stride of 2 */
            for (int form = 0; form < 2; form++)
                for (int dim = 0; dim < 2; dim++)
                    for (int k = 0; k < 3; k++)
                        if (k > 0 || !stni_dtype_is_floating(dtypes[d]))
                            check_long(forms[form], dim, (const enum kind[]){SUM, MAX, MIN}[k]);
            stn_spec_release(&spec);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void long_lines_give_what_a_loop_gives(void)
{
    test_ranks(1, long_body, NULL);
    test_ranks(3, long_body, NULL);
}

/* One total per line and rank travels, whatever the number of elements; a pending sum of floats stays pending, with
 * nothing sent. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { ROWS = 60, COLS = 4 };
    const int64_t shape[] = {ROWS, COLS};
    const stn_placement rows = stn_shard(0), pending = stn_partial(STN_SUM);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_tensor *p = test_tensor(context, mesh, &pending, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_context_stats_reset(context);
    stn_cumsum(x, 0);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.collectives, 1);
    CHECK_I64(stats.bytes_sent, 2 * 2 * 8 * COLS);
    stn_context_stats_reset(context);
    stn_cumsum(x, 1);
    stn_tensor *y = stn_cumsum(p, 0);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.collectives, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_PARTIAL);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(stn_cumprod(p, 0)), 0).kind, STN_PLACE_REPLICATE);
    return stn_scope_end(context);
}

static void ranks_share_one_total_per_line(void)
{
    test_ranks(3, moves_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[16];
    char text[512];
    stn_tensor *at;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {3, 4}}, zeros);
    CHECK(stn_tensor_is_error(stn_cumsum(x, 2)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "cumsum: 'dim' got 2, wanted -2 <= dim < 2");
    CHECK(stn_tensor_is_error(stn_cummax(stn_cast(x, STN_DTYPE_C64), 0, &at)) && stn_tensor_is_error(at));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "cummax: 'input' got c64, wanted a dtype with an order");
    CHECK(stn_tensor_is_error(stn_logcumsumexp(stn_cast(x, STN_DTYPE_I64), 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "logcumsumexp: 'input' got i64, wanted a floating or complex dtype");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

static stn_status empty_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {2, 0};
    const stn_placement place = stn_shard(0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &place, STN_DTYPE_F64, 2,
                                shape, NULL, test_value),
               *grad = NULL;
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_logcumsumexp(x, 1);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &(stn_tensor *){stn_detach(y)}, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK_I64(grad ? stn_tensor_shape(grad)[1] : -1, 0);
    return stn_scope_end(context);
}

static void a_line_without_elements_has_a_gradient_without_elements(void)
{
    test_ranks(1, empty_body, NULL);
    test_ranks(3, empty_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"every_dtype_gives_what_a_loop_gives", every_dtype_gives_what_a_loop_gives},
        {"nan_wins_and_infinities_do_not_make_one", nan_wins_and_infinities_do_not_make_one},
        {"long_lines_give_what_a_loop_gives", long_lines_give_what_a_loop_gives},
        {"ranks_share_one_total_per_line", ranks_share_one_total_per_line},
        {"a_line_without_elements_has_a_gradient_without_elements",
         a_line_without_elements_has_a_gradient_without_elements},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
