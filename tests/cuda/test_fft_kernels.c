/* Fourier transforms by kernels of our own on a CUDA device against the CPU's: of lines that are transformed in shared
 * memory, of longer ones, and of those whose length has a large prime factor; along the dim in which neighbours lie
 * beside each other, and across. */
#include "both.h"

#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>

enum { MOST = 4110, LINES = 3 };

/* Numbers between -1 and 1. */
static stn_tensor *numbers(stn_context *context, stn_dtype dtype, const int64_t *shape)
{
    static double data[MOST * LINES];
    const stn_spec *spec;
    if (!CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK))
        return NULL;
    for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        data[i] = (double)(i * 7919 % 1013 - 506) / 507;
    stn_tensor *tensor = stn_cast(stn_from_host(context, spec, data), dtype);
    stn_spec_release(&spec);
    return tensor;
}

typedef stn_tensor *(*transform)(stn_tensor *x, int64_t n, int dim);

static stn_tensor *forward(stn_tensor *x, int64_t n, int dim)
{
    return stn_fft(stn_complex(x, stn_neg(x)), n, dim, STN_FFT_BACKWARD);
}

static stn_tensor *backward(stn_tensor *x, int64_t n, int dim)
{
    return stn_ifft(stn_complex(x, stn_square(x)), n, dim, STN_FFT_ORTHO);
}

static stn_tensor *of_reals(stn_tensor *x, int64_t n, int dim)
{
    return stn_fft(x, n, dim, STN_FFT_FORWARD);
}

static stn_tensor *halved(stn_tensor *x, int64_t n, int dim)
{
    return stn_rfft(x, n, dim, STN_FFT_BACKWARD);
}

static stn_tensor *restored(stn_tensor *x, int64_t n, int dim)
{
    return stn_irfft(stn_rfft(stn_square(x), n, dim, STN_FFT_ORTHO), n, dim, STN_FFT_ORTHO);
}

/* The result's numbers as f64, real parts and imaginary ones; how many. */
static int64_t run(stn_context *context, transform f, stn_dtype dtype, int64_t n, int dim, double *result)
{
    const int64_t shape[] = {dim == 0 ? n : LINES, dim == 0 ? LINES : n};
    int64_t count = 0;
    stn_scope_begin(context);
    stn_tensor *y = f(numbers(context, dtype, shape), n, dim);
    const int is_real = stn_tensor_dtype(y) == STN_DTYPE_F32 || stn_tensor_dtype(y) == STN_DTYPE_F64;
    stn_tensor *flat = stn_cast(is_real ? y : stn_view_as_real(y), STN_DTYPE_F64);
    if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
        count = stn_spec_local_numel(stn_tensor_spec(flat));
        CHECK_STATUS(stn_to_host(flat, result, (size_t)count * sizeof *result), STN_OK);
    } else {
        fprintf(stderr, "%s\n", stn_context_error_text(context));
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return count;
}

/* The largest difference over the largest number. */
static double difference(const double *a, const double *b, int64_t n)
{
    double apart = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        apart = test_worst(apart, fabs(a[i] - b[i]));
        most = fmax(most, fabs(b[i]));
        if (a[i] != a[i])
            return NAN;
    }
    return most > 0 ? apart / most : apart;
}

static void transforms_agree_with_the_cpu(void)
{
    static const int64_t sizes[] = {1, 2, 7, 24, 37, 243, 1023, 1024, 1025, 1080, MOST};
    static const transform transforms[] = {forward, backward, of_reals, halved, restored};
    static double by_cpu[2 * MOST * LINES], by_cuda[2 * MOST * LINES];
    stn_context *cpu = both_open((stn_context_options){.device = "cpu"}),
                *cuda = both_open((stn_context_options){.device = "cuda", .without = "cufft"});
    for (size_t i = 0; cpu && cuda && i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t t = 0; t < sizeof transforms / sizeof transforms[0]; t++) {
            const int dim = (int)(i + t) % 2, is_f64 = (i + t) / 2 % 2 == 0;
            const stn_dtype dtype = is_f64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
            const int64_t count = run(cpu, transforms[t], dtype, sizes[i], dim, by_cpu);
            CHECK_I64(run(cuda, transforms[t], dtype, sizes[i], dim, by_cuda), count);
            const double apart = difference(by_cuda, by_cpu, count);
            if (!CHECK_I64(apart <= (is_f64 ? 1e-13 : 2e-6), 1))
                fprintf(stderr, "transform %d of %d elements along dim %d in %s: %g\n", (int)t, (int)sizes[i], dim,
                        stn_dtype_name(dtype), apart);
        }
    stn_context_destroy(&cpu);
    stn_context_destroy(&cuda);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"transforms_agree_with_the_cpu", transforms_agree_with_the_cpu}};
    return TEST_MAIN(argc, argv, cases);
}
