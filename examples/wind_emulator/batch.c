#include "batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sample sample_plain(const struct data *data, int month)
{
    return (struct sample){month, data->years >= MOST_YEARS ? UINT64_MAX : (UINT64_C(1) << data->years) - 1, 1};
}

/* Of the calendar month of `month`, over the years of the sample: out[components][tile]. */
static void climatology(const struct data *d, const struct sample *sample, int month, float *out)
{
    size_t n = data_cells(d);
    for (int c = 0; c < d->components; c++)
        for (size_t i = 0; i < n; i++) {
            double sum = 0, count = 0;
            for (int y = 0, t = month % YEAR; t < d->first_test; y++, t += YEAR) {
                if (y < MOST_YEARS && !(sample->years >> y & 1))
                    continue;
                size_t at = data_at(d, t, c) + i;
                if (d->present && !d->present[at])
                    continue;
                sum += (double)d->field[at];
                count++;
            }
            out[(size_t)c * n + i] = count > 0 ? (float)(sum / count) : 0;
        }
}

/* The field of `month` less the climatology of the calendar month of `calendar`; 0 where there is no value. */
static void anomaly(const struct data *d, const struct sample *sample, int month, int calendar, float *out)
{
    size_t n = (size_t)d->components * data_cells(d), at = data_at(d, month, 0);
    climatology(d, sample, calendar, out);
    for (size_t i = 0; i < n; i++)
        out[i] = d->present && !d->present[at + i] ? 0 : sample->sign * (d->field[at + i] - out[i]);
}

/* Fills the channels of one sample of this rank. */
typedef void (*fill_fn)(const struct data *d, const struct sample *sample, float *out, int lag);

/* A tensor whose samples `fill` makes, those of this rank alone. */
static stn_tensor *make(const struct data *d, int n, const struct sample *samples, int channels, int lag, fill_fn fill)
{
    const stn_spec *spec;
    if (data_spec(d, n, channels, &spec) != STN_OK)
        return NULL;
    size_t each = (size_t)channels * data_cells(d);
    int64_t first = stn_spec_local_offset(spec)[0], count = stn_spec_local_shape(spec)[0];
    float *values = malloc(((size_t)count * each + 1) * sizeof *values);
    stn_tensor *tensor = NULL;
    if (values) {
        for (int64_t s = 0; s < count; s++)
            fill(d, &samples[first + s], values + (size_t)s * each, lag);
        tensor = stn_from_host(d->context, spec, values);
    }
    free(values);
    stn_spec_release(&spec);
    return tensor;
}

static void fill_lag(const struct data *d, const struct sample *sample, float *out, int lag)
{
    anomaly(d, sample, sample->month - lag, sample->month - lag, out);
}

static void fill_setting(const struct data *d, const struct sample *sample, float *out, int lag)
{
    size_t n = data_cells(d);
    double angle = 2 * acos(-1.0) * (sample->month % YEAR) / YEAR;
    (void)lag;
    memcpy(out, d->geography, GEOGRAPHY * n * sizeof *out);
    out += GEOGRAPHY * n;
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)sin(angle);
        out[n + i] = (float)cos(angle);
    }
}

static void fill_persistence(const struct data *d, const struct sample *sample, float *out, int lag)
{
    anomaly(d, sample, sample->month - lag, sample->month, out);
}

static void fill_weight(const struct data *d, const struct sample *sample, float *out, int lag)
{
    size_t n = data_cells(d), at = data_at(d, sample->month - lag, 0);
    for (size_t i = 0; i < (size_t)d->components * n; i++)
        out[i] = d->present[at + i] ? fmaxf(d->geography[n + i % n], 0) : 0;
}

stn_tensor *batch_setting(const struct data *data, int n, const struct sample *samples)
{
    return make(data, n, samples, GEOGRAPHY + 2, 0, fill_setting);
}

stn_tensor *batch_lag(const struct data *data, int n, const struct sample *samples, int lag)
{
    return make(data, n, samples, data->components, lag, fill_lag);
}

stn_tensor *batch_weight(const struct data *data, int n, const struct sample *samples, int lag)
{
    return data->present ? make(data, n, samples, data->components, lag, fill_weight) : data->weight;
}

stn_tensor *batch_persistence(const struct data *data, int n, const struct sample *samples, int lag)
{
    return make(data, n, samples, data->components, lag, fill_persistence);
}

void batch_make(const struct data *data, int n, const struct sample *samples, struct batch *batch)
{
    batch->setting = batch_setting(data, n, samples);
    for (int lag = 0; lag <= LAGS; lag++)
        batch->lag[lag] = batch_lag(data, n, samples, lag);
    batch->weight = batch_weight(data, n, samples, 0);
}
