/* Reductions of boxes against loops over single elements, on random shapes, orders of dims and gaps. */
#include "core/box/areas.h"
#include "every_isa.h"

#include "core/base/dtype.h"

#include <math.h>
#include <string.h>

/* Elements as pairs of numbers; the second is 0 but for complex ones. */
static void get(const void *at, stn_dtype dtype, double out[2])
{
    uint16_t h = 0;
    int16_t s = 0;
    float f[2] = {0};
    int32_t i = 0;
    int64_t l = 0;
    out[0] = out[1] = 0;
    switch (dtype) {
    case STN_DTYPE_F32: memcpy(f, at, 4); out[0] = (double)f[0]; break;
    case STN_DTYPE_F64: memcpy(out, at, 8); break;
    case STN_DTYPE_BF16: memcpy(&h, at, 2); out[0] = (double)stni_bf16_to_f32(h); break;
    case STN_DTYPE_F16: memcpy(&h, at, 2); out[0] = (double)stni_f16_to_f32(h); break;
    case STN_DTYPE_I64: memcpy(&l, at, 8); out[0] = (double)l; break;
    case STN_DTYPE_I32: memcpy(&i, at, 4); out[0] = i; break;
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL: out[0] = *(const unsigned char *)at; break;
    case STN_DTYPE_C64: memcpy(f, at, 8); out[0] = (double)f[0]; out[1] = (double)f[1]; break;
    case STN_DTYPE_C128: memcpy(out, at, 16); break;
    case STN_DTYPE_I8: out[0] = *(const signed char *)at; break;
    case STN_DTYPE_I16: memcpy(&s, at, 2); out[0] = s; break;
    case STN_DTYPE_COUNT: break;
    }
}

static void put(void *at, stn_dtype dtype, const double in[2])
{
    uint16_t h;
    float f[2] = {(float)in[0], (float)in[1]};
    int64_t l = stni_dtype_is_integer(dtype) || dtype == STN_DTYPE_BOOL ? (int64_t)in[0] : 0;
    int32_t i = (int32_t)l;
    switch (dtype) {
    case STN_DTYPE_F32: memcpy(at, f, 4); break;
    case STN_DTYPE_F64: memcpy(at, in, 8); break;
    case STN_DTYPE_BF16: h = stni_f32_to_bf16(f[0]); memcpy(at, &h, 2); break;
    case STN_DTYPE_F16: h = stni_f32_to_f16(f[0]); memcpy(at, &h, 2); break;
    case STN_DTYPE_I64: memcpy(at, &l, 8); break;
    case STN_DTYPE_I32: memcpy(at, &i, 4); break;
    case STN_DTYPE_U8:
    case STN_DTYPE_I8:
    case STN_DTYPE_BOOL: *(unsigned char *)at = (unsigned char)l; break;
    case STN_DTYPE_I16: h = (uint16_t)l; memcpy(at, &h, 2); break;
    case STN_DTYPE_C64: memcpy(at, f, 8); break;
    case STN_DTYPE_C128: memcpy(at, in, 16); break;
    case STN_DTYPE_COUNT: break;
    }
}

/* As the dtype rounds: 16-bit floats are accumulated in f32. */
static double rounded(stn_dtype dtype, double x)
{
    int single = dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_C64 || dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16;
    return single ? (double)(float)x : x;
}

static void combine(stn_dtype dtype, stn_reduce_op op, double acc[2], const double b[2])
{
    int is_bool = dtype == STN_DTYPE_BOOL;
    double a[2] = {acc[0], acc[1]};
    switch (op) {
    case STN_SUM:
    case STN_AVG:
        acc[0] = is_bool ? a[0] + b[0] > 0 : rounded(dtype, a[0] + b[0]);
        acc[1] = rounded(dtype, a[1] + b[1]);
        break;
    case STN_PROD:
        acc[0] = rounded(dtype, rounded(dtype, a[0] * b[0]) - rounded(dtype, a[1] * b[1]));
        acc[1] = rounded(dtype, rounded(dtype, a[0] * b[1]) + rounded(dtype, a[1] * b[0]));
        break;
    case STN_MIN: acc[0] = isnan(a[0]) || isnan(b[0]) ? (double)NAN : fmin(a[0], b[0]); break;
    case STN_MAX: acc[0] = isnan(a[0]) || isnan(b[0]) ? (double)NAN : fmax(a[0], b[0]); break;
    case STN_REDUCE_OP_COUNT: break;
    }
}

/* Small values, so that integers do not wrap; now and then a NaN. */
static void fill_values(struct area *area, stn_dtype dtype)
{
    int64_t index[STN_MAX_BOX_NDIM] = {0}, size = (int64_t)stn_dtype_size(dtype);
    memset(area->memory, 77, area->bytes);
    if (elements_of(&area->box) == 0)
        return;
    do {
        double value[2] = {(double)draw(dtype == STN_DTYPE_BOOL ? 2 : 4), (double)(draw(9) - 4)};
        if (stni_dtype_is_floating(dtype) || stni_dtype_is_complex(dtype))
            value[0] = draw(50) == 0 ? (double)NAN : (double)(draw(2001) - 1000) / 256;
        put(element(&area->box, index, size), dtype, value);
    } while (next(&area->box, index));
}

