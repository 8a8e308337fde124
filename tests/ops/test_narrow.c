/* i8 and i16: held, moved, viewed, indexed, cast in every layout; which ops serve them, and what the others say. */
#include "core/redistribute/redistribute.h"
#include "core/shard/random_spec.h"
#include "ops/layouts.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NARROW = 2 };
static const stn_dtype narrow[NARROW] = {STN_DTYPE_I8, STN_DTYPE_I16};

/* Promotion as PyTorch documents it (torch.promote_types): a row's dtype with those of the columns. */
static void promotion_is_pytorchs(void)
{
    static const char *const columns[] = {"f32", "f64", "bf16", "f16",  "i64", "i32",
                                          "i16", "i8",  "u8",   "bool", "c64", "c128"};
    static const char *const rows[NARROW][12] = {
        {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "i16", "i8", "c64", "c128"},
        {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i16", "i16", "i16", "c64", "c128"}};
    for (int r = 0; r < NARROW; r++)
        for (int c = 0; c < 12; c++)
            for (int d = 0; d < STN_DTYPE_COUNT; d++)
                if (strcmp(stn_dtype_name((stn_dtype)d), columns[c]) == 0) {
                    CHECK_STR(stn_dtype_name(stn_dtype_promote(narrow[r], (stn_dtype)d)), rows[r][c]);
                    CHECK_STR(stn_dtype_name(stn_dtype_promote((stn_dtype)d, narrow[r])), rows[r][c]);
                }
}

/* The low bits of a whole number, by arithmetic. */
static double low_bits(double whole, int bits, int is_signed)
{
    const double all = ldexp(1, bits), rest = whole - all * floor(whole / all);
    return is_signed && rest >= all / 2 ? rest - all : rest;
}

/* What a cast makes of a real number: towards zero, then the low bits; of what is no number, and of infinity, those
 * of the smallest i64. */
static double cast_value(double v, stn_dtype to)
{
    char bytes[16];
    if (to == STN_DTYPE_BOOL)
        return v != 0;
    if (stni_dtype_is_integer(to) && !isfinite(v))
        return to == STN_DTYPE_I64 ? -0x1p63 : 0;
    if (stni_dtype_is_integer(to) && stn_dtype_size(to) < 8)
        return low_bits(trunc(v), 8 * (int)stn_dtype_size(to), to != STN_DTYPE_U8);
    if (to == STN_DTYPE_I64)
        return trunc(v);
    element_set(to, bytes, 0, v);
    return creal(element_get(to, bytes, 0));
}

static stn_status casts_body(stn_context *context, void *arg)
{
    static const double values[] = {0, 1, -1, 2.75, -2.75, 100, 127, 128, -128, -129, 200, 255, 256, 300, -300,
                                    32767, 32768, -32768, 40000, 70000, -70000, INFINITY, -INFINITY, NAN};
    enum { N = sizeof values / sizeof *values };
    uint64_t seed = 3;
    (void)arg;
    for (int from = 0; from < STN_DTYPE_COUNT; from++)
        for (int k = 0; k < NARROW; k++) {
            struct elements e = {.dtype = (stn_dtype)from, .ndim = 1, .shape = {N}, .n = N}, there = e, back = e;
            there.dtype = narrow[k];
            for (int i = 0; i < N; i++) {
                e.v[i] = cast_value(values[i], (stn_dtype)from);
                there.v[i] = cast_value(creal(e.v[i]), narrow[k]);
                back.v[i] = cast_value(creal(there.v[i]), (stn_dtype)from);
            }
            stn_scope_begin(context);
            stn_tensor *x = layout_tensor_drawn(context, test_mesh(context, stn_context_size(context), 0), &e, &seed);
            stn_tensor *y = stn_cast(x, narrow[k]);
            layout_check(y, &there, "there");
            layout_check(stn_cast(y, (stn_dtype)from), &back, "back");
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void casts_truncate_and_keep_the_low_bits(void)
{
    test_ranks(1, casts_body, NULL);
    test_ranks(3, casts_body, NULL);
}

/* Any layout to any other, pending reductions on either side; values over the whole range, so that parts of sums
 * wrap. */
static stn_status redistributions_body(stn_context *context, void *arg)
{
    uint64_t seed = 4, state = 5;
    for (int round = 0; round < test_draws(120); round++) {
        const struct random_shape shape = {2, {(int64_t)(round % 8), 5}};
        const stn_mesh *mesh = arg ? test_mesh(context, 2, 3) : test_mesh(context, stn_context_size(context), 0);
        const stn_dtype dtype = narrow[round & 1];
        const double half = dtype == STN_DTYPE_I8 ? 128 : 32768;
        struct elements e;
        stn_tensor *moved = NULL;
        stn_scope_begin(context);
        elements_draw(&e, dtype, 2, shape.shape, &seed);
        for (int64_t i = 0; i < e.n; i++)
            e.v[i] = i % 3 == 0 ? -half : i % 3 == 1 ? half - 1 : e.v[i];
        const stn_spec *from = random_spec(&state, context, mesh, &shape, dtype, 1u << STN_SUM);
        const stn_spec *to = random_spec(&state, context, mesh, &shape, dtype,
                                         1u << STN_SUM | 1u << STN_PROD | 1u << STN_MIN | 1u << STN_MAX);
        CHECK_STATUS(stni_redistribute(layout_tensor(context, from, &e), to, &moved), STN_OK);
        layout_check(moved, &e, "redistributed");
        stni_tensor_drop(&moved);
        stn_spec_release(&from);
        stn_spec_release(&to);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void every_layout_is_reached_from_every_other(void)
{
    test_ranks(1, redistributions_body, NULL);
    test_ranks(2, redistributions_body, NULL);
    test_ranks(3, redistributions_body, NULL);
    test_ranks(6, redistributions_body, "2x3");
}

/* Factories give the same values in every layout. */
static stn_status factories_body(stn_context *context, void *arg)
{
    uint64_t seed = 9;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (int round = 0; round < test_draws(12); round++) {
        struct elements steps = {.dtype = narrow[round % NARROW], .ndim = 1, .shape = {9}, .n = 9}, full = steps;
        stn_scope_begin(context);
        for (int i = 0; i < 9; i++) {
            steps.v[i] = -100 + 7 * i;
            full.v[i] = -128;
        }
        const stn_spec *spec = layout_draw(context, mesh, &steps, &seed);
        layout_check(stn_arange(context, spec, -100, 7), &steps, "arange");
        layout_check(stn_full(context, spec, -128), &full, "full");
        layout_check(stn_fill_(stn_ones(context, spec), -128), &full, "fill_");
        stn_tensor *drawn = stn_randint(context, spec, -3, 3);
        layout_check(stn_logical_and(stn_ge_number(drawn, -3), stn_lt_number(drawn, 3)),
                     &(struct elements){
                         .dtype = STN_DTYPE_BOOL, .ndim = 1, .shape = {9}, .n = 9, .v = {1, 1, 1, 1, 1, 1, 1, 1, 1}},
                     "randint");
        stn_spec_release(&spec);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void factories_give_the_same_in_every_layout(void)
{
    test_ranks(1, factories_body, NULL);
    test_ranks(3, factories_body, NULL);
}

/* Saved in one layout and loaded into another; one element as a number. */
static stn_status files_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {7, 5};
    uint64_t seed = 8;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    for (int k = 0; k < NARROW; k++) {
        struct elements e, none, one = {.dtype = narrow[k], .n = 1, .v = {-100}};
        double item = 0;
        elements_draw(&e, narrow[k], 2, shape, &seed);
        none = e;
        memset(none.v, 0, sizeof none.v);
        const stn_named_tensor saved = {"w", layout_tensor_drawn(context, mesh, &e, &seed)};
        const stn_named_tensor loaded = {"w", layout_tensor_drawn(context, mesh, &none, &seed)};
        CHECK_STATUS(stn_save(context, arg, 1, &saved, 0, NULL), STN_OK);
        CHECK_STATUS(stn_load(context, arg, 1, &loaded), STN_OK);
        layout_check(loaded.tensor, &e, "loaded");
        CHECK_STATUS(stn_item(layout_tensor_drawn(context, mesh, &one, &seed), &item), STN_OK);
        CHECK_NEAR(item, -100, 0);
    }
    return stn_scope_end(context);
}

static void files_hold_them_in_any_layout(void)
{
    char path[] = "/tmp/stn-narrow-XXXXXX";
    const int file = mkstemp(path);
    if (!CHECK(file >= 0))
        return;
    close(file);
    test_ranks(1, files_body, path);
    test_ranks(3, files_body, path);
    unlink(path);
}

/* Ops that serve them. `x` and `y` are of the dtype, `k` is an index, `m` a mask. */
struct operands {
    stn_tensor *x, *y, *k, *m;
};
typedef stn_tensor *(*call_fn)(const struct operands *);

static stn_tensor *second(stn_tensor *first, stn_tensor *other)
{
    return stn_tensor_is_error(first) ? first : other;
}

static stn_tensor *call_neg(const struct operands *o) { return stn_neg(o->x); }
static stn_tensor *call_abs(const struct operands *o) { return stn_abs(o->x); }
static stn_tensor *call_add(const struct operands *o) { return stn_add(o->x, o->y); }
static stn_tensor *call_sub(const struct operands *o) { return stn_sub_scaled(o->x, o->y, 2); }
static stn_tensor *call_mul(const struct operands *o) { return stn_mul(o->x, o->y); }
static stn_tensor *call_remainder(const struct operands *o) { return stn_remainder_number(o->x, 3); }
static stn_tensor *call_floor_divide(const struct operands *o) { return stn_floor_divide_number(o->x, 2); }
static stn_tensor *call_maximum(const struct operands *o) { return stn_maximum(o->x, o->y); }
static stn_tensor *call_clamp(const struct operands *o) { return stn_clamp(o->x, -1, 2); }
static stn_tensor *call_where(const struct operands *o) { return stn_where(o->m, o->x, o->y); }
static stn_tensor *call_fill(const struct operands *o) { return stn_masked_fill(o->x, o->m, 7); }
static stn_tensor *call_clone(const struct operands *o) { return stn_clone(o->x); }
static stn_tensor *call_lt(const struct operands *o) { return stn_lt(o->x, o->y); }
static stn_tensor *call_eq(const struct operands *o) { return stn_eq(o->x, o->y); }
static stn_tensor *call_logical(const struct operands *o) { return stn_logical_and(o->x, o->y); }
static stn_tensor *call_exp(const struct operands *o) { return stn_exp(o->x); }
static stn_tensor *call_div(const struct operands *o) { return stn_div_number(o->x, 2); }
static stn_tensor *call_sum(const struct operands *o) { return stn_sum(o->x, 1, (int[]){0}, 0); }
static stn_tensor *call_prod(const struct operands *o) { return stn_prod(o->x, 1, (int[]){1}, 1); }
static stn_tensor *call_amax(const struct operands *o) { return stn_amax(o->x, 1, (int[]){0}, 0); }
static stn_tensor *call_amin(const struct operands *o) { return stn_amin(o->x, 0, NULL, 0); }
static stn_tensor *call_any(const struct operands *o) { return stn_any(o->x, 1, (int[]){1}, 0); }
static stn_tensor *call_all(const struct operands *o) { return stn_all(o->x, 1, (int[]){0}, 0); }
static stn_tensor *call_count(const struct operands *o) { return stn_count_nonzero(o->x, 1, (int[]){0}); }
static stn_tensor *call_max(const struct operands *o) { return stn_max_dim(o->x, 0, 0, NULL); }
static stn_tensor *call_argmin(const struct operands *o) { return stn_argmin(o->x, (int[]){1}, 0); }
static stn_tensor *call_cumsum(const struct operands *o) { return stn_cumsum(o->x, 0); }
static stn_tensor *call_cummax(const struct operands *o) { return stn_cummax(o->x, 0, NULL); }
static stn_tensor *call_sort(const struct operands *o) { return stn_sort(o->x, 0, 1, NULL); }
static stn_tensor *call_topk(const struct operands *o) { return stn_topk(o->x, 2, 0, 1, NULL); }
static stn_tensor *call_median(const struct operands *o) { return stn_median(o->x); }
static stn_tensor *call_view(const struct operands *o) { return stn_view(o->x, 1, (int64_t[]){28}); }
static stn_tensor *call_transpose(const struct operands *o) { return stn_transpose(o->x, 0, 1); }
static stn_tensor *call_slice(const struct operands *o) { return stn_slice(o->x, 0, 1, 6, 2); }
static stn_tensor *call_select(const struct operands *o) { return stn_select(o->x, 1, 2); }
static stn_tensor *call_expand(const struct operands *o)
{
    return stn_expand(stn_unsqueeze(o->x, 0), 3, (int64_t[]){2, 7, 4});
}
static stn_tensor *call_cat(const struct operands *o) { return stn_cat(2, (stn_tensor *[]){o->x, o->y}, 0); }
static stn_tensor *call_stack(const struct operands *o) { return stn_stack(2, (stn_tensor *[]){o->x, o->y}, 1); }
static stn_tensor *call_repeat(const struct operands *o) { return stn_repeat(o->x, 2, (int64_t[]){2, 1}); }
static stn_tensor *call_diff(const struct operands *o) { return stn_diff(o->x, 1, 0, NULL, NULL); }
static stn_tensor *call_diagonal(const struct operands *o) { return stn_diagonal(o->x, 1, 0, 1); }
static stn_tensor *call_tril(const struct operands *o) { return stn_tril(o->x, 0); }
static stn_tensor *call_pad(const struct operands *o)
{
    return stn_pad(o->x, 4, (int64_t[]){1, 0, 2, 1}, STN_PAD_CONSTANT, -3);
}
static stn_tensor *call_reflect(const struct operands *o)
{
    return stn_pad(o->x, 4, (int64_t[]){1, 1, 2, 0}, STN_PAD_REFLECT, 0);
}
static stn_tensor *call_flip(const struct operands *o) { return stn_flip(o->x, 1, (int[]){0}); }
static stn_tensor *call_roll(const struct operands *o) { return stn_roll(o->x, 1, (int64_t[]){2}, (int[]){0}); }
static stn_tensor *call_index_select(const struct operands *o)
{
    return stn_index_select(o->x, 0, stn_select(o->k, 1, 0));
}
static stn_tensor *call_embedding(const struct operands *o) { return stn_embedding(o->k, o->x, NULL); }
static stn_tensor *call_gather(const struct operands *o) { return stn_gather(o->x, 0, o->k); }
static stn_tensor *call_take(const struct operands *o) { return stn_take_along_dim(o->x, o->k, (int[]){0}); }
static stn_tensor *call_scatter(const struct operands *o) { return stn_scatter_number(o->x, 0, o->k, -3); }
static stn_tensor *call_scatter_add(const struct operands *o) { return stn_scatter_add(o->x, 0, o->k, o->y); }
static stn_tensor *call_scatter_amin(const struct operands *o)
{
    return stn_scatter_reduce(o->x, 0, o->k, o->y, STN_SCATTER_AMIN, 0);
}
static stn_tensor *call_index_add(const struct operands *o)
{
    return stn_index_add(o->x, 0, stn_select(o->k, 1, 0), o->y, 2);
}
static stn_tensor *call_index_fill(const struct operands *o)
{
    return stn_index_fill(o->x, 0, stn_select(o->k, 1, 1), -5);
}
static stn_tensor *call_index_put(const struct operands *o)
{
    stn_tensor *index = stn_select(o->k, 1, 2);
    return stn_index_put(o->x, 1, &index, o->y, 1);
}
static stn_tensor *call_interleave(const struct operands *o) { return stn_repeat_interleave(o->x, 2, (int[]){0}); }
static stn_tensor *call_add_(const struct operands *o) { return stn_add_(stn_clone(o->x), o->y, 1); }
static stn_tensor *call_copy_(const struct operands *o) { return stn_copy_(stn_clone(o->x), o->y); }
static stn_tensor *call_fill_(const struct operands *o) { return stn_fill_(stn_clone(o->x), -9); }
static stn_tensor *call_zeros(const struct operands *o)
{
    return stn_add(stn_zeros(stn_tensor_context(o->x), stn_tensor_spec(o->x)), o->x);
}
static stn_tensor *call_full(const struct operands *o)
{
    return second(o->x, stn_full(stn_tensor_context(o->x), stn_tensor_spec(o->x), -100));
}

enum result { SAME, TRUTH, WHOLE, REAL };

static const struct {
    const char *name;
    call_fn call;
    enum result result;
} served[] = {
#define ROW(name, result) {#name, call_##name, result}
    ROW(neg, SAME),       ROW(abs, SAME),          ROW(add, SAME),          ROW(sub, SAME),       ROW(mul, SAME),
    ROW(remainder, SAME), ROW(floor_divide, SAME), ROW(maximum, SAME),      ROW(clamp, SAME),     ROW(where, SAME),
    ROW(fill, SAME),      ROW(clone, SAME),        ROW(lt, TRUTH),          ROW(eq, TRUTH),       ROW(logical, TRUTH),
    ROW(exp, REAL),       ROW(div, REAL),          ROW(sum, WHOLE),         ROW(prod, WHOLE),     ROW(amax, SAME),
    ROW(amin, SAME),      ROW(any, TRUTH),         ROW(all, TRUTH),         ROW(count, WHOLE),    ROW(max, SAME),
    ROW(argmin, WHOLE),   ROW(cumsum, WHOLE),      ROW(cummax, SAME),       ROW(sort, SAME),      ROW(topk, SAME),
    ROW(median, SAME),    ROW(view, SAME),         ROW(transpose, SAME),    ROW(slice, SAME),     ROW(select, SAME),
    ROW(expand, SAME),    ROW(cat, SAME),          ROW(stack, SAME),        ROW(repeat, SAME),    ROW(diff, SAME),
    ROW(diagonal, SAME),  ROW(tril, SAME),         ROW(pad, SAME),          ROW(reflect, SAME),   ROW(flip, SAME),
    ROW(roll, SAME),      ROW(index_select, SAME), ROW(embedding, SAME),    ROW(gather, SAME),    ROW(take, SAME),
    ROW(scatter, SAME),   ROW(scatter_add, SAME),  ROW(scatter_amin, SAME), ROW(index_add, SAME), ROW(index_fill, SAME),
    ROW(index_put, SAME), ROW(interleave, SAME),   ROW(add_, SAME),         ROW(copy_, SAME),     ROW(fill_, SAME),
    ROW(zeros, SAME),     ROW(full, SAME),
#undef ROW
};

static stn_dtype dtype_of(enum result result, stn_dtype dtype)
{
    return result == TRUTH ? STN_DTYPE_BOOL : result == WHOLE ? STN_DTYPE_I64 : result == REAL ? STN_DTYPE_F32 : dtype;
}

/* The numbers of a tensor, reduced, on every rank. */
static void numbers_of(stn_tensor *tensor, struct elements *out)
{
    stn_tensor *whole = stn_full_tensor(stn_cast(tensor, STN_DTYPE_F64));
    double v[LAYOUT_MAX_ELEMENTS] = {0};
    out->n = stn_spec_numel(stn_tensor_spec(whole));
    CHECK_STATUS(stn_to_host(whole, v, (size_t)out->n * sizeof *v), STN_OK);
    for (int64_t i = 0; i < out->n; i++)
        out->v[i] = v[i];
}

/* On a drawn layout a narrow dtype gives what i64 gives on another, and the dtype that PyTorch gives. */
static void check_served(stn_context *context, const stn_mesh *mesh, size_t row, stn_dtype dtype, uint64_t *seed)
{
    static const int64_t shape[] = {7, 4};
    struct elements x, y, k, m, got, want;
    elements_draw(&x, dtype, 2, shape, seed);
    elements_draw(&y, dtype, 2, shape, seed);
    elements_draw(&k, STN_DTYPE_I64, 2, shape, seed);
    elements_draw(&m, STN_DTYPE_BOOL, 2, shape, seed);
    for (int64_t i = 0; i < k.n; i++)
        k.v[i] = (double)draw_below(seed, 7);
    stn_scope_begin(context);
    for (int wide = 0; wide < 2; wide++) {
        x.dtype = y.dtype = wide ? STN_DTYPE_I64 : dtype;
        /* Of several that are written to one place the last one, in row-major order, is the same in every layout. */
        const struct operands o = {
            layout_tensor_drawn(context, mesh, &x, seed), layout_tensor_drawn(context, mesh, &y, seed),
            layout_tensor_drawn(context, mesh, &k, seed), layout_tensor_drawn(context, mesh, &m, seed)};
        stn_tensor *result = served[row].call(&o);
        if (!test_check(!stn_tensor_is_error(result), __FILE__, __LINE__, served[row].name))
            break;
        if (!wide)
            test_check_str(stn_dtype_name(stn_tensor_dtype(result)),
                           stn_dtype_name(dtype_of(served[row].result, dtype)), __FILE__, __LINE__, served[row].name);
        numbers_of(result, wide ? &want : &got);
    }
    test_check_i64(got.n, want.n, __FILE__, __LINE__, served[row].name);
    for (int64_t i = 0; i < got.n; i++)
        if (!test_check(creal(got.v[i]) == creal(want.v[i]), __FILE__, __LINE__, served[row].name))
            break;
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status served_body(stn_context *context, void *arg)
{
    uint64_t seed = 6;
    const stn_mesh *mesh = arg ? test_mesh(context, 2, 3) : test_mesh(context, stn_context_size(context), 0);
    for (size_t row = 0; row < sizeof served / sizeof *served; row++)
        for (int round = 0; round < 3 * NARROW; round++)
            check_served(context, mesh, row, narrow[round % NARROW], &seed);
    return STN_OK;
}

static void ops_that_serve_them_give_what_i64_gives(void)
{
    test_ranks(1, served_body, NULL);
    test_ranks(3, served_body, NULL);
    test_ranks(6, served_body, "2x3");
}

/* An empty chunk brings the identity of the dtype itself. */
static stn_status empty_chunks_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {2, 3}, sizes[] = {0, 2, 0}, *const cut[] = {sizes, NULL};
    const stn_placement rows = stn_shard(0);
    const stn_spec_options options = {.size = sizeof options, .sizes = cut};
    (void)arg;
    stn_scope_begin(context);
    for (int k = 0; k < NARROW; k++) {
        struct elements e = {.dtype = narrow[k], .ndim = 2, .shape = {2, 3}, .n = 6, .v = {-5, -6, -7, -8, -9, -4}};
        struct elements greatest = {.dtype = narrow[k], .ndim = 1, .shape = {3}, .n = 3, .v = {-5, -6, -4}};
        struct elements least = {.dtype = narrow[k], .ndim = 1, .shape = {3}, .n = 3, .v = {-8, -9, -7}};
        const stn_spec *spec = NULL;
        CHECK_STATUS(stn_spec_create(context, test_mesh(context, 3, 0), &rows, narrow[k], 2, shape, &options, &spec),
                     STN_OK);
        stn_tensor *x = layout_tensor(context, spec, &e);
        layout_check(stn_amax(x, 1, (int[]){0}, 0), &greatest, "amax");
        layout_check(stn_amin(x, 1, (int[]){0}, 0), &least, "amin");
        stn_spec_release(&spec);
    }
    return stn_scope_end(context);
}

static void extremes_over_empty_chunks_are_those_of_the_others(void)
{
    test_ranks(3, empty_chunks_body, NULL);
}

/* Ops that refuse them, by the dtype's name. */
static stn_tensor *call_histc(const struct operands *o) { return stn_histc(o->x, 4, -4, 4); }
static stn_tensor *call_mean(const struct operands *o) { return stn_mean(o->x, 0, NULL, 0); }
static stn_tensor *call_softmax(const struct operands *o) { return stn_softmax(o->x, 0); }
static stn_tensor *call_matmul(const struct operands *o) { return stn_matmul(o->x, stn_transpose(o->y, 0, 1)); }
static stn_tensor *call_max_pool(const struct operands *o)
{
    return stn_max_pool1d(o->x, &(stn_pool_attrs){.size = sizeof(stn_pool_attrs), .kernel_size = {2}}, NULL);
}
static stn_tensor *call_index(const struct operands *o) { return stn_gather(o->k, 0, o->x); }

static const call_fn refused[] = {call_mean, call_softmax, call_matmul, call_max_pool, call_histc, call_index};

static stn_status refused_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {7, 4};
    uint64_t seed = 7;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        for (int k = 0; k < NARROW; k++) {
            struct elements x, index;
            elements_draw(&x, narrow[k], 2, shape, &seed);
            elements_draw(&index, STN_DTYPE_I64, 2, shape, &seed);
            stn_scope_begin(context);
            const struct operands o = {layout_tensor_drawn(context, mesh, &x, &seed),
                                       layout_tensor_drawn(context, mesh, &x, &seed),
                                       layout_tensor_drawn(context, mesh, &index, &seed), NULL};
            CHECK(stn_tensor_is_error(refused[i](&o)));
            CHECK_ERROR_PART(context, STN_ERR_DTYPE, stn_dtype_name(narrow[k]));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void other_ops_refuse_them_by_name(void)
{
    test_ranks(1, refused_body, NULL);
    test_ranks(3, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"promotion_is_pytorchs", promotion_is_pytorchs},
        {"casts_truncate_and_keep_the_low_bits", casts_truncate_and_keep_the_low_bits},
        {"every_layout_is_reached_from_every_other", every_layout_is_reached_from_every_other},
        {"factories_give_the_same_in_every_layout", factories_give_the_same_in_every_layout},
        {"files_hold_them_in_any_layout", files_hold_them_in_any_layout},
        {"ops_that_serve_them_give_what_i64_gives", ops_that_serve_them_give_what_i64_gives},
        {"extremes_over_empty_chunks_are_those_of_the_others", extremes_over_empty_chunks_are_those_of_the_others},
        {"other_ops_refuse_them_by_name", other_ops_refuse_them_by_name},
    };
    return TEST_MAIN(argc, argv, cases);
}
