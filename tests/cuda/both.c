#include "both.h"

#include "harness.h"

#include "core/context/context.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Another build of the module: a real GPU's. */
static const char *given_folder(void)
{
    return getenv("STN_TEST_CUDA_FOLDER");
}

int both_on_standin(void)
{
    return given_folder() == NULL;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 40 };
#else
enum { EVERY = 8 };
#endif

int both_takes(int i)
{
    return (!both_on_standin() && !getenv("STN_TEST_FEW")) || i % EVERY == 0;
}

stn_context *both_open(stn_context_options options)
{
    static char text[512];
    const char *folder = given_folder();
    stn_context *context = NULL;
    options.size = sizeof options;
    options.module_path = folder ? folder : CUDA_FOLDER;
    options.error_text = text;
    options.error_text_size = sizeof text;
    if (CHECK_STATUS(stn_context_create(&options, &context), STN_OK))
        stni_context_check_scratch(context);
    else
        CHECK_STR(text, "");
    return context;
}

stn_tensor *both_input(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, int seed)
{
    const stn_spec *spec = NULL;
    int64_t n = 1;
    uint32_t state = (uint32_t)seed * 2654435761u + 12345u;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    float *data = malloc((size_t)(n > 0 ? n : 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(int32_t)(state >> 12 & 0xffff) / 8192.0f - 4.0f;
    }
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, ndim, shape, NULL, &spec);
    stn_tensor *input = stn_cast(stn_from_host(context, spec, data), dtype);
    stn_spec_release(&spec);
    free(data);
    return input;
}

/* As it is, but that every NaN has the same bits: which those are is the device's. */
static stn_tensor *without_nans(stn_tensor *t)
{
    enum { STAND_IN = 30000 };
    const stn_dtype dtype = stn_tensor_dtype(t);
    const int is_narrow = dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16;
    const int is_floating = is_narrow || dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_F64;
    return is_floating ? stn_masked_fill(t, stn_isnan(t), STAND_IN) : t;
}

/* Results as f64, or with `bits` as they are, one behind the other. */
struct results {
    int n;
    size_t bytes[BOTH_RESULTS];
    char *data[BOTH_RESULTS];
    stn_status status;
};

static struct results run_on(const char *device, const both_work *work, stn_dtype dtype, const int64_t *shape, int bits)
{
    struct results results = {.status = STN_ERR_INTERNAL};
    stn_tensor *out[BOTH_RESULTS] = {NULL};
    stn_context *context = both_open((stn_context_options){.device = device});
    if (!context)
        return results;
    stn_scope_begin(context);
    results.n = work->run(context, dtype, shape, out);
    for (int k = 0; k < results.n && stn_context_status(context) == STN_OK; k++) {
        stn_tensor *t = bits ? without_nans(out[k]) : stn_cast(out[k], STN_DTYPE_F64);
        const stn_spec *spec = stn_tensor_spec(t);
        results.bytes[k] = (size_t)stn_spec_local_numel(spec) * stn_dtype_size(stn_spec_dtype(spec));
        results.data[k] = malloc(results.bytes[k] + 1);
        CHECK_STATUS(stn_to_host(t, results.data[k], results.bytes[k]), STN_OK);
    }
    results.status = stn_context_status(context);
    CHECK_STR(stn_context_error_text(context), "");
    stn_scope_end(context);
    stn_context_destroy(&context);
    return results;
}

/* Relative to the larger of `least` and the wanted number. */
static int is_near(double got, double want, double tolerance, double least)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= tolerance * (fabs(want) > least ? fabs(want) : least);
}

/* Of x - y, or of x where y is NULL; numbers that are not finite count as 0. */
static double root_mean_square(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double difference = y ? x[i] - y[i] : x[i];
        sum += isfinite(difference) ? difference * difference : 0;
    }
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

static void compare_one(const both_work *work, stn_dtype dtype, const int64_t *shape, int k, const struct results *got,
                        const struct results *want, double tolerance, int sums)
{
    const double *g = (const double *)(void *)got->data[k], *w = (const double *)(void *)want->data[k];
    int64_t wrong = 0, first = -1, n = (int64_t)(want->bytes[k] / sizeof(double));
    if (!CHECK_I64((int64_t)got->bytes[k], (int64_t)want->bytes[k]))
        return;
    const double size = root_mean_square(w, NULL, n), least = sums && size > 1 ? size : 1;
    const double difference = sums ? root_mean_square(g, w, n) / least : 0, each = sums ? 6 * tolerance : tolerance;
    if (tolerance == 0)
        wrong = memcmp(g, w, want->bytes[k]) != 0;
    for (int64_t i = 0; tolerance > 0 && i < n; i++)
        if (!is_near(g[i], w[i], each, least) && wrong++ == 0)
            first = i;
    if (CHECK_I64(wrong, 0) && CHECK(difference <= tolerance))
        return;
    fprintf(stderr, "%s, %s, %d x %d x %d, result %d", work->name, stn_dtype_name(dtype), (int)shape[0], (int)shape[1],
            (int)shape[2], k);
    if (sums)
        fprintf(stderr, ": differs by %g of %g in all", difference, least);
    if (first >= 0)
        fprintf(stderr, ": element %d got %.17g, wanted %.17g", (int)first, g[first], w[first]);
    fprintf(stderr, "\n");
}

static void compare_results(const both_work *work, stn_dtype dtype, const int64_t *shape, double tolerance, int sums)
{
    struct results want = run_on("cpu", work, dtype, shape, tolerance == 0);
    struct results got = run_on("cuda", work, dtype, shape, tolerance == 0);
    CHECK(want.n > 0);
    if (CHECK_STATUS(want.status, STN_OK) && CHECK_STATUS(got.status, STN_OK))
        for (int k = 0; k < want.n; k++)
            compare_one(work, dtype, shape, k, &got, &want, tolerance, sums);
    for (int k = 0; k < BOTH_RESULTS; k++) {
        free(want.data[k]);
        free(got.data[k]);
    }
}

void both_compare(const both_work *work, stn_dtype dtype, const int64_t *shape, double tolerance)
{
    compare_results(work, dtype, shape, tolerance, 0);
}

void both_compare_sums(const both_work *work, stn_dtype dtype, const int64_t *shape, double tolerance)
{
    compare_results(work, dtype, shape, tolerance, 1);
}
