/* Orders: ties and NaN of every dtype in drawn layouts against a plain loop; what crosses between ranks; what is
 * refused. */
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>

/* NaN is read as this. */
enum { NAN_READ = 99 };

/* Whether a comes before b; NaN is the greatest. */
static int before(double a, double b, int descending)
{
    if (isnan(a) || isnan(b))
        return descending ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
    return descending ? a > b : a < b;
}

/* The line of `e` along `dim` that begins at element `at`, in order: stable insertion. */
static void sort_line(const struct elements *e, int dim, int64_t at, int64_t step, int descending, int64_t *order)
{
    for (int64_t i = 0; i < e->shape[dim]; i++) {
        int64_t j = i;
        for (; j > 0 && before(creal(e->v[at + i * step]), creal(e->v[at + order[j - 1] * step]), descending); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
}

/* What sort gives of `e`, cut to the elements first … first + k - 1 of each line. */
static void sorted_part(const struct elements *e, int dim, int descending, int64_t first, int64_t k,
                        struct elements *values, struct elements *indices)
{
    int64_t order[LAYOUT_MAX_ELEMENTS] = {0}, step = 1, n = e->shape[dim], outer = 1;
    *values = *e;
    values->shape[dim] = k;
    for (int d = dim + 1; d < e->ndim; d++)
        step *= e->shape[d];
    for (int d = 0; d < dim; d++)
        outer *= e->shape[d];
    values->n = outer * k * step;
    *indices = *values;
    indices->dtype = STN_DTYPE_I64;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t s = 0; s < step; s++) {
            int64_t at = o * n * step + s;
            sort_line(e, dim, at, step, descending, order);
            for (int64_t i = 0; i < k; i++) {
                double v = creal(e->v[at + order[first + i] * step]);
                values->v[(o * k + i) * step + s] = isnan(v) ? NAN_READ : v;
                indices->v[(o * k + i) * step + s] = (double)order[first + i];
            }
        }
}

static void check_pair(stn_tensor *values, stn_tensor *indices, const struct elements *want_values,
                       const struct elements *want_indices, const char *what)
{
    const double nan = NAN_READ;
    if (want_values->dtype <= STN_DTYPE_F16)
        values = stn_nan_to_num(values, nan, NULL, NULL);
    layout_check(values, want_values, what);
    layout_check(indices, want_indices, what);
}

/* The lower median: of a line with NaN its first. */
static void median_of(const struct elements *e, int dim, struct elements *values, struct elements *indices)
{
    struct elements all_values, all_indices;
    const int64_t n = e->shape[dim];
    sorted_part(e, dim, 0, (n - 1) / 2, 1, values, indices);
    sorted_part(e, dim, 0, 0, n, &all_values, &all_indices);
    for (int64_t i = 0; i < values->n; i++) {
        int64_t step = 1;
        for (int d = dim + 1; d < e->ndim; d++)
            step *= e->shape[d];
        for (int64_t j = n - 1; j >= 0; j--) {
            int64_t at = (i / step * n + j) * step + i % step;
            if (creal(all_values.v[at]) == NAN_READ) {
                values->v[i] = NAN_READ;
                indices->v[i] = all_indices.v[at];
            }
        }
    }
}

/* The least element where NaN is less than all: what min gives. */
static void min_of(const struct elements *e, int dim, struct elements *values, struct elements *indices)
{
    struct elements turned = *e;
    for (int64_t i = 0; i < e->n; i++)
        turned.v[i] = -e->v[i];
    sorted_part(&turned, dim, 1, 0, 1, values, indices);
    for (int64_t i = 0; i < values->n; i++)
        values->v[i] = creal(values->v[i]) == NAN_READ ? NAN_READ : -values->v[i];
}

static void check_all(stn_tensor *x, const struct elements *e, int dim, uint64_t *seed)
{
    struct elements values, indices;
    stn_tensor *v, *i;
    const int64_t n = e->shape[dim], k = 1 + draw_below(seed, n);
    for (int descending = 0; descending < 2; descending++) {
        sorted_part(e, dim, descending, 0, n, &values, &indices);
        v = stn_sort(x, dim, descending, &i);
        check_pair(v, i, &values, &indices, "sort");
        layout_check(stn_argsort(x, dim - e->ndim, descending), &indices, "argsort");
        sorted_part(e, dim, descending, 0, k, &values, &indices);
        v = stn_topk(x, k, dim, descending, &i);
        check_pair(v, i, &values, &indices, "topk");
    }
    sorted_part(e, dim, 0, k - 1, 1, &values, &indices);
    v = stn_kthvalue(x, k, dim, 1, &i);
    check_pair(v, i, &values, &indices, "kthvalue");
    median_of(e, dim, &values, &indices);
    v = stn_median_dim(x, dim, 1, &i);
    check_pair(v, i, &values, &indices, "median");
    if (e->dtype <= STN_DTYPE_F64)
        layout_check(stn_nan_to_num(stn_quantile_dim(x, 0.5, dim, 1, STN_QUANTILE_LOWER), NAN_READ, NULL, NULL),
                     &values, "quantile");
    sorted_part(e, dim, 1, 0, 1, &values, &indices);
    v = stn_max_dim(x, dim, 1, &i);
    check_pair(v, i, &values, &indices, "max");
    layout_check(stn_argmax(x, &dim, 1), &indices, "argmax");
    min_of(e, dim, &values, &indices);
    v = stn_min_dim(x, dim, 1, &i);
    check_pair(v, i, &values, &indices, "min");
}

/* Without a dim: the tensor as one line. */
static void check_whole(stn_tensor *x, const struct elements *e)
{
    struct elements flat = *e, values, indices;
    flat.ndim = 1;
    flat.shape[0] = e->n;
    sorted_part(&flat, 0, 1, 0, 1, &values, &indices);
    values.ndim = indices.ndim = 0;
    check_pair(stn_max(x), stn_argmax(x, NULL, 0), &values, &indices, "max of all");
    min_of(&flat, 0, &values, &indices);
    values.ndim = indices.ndim = 0;
    check_pair(stn_min(x), stn_argmin(x, NULL, 0), &values, &indices, "min of all");
    sorted_part(&flat, 0, 1, 0, 1, &values, &indices);
    values.ndim = indices.ndim = 0;
    median_of(&flat, 0, &values, &indices);
    values.ndim = 0;
    if (e->dtype <= STN_DTYPE_F64)
        layout_check(stn_nan_to_num(stn_quantile(x, 0.5, STN_QUANTILE_LOWER), NAN_READ, NULL, NULL), &values,
                     "quantile of all");
    if (e->dtype <= STN_DTYPE_F16)
        layout_check(stn_nan_to_num(stn_median(x), NAN_READ, NULL, NULL), &values, "median of all");
    else
        layout_check(stn_median(x), &values, "median of all");
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16,
                                       STN_DTYPE_I64, STN_DTYPE_I32, STN_DTYPE_U8,   STN_DTYPE_BOOL, STN_DTYPE_I8, STN_DTYPE_I16};
    static const struct { int ndim; int64_t shape[3]; } shapes[] = {
        {1, {7}}, {1, {41}}, {2, {2, 9}}, {2, {30, 2}}, {3, {3, 4, 5}}, {3, {1, 11, 1}}, {2, {2, 600}}, /* several blocks of the kernels */
    };
    uint64_t seed = 5;
    const stn_mesh *mesh = arg ? test_mesh(context, 2, 3) : test_mesh(context, stn_context_size(context), 0);
    for (int round = 0; round < test_draws(70); round++) {
        const int s = round % 7, dim = (int)draw_below(&seed, shapes[s].ndim);
        struct elements e;
        stn_scope_begin(context);
        elements_draw(&e, dtypes[(round + round / 10) % 10], shapes[s].ndim, shapes[s].shape, &seed);
        for (int64_t i = 0; round % 3 == 0 && e.dtype <= STN_DTYPE_F16 && i < e.n; i++)
            e.v[i] = draw_below(&seed, 8) ? e.v[i] : NAN;
        stn_tensor *x = layout_tensor_drawn(context, mesh, &e, &seed);
        check_all(x, &e, dim, &seed);
        check_whole(x, &e);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void ties_and_nan_of_every_dtype_are_ordered_as_by_a_plain_loop(void)
{
    test_ranks(1, layouts_body, NULL);
    test_ranks(3, layouts_body, NULL);
    test_ranks(6, layouts_body, NULL);
    test_ranks(6, layouts_body, "2x3");
}

static int64_t bytes_since(stn_context *context, int64_t before)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.bytes_sent - before;
}

/* 3 ranks; the line is 3,000 or 6,000 elements of 4 bytes. */
static stn_status bytes_body(stn_context *context, void *arg)
{
    const stn_placement cut = stn_shard(0);
    int64_t chosen[2], sorted[2];
    (void)arg;
    for (int i = 0; i < 2; i++) {
        const int64_t n = 3000 * (i + 1);
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), &cut, STN_DTYPE_F32, 1, &n, NULL, test_value),
                   *indices;
        stn_sort(x, 0, 0, NULL); /* makes communicators */
        int64_t before = bytes_since(context, 0);
        stn_max_dim(x, 0, 0, NULL);
        CHECK_I64(bytes_since(context, before), 2 * 16); /* a pair to each other rank */
        before = bytes_since(context, 0);
        stn_topk(x, 5, 0, 1, NULL);
        CHECK_I64(bytes_since(context, before), 2 * 5 * 16);
        before = bytes_since(context, 0);
        stn_kthvalue(x, n / 3, 0, 0, NULL);
        chosen[i] = bytes_since(context, before);
        before = bytes_since(context, 0);
        stn_tensor *values = stn_sort(x, 0, 0, &indices);
        sorted[i] = bytes_since(context, before);
        CHECK(stn_tensor_spec(values) == stn_tensor_spec(x));
        CHECK_I64(stn_spec_local_numel(stn_tensor_spec(indices)), n / 3);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_I64(chosen[0], chosen[1]); /* both have indices of two bytes */
    CHECK(sorted[1] - sorted[0] <= 1000 * (4 + 8)); /* what a rank has more, at most */
    return STN_OK;
}

