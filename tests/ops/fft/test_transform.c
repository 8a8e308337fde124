/* One line's transform, by FFTW and by our own, against the definition, for small lengths, products of small primes,
 * and large primes. */
#include "core/base/dtype.h"
#include "harness.h"
#include "ops/fft/transform.h"

#include <complex.h>
#include <math.h>
#include <stdalign.h>
#include <string.h>

enum { LONGEST = 256, WORK = 1 << 16 };

struct lines {
    alignas(64) char in[(LONGEST + 1) * sizeof(double _Complex)];
    alignas(64) char out[(LONGEST + 1) * sizeof(double _Complex)];
    alignas(64) char work[WORK];
    double _Complex x[LONGEST], want[LONGEST];
};

static double value(int64_t i)
{
    return sin(1.7 * (double)i + 0.3) + 0.2 * cos((double)(i * i % 17));
}

/* The whole line x: of what is restored, with its conjugates; and its transform by the definition. */
static void define(enum stni_transform_kind kind, int64_t n, struct lines *l)
{
    const int sign = kind == STNI_TRANSFORM_BACKWARD || kind == STNI_TRANSFORM_RESTORE ? 1 : -1;
    for (int64_t j = 0; j < n; j++)
        l->x[j] = value(j) + (kind == STNI_TRANSFORM_HALVE ? 0 : value(j + 100) * I);
    for (int64_t j = 0; j < n && kind == STNI_TRANSFORM_RESTORE; j++)
        l->x[j] = 2 * j > n ? conj(l->x[n - j]) : j == 0 || 2 * j == n ? creal(l->x[j]) : l->x[j];
    for (int64_t k = 0; k < n; k++) {
        l->want[k] = 0;
        for (int64_t j = 0; j < n; j++)
            l->want[k] += l->x[j] * cexp(sign * 2 * M_PI * I * (double)(j * k % n) / (double)n);
    }
}

/* Elements 0 and n / 2 get an imaginary part that a restored line is not to read. */
static void put(stn_dtype dtype, enum stni_transform_kind kind, int64_t n, struct lines *l)
{
    const int64_t count = kind == STNI_TRANSFORM_RESTORE ? n / 2 + 1 : n;
    for (int64_t j = 0; j < count; j++) {
        const double _Complex v = l->x[j] + (kind == STNI_TRANSFORM_RESTORE && (j == 0 || 2 * j == n) ? 3 * I : 0);
        if (kind == STNI_TRANSFORM_HALVE && dtype == STN_DTYPE_F64)
            ((double *)l->in)[j] = creal(v);
        else if (kind == STNI_TRANSFORM_HALVE)
            ((float *)l->in)[j] = (float)creal(v);
        else if (dtype == STN_DTYPE_F64)
            ((double _Complex *)l->in)[j] = v;
        else
            ((float _Complex *)l->in)[j] = (float _Complex)v;
    }
}

static double _Complex get(stn_dtype dtype, enum stni_transform_kind kind, const struct lines *l, int64_t k)
{
    if (kind == STNI_TRANSFORM_RESTORE)
        return dtype == STN_DTYPE_F64 ? ((const double *)l->out)[k] : (double)((const float *)l->out)[k];
    return dtype == STN_DTYPE_F64 ? ((const double _Complex *)l->out)[k]
                                  : (double _Complex)((const float _Complex *)l->out)[k];
}

static void check(stn_status (*make)(struct stni_transform *), enum stni_transform_kind kind, stn_dtype dtype,
                  int64_t n)
{
    static struct lines l;
    struct stni_transform t = {.kind = kind, .dtype = dtype, .n = n};
    const double tolerance = (dtype == STN_DTYPE_F64 ? 1e-14 : 4e-7) * sqrt((double)n) * 3;
    const stn_status status = make(&t);
    if (make == stni_transform_fftw && status == STN_ERR_UNSUPPORTED)
        return;
    CHECK_STATUS(status, STN_OK);
    CHECK(t.work_bytes <= WORK);
    define(kind, n, &l);
    put(dtype, kind, n, &l);
    t.run(&t, l.in, l.out, l.work);
    for (int64_t k = 0; k < (kind == STNI_TRANSFORM_HALVE ? n / 2 + 1 : n); k++)
        CHECK(cabs(get(dtype, kind, &l, k) - l.want[k]) <= tolerance);
    t.destroy(&t);
}

static void check_all(stn_status (*make)(struct stni_transform *))
{
    static const int64_t lengths[] = {1,  2,  3,  4,  5,  7,   8,   9,   12,  15,  16,  30, 31,
                                      32, 37, 64, 74, 97, 100, 121, 128, 210, 225, 251, 256};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = STNI_TRANSFORM_FORWARD; kind <= STNI_TRANSFORM_RESTORE; kind++) {
            check(make, (enum stni_transform_kind)kind, STN_DTYPE_F64, lengths[i]);
            check(make, (enum stni_transform_kind)kind, STN_DTYPE_F32, lengths[i]);
        }
}

static void our_own_transforms_are_the_defined_ones(void)
{
    check_all(stni_transform_own);
}

static void whichever_the_build_has_they_agree(void)
{
    check_all(stni_transform_fftw);
    check(stni_transform_own, STNI_TRANSFORM_FORWARD, STN_DTYPE_F64, 6); /* where there is no FFTW */
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"our_own_transforms_are_the_defined_ones", our_own_transforms_are_the_defined_ones},
        {"whichever_the_build_has_they_agree", whichever_the_build_has_they_agree},
    };
    return TEST_MAIN(argc, argv, cases);
}
