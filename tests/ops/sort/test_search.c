/* searchsorted, bucketize and histc: drawn layouts against a plain loop, calls by name, what crosses between ranks,
 * what is refused. */
#include "ops/layouts.h"
#include "ranks.h"

#include <math.h>
#include <string.h>

static void sort_values(double _Complex *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && creal(v[j - 1]) > creal(v[j]); j--) {
            double _Complex held = v[j];
            v[j] = v[j - 1];
            v[j - 1] = held;
        }
}

static int64_t place_of(const double _Complex *sequence, int64_t n, double value, int right)
{
    int64_t place = 0;
    for (int64_t i = 0; i < n; i++)
        place += creal(sequence[i]) < value || (right && creal(sequence[i]) == value);
    return place;
}

/* `per_line`: one sequence for each of 3 lines, else one for all. */
static void check_search(stn_context *context, const stn_mesh *mesh, stn_dtype dtype, int per_line, uint64_t *seed)
{
    const int64_t sequences[] = {3, 1 + draw_below(seed, 20)}, shape[] = {3, draw_below(seed, 9)}, n = sequences[1],
                  m = shape[1];
    const int right = (int)draw_below(seed, 2);
    struct elements s, v, want, sorter, shuffled;
    stn_scope_begin(context);
    elements_draw(&s, dtype, per_line ? 2 : 1, per_line ? sequences : sequences + 1, seed);
    elements_draw(&v, dtype, 2, shape, seed);
    for (int64_t l = 0; l < (per_line ? 3 : 1); l++)
        sort_values(s.v + l * n, n);
    want = v;
    want.dtype = STN_DTYPE_I64;
    for (int64_t i = 0; i < want.n; i++)
        want.v[i] = (double)place_of(s.v + (per_line ? i / m * n : 0), n, creal(v.v[i]), right);
    stn_tensor *sequence = layout_tensor_drawn(context, mesh, &s, seed),
               *values = layout_tensor_drawn(context, mesh, &v, seed);
    layout_check(stn_searchsorted(sequence, values, right, NULL), &want, "searchsorted");
    if (!per_line)
        layout_check(stn_bucketize(values, sequence, right), &want, "bucketize");

    sorter = shuffled = s; /* turned round: the sorter does it again */
    sorter.dtype = STN_DTYPE_I64;
    for (int64_t i = 0; i < s.n; i++) {
        shuffled.v[i] = s.v[i / n * n + n - 1 - i % n];
        sorter.v[i] = (double)(n - 1 - i % n);
    }
    layout_check(stn_searchsorted(layout_tensor_drawn(context, mesh, &shuffled, seed), values, right,
                                  layout_tensor_drawn(context, mesh, &sorter, seed)), &want, "sorter");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status search_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16,
                                       STN_DTYPE_I64, STN_DTYPE_I32, STN_DTYPE_U8,   STN_DTYPE_BOOL, STN_DTYPE_I8, STN_DTYPE_I16};
    uint64_t seed = 9;
    const stn_mesh *mesh = arg ? test_mesh(context, 2, 3) : test_mesh(context, stn_context_size(context), 0);
    for (int round = 0; round < test_draws(60); round++)
        check_search(context, mesh, dtypes[round % 10], (round / 10) & 1, &seed);
    return STN_OK;
}

static void values_find_their_places_in_every_layout(void)
{
    test_ranks(1, search_body, NULL);
    test_ranks(3, search_body, NULL);
    test_ranks(6, search_body, "2x3");
}