static void candidates_and_counts_cross_and_not_the_data(void)
{
    test_ranks(3, bytes_body, NULL);
}

static double few(int64_t i)
{
    return (double)(i * 7919 % 613);
}

static int64_t held(stn_context *context, int64_t live)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.peak_bytes - live;
}

static int64_t live_now(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.live_bytes;
}

/* A line of 60,000 elements with many ties: its sorted form is in order, a stable one, and a choice is what stands
 * there; on 3 ranks, a third of the line and what is needed for it is held, while sorting 28 bytes an element with
 * the result, while choosing next to nothing. */
static stn_status long_body(stn_context *context, void *arg)
{
    enum { N = 60000, BUFFER = 64 << 10 };
    static const int64_t n = N;
    const stn_placement cut = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const int64_t own = N / stn_context_size(context);
    double *values = malloc(N * sizeof(double)), *indices = malloc(N * sizeof(double)), at;
    stn_tensor *i, *v;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &cut, STN_DTYPE_F32, 1, &n, NULL, few);
    stn_sort(x, 0, 0, NULL); /* makes communicators */
    int64_t live = live_now(context);
    v = stn_sort(x, 0, 0, &i);
    CHECK(held(context, live) <= 28 * own + BUFFER);
    test_read(v, values, N);
    test_read(i, indices, N);
    for (int64_t k = 0; k < N; k++) {
        CHECK(values[k] == few((int64_t)indices[k]));
        CHECK(k == 0 || values[k - 1] < values[k] || (values[k - 1] == values[k] && indices[k - 1] < indices[k]));
    }
    live = live_now(context);
    v = stn_kthvalue(x, 12346, 0, 0, &i);
    CHECK(held(context, live) <= BUFFER);
    test_read(v, &at, 1);
    CHECK_NEAR(at, values[12345], 0);
    test_read(i, &at, 1);
    CHECK_NEAR(at, indices[12345], 0);
    test_read(stn_median(x), &at, 1);
    CHECK_NEAR(at, values[(N - 1) / 2], 0);
    free(values);
    free(indices);
    return stn_scope_end(context);
}

