/* Bits of integers and bool against C's operators: every dtype, promotion, numbers in the place of the second operand,
 * in place, cut tensors, and what is refused. */
#include "harness.h"
#include "ops/layouts.h"
#include "ranks.h"

#include <shardtensor/shardtensor.h>

#include <stdio.h>
#include <string.h>

enum { N = 6 };

static const int64_t left[N] = {0, -1, 5, 100, -128, 77}, right[N] = {3, 90, -2, 1, 127, 0};

static stn_tensor *vector(stn_context *context, stn_dtype dtype, const int64_t *values)
{
    const int64_t shape[] = {N};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, shape, NULL, &spec), STN_OK);
    stn_tensor *wide = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return stn_cast(wide, dtype);
}

/* Of the same dtype and with the same elements. */
static void same(stn_tensor *got, stn_tensor *want, const char *name)
{
    int64_t a[N], b[N];
    CHECK_I64(stn_tensor_dtype(got), stn_tensor_dtype(want));
    CHECK_STATUS(stn_to_host(stn_cast(got, STN_DTYPE_I64), a, sizeof a), STN_OK);
    CHECK_STATUS(stn_to_host(stn_cast(want, STN_DTYPE_I64), b, sizeof b), STN_OK);
    test_check(memcmp(a, b, sizeof a) == 0, __FILE__, __LINE__, name);
}

struct op {
    const char *name;
    int64_t (*exact)(int64_t x, int64_t y);
    stn_tensor *(*pair)(stn_tensor *, stn_tensor *), *(*pair_)(stn_tensor *, stn_tensor *);
    stn_tensor *(*number)(stn_tensor *, int64_t), *(*number_)(stn_tensor *, int64_t);
};

static int64_t both(int64_t x, int64_t y) { return x & y; }
static int64_t either(int64_t x, int64_t y) { return x | y; }
static int64_t one(int64_t x, int64_t y) { return x ^ y; }

static const struct op ops[] = {
    {"and", both, stn_bitwise_and, stn_bitwise_and_, stn_bitwise_and_number, stn_bitwise_and_number_},
    {"or", either, stn_bitwise_or, stn_bitwise_or_, stn_bitwise_or_number, stn_bitwise_or_number_},
    {"xor", one, stn_bitwise_xor, stn_bitwise_xor_, stn_bitwise_xor_number, stn_bitwise_xor_number_},
};
enum { OPS = sizeof ops / sizeof *ops };

static const stn_dtype dtypes[] = {STN_DTYPE_I64, STN_DTYPE_I32, STN_DTYPE_I16,
                                   STN_DTYPE_I8,  STN_DTYPE_U8,  STN_DTYPE_BOOL};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* What a dtype makes of a number. */
static int64_t within(stn_dtype dtype, int64_t x)
{
    switch ((int)dtype) {
    case STN_DTYPE_I32: return (int32_t)x;
    case STN_DTYPE_I16: return (int16_t)x;
    case STN_DTYPE_I8: return (int8_t)x;
    case STN_DTYPE_U8: return (uint8_t)x;
    case STN_DTYPE_BOOL: return x != 0;
    }
    return x;
}

/* PyTorch's: the wider of two; of u8 and i8 i16; bool gives way. */
static stn_dtype promoted(stn_dtype a, stn_dtype b)
{
    const int mixed = (a == STN_DTYPE_U8 && b == STN_DTYPE_I8) || (a == STN_DTYPE_I8 && b == STN_DTYPE_U8);
    if (mixed)
        return STN_DTYPE_I16;
    for (int i = 0; i < DTYPES; i++)
        if (a == dtypes[i] || b == dtypes[i])
            return dtypes[i];
    return a;
}

static stn_tensor *wanted(stn_context *context, const struct op *op, stn_dtype a, stn_dtype b)
{
    int64_t values[N];
    for (int i = 0; i < N; i++)
        values[i] = op->exact(within(a, left[i]), within(b, right[i]));
    return vector(context, promoted(a, b), values);
}

static void check_numbers(stn_context *context, const struct op *op, stn_dtype dtype)
{
    static const int64_t numbers[] = {0, 1, -1, 300, INT64_MAX - 1};
    const stn_dtype result = dtype == STN_DTYPE_BOOL ? STN_DTYPE_I64 : dtype;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        int64_t values[N];
        for (int i = 0; i < N; i++)
            values[i] = within(result, op->exact(within(dtype, left[i]), numbers[k]));
        stn_tensor *x = vector(context, dtype, left), *want = vector(context, result, values);
        same(op->number(x, numbers[k]), want, op->name);
        if (dtype == STN_DTYPE_BOOL)
            continue; /* which cannot hold i64 */
        CHECK(op->number_(x, numbers[k]) == x);
        same(x, want, op->name);
    }
}

