/* Where a point of a grid lies in an input, and which elements it reads along one dim, with which weights. Pure
 * functions, for kernels of every device.
 *
 * A coordinate goes from -1 to 1 over the input: between the centres of its first and last elements where corners
 * are aligned, else between their outer ends. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_TAPS_H
#define STNI_OPS_RESAMPLE_SAMPLE_TAPS_H

#include "ops/resample/taps.h"

enum stni_sample_mode { STNI_SAMPLE_BILINEAR, STNI_SAMPLE_NEAREST, STNI_SAMPLE_BICUBIC };
enum stni_sample_padding { STNI_SAMPLE_ZEROS, STNI_SAMPLE_BORDER, STNI_SAMPLE_REFLECTION };
enum { STNI_SAMPLE_TAPS = 4 };

struct stni_sample_rule {
    int32_t mode, padding, align_corners;
};

struct stni_sample_taps {
    int64_t index[STNI_SAMPLE_TAPS]; /* below 0 or beyond the end: reads zero */
    double weight[STNI_SAMPLE_TAPS];
    double derivative[STNI_SAMPLE_TAPS]; /* of the weight with respect to the coordinate */
};

STNI_INLINE int stni_sample_n_taps(enum stni_sample_mode mode)
{
    return mode == STNI_SAMPLE_NEAREST ? 1 : mode == STNI_SAMPLE_BILINEAR ? 2 : 4;
}

/* A position moved into the input, as the padding wants it. `*sign` is multiplied by the derivative. */
STNI_INLINE double stni_sample_move(const struct stni_sample_rule *rule, int64_t n, double x, double *sign)
{
    if (rule->padding == STNI_SAMPLE_ZEROS)
        return x;
    if (rule->padding == STNI_SAMPLE_REFLECTION) {
        double low = rule->align_corners ? 0 : -0.5, span = rule->align_corners ? (double)n - 1 : (double)n;
        if (span == 0) {
            *sign = 0;
            return 0;
        }
        double from = fabs(x - low), extra = fmod(from, span);
        int odd = fmod(floor(from / span), 2.0) != 0;
        *sign *= (x < low) != odd ? -1 : 1;
        x = odd ? span - extra + low : extra + low;
    }
    if (x <= 0 || x >= (double)n - 1) {
        *sign = 0;
        return x <= 0 ? 0 : (double)n - 1;
    }
    return x;
}

/* What cannot be a position lies outside. */
STNI_INLINE int64_t stni_sample_index(double x)
{
    return x > -1e15 && x < 1e15 ? (int64_t)x : -100;
}

/* The derivative of Keys' cubic at distance x, 0 <= x < 2. */
STNI_INLINE double stni_sample_cubic_derivative(double x)
{
    const double a = -0.75;
    return x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
}

STNI_INLINE void stni_sample_bicubic(const struct stni_sample_rule *rule, int64_t n, double x, double scale,
                                     struct stni_sample_taps *out)
{
    double base = floor(x), t = x - base;
    for (int k = 0; k < 4; k++) {
        double away = (double)(k - 1) - t, ignored = 1;
        out->index[k] = stni_sample_index(stni_sample_move(rule, n, base + k - 1, &ignored));
        out->weight[k] = stni_resample_cubic(fabs(away), -0.75);
        out->derivative[k] = scale * (away < 0 ? 1 : -1) * stni_sample_cubic_derivative(fabs(away));
    }
}

/* What coordinate `at` reads along a dim of n elements. */
STNI_INLINE void stni_sample_read(const struct stni_sample_rule *rule, int64_t n, double at,
                                  struct stni_sample_taps *out)
{
    double scale = 0.5 * (rule->align_corners ? (double)n - 1 : (double)n);
    double x = rule->align_corners ? (at + 1) / 2 * ((double)n - 1) : ((at + 1) * (double)n - 1) / 2;
    if (rule->mode == STNI_SAMPLE_BICUBIC) {
        stni_sample_bicubic(rule, n, x, scale, out);
        return;
    }
    x = stni_sample_move(rule, n, x, &scale);
    if (rule->mode == STNI_SAMPLE_NEAREST) {
        const struct stni_sample_taps one = {{stni_sample_index(rint(x))}, {1}, {0}};
        *out = one;
        return;
    }
    double base = floor(x), t = x - base;
    int64_t first = stni_sample_index(base);
    const struct stni_sample_taps two = {{first, first + 1}, {1 - t, t}, {-scale, scale}};
    *out = two;
}

#endif