static void long_lines_take_no_more_memory_than_they_need(void)
{
    test_ranks(1, long_body, NULL);
    test_ranks(3, long_body, NULL);
}

static stn_status unasked_body(stn_context *context, void *arg)
{
    struct elements e = {.dtype = STN_DTYPE_F32, .ndim = 2, .shape = {6, 48}, .n = 288};
    const stn_placement cut = stn_shard(0);
    stn_tensor *indices;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = layout_tensor_placed(context, test_mesh(context, 2, 0), &e, &cut);
    test_stats_reset(context);
    stn_sort(x, 0, 0, NULL);
    const int64_t values = test_stats_reset(context).bytes_sent;
    stn_sort(x, 0, 0, &indices);
    /* Half of the elements go to the other dim, and back with an index each. */
    CHECK_I64(values, 2 * (3 * 24) * 4);
    CHECK_I64(test_stats_reset(context).bytes_sent, 2 * (3 * 24) * 4 + (3 * 24) * 8);
    return stn_scope_end(context);
}

static void indices_that_nobody_asked_for_are_not_moved(void)
{
    test_ranks(2, unasked_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    struct elements c = {.dtype = STN_DTYPE_C64, .ndim = 1, .shape = {2}, .n = 2},
                    e = {.dtype = STN_DTYPE_F32, .ndim = 2, .shape = {2, 3}, .n = 6};
    struct elements none = {.dtype = STN_DTYPE_F32, .ndim = 2, .shape = {2, 0}};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *z = layout_tensor_placed(context, mesh, &c, &cut), *x = layout_tensor_placed(context, mesh, &e, &cut);
    stn_tensor *empty = layout_tensor_placed(context, mesh, &none, &cut);
    CHECK_REFUSED(context, stn_max(z), STN_ERR_DTYPE, "max: 'input' got c64, wanted a dtype with an order");
    CHECK_REFUSED(context, stn_sort(z, 0, 0, NULL), STN_ERR_DTYPE,
                  "sort: 'input' got c64, wanted a dtype with an order");
    CHECK_REFUSED(context, stn_sort(x, 2, 0, NULL), STN_ERR_ARGUMENT, "sort: 'dim' got 2, wanted -2 <= dim < 2");
    CHECK_REFUSED(context, stn_topk(x, 4, 1, 1, NULL), STN_ERR_ARGUMENT, "topk: 'k' got 4, wanted 0 <= k <= 3");
    CHECK_REFUSED(context, stn_topk(stn_select(stn_select(x, 0, 0), 0, 0), 0, 0, 1, NULL), STN_ERR_ARGUMENT,
                  "topk: 'k' got 0, wanted 1 <= k <= 1");
    CHECK_I64(stn_tensor_shape(stn_topk(x, 0, 1, 1, NULL))[1], 0);
    CHECK_REFUSED(context, stn_kthvalue(x, 0, 1, 0, NULL), STN_ERR_ARGUMENT, "kthvalue: 'k' got 0, wanted 1 <= k <= 3");
    const stn_attr far[] = {{"k", STN_ATTR_INT, {.i = 1}}, {"dim", STN_ATTR_INT, {.i = INT64_C(1) << 32}}};
    stn_call(context, "kthvalue", 1, &x, 2, far, 2, (stn_tensor *[2]){NULL});
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "kthvalue: 'dim' got 4294967296, wanted -2 <= dim < 2");
    CHECK_REFUSED(context, stn_argmin(empty, NULL, 0), STN_ERR_SHAPE,
                  "argmin: 'input' got shape (2, 0), wanted at least one element in all");
    CHECK_REFUSED(context, stn_quantile_dim(empty, 0.5, 1, 0, STN_QUANTILE_LINEAR), STN_ERR_SHAPE,
                  "quantile: 'input' got shape (2, 0), wanted at least one element along 'dim'");
    CHECK_REFUSED(context, stn_quantile(x, 1.5, STN_QUANTILE_LINEAR), STN_ERR_ARGUMENT,
                  "quantile: 'q' got 1.5, wanted 0 to 1");
    CHECK_REFUSED(context, stn_quantile(x, NAN, STN_QUANTILE_LINEAR), STN_ERR_ARGUMENT,
                  "quantile: 'q' got nan, wanted 0 to 1");
    CHECK_REFUSED(context, stn_quantile(x, 0.5, (stn_quantile_interpolation)5), STN_ERR_ARGUMENT,
                  "quantile: interpolation got 5, wanted an stn_quantile_interpolation");
    CHECK_REFUSED(context, stn_quantile(stn_cast(x, STN_DTYPE_I64), 0.5, STN_QUANTILE_LINEAR), STN_ERR_DTYPE,
                  "quantile: 'input' got i64, wanted a floating dtype");
    CHECK_REFUSED(context, stn_median_dim(empty, 1, 0, NULL), STN_ERR_SHAPE,
            "median: 'input' got shape (2, 0), wanted at least one element along 'dim'");
    CHECK_I64(stn_tensor_shape(stn_sort(empty, 1, 0, NULL))[0], 2);
    return stn_scope_end(context);
}

static void what_cannot_be_ordered_is_refused(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ties_and_nan_of_every_dtype_are_ordered_as_by_a_plain_loop",
         ties_and_nan_of_every_dtype_are_ordered_as_by_a_plain_loop},
        {"candidates_and_counts_cross_and_not_the_data", candidates_and_counts_cross_and_not_the_data},
        {"long_lines_take_no_more_memory_than_they_need", long_lines_take_no_more_memory_than_they_need},
        {"indices_that_nobody_asked_for_are_not_moved", indices_that_nobody_asked_for_are_not_moved},
        {"what_cannot_be_ordered_is_refused", what_cannot_be_ordered_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
