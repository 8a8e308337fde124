/* Random tensors and the usual initialisers: numbers belong to global elements, so that every layout has the same. */
#include "ops/factory/factory.h"

#include "core/base/dtype.h"

#include <shardtensor/ops_factory.h>

#include <math.h>

stn_tensor *stn_uniform(stn_context *context, const stn_spec *spec, double low, double high)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_UNIFORM, .a = low, .b = high};
    if (!context)
        return NULL;
    if (!stni_factory_ready_floating(context, "uniform", spec))
        return context->error_tensor;
    if (!(low <= high))
        return stni_factory_fail(context, STN_ERR_ARGUMENT, "uniform: 'high' got %g, wanted at least 'low', %g", high,
                                 low);
    return stni_factory_make(context, spec, &args);
}

stn_tensor *stn_rand(stn_context *context, const stn_spec *spec)
{
    return stn_uniform(context, spec, 0, 1);
}

stn_tensor *stn_normal(stn_context *context, const stn_spec *spec, double mean, double std)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_NORMAL, .a = mean, .b = std};
    if (!context)
        return NULL;
    if (!stni_factory_ready_floating(context, "normal", spec))
        return context->error_tensor;
    if (!(std >= 0))
        return stni_factory_fail(context, STN_ERR_ARGUMENT, "normal: 'std' got %g, wanted at least 0", std);
    return stni_factory_make(context, spec, &args);
}

stn_tensor *stn_randn(stn_context *context, const stn_spec *spec)
{
    return stn_normal(context, spec, 0, 1);
}

/* Standard normal numbers below z. */
static double below(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

/* Ends above the mean are mirrored: probabilities near 0 are exact, those near 1 are not. */
stn_tensor *stn_trunc_normal(stn_context *context, const stn_spec *spec, double mean, double std, double low,
                             double high)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_TRUNCATED, .a = mean, .b = std, .low = low, .high = high};
    if (!context)
        return NULL;
    if (!stni_factory_ready_floating(context, "trunc_normal", spec))
        return context->error_tensor;
    if (!(std > 0) || !(low < high))
        return stni_factory_fail(context, STN_ERR_ARGUMENT,
                                 "trunc_normal: got 'std' %g and ends %g, %g, wanted std > 0 and low < high", std, low,
                                 high);
    args.c = below((low - mean) / std);
    args.d = below((high - mean) / std);
    if (low > mean) {
        args.b = -std;
        args.c = below((mean - high) / std);
        args.d = below((mean - low) / std);
    }
    return stni_factory_make(context, spec, &args);
}

/* Whether elements of a real dtype have the whole numbers from `low` to `high` - 1. */
static int has_range(stn_dtype dtype, int64_t low, int64_t high)
{
    static const int64_t least[STN_DTYPE_COUNT] = {
        [STN_DTYPE_I32] = INT32_MIN, [STN_DTYPE_I16] = INT16_MIN, [STN_DTYPE_I8] = INT8_MIN, [STN_DTYPE_F16] = -65504};
    static const int64_t most[STN_DTYPE_COUNT] = {
        [STN_DTYPE_I32] = INT32_MAX, [STN_DTYPE_I16] = INT16_MAX, [STN_DTYPE_I8] = INT8_MAX,
        [STN_DTYPE_U8] = UINT8_MAX,  [STN_DTYPE_BOOL] = 1,        [STN_DTYPE_F16] = 65504};
    return most[dtype] == 0 || (low >= least[dtype] && high - 1 <= most[dtype]);
}

/* Beyond 2^53 a double does not hold every integer. */
stn_tensor *stn_randint(stn_context *context, const stn_spec *spec, int64_t low, int64_t high)
{
    struct stni_factory_args args = {.value = STNI_FACTORY_INTEGER, .a = (double)low, .b = (double)high};
    if (!context)
        return NULL;
    if (!stni_factory_ready(context, "randint", spec))
        return context->error_tensor;
    if (stni_dtype_is_complex(spec->layout.dtype))
        return stni_factory_fail(context, STN_ERR_DTYPE, "randint: 'spec' got %s, wanted a real dtype",
                                 stn_dtype_name(spec->layout.dtype));
    if (low >= high || low < -(INT64_C(1) << 52) || high > INT64_C(1) << 52)
        return stni_factory_fail(context, STN_ERR_ARGUMENT,
                                 "randint: got %lld to %lld, wanted low < high, neither beyond 2^52", (long long)low,
                                 (long long)high);
    if (!has_range(spec->layout.dtype, low, high))
        return stni_factory_fail(context, STN_ERR_DTYPE, "randint: got %lld to %lld, wanted numbers that %s has",
                                 (long long)low, (long long)high, stn_dtype_name(spec->layout.dtype));
    return stni_factory_make(context, spec, &args);
}