static stn_status names_body(stn_context *context, void *arg)
{
    const stn_placement cut = stn_shard(0);
    struct elements s = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {5}, .n = 5, .v = {1, 3, 3, 7, 9}},
                    want = {.dtype = STN_DTYPE_I32, .n = 1};
    struct elements half = {.dtype = STN_DTYPE_I64, .n = 1, .v = {3}};
    stn_tensor *out;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {layout_tensor_placed(context, test_mesh(context, 3, 0), &s, &cut), NULL, NULL};
    stn_attr attrs[] = {{"input", STN_ATTR_INT, {.i = 3}},
                        {"out_int32", STN_ATTR_BOOL, {.i = 1}},
                        {"side", STN_ATTR_STRING, {.s = "right"}}};
    CHECK_STATUS(stn_call(context, "searchsorted", 1, in, 3, attrs, 1, &out), STN_OK);
    want.v[0] = 3;
    layout_check(out, &want, "side");
    CHECK_I64(stn_spec_placement(stn_tensor_spec(out), 0).kind, STN_PLACE_PARTIAL);
    CHECK_STATUS(stn_call(context, "searchsorted", 1, in, 2, attrs, 1, &out), STN_OK);
    want.v[0] = 1;
    layout_check(out, &want, "no side");
    attrs[0] = (stn_attr){"input", STN_ATTR_FLOAT, {.f = 3.5}}; /* is not cut down to 3 */
    stn_tensor *buckets[] = {NULL, in[0]};
    CHECK_STATUS(stn_call(context, "bucketize", 2, buckets, 1, attrs, 1, &out), STN_OK);
    layout_check(out, &half, "a number between");
    return stn_scope_end(context);
}

static void numbers_and_sides_are_taken_by_name(void)
{
    test_ranks(3, names_body, NULL);
}