static stn_status values_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int k = 0; k < OPS; k++)
        for (int a = 0; a < DTYPES; a++) {
            stn_scope_begin(context);
            for (int b = 0; b < DTYPES; b++) {
                stn_tensor *x = vector(context, dtypes[a], left), *y = vector(context, dtypes[b], right);
                stn_tensor *want = wanted(context, &ops[k], dtypes[a], dtypes[b]);
                same(ops[k].pair(x, y), want, ops[k].name);
                if (dtypes[a] == STN_DTYPE_BOOL && dtypes[b] != STN_DTYPE_BOOL)
                    continue;
                CHECK(ops[k].pair_(x, y) == x); /* which keeps its dtype, and of the result the low bits */
                same(x, stn_cast(want, dtypes[a]), ops[k].name);
            }
            check_numbers(context, &ops[k], dtypes[a]);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void bits_of_every_pair_of_dtypes_are_those_of_c(void)
{
    test_ranks(1, values_body, NULL);
}

static stn_status not_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    for (int a = 0; a < DTYPES; a++) {
        int64_t values[N];
        for (int i = 0; i < N; i++)
            values[i] = dtypes[a] == STN_DTYPE_BOOL ? !left[i] : ~within(dtypes[a], left[i]);
        stn_tensor *x = vector(context, dtypes[a], left), *want = vector(context, dtypes[a], values);
        same(stn_bitwise_not(x), want, "not");
        CHECK(stn_bitwise_not_(x) == x);
        same(x, want, "not_");
    }
    return stn_scope_end(context);
}

static void complements_are_those_of_c(void)
{
    test_ranks(1, not_body, NULL);
}

/* Rows and columns that broadcast, cut unevenly and pending. */
static stn_status cut_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements x = {.dtype = STN_DTYPE_I32, .ndim = 2, .shape = {5, 4}, .n = 20},
                    y = {.dtype = STN_DTYPE_U8, .ndim = 1, .shape = {4}, .n = 4}, want[OPS];
    (void)arg;
    for (int k = 0; k < OPS; k++)
        want[k] = x;
    for (int i = 0; i < 20; i++) {
        const int64_t a = i * 37 % 64 - 32, b = i % 4 * 50;
        x.v[i] = (double)a;
        y.v[i % 4] = (double)b;
        for (int k = 0; k < OPS; k++)
            want[k].v[i] = (double)ops[k].exact(a, b);
    }
    const stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(1), stn_partial(STN_SUM)};
    for (int p = 0; p < 4; p++)
        for (int q = 0; q < 2; q++)
            for (int k = 0; k < OPS; k++) {
                stn_scope_begin(context);
                stn_tensor *a = layout_tensor_placed(context, mesh, &x, &placements[p]);
                stn_tensor *b = layout_tensor_placed(context, mesh, &y, &placements[q]);
                layout_check(ops[k].pair(a, b), &want[k], ops[k].name);
                CHECK_STATUS(stn_scope_end(context), STN_OK);
            }
    return STN_OK;
}

static void cut_tensors_have_the_bits_of_whole_ones(void)
{
    test_ranks(3, cut_body, NULL);
}

static void refused(stn_context *context, stn_tensor *out, const char *text)
{
    CHECK(out == NULL || stn_tensor_is_error(out));
    CHECK_STR(stn_context_error_text(context), text);
    stn_context_take_error(context, NULL, 0);
}

static stn_status errors_body(stn_context *context, void *arg)
{
    const stn_attr half = {"other", STN_ATTR_FLOAT, {.f = 2.5}};
    stn_tensor *out = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *whole = vector(context, STN_DTYPE_I32, left), *real = vector(context, STN_DTYPE_F32, left);
    stn_tensor *truths = vector(context, STN_DTYPE_BOOL, left);
    refused(context, stn_bitwise_and(whole, real),
            "bitwise_and: got dtype f32, wanted i64 i32 u8 bool i8 or i16");
    refused(context, stn_bitwise_not(real), "bitwise_not: 'input' got f32, wanted i64 i32 u8 bool i8 or i16");
    CHECK_STATUS(stn_call(context, "bitwise_or", 1, &whole, 1, &half, 1, &out), STN_ERR_DTYPE);
    refused(context, out, "bitwise_or: got dtype f32, wanted i64 i32 u8 bool i8 or i16");
    refused(context, stn_bitwise_xor_(truths, whole),
            "bitwise_xor_: 'input' is bool and is changed in place, wanted the result's dtype i32");
    refused(context, stn_bitwise_or_number_(truths, 1),
            "bitwise_or_: 'input' is bool and is changed in place, wanted the result's dtype i64");
    return stn_scope_end(context);
}

static void what_has_no_bits_is_refused(void)
{
    test_ranks(1, errors_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"bits_of_every_pair_of_dtypes_are_those_of_c", bits_of_every_pair_of_dtypes_are_those_of_c},
        {"complements_are_those_of_c", complements_are_those_of_c},
        {"cut_tensors_have_the_bits_of_whole_ones", cut_tensors_have_the_bits_of_whole_ones},
        {"what_has_no_bits_is_refused", what_has_no_bits_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
