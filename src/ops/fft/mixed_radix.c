/* Transforms of our own, for builds without FFTW, in f64 whatever the dtype.
 *
 * Decimation in time, one prime factor of n after the other: n/r transforms of length r on the r transforms of every
 * r-th element (Cooley and Tukey 1965). Where n has a large prime factor, as a convolution with a chirp
 * (mixed_radix.h). Real lines go through complex ones. */
#include "ops/fft/mixed_radix.h"
#include "ops/fft/transform.h"

#include "core/base/host_alloc.h"

#include <complex.h>
#include <math.h>
#include <string.h>

typedef double _Complex number;

/* Without the special cases for infinities of C's own complex product. */
static inline number times(number a, number b)
{
    return __builtin_complex(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* A transform of n with the sign of its exponents in the table. */
struct line {
    int64_t n;
    int n_factors, factors[STNI_FFT_MAX_FACTORS];
    number *roots; /* exp(+-2 pi i k / n), n of them */
};

struct own {
    struct line line;       /* of n; of the power of two where `chirp` is there */
    number *chirp, *kernel; /* exp(+-pi i k^2 / n), n of them; the transform of their conjugates, wrapped around, over the power of two */
};

static int has_large_prime(int64_t n)
{
    struct line line;
    return stni_fft_factorise(n, line.factors, &line.n_factors) > 1;
}

static stn_status line_init(struct line *line, int64_t n, int sign)
{
    *line = (struct line){.n = n};
    stni_fft_factorise(n, line->factors, &line->n_factors);
    line->roots = stni_malloc((size_t)n * sizeof *line->roots);
    if (!line->roots)
        return STN_ERR_MEMORY;
    for (int64_t k = 0; k < n; k++)
        line->roots[k] = cexp(__builtin_complex(0.0, sign * 2 * M_PI * (double)k / (double)n));
    return STN_OK;
}

/* The transforms of length r of elements k, k + m, …, m = n / r, of `out`, each element multiplied by its twiddle
 * factor first. */
static void join_parts(const struct line *line, int r, int64_t m, int64_t stride, number *out)
{
    number part[STNI_FFT_LARGE_PRIME + 1];
    const int64_t step = line->n / r;
    for (int64_t k = 0; k < m; k++) {
        for (int j = 0; j < r; j++)
            part[j] = times(out[j * m + k], line->roots[j * k * stride]);
        for (int q = 0; q < r; q++) {
            number sum = part[0];
            for (int j = 1; j < r; j++)
                sum += times(part[j], line->roots[j * q % r * step]);
            out[q * m + k] = sum;
        }
    }
}

/* out = the transform of n elements `stride` apart, by the factors from `factor` on. */
static void transform(const struct line *line, int factor, int64_t n, int64_t stride, const number *in, number *out)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    const int r = line->factors[factor];
    for (int j = 0; j < r; j++)
        transform(line, factor + 1, n / r, stride * r, in + j * stride, out + j * (n / r));
    join_parts(line, r, n / r, stride, out);
}

/* exp(sign pi i k^2 / n): k^2 modulo 2n keeps the angle exact. */
static number chirp_at(int64_t k, int64_t n, int sign)
{
    return cexp(__builtin_complex(0.0, sign * M_PI * (double)stni_fft_chirp_step(k, n) / (double)n));
}

static stn_status bluestein_init(struct own *own, int64_t n, int sign)
{
    const int64_t space = stni_fft_chirp_space(n);
    STNI_TRY(line_init(&own->line, space, -1));
    own->chirp = stni_malloc((size_t)n * sizeof *own->chirp);
    own->kernel = stni_malloc((size_t)space * sizeof *own->kernel);
    number *wrapped = stni_calloc((size_t)space, sizeof *wrapped);
    if (!own->chirp || !own->kernel || !wrapped) {
        stni_free(wrapped);
        return STN_ERR_MEMORY;
    }
    for (int64_t k = 0; k < n; k++) {
        own->chirp[k] = chirp_at(k, n, sign);
        wrapped[k] = wrapped[k > 0 ? space - k : 0] = conj(own->chirp[k]);
    }
    transform(&own->line, 0, space, 1, wrapped, own->kernel);
    stni_free(wrapped);
    return STN_OK;
}

/* y_k = chirp_k sum_j (x_j chirp_j) conj(chirp_{k-j}): the convolution by two transforms, the second of conjugates,
 * so that it goes back. */
static void bluestein(const struct own *own, int64_t n, const number *in, number *out, number *work)
{
    const int64_t space = own->line.n;
    number *a = work, *b = work + space;
    memset(a, 0, (size_t)space * sizeof *a);
    for (int64_t k = 0; k < n; k++)
        a[k] = times(in[k], own->chirp[k]);
    transform(&own->line, 0, space, 1, a, b);
    for (int64_t k = 0; k < space; k++)
        b[k] = conj(times(b[k], own->kernel[k]));
    transform(&own->line, 0, space, 1, b, a);
    for (int64_t k = 0; k < n; k++)
        out[k] = times(conj(a[k]) / (double)space, own->chirp[k]);
}

/* Element k of a line as stored: real or complex, f32 or f64. */
static number read(const void *line, int is_f64, int is_complex, int64_t k)
{
    if (is_complex)
        return is_f64 ? ((const number *)line)[k] : (number)((const float _Complex *)line)[k];
    return is_f64 ? ((const double *)line)[k] : (double)((const float *)line)[k];
}

static void write(void *line, int is_f64, int is_complex, int64_t k, number v)
{
    if (is_complex && is_f64)
        ((number *)line)[k] = v;
    else if (is_complex)
        ((float _Complex *)line)[k] = (float _Complex)v;
    else if (is_f64)
        ((double *)line)[k] = creal(v);
    else
        ((float *)line)[k] = (float)creal(v);
}

/* The whole line as complex numbers. Where half of it is there, what is not is the conjugate of what is. */
static void widen(const struct stni_transform *t, const void *in, number *x)
{
    const int is_f64 = t->dtype == STN_DTYPE_F64;
    const int64_t half = t->n / 2 + 1, there = t->kind == STNI_TRANSFORM_RESTORE ? half : t->n;
    for (int64_t k = 0; k < there; k++)
        x[k] = read(in, is_f64, t->kind != STNI_TRANSFORM_HALVE, k);
    for (int64_t k = there; k < t->n; k++)
        x[k] = conj(x[t->n - k]);
    if (t->kind != STNI_TRANSFORM_RESTORE)
        return;
    x[0] = creal(x[0]);
    if (t->n % 2 == 0)
        x[t->n / 2] = creal(x[t->n / 2]);
}

static void run(const struct stni_transform *t, void *in, void *out, void *work)
{
    const struct own *own = t->plan;
    number *x = work, *y = x + t->n;
    const int64_t wanted = t->kind == STNI_TRANSFORM_HALVE ? t->n / 2 + 1 : t->n;
    widen(t, in, x);
    if (own->chirp)
        bluestein(own, t->n, x, y, y + t->n);
    else
        transform(&own->line, 0, t->n, 1, x, y);
    for (int64_t k = 0; k < wanted; k++)
        write(out, t->dtype == STN_DTYPE_F64, t->kind != STNI_TRANSFORM_RESTORE, k, y[k]);
}

static void free_own(struct own *own)
{
    stni_free(own->line.roots);
    stni_free(own->chirp);
    stni_free(own->kernel);
    stni_free(own);
}

static void destroy(struct stni_transform *t)
{
    free_own(t->plan);
}

stn_status stni_transform_own(struct stni_transform *t)
{
    const int sign = t->kind == STNI_TRANSFORM_BACKWARD || t->kind == STNI_TRANSFORM_RESTORE ? 1 : -1;
    struct own *own = stni_calloc(1, sizeof *own);
    if (!own)
        return STN_ERR_MEMORY;
    stn_status status = has_large_prime(t->n) ? bluestein_init(own, t->n, sign) : line_init(&own->line, t->n, sign);
    if (status != STN_OK) {
        free_own(own);
        return status;
    }
    t->plan = own;
    t->work_bytes = (size_t)(2 * t->n + (own->chirp ? 2 * own->line.n : 0)) * sizeof(number);
    t->run = run;
    t->destroy = destroy;
    return STN_OK;
}