double stn_gain(stn_nonlinearity nonlinearity, double slope)
{
    switch (nonlinearity) {
    case STN_GAIN_LINEAR: return 1;
    case STN_GAIN_TANH: return 5.0 / 3;
    case STN_GAIN_RELU: return M_SQRT2;
    case STN_GAIN_LEAKY_RELU: return sqrt(2 / (1 + slope * slope));
    case STN_GAIN_SELU: return 0.75;
    }
    return NAN;
}

struct fans {
    double in, out;
};

/* What a weight (out, in, …) connects: a window counts with all its places. */
static int find_fans(stn_context *context, const char *name, const stn_spec *spec, struct fans *fans)
{
    double places = 1;
    if (!stni_factory_ready_floating(context, name, spec))
        return 0;
    if (spec->layout.ndim < 2) {
        stni_fail(context, STN_ERR_SHAPE, "%s: 'spec' got %d dims, wanted at least 2: outputs, inputs", name,
                  spec->layout.ndim);
        return 0;
    }
    for (int d = 2; d < spec->layout.ndim; d++)
        places *= (double)spec->layout.shape[d];
    fans->in = (double)spec->layout.shape[1] * places;
    fans->out = (double)spec->layout.shape[0] * places;
    return 1;
}

/* The fan that a caller names; 0, and an error is kept, where it names none. */
static int choose_fan(stn_context *context, const char *name, const stn_spec *spec, stn_fan fan, double *out)
{
    struct fans fans;
    if (!find_fans(context, name, spec, &fans))
        return 0;
    if (fan != STN_FAN_IN && fan != STN_FAN_OUT) {
        stni_fail(context, STN_ERR_ARGUMENT, "%s: 'fan' got %d, wanted STN_FAN_IN or STN_FAN_OUT", name, (int)fan);
        return 0;
    }
    *out = fan == STN_FAN_IN ? fans.in : fans.out;
    return 1;
}

/* Of a weight without elements no number is drawn, whatever its spread. */
static double spread(double gain, double over)
{
    return over > 0 ? gain / sqrt(over) : 0;
}

stn_tensor *stn_xavier_uniform(stn_context *context, const stn_spec *spec, double gain)
{
    struct fans fans;
    if (!context)
        return NULL;
    if (!find_fans(context, "xavier_uniform", spec, &fans))
        return context->error_tensor;
    const double bound = sqrt(3) * spread(gain, (fans.in + fans.out) / 2);
    return stn_uniform(context, spec, -bound, bound);
}

stn_tensor *stn_xavier_normal(stn_context *context, const stn_spec *spec, double gain)
{
    struct fans fans;
    if (!context)
        return NULL;
    if (!find_fans(context, "xavier_normal", spec, &fans))
        return context->error_tensor;
    return stn_normal(context, spec, 0, spread(gain, (fans.in + fans.out) / 2));
}

stn_tensor *stn_kaiming_uniform(stn_context *context, const stn_spec *spec, double gain, stn_fan fan)
{
    double over;
    if (!context)
        return NULL;
    if (!choose_fan(context, "kaiming_uniform", spec, fan, &over))
        return context->error_tensor;
    const double bound = sqrt(3) * spread(gain, over);
    return stn_uniform(context, spec, -bound, bound);
}

stn_tensor *stn_kaiming_normal(stn_context *context, const stn_spec *spec, double gain, stn_fan fan)
{
    double over;
    if (!context)
        return NULL;
    if (!choose_fan(context, "kaiming_normal", spec, fan, &over))
        return context->error_tensor;
    return stn_normal(context, spec, 0, spread(gain, over));
}