enum { MOST_SOURCES = 5, MOST_RESULTS = 3 };

static void reduce(int n_dst, const stn_box *dst, int n_src, const stn_box *src, stn_dtype dtype, stn_reduce_op op)
{
    if (queue) {
        CHECK_STATUS(stni_box_reduce(queue, n_dst, dst, n_src, src, dtype, op), STN_OK);
        CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    } else {
        stni_box_reduce_now(next_isa(), n_dst, dst, n_src, src, dtype, op);
    }
}

/* Reduces random boxes; counts elements of any result that differ from the loop, bit by bit but for which NaN it is.
 * `in_place`: the first result is the second source. */
static int64_t wrong_after_reduce(int ndim, const int64_t *shape, stn_dtype dtype, stn_reduce_op op, int n_src,
                                  int n_dst, int in_place, int gaps)
{
    int64_t size = (int64_t)stn_dtype_size(dtype), wrong = 0, index[STN_MAX_BOX_NDIM] = {0};
    struct area src[MOST_SOURCES], dst[MOST_RESULTS];
    stn_box from[MOST_SOURCES], to[MOST_RESULTS];
    for (int s = 0; s < n_src; s++) {
        src[s] = area_create(ndim, shape, size, gaps);
        fill_values(&src[s], dtype);
        from[s] = src[s].box;
    }
    for (int d = 0; d < n_dst; d++) {
        dst[d] = area_create(ndim, shape, size, gaps);
        to[d] = in_place && d == 0 ? from[1] : dst[d].box;
    }
    int64_t n = elements_of(&from[0]), at = 0;
    double *want = calloc((size_t)(2 * n + 1), sizeof *want);
    if (n > 0)
        do {
            double b[2], *acc = want + 2 * at++;
            get(element(&from[0], index, size), dtype, acc);
            for (int s = 1; s < n_src; s++) {
                get(element(&from[s], index, size), dtype, b);
                combine(dtype, op, acc, b);
            }
            if (op == STN_AVG && dtype != STN_DTYPE_BOOL)
                for (int i = 0; i < 2; i++)
                    acc[i] = stni_dtype_is_integer(dtype) ? trunc(acc[i] / n_src) : rounded(dtype, acc[i] / n_src);
        } while (next(&from[0], index));
    reduce(n_dst, to, n_src, from, dtype, op);
    for (int d = 0; d < n_dst && n > 0; d++) {
        at = 0;
        do {
            unsigned char bytes[16];
            double got[2], wanted[2];
            put(bytes, dtype, want + 2 * at++);
            get(bytes, dtype, wanted);
            get(element(&to[d], index, size), dtype, got);
            for (int i = 0; i < 2; i++)
                wrong += isnan(wanted[i]) ? !isnan(got[i]) : got[i] != wanted[i];
        } while (next(&from[0], index));
    }
    free(want);
    for (int s = 0; s < n_src; s++)
        free(src[s].memory);
    for (int d = 0; d < n_dst; d++)
        free(dst[d].memory);
    return wrong;
}

static void reduction_of_every_dtype_and_op_is_the_loop_in_order(void)
{
    random_state = 3;
    int ran = 0;
    for (int dtype = 0; dtype < STN_DTYPE_COUNT; dtype++)
        for (int op = 0; op < STN_REDUCE_OP_COUNT; op++) {
            int complex = stni_dtype_is_complex((stn_dtype)dtype);
            CHECK_I64(stni_box_reduces((stn_dtype)dtype, (stn_reduce_op)op),
                      !(complex && (op == STN_MIN || op == STN_MAX)));
            if (!stni_box_reduces((stn_dtype)dtype, (stn_reduce_op)op))
                continue;
            for (int round = 0; round < test_draws(24); round++, ran++) {
                int64_t shape[4] = {1 + draw(9), 1 + draw(40), draw(12) ? 1 + draw(25) : 0, 1 + draw(3)};
                int ndim = (int)draw(5);
                CHECK_I64(wrong_after_reduce(ndim, shape, (stn_dtype)dtype, (stn_reduce_op)op, 1 + round % MOST_SOURCES,
                                             1 + round % MOST_RESULTS, round % 4 == 3 && round % MOST_SOURCES > 0,
                                             round % 2),
                          0);
            }
        }
    CHECK_I64(ran, 56 * test_draws(24));
}