static stn_status histc_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16,
                                       STN_DTYPE_F16, STN_DTYPE_I64, STN_DTYPE_I32};
    const int64_t shape[] = {7, 100};
    uint64_t seed = 13;
    const stn_mesh *mesh = arg ? test_mesh(context, 2, 3) : test_mesh(context, stn_context_size(context), 0);
    for (int round = 0; round < test_draws(24); round++) {
        const int data_range = round & 1;
        struct elements e, want = {.ndim = 1, .shape = {4}, .n = 4};
        double low = data_range ? INFINITY : -3, high = data_range ? -INFINITY : 2;
        stn_scope_begin(context);
        want.dtype = dtypes[round % 6];
        elements_draw(&e, want.dtype, 2, shape, &seed);
        for (int64_t i = 0; i < e.n && data_range; i++) {
            low = fmin(low, creal(e.v[i]));
            high = fmax(high, creal(e.v[i]));
        }
        for (int64_t i = 0; i < e.n; i++) {
            double x = creal(e.v[i]);
            int bin = (int)((x - low) * 4 / (high - low));
            if (x >= low && x <= high)
                want.v[bin < 4 ? bin : 3] += 1;
        }
        stn_tensor *x = layout_tensor_drawn(context, mesh, &e, &seed);
        layout_check(data_range ? stn_histc(x, 4, 0, 0) : stn_histc(x, 4, -3, 2), &want, "histc");
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void elements_are_counted_by_bins_in_every_layout(void)
{
    test_ranks(1, histc_body, NULL);
    test_ranks(3, histc_body, NULL);
    test_ranks(6, histc_body, "2x3");
}

/* Bins whose ends a double holds, and not the distance between them, or not bins times that. */
static stn_status far_body(stn_context *context, void *arg)
{
    const struct {
        double low, high, v[6], want[4];
    } far[] = {{-1e308, 1e308, {-1e308, -6e307, -1, 1, 4e307, 1e308}, {2, 0, 3, 1}},
               {0, 1e308, {-1, 0, 3e307, 6e307, 9e307, 1e308}, {1, 1, 1, 2}},
               {0, 0, {-1.5e308, -1e308, 1, 2, 1e308, 1.5e308}, {2, 0, 2, 2}},
               {0, 0, {1e20, 1e20, 1e20, 1e20, 1e20, 1e20}, {0, 0, 6, 0}}};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement cut = stn_shard(0);
    (void)arg;
    for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
        struct elements e = {.dtype = STN_DTYPE_F64, .ndim = 1, .shape = {6}, .n = 6},
                        want = {.dtype = STN_DTYPE_F64, .ndim = 1, .shape = {4}, .n = 4};
        stn_scope_begin(context);
        for (int i = 0; i < 6; i++)
            e.v[i] = far[k].v[i];
        for (int i = 0; i < 4; i++)
            want.v[i] = far[k].want[i];
        layout_check(stn_histc(layout_tensor_placed(context, mesh, &e, &cut), 4, far[k].low, far[k].high), &want,
                     "histc of ends far apart");
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void bins_may_be_as_wide_as_numbers_go(void)
{
    test_ranks(1, far_body, NULL);
    test_ranks(3, far_body, NULL);
}

static stn_status edges_body(stn_context *context, void *arg)
{
    struct elements e = {.dtype = STN_DTYPE_F32, .ndim = 1, .shape = {3}, .n = 3, .v = {2, 2, 2}},
                    want = {.dtype = STN_DTYPE_F32, .ndim = 1, .shape = {4}, .n = 4};
    struct elements two = {.dtype = STN_DTYPE_F32, .ndim = 2, .shape = {1, 3}, .n = 3};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = layout_tensor_placed(context, mesh, &e, &cut);
    want.v[2] = 3; /* from 1 to 3 */
    layout_check(stn_histc(x, 4, 0, 0), &want, "equal elements");
    CHECK_REFUSED(context, stn_histc(stn_cast(x, STN_DTYPE_U8), 4, 0, 0), STN_ERR_DTYPE,
                  "histc: 'input' got u8, which holds few counts, wanted a floating dtype, i64 or i32: cast it");
    CHECK_REFUSED(context, stn_histc(x, 0, 0, 0), STN_ERR_ARGUMENT, "histc: 'bins' got 0, wanted at least 1");
    CHECK_REFUSED(context, stn_histc(x, 3, 2, 1), STN_ERR_ARGUMENT,
                  "histc: 'min' got 2 and 'max' 1, wanted finite ones in order");
    CHECK_REFUSED(context, stn_searchsorted(x, NULL, 0, NULL), STN_ERR_ARGUMENT,
                  "searchsorted: 'input' is missing, wanted a tensor or a number");
    CHECK_REFUSED(context, stn_searchsorted(layout_tensor_placed(context, mesh, &two, &cut), x, 0, NULL), STN_ERR_SHAPE,
                  "searchsorted: 'sorted_sequence' got shape (1, 3) beside values of shape (3), wanted one dim, or "
                  "theirs but for the last");
    e.v[0] = NAN; /* rank 0 has it, and all learn of it */
    stn_histc(layout_tensor_placed(context, mesh, &e, &cut), 4, 0, 0);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    char text[512];
    stn_context_take_error(context, text, sizeof text);
    CHECK(strstr(text, "wanted finite ones") != NULL);
    return stn_scope_end(context);
}

static void edges_are_as_documented(void)
{
    test_ranks(2, edges_body, NULL);
}

/* A place of the sorter that the sequence does not have reads 0, and is told. */
static stn_status sorter_body(stn_context *context, void *arg)
{
    struct elements e = {.dtype = STN_DTYPE_F32, .ndim = 1, .shape = {3}, .n = 3, .v = {3, -1, 2}},
                    sorter = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {3}, .n = 3, .v = {1, 7, 0}},
                    want = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {3}, .n = 3, .v = {3, 1, 2}};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement whole = stn_replicate(), cut = stn_shard(0);
    char text[512];
    (void)arg;
    for (int i = 0; i < 2; i++) {
        stn_scope_begin(context);
        stn_tensor *x = layout_tensor_placed(context, mesh, &e, &whole),
                   *places = layout_tensor_placed(context, mesh, &sorter, i ? &cut : &whole);
        layout_check(stn_searchsorted(x, layout_tensor_placed(context, mesh, &e, &cut), 1, places), &want, "sorter");
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
        stn_context_take_error(context, text, sizeof text);
        CHECK(strstr(text, "searchsorted: index 7 at (1) is outside 0 … 2") != NULL);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_sorter_out_of_range_is_told(void)
{
    test_ranks(2, sorter_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"values_find_their_places_in_every_layout", values_find_their_places_in_every_layout},
        {"numbers_and_sides_are_taken_by_name", numbers_and_sides_are_taken_by_name},
        {"bins_may_be_as_wide_as_numbers_go", bins_may_be_as_wide_as_numbers_go},
        {"elements_are_counted_by_bins_in_every_layout", elements_are_counted_by_bins_in_every_layout},
        {"edges_are_as_documented", edges_are_as_documented},
        {"a_sorter_out_of_range_is_told", a_sorter_out_of_range_is_told},
    };
    return TEST_MAIN(argc, argv, cases);
}
