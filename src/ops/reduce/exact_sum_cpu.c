/* Exact sums on the CPU. Where a sum has many elements their mantissas are first added up by exponent, which is an
 * addition or two for each instead of three behind shifts. */
#include "core/base/dtype.h"
#include "ops/reduce/exact_sum_kernel.h"

enum {
    BLOCK = 1024,   /* elements that are loaded at once */
    MANY = 1 << 13, /* from here on bins are worth emptying */
    LANES = 4,      /* neighbours go to other bins: an addition need not wait for the one before */
    EXPONENTS_F32 = 256,
    EXPONENTS_F64 = 2048
};

/* Sums of signed mantissas, by exponent; of f64 in two halves. 2^31 elements fit. */
union bins {
    int64_t f32[EXPONENTS_F32][LANES];
    struct {
        int64_t low, high;
    } f64[EXPONENTS_F64];
};

union block {
    float f32[BLOCK];
    double f64[BLOCK];
};

/* Index of an element in a few dims. */
struct walk {
    int ndim;
    const int64_t *shape;
    int64_t index[STN_MAX_NDIM];
};

/* The next element: moves each offset by its strides. 0 behind the last. */
static int step(struct walk *w, int n, const int64_t *const strides[], int64_t at[])
{
    for (int d = w->ndim - 1; d >= 0; d--) {
        const int more = ++w->index[d] < w->shape[d];
        for (int k = 0; k < n; k++)
            at[k] += more ? strides[k][d] : -strides[k][d] * (w->shape[d] - 1);
        if (more)
            return 1;
        w->index[d] = 0;
    }
    return 0;
}

/* Squares are those of f64, whatever the dtype: of f32 and less they are exact. */
static void load_squares(stn_dtype dtype, const void *in, int64_t at, int64_t stride, int64_t n, union block *to)
{
    const double *f64 = in;
    const float *f32 = in;
    const uint16_t *f16 = in;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = at + i * stride;
        const double x = dtype == STN_DTYPE_F64    ? f64[k]
                         : dtype == STN_DTYPE_F32  ? (double)f32[k]
                         : dtype == STN_DTYPE_BF16 ? (double)stni_bf16_to_f32(f16[k])
                                                   : (double)stni_f16_to_f32(f16[k]);
        to->f64[i] = x * x;
    }
}

static void load(stn_dtype dtype, const void *in, int64_t at, int64_t stride, int64_t n, union block *to)
{
    const double *f64 = in;
    const float *f32 = in;
    const uint16_t *f16 = in;
    for (int64_t i = 0; dtype == STN_DTYPE_F64 && i < n; i++)
        to->f64[i] = f64[at + i * stride];
    for (int64_t i = 0; dtype == STN_DTYPE_F32 && i < n; i++)
        to->f32[i] = f32[at + i * stride];
    for (int64_t i = 0; dtype == STN_DTYPE_BF16 && i < n; i++)
        to->f32[i] = stni_bf16_to_f32(f16[at + i * stride]);
    for (int64_t i = 0; dtype == STN_DTYPE_F16 && i < n; i++)
        to->f32[i] = stni_f16_to_f32(f16[at + i * stride]);
}

static void add(int64_t *sum, struct stni_exact_addend a)
{
    for (int j = 0; j < 3; j++)
        if (a.word[j])
            sum[a.at + j] += a.word[j];
}

static void add_block(int is_f64, const union block *x, int64_t n, int64_t *sum)
{
    for (int64_t i = 0; i < n; i++)
        add(sum, is_f64 ? stni_exact_addend_f64(x->f64[i]) : stni_exact_addend_f32(x->f32[i]));
}

