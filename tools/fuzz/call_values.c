/* Which differences of two numbers rounding explains. */
#include "call_run.h"

#include "conform/number.h"

#include <math.h>
#include <string.h>

/* One layout's roundings add up to what a few perturbed inputs show, and to somewhat more. */
enum { REACH = 4 };

static double bound_of(stn_dtype dtype)
{
    if (number_parts(dtype) == 0)
        return 0;
    if (dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_C128)
        return 1e-9;
    return dtype == STN_DTYPE_BF16 ? 0.03 : dtype == STN_DTYPE_F16 ? 0.005 : 2e-5;
}

/* What is worked out in the narrower of two dtypes has its digits, whatever it is kept in. */
static double bound_of_call(const struct call_pair *p, stn_dtype dtype)
{
    double bound = bound_of(dtype);
    for (int i = 0; i < p->call->n_inputs; i++)
        bound = fmax(bound, number_parts(dtype) == 0 ? 0 : bound_of(p->call->inputs[i].dtype));
    return bound;
}

/* How a pair is checked: by the largest number there is, and by what gradients are added up from, which may cancel. */
struct scale {
    double bound, largest;
    int is_sum;
};

/* Ops that multiply and add up over elements of several inputs: products, convolutions, scores, means with weights,
 * what is made of them. */
static int contracts(const char *op)
{
    static const char *const names[] = {
        "addmm", "anomaly_correlation", "baddbmm", "bmm", "cdist", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
        "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "crps_ensemble", "dot", "einsum", "energy_score",
        "linear", "lp_loss", "matmul", "mm", "mv", "neighborhood_attention", "rmse", "scaled_dot_product_attention",
        "weighted_mean", "weighted_var"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0)
            return 1;
    return 0;
}

/* Products of elements: of extremes the order decides what overflows before a 0 comes, and a complex infinity times
 * 1 has a NaN. */
static int multiplies_up(const char *op)
{
    return strcmp(op, "prod") == 0 || strcmp(op, "cumprod") == 0 || strcmp(op, "scatter_reduce") == 0;
}

/* Whether results are made of several elements of one input, whose order decides what overflows. */
static int may_reduce(const struct call_pair *p, int64_t numel)
{
    int reduces = p->call->n_inputs == 1;
    for (int i = 0; i < p->call->n_inputs; i++) {
        int64_t n = 1;
        for (int d = 0; d < p->call->inputs[i].ndim; d++)
            n *= p->call->inputs[i].shape[d];
        reduces |= n > numel;
    }
    return reduces;
}

/* Infinite or NaN, or above 1e15. */
static int is_extreme(double x)
{
    return !isfinite(x) || fabs(x) > 1e15;
}

/* Two numbers that one order of adding up gives and another does not: infinity, NaN, and large ones just below. Sums
 * are those of reductions, pending ones too, and of gradients, which add up over what was broadcast; there an
 * infinity times another rank's part, 0, is NaN. */
static int follows_from_order(const struct call_pair *p, double x, double y, const struct scale *scale)
{
    if (!is_extreme(x) || !is_extreme(y))
        return 0;
    return scale->is_sum || p->call->pending || (p->call->special && !isnan(x) && !isnan(y));
}

static int is_near(const struct call_pair *p, double x, double y, const struct scale *scale)
{
    if (x == y || (isnan(x) && isnan(y)))
        return 1;
    const char *op = p->call->op->name;
    if (p->call->special && (multiplies_up(op) || (p->call->n_inputs > 1 && contracts(op)))) /* so does every digit */
        return 1;
    if (!isfinite(x) || !isfinite(y)) /* products of thousands of plain numbers overflow, too */
        return (p->call->special || p->call->pending || multiplies_up(op)) && follows_from_order(p, x, y, scale);
    return fabs(x - y) <= scale->bound * scale->largest || fabs(x - y) <= 10 * scale->bound * fabs(x);
}

/* Parts of complex numbers count. */
static int64_t count_of(const struct call_result *result)
{
    return result->data ? result->numel * (number_parts(result->dtype) == 2 ? 2 : 1) : 0;
}

static double largest_of(const struct call_result *result)
{
    double largest = 0;
    for (int64_t i = 0; i < count_of(result); i++) {
        const double x = fabs(call_number_at(result->dtype, result->data, i));
        largest = isfinite(x) && x > largest ? x : largest;
    }
    return largest;
}

/* The other part of a complex number that is NaN does not show how large were the terms that it was added up from. */
static int is_beside_nan(const struct call_pair *p, const struct call_result *result, int64_t i)
{
    const int is_complex = number_parts(result->dtype) == 2;
    return p->call->special && is_complex && isnan(call_number_at(result->dtype, result->data, i ^ 1));
}

/* Where a product of complex infinities is NaN, C's has a part that is infinite (its Annex G), and a device's has not.
 * Fourier transforms are made of such products, and harmonic ones of Fourier transforms. */
static int differs_on_devices(const struct call_pair *p, stn_dtype dtype)
{
    const char *name = p->call->op->name;
    const int is_complex = number_parts(dtype) == 2 || strstr(name, "fft") != NULL || strstr(name, "sht") != NULL;
    return p->call->world.on_device && p->call->special && is_complex;
}

/* How far a number of one rank goes when its inputs are perturbed by their rounding: the size of what cancels in it, or
 * of a step that it stands at. */
static double reach_of(const struct call_pair *p, int64_t i)
{
    double reach = 0;
    for (int m = 0; p->perturbed && m < CALL_PERTURBED; m++) {
        const struct call_result *result =
            p->is_gradient ? &p->perturbed[m].gradients[p->at] : &p->perturbed[m].outputs[p->at];
        if (!result->data || result->dtype != p->one->dtype || result->numel != p->one->numel)
            continue;
        const double x = call_number_at(p->one->dtype, p->one->data, i);
        const double y = call_number_at(result->dtype, result->data, i);
        reach = x == y || (isnan(x) && isnan(y)) ? reach : isfinite(x - y) ? fmax(reach, fabs(x - y)) : INFINITY;
    }
    return reach;
}

static struct scale scale_of(const struct call_pair *p)
{
    struct scale scale = {bound_of_call(p, p->one->dtype), p->is_gradient ? 1 : 1e-2,
                          p->is_gradient || may_reduce(p, p->one->numel)};
    scale.largest = fmax(scale.largest, largest_of(p->one));
    /* Of extremes a gradient's terms may be as large as the results, and cancel. */
    for (int k = 0; p->is_gradient && p->call->special && k < p->alone->n_outputs; k++)
        scale.largest = fmax(scale.largest, largest_of(&p->alone->outputs[k]));
    return scale;
}

int64_t call_pair_differs(const struct call_pair *p)
{
    if (differs_on_devices(p, p->one->dtype))
        return -1;
    const struct scale scale = scale_of(p);
    for (int64_t i = 0; i < count_of(p->one); i++) {
        const double x = call_number_at(p->one->dtype, p->one->data, i);
        const double y = call_number_at(p->many->dtype, p->many->data, i);
        if (is_near(p, x, y, &scale) || (is_beside_nan(p, p->one, i) && is_beside_nan(p, p->many, i)))
            continue;
        const double reach = reach_of(p, i);
        if (!(reach == INFINITY || fabs(x - y) <= REACH * reach))
            return i;
    }
    return -1;
}
