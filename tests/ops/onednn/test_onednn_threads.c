/* oneDNN among threads: the number of OpenMP threads is the calling thread's own, set for oneDNN, then put back; and
 * what several threads ask it for at once. */
#include "ranks.h"

#include "core/context/context.h"
#include "ops/onednn/onednn.h"

#include <string.h>

int omp_get_max_threads(void);
void omp_set_num_threads(int n);

static void threads_of_the_caller_are_left_as_they_were(void)
{
    stn_context_options options = {.size = sizeof options, .threads = 2};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    struct stni_onednn *library = stni_onednn_of(context);
    struct stni_onednn_product q;
    memset(&q, 0, sizeof q);
    q.dtype = STN_DTYPE_F32, q.batch = 1, q.m = q.n = q.k = 2;
    q.a_row = q.b_row = q.c_row = 2, q.a_col = q.b_col = 1;
    float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, c[4] = {0};
    omp_set_num_threads(3);
    CHECK_STATUS(stni_onednn_product(library, &q, a, b, c), STN_OK);
    CHECK_NEAR(c[3], 50, 0);
    CHECK_I64(omp_get_max_threads(), 3);
    stn_context_destroy(&context);
}

enum { LONGEST = 400, OUTPUTS = 3, TAPS = 2 };

/* An image of one channel, `length` long. */
static struct stni_conv_problem problem(int32_t kind, stn_dtype dtype, int64_t length)
{
    struct stni_conv_problem p;
    memset(&p, 0, sizeof p);
    p.kind = kind, p.dims = 1, p.dtype = p.weight_dtype = (int32_t)dtype;
    p.n = p.groups = p.c = p.stride[0] = p.dilation[0] = 1, p.o = OUTPUTS, p.kernel[0] = TAPS;
    p.in[0] = length, p.out[0] = length - TAPS + 1;
    return p;
}

/* Whole numbers, that bf16 has too. */
static float number(int64_t i)
{
    return (float)(i % 7) - 3;
}

static void put(void *data, stn_dtype dtype, int64_t i, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == STN_DTYPE_F32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
}

static float get(const void *data, stn_dtype dtype, int64_t i)
{
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return dtype == STN_DTYPE_F32 ? ((const float *)data)[i] : value;
}

/* What oneDNN gives, which may not serve it. */
static void check_forward(stn_context *context, stn_dtype dtype, int64_t length)
{
    static _Thread_local float x[LONGEST], y[OUTPUTS * LONGEST], weight[OUTPUTS * TAPS];
    const struct stni_conv_problem p = problem(STNI_CONV_FORWARD, dtype, length);
    const struct stni_conv_data data = {.x = x, .y = y, .weight = weight, .images = 1};
    int64_t solved, wrong = 0;
    for (int64_t i = 0; i < length; i++)
        put(x, dtype, i, number(i));
    for (int64_t i = 0; i < OUTPUTS * TAPS; i++)
        put(weight, dtype, i, number(i + 1));
    if (stni_onednn_conv(stni_onednn_of(context), &p, &data, &solved) != STN_OK)
        return;
    for (int64_t i = 0; i < p.out[0] * OUTPUTS; i++) {
        const int64_t at = i / OUTPUTS, o = i % OUTPUTS;
        wrong += get(y, dtype, i) != number(at) * number(2 * o + 1) + number(at + 1) * number(2 * o + 2);
    }
    CHECK_I64(wrong, 0);
}

static void check_gradient(stn_context *context, int64_t length)
{
    static _Thread_local float x[LONGEST], y[OUTPUTS * LONGEST], weight[OUTPUTS * TAPS];
    const struct stni_conv_problem p = problem(STNI_CONV_GRAD_WEIGHT, STN_DTYPE_F32, length);
    const struct stni_conv_data data = {.x = x, .y = y, .weight = weight, .images = 1};
    int64_t solved;
    for (int64_t i = 0; i < LONGEST; i++)
        x[i] = y[i] = y[LONGEST + i] = y[2 * LONGEST + i] = 1;
    if (stni_onednn_conv(stni_onednn_of(context), &p, &data, &solved) != STN_OK)
        return;
    for (int i = 0; i < OUTPUTS * TAPS; i++)
        CHECK_NEAR(weight[i], (double)(length - 1), 0);
}

/* Each length is a problem that nobody has asked for before. */
static stn_status at_once_body(stn_context *context, void *arg)
{
    const stn_dtype dtype = stni_onednn_prefers_bf16(stni_onednn_of(context)) ? STN_DTYPE_BF16 : STN_DTYPE_F32;
    (void)arg;
    for (int64_t length = 4; length < LONGEST; length++) {
        CHECK_STATUS(stn_comm_barrier(stn_context_comm(context), NULL), STN_OK);
        if (stn_context_rank(context) == 0)
            check_gradient(context, length);
        else
            check_forward(context, dtype, length);
    }
    return STN_OK;
}

static void code_that_is_made_at_once_is_right(void)
{
    test_ranks(2, at_once_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"threads_of_the_caller_are_left_as_they_were", threads_of_the_caller_are_left_as_they_were},
        {"code_that_is_made_at_once_is_right", code_that_is_made_at_once_is_right},
    };
    return TEST_MAIN(argc, argv, cases);
}
