/* Sums of many terms: sums[i] = sum over k of w[k] from[i step + k apart], 0 <= i < n <= STRIP. Runs of terms are added in ACC, and these in
 * f64, so that the error does not grow with the number of terms. Included once per type of the terms with
 *   T         the type          LOAD(x)   one of them in ACC
 *   SUM_LONG  the function's name */
#ifndef SUM_LONG /* read alone */
#include "ops/resample/resample_table.h"
#include "core/box/as_f32.h"
#define SUM_LONG sum_long_f32
#endif

static void SUM_LONG(ACC *restrict sums, const T *from, int64_t step, int64_t apart, const double *w, int64_t terms,
                     int64_t n)
{
    double wide[STRIP];
    ACC part[STRIP];
    for (int64_t i = 0; i < n; i++)
        wide[i] = 0;
    for (int64_t k = 0, end; k < terms;) {
        end = terms - k < RUN ? terms : k + RUN;
        for (int64_t i = 0; i < n; i++)
            part[i] = 0;
        for (; k + 4 <= end; k += 4)
            for (int64_t i = 0; i < n; i++) {
                const T *x = &from[i * step + k * apart];
                part[i] += ((ACC)w[k] * LOAD(x[0]) + (ACC)w[k + 1] * LOAD(x[apart])) +
                           ((ACC)w[k + 2] * LOAD(x[2 * apart]) + (ACC)w[k + 3] * LOAD(x[3 * apart]));
            }
        for (; k < end; k++)
            for (int64_t i = 0; i < n; i++)
                part[i] += (ACC)w[k] * LOAD(from[i * step + k * apart]);
        for (int64_t i = 0; i < n; i++)
            wide[i] += (double)part[i];
    }
    for (int64_t i = 0; i < n; i++)
        sums[i] = (ACC)wide[i];
}