static void queued_reductions_are_the_loop_in_order(void)
{
    random_state = 5;
    queue_begin();
    for (int round = 0; round < test_draws(400); round++) {
        int64_t shape[7] = {1 + draw(5), 1 + draw(9), draw(12) ? 1 + draw(7) : 0, 1 + draw(3), 1 + draw(2),
                            2,           1 + draw(3)};
        stn_dtype dtype = (stn_dtype)draw(STN_DTYPE_COUNT);
        stn_reduce_op op = (stn_reduce_op)draw(STN_REDUCE_OP_COUNT);
        if (stni_box_reduces(dtype, op))
            CHECK_I64(wrong_after_reduce((int)draw(8), shape, dtype, op, 2 + round % (MOST_SOURCES - 1),
                                         1 + round % MOST_RESULTS, round % 4 == 3, round % 2),
                      0);
    }
    queue_end();
}

/* More results than the arguments of one kernel hold are copied from the first; more sources are refused. */
static void queued_reductions_of_many_boxes_are_whole_or_refused(void)
{
    enum { N = 7, BOXES = 140 };
    static int32_t values[BOXES][N], results[BOXES][N];
    stn_box src[BOXES], dst[BOXES];
    for (int b = 0; b < BOXES; b++) {
        src[b] = (stn_box){values[b], 1, {N}, {1}};
        dst[b] = (stn_box){results[b], 1, {N}, {1}};
        for (int i = 0; i < N; i++)
            values[b][i] = b + 1000 * i;
    }
    queue_begin();
    CHECK_STATUS(stni_box_reduce(queue, BOXES, dst, 127, src, STN_DTYPE_I32, STN_SUM), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    for (int b = 0; b < BOXES; b++)
        for (int i = 0; i < N; i++)
            CHECK_I64(results[b][i], 127 * 126 / 2 + 127000 * i);
    CHECK_STATUS(stni_box_reduce(queue, 1, dst, 128, src, STN_DTYPE_I32, STN_SUM), STN_ERR_UNSUPPORTED);
    CHECK(strstr(stn_queue_error_text(queue), "128 boxes") != NULL);
    queue_end();
}

static void reduction_of_large_boxes_is_the_loop_in_order(void)
{
    static const int64_t shapes[][3] = {{600011, 1, 1}, {700, 1, 801}, {9, 331, 201}};
    random_state = 4;
    for (int i = 0; i < 3; i += test_thread_step(3))
        for (int gaps = 0; gaps < 2; gaps += test_thread_step(2)) {
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F32, STN_SUM, 3, 2, 1, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F32, STN_SUM, 2, 1, gaps, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F64, STN_SUM, 3, 1, gaps, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_BF16, STN_AVG, 3, 1, 0, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F64, STN_MAX, 2, 2, 0, gaps), 0);
        }
}

static void integers_wrap_and_negative_averages_truncate(void)
{
    int32_t a[2] = {INT32_MAX, -3}, b[2] = {1, -4}, out[2];
    stn_box src[2] = {{a, 1, {2}, {1}}, {b, 1, {2}, {1}}}, dst = {out, 1, {2}, {1}};
    stni_box_reduce_now(next_isa(), 1, &dst, 2, src, STN_DTYPE_I32, STN_SUM);
    CHECK_I64(out[0], INT32_MIN);
    CHECK_I64(out[1], -7);
    stni_box_reduce_now(next_isa(), 1, &dst, 2, src, STN_DTYPE_I32, STN_AVG);
    CHECK_I64(out[1], -3);
}

/* f16 has steps of 4 beyond 4096: the sum 4098.5 rounds to 4100, but to 4096 where each step is rounded. */
static void sixteen_bit_sums_are_rounded_once(void)
{
    double values[3][2] = {{4096, 0}, {1, 0}, {1.5, 0}}, got[2];
    uint16_t cell[3], out;
    stn_box src[3], dst = {&out, 0, {0}, {0}};
    for (int i = 0; i < 3; i++) {
        put(&cell[i], STN_DTYPE_F16, values[i]);
        src[i] = (stn_box){&cell[i], 0, {0}, {0}};
    }
    stni_box_reduce_now(next_isa(), 1, &dst, 3, src, STN_DTYPE_F16, STN_SUM);
    get(&out, STN_DTYPE_F16, got);
    CHECK_NEAR(got[0], 4100, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"reduction_of_every_dtype_and_op_is_the_loop_in_order", reduction_of_every_dtype_and_op_is_the_loop_in_order},
        {"queued_reductions_are_the_loop_in_order", queued_reductions_are_the_loop_in_order},
        {"queued_reductions_of_many_boxes_are_whole_or_refused", queued_reductions_of_many_boxes_are_whole_or_refused},
        {"reduction_of_large_boxes_is_the_loop_in_order", reduction_of_large_boxes_is_the_loop_in_order},
        {"integers_wrap_and_negative_averages_truncate", integers_wrap_and_negative_averages_truncate},
        {"sixteen_bit_sums_are_rounded_once", sixteen_bit_sums_are_rounded_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