/* 0 where a value is infinite or NaN, and nothing was added. */
static int bin_block_f32(const float *x, int64_t n, union bins *bins)
{
    uint32_t bits[BLOCK], special = 0;
    memcpy(bits, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        special |= (bits[i] & 0x7f800000u) == 0x7f800000u;
    for (int64_t i = 0; !special && i < n; i++) {
        const uint32_t e = bits[i] >> 23 & 0xff;
        const int64_t m = (bits[i] & 0x7fffff) | (uint32_t)(e != 0) << 23, sign = -(int64_t)(bits[i] >> 31);
        bins->f32[e][i % LANES] += (m ^ sign) - sign;
    }
    return !special;
}

static int bin_block_f64(const double *x, int64_t n, union bins *bins)
{
    uint64_t bits[BLOCK], special = 0;
    memcpy(bits, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        special |= (bits[i] & UINT64_C(0x7ff0000000000000)) == UINT64_C(0x7ff0000000000000);
    for (int64_t i = 0; !special && i < n; i++) {
        const uint64_t e = bits[i] >> 52 & 0x7ff, m = (bits[i] & UINT64_C(0xfffffffffffff)) | (uint64_t)(e != 0) << 52;
        const int64_t sign = -(int64_t)(bits[i] >> 63), low = (int64_t)(m & 0xffffffff), high = (int64_t)(m >> 32);
        bins->f64[e].low += (low ^ sign) - sign;
        bins->f64[e].high += (high ^ sign) - sign;
    }
    return !special;
}

/* value 2^shift units. */
static void add_integer(int64_t *sum, int64_t value, int shift)
{
    const uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    add(sum, stni_exact_shifted(size & 0xffffffffu, shift, value < 0));
    add(sum, stni_exact_shifted(size >> 32, shift + 32, value < 0));
}

static void empty_bins(int is_f64, union bins *bins, int64_t *sum)
{
    for (int e = 0; e < (is_f64 ? EXPONENTS_F64 : EXPONENTS_F32); e++) {
        const int shift = e ? e - 1 : 0;
        for (int lane = 0; !is_f64 && lane < LANES; lane++)
            add_integer(sum, bins->f32[e][lane], shift);
        if (is_f64 && (bins->f64[e].low || bins->f64[e].high)) {
            add_integer(sum, bins->f64[e].low, shift);
            add_integer(sum, bins->f64[e].high, shift + 32);
        }
    }
    memset(bins, 0, sizeof *bins);
}

struct adding {
    stn_dtype dtype; /* of the elements */
    int squares;
    int is_f64, digits; /* of the sums */
    int64_t since; /* elements since the digits were carried */
    int64_t *sum;
    union bins *bins; /* NULL: there are few elements */
};

static void settle(struct adding *a)
{
    if (a->bins)
        empty_bins(a->is_f64, a->bins, a->sum);
    stni_exact_carry(a->sum, a->digits);
    a->since = 0;
}

/* n elements along a dim. */
static void add_run(struct adding *a, const void *in, int64_t at, int64_t stride, int64_t n)
{
    union block x;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        (a->squares ? load_squares : load)(a->dtype, in, at + i * stride, stride, m, &x);
        if (!a->bins || !(a->is_f64 ? bin_block_f64(x.f64, m, a->bins) : bin_block_f32(x.f32, m, a->bins)))
            add_block(a->is_f64, &x, m, a->sum);
        a->since += m;
        if (a->since >= STNI_EXACT_BEFORE_CARRY - BLOCK)
            settle(a);
    }
}

/* The elements from `from` on into one sum. */
static void add_elements(const struct stni_exact_sum_args *args, int64_t from, int64_t *sum, union bins *bins)
{
    const struct stni_reduce_args *r = &args->of;
    const int last = r->n_reduced - 1;
    struct adding a = {.dtype = r->in_dtype, .squares = args->squares, .is_f64 = args->dtype == STN_DTYPE_F64,
                       .digits = stni_exact_digits(args->dtype), .sum = sum, .bins = bins};
    struct walk w = {last > 0 ? last : 0, r->reduced, {0}};
    const int64_t *const strides[] = {r->reduced_in};
    int64_t at = from;
    do
        add_run(&a, r->in, at, last < 0 ? 0 : r->reduced_in[last], last < 0 ? 1 : r->reduced[last]);
    while (step(&w, 1, strides, &at));
    settle(&a);
}

stn_status stni_exact_sum_add_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_exact_sum_args *args = raw;
    const struct stni_reduce_args *a = &args->of;
    const int64_t words = stni_exact_words(args->dtype);
    struct walk w = {a->n_kept, a->kept, {0}};
    const int64_t *const strides[] = {a->kept_in, a->kept_out};
    int64_t at[2] = {0, 0}, elements = 1;
    union bins bins;
    (void)queue;
    if (!args->goes_on)
        memset(args->sums, 0, (size_t)(args->count * words) * sizeof(int64_t));
    if (a->empty)
        return STN_OK;
    memset(&bins, 0, sizeof bins);
    for (int d = 0; d < a->n_reduced; d++)
        elements *= a->reduced[d];
    do
        add_elements(args, at[0], args->sums + at[1] * words, elements >= MANY ? &bins : NULL);
    while (step(&w, 2, strides, at));
    return STN_OK;
}

/* The sum, rounded once to the dtype that it is of; then the mean, or the root. */
static double result_of(const struct stni_exact_sum_args *args, int64_t i)
{
    const double sum = stni_exact_value(args->sums + i * stni_exact_words(args->dtype), args->dtype);
    const double mean = args->of.divides ? sum / (double)args->of.divisor : sum;
    return args->of.roots ? sqrt(mean) : mean;
}

stn_status stni_exact_sum_round_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_exact_sum_args *args = raw;
    (void)queue;
    for (int64_t i = 0; i < args->count; i++) {
        const double value = result_of(args, i);
        const int64_t at = i * args->step;
        switch (args->of.out_dtype) {
        case STN_DTYPE_F64: ((double *)args->of.out)[at] = value; break;
        case STN_DTYPE_F32: ((float *)args->of.out)[at] = (float)value; break;
        case STN_DTYPE_BF16: ((uint16_t *)args->of.out)[at] = stni_f32_to_bf16((float)value); break;
        default: ((uint16_t *)args->of.out)[at] = stni_f32_to_f16((float)value); break;
        }
    }
    return STN_OK;
}
