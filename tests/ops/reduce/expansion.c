#include "expansion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t expansion_next(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

double expansion_wide(uint64_t *state, int most)
{
    const uint64_t bits = expansion_next(state);
    const int exponent = (int)(expansion_next(state) % (uint64_t)(most + 1074)) - 1074;
    return ldexp((bits & 1 ? -1.0 : 1.0) * (double)(bits >> 11 | 1), exponent - 53);
}

/* The expansion's value, rounded to nearest even: parts do not overlap and ascend. */
static double expansion_value(const double *part, int n)
{
    double high, low = 0;
    if (n == 0)
        return 0;
    high = part[--n];
    while (n > 0 && low == 0) {
        const double before = high, y = part[--n];
        high = before + y;
        low = y - (high - before);
    }
    if (n > 0 && ((low < 0 && part[n - 1] < 0) || (low > 0 && part[n - 1] > 0))) { /* half a unit, and a little more */
        const double twice = low * 2, there = high + twice;
        if (twice == there - high)
            high = there;
    }
    return high;
}

double expansion_sum(int n, const double *v)
{
    double *part = malloc(((size_t)n + 1) * sizeof *part);
    int parts = 0;
    for (int i = 0; i < n; i++) {
        double x = v[i];
        int kept = 0;
        for (int p = 0; p < parts; p++) {
            double y = part[p];
            if (fabs(x) < fabs(y)) {
                const double t = x;
                x = y, y = t;
            }
            const double high = x + y, low = y - (high - x);
            if (low != 0)
                part[kept++] = low;
            x = high;
        }
        part[kept++] = x;
        parts = kept;
    }
    const double sum = expansion_value(part, parts);
    free(part);
    return sum;
}

/* The nearest number of f64 is made odd where it is not exact, so that it is no tie between two of f32. Source:
 * Boldo and Melquiond 2008. */
float expansion_sum_f32(int n, const double *v)
{
    double sum = expansion_sum(n, v), *all = malloc(((size_t)n + 1) * sizeof *all);
    uint64_t bits;
    for (int i = 0; i < n; i++)
        all[i] = v[i];
    all[n] = -sum;
    const double rest = expansion_sum(n + 1, all);
    memcpy(&bits, &sum, sizeof bits);
    if (rest != 0 && !(bits & 1))
        sum = nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
    free(all);
    return (float)sum;
}
