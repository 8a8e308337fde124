/* Sums of many terms: sums[i] = sum over k of w[k] from[i step + k apart], 0 <= i < n <= STRIP. Runs of terms are added in A, and these in
 * f64, so that the error does not grow with the number of terms. Included once per type of the terms with
 *   FROM      the type          READ(x)   one of them in A
 *   SUM_LONG  the function's name */
static void SUM_LONG(A *restrict sums, const FROM *from, int64_t step, int64_t apart, const double *w, int64_t terms, int64_t n)
{
    double wide[STRIP];
    A part[STRIP];
    for (int64_t i = 0; i < n; i++)
        wide[i] = 0;
    for (int64_t k = 0, end; k < terms;) {
        end = terms - k < RUN ? terms : k + RUN;
        for (int64_t i = 0; i < n; i++)
            part[i] = 0;
        for (; k + 4 <= end; k += 4)
            for (int64_t i = 0; i < n; i++) {
                const FROM *x = &from[i * step + k * apart];
                part[i] += ((A)w[k] * READ(x[0]) + (A)w[k + 1] * READ(x[apart])) +
                           ((A)w[k + 2] * READ(x[2 * apart]) + (A)w[k + 3] * READ(x[3 * apart]));
            }
        for (; k < end; k++)
            for (int64_t i = 0; i < n; i++)
                part[i] += (A)w[k] * READ(from[i * step + k * apart]);
        for (int64_t i = 0; i < n; i++)
            wide[i] += (double)part[i];
    }
    for (int64_t i = 0; i < n; i++)
        sums[i] = (A)wide[i];
}
