#include "baselines.h"

#include <math.h>
#include <stdlib.h>

enum { SIGMA = 3, RADIUS = 4 * SIGMA, MOST_TAPS = 2 * RADIUS + 1 };

static const double TINY = 1e-30; /* keeps 0 / 0 of cells without values at 0 */

static stn_tensor *sum_over_months(stn_tensor *a, stn_tensor *b)
{
    return stn_sum(stn_mul(a, b), 1, (int[]){0}, 1);
}

static double total(const struct data *d, stn_tensor *a, stn_tensor *b)
{
    double value = NAN;
    stn_item(stn_sum(stn_mul(stn_mul(a, b), d->weight), 0, NULL, 0), &value);
    return value;
}

/* Not farther than once around a globe of few columns. */
static int radius_of(const struct data *d, int along_rows)
{
    return along_rows || d->grid.columns > RADIUS ? RADIUS : (int)d->grid.columns;
}

/* A line of weights as a kernel of one channel, along rows or along columns. */
static stn_tensor *gaussian(const struct data *d, int along_rows)
{
    int radius = radius_of(d, along_rows), n = 2 * radius + 1;
    const int64_t shape[] = {1, 1, along_rows ? n : 1, along_rows ? 1 : n};
    const stn_placement replicate[AXES] = {stn_replicate(), stn_replicate(), stn_replicate()};
    float taps[MOST_TAPS];
    double sum = 0;
    const stn_spec *spec;
    for (int i = 0; i < n; i++)
        sum += exp(-0.5 * (i - radius) * (i - radius) / (SIGMA * SIGMA));
    for (int i = 0; i < n; i++)
        taps[i] = (float)(exp(-0.5 * (i - radius) * (i - radius) / (SIGMA * SIGMA)) / sum);
    if (stn_spec_create(d->context, d->mesh, replicate, STN_DTYPE_F32, 4, shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *kernel = stn_from_host(d->context, spec, taps);
    stn_spec_release(&spec);
    return kernel;
}

/* By a Gaussian of three cells: around the globe in longitude, the last rows repeated beyond the poles. */
static stn_tensor *smooth(const struct data *d, stn_tensor *field)
{
    const stn_conv_attrs rows = {.size = sizeof rows, .padding = {radius_of(d, 1), 0}, .mode = {STN_PADDING_REPLICATE}};
    const stn_conv_attrs columns = {
        .size = sizeof columns, .padding = {0, radius_of(d, 0)}, .mode = {STN_PADDING_ZEROS, STN_PADDING_CIRCULAR}};
    stn_tensor *images = stn_transpose(field, 0, 1); /* components one after the other */
    return stn_transpose(stn_conv2d(stn_conv2d(images, gaussian(d, 1), NULL, &rows), gaussian(d, 0), NULL, &columns), 0,
                         1);
}

static stn_tensor *cross(stn_tensor *a, stn_tensor *b, stn_tensor *c, stn_tensor *e)
{
    return stn_sub(stn_mul(a, b), stn_mul(c, e));
}

/* The normal equations of two unknowns, cell by cell. */
static void solve_two_lags(const struct data *d, stn_tensor *const lag[LAGS + 1], struct baselines *b)
{
    stn_tensor *s11 = smooth(d, sum_over_months(lag[1], lag[1])), *s12 = smooth(d, sum_over_months(lag[1], lag[2]));
    stn_tensor *s22 = smooth(d, sum_over_months(lag[2], lag[2]));
    stn_tensor *r1 = smooth(d, sum_over_months(lag[0], lag[1])), *r2 = smooth(d, sum_over_months(lag[0], lag[2]));
    stn_tensor *determinant = stn_add_number(cross(s11, s22, s12, s12), TINY);
    b->lag[0] = stn_div(cross(r1, s22, r2, s12), determinant);
    b->lag[1] = stn_div(cross(r2, s11, r1, s12), determinant);
}

void baselines_fit(const struct data *d, int lead, struct baselines *b)
{
    int first = lead + LAGS - 1, n = d->first_test - first; /* months whose lags are all there */
    struct sample *samples = malloc((size_t)n * sizeof *samples);
    stn_tensor *lag[LAGS + 1] = {NULL};
    for (int i = 0; samples && i < n; i++)
        samples[i] = sample_plain(d, first + i);
    for (int l = 0; samples && l <= LAGS; l++)
        lag[l] = batch_lag(d, n, samples, l ? lead + l - 1 : 0);
    free(samples);
    b->damping = total(d, lag[0], lag[1]) / fmax(total(d, lag[1], lag[1]), TINY);
    b->cell = stn_div(sum_over_months(lag[0], lag[1]), stn_add_number(sum_over_months(lag[1], lag[1]), TINY));
    solve_two_lags(d, lag, b);
}
