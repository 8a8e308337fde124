/* Fields on their way to the workspace and back: some orders at once, which share cache lines. A part of
 * legendre_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/sht/legendre_work_tmpl.h"
#endif

static int64_t NAME(batch_at)(const struct stni_legendre_args *a, const int64_t *strides, int64_t field)
{
    int64_t at = 0;
    for (int d = a->n_batch - 1; d >= 0; field /= a->batch[d], d--)
        at += field % a->batch[d] * strides[d];
    return at;
}

/* Where field f begins, with the first of the orders. */
static const ACC *NAME(input)(const struct NAME(work) *w, int64_t f)
{
    const struct stni_legendre_args *a = w->args;
    return (const ACC *)a->in + 2 * (NAME(batch_at)(a, a->in_batch, w->field + f) + w->order * a->in_order);
}

static ACC *NAME(output)(const struct NAME(work) *w, int64_t f)
{
    const struct stni_legendre_args *a = w->args;
    return (ACC *)a->out + 2 * (NAME(batch_at)(a, a->out_batch, w->field + f) + w->order * a->out_order);
}

/* Reads columns of latitudes as their even and their odd parts; what the equator has is even. */
static void NAME(fold)(const struct NAME(work) *w, int64_t f)
{
    const struct stni_legendre_args *a = w->args;
    const ACC *in = NAME(input)(w, f);
    for (int64_t k = 0; k < w->pitch; k++) {
        const int64_t mirror = a->nlat - 1 - k;
        for (int64_t o = 0; o < w->orders; o++) {
            ACC *even = NAME(column)(w, f, o, 0) + k, *odd = NAME(column)(w, f, o, 1) + k;
            const ACC *north = in + 2 * (k * a->in_row + o * a->in_order);
            const ACC *south = in + 2 * (mirror * a->in_row + o * a->in_order);
            for (int part = 0; part < 2; part++, even += w->column, odd += w->column) {
                *even = k >= w->half ? 0 : mirror == k ? north[part] : north[part] + south[part];
                *odd = k >= w->half || mirror == k ? 0 : north[part] - south[part];
            }
        }
    }
}

static void NAME(unfold)(const struct NAME(work) *w, int64_t f)
{
    const struct stni_legendre_args *a = w->args;
    ACC *out = NAME(output)(w, f);
    const int turned = a->of.part == STNI_LEGENDRE_ZONAL; /* times i */
    for (int64_t k = 0; k < w->half; k++)
        for (int64_t o = 0; o < w->orders; o++) {
            const ACC *even = NAME(column)(w, f, o, 0) + k, *odd = NAME(column)(w, f, o, 1) + k;
            ACC *north = out + 2 * (k * a->out_row + o * a->out_order);
            ACC *south = out + 2 * ((a->nlat - 1 - k) * a->out_row + o * a->out_order);
            for (int part = 0; part < 2; part++, even += w->column, odd += w->column) {
                const int to = turned ? !part : part;
                const ACC sign = turned && part == 1 ? -1 : 1;
                south[to] = sign * (*even - *odd);
                north[to] = sign * (*even + *odd); /* on the equator odd functions are 0 */
            }
        }
}

/* Degrees below the order get 0. */
static void NAME(store_pairs)(const struct NAME(work) *w, int64_t f)
{
    const struct stni_legendre_args *a = w->args;
    ACC *out = NAME(output)(w, f);
    const int turned = a->of.part == STNI_LEGENDRE_ZONAL; /* times -i */
    for (int64_t l = 0; l < a->lmax; l++)
        for (int64_t o = 0; o < w->orders; o++) {
            const int64_t m = a->m_first + w->order + o;
            ACC *to = out + 2 * (l * a->out_row + o * a->out_order);
            to[0] = to[1] = 0;
            if (l < m)
                continue;
            const ACC *pair = NAME(pairs)(w, f, o, stni_legendre_is_odd(&a->of, l, m)) + (l - m) / 2 * 2;
            to[0] = turned ? pair[1] : pair[0];
            to[1] = turned ? -pair[0] : pair[1];
        }
}

/* Reads coefficients, and makes room for what they give. */
static void NAME(load_pairs)(const struct NAME(work) *w, int64_t f)
{
    const struct stni_legendre_args *a = w->args;
    const ACC *in = NAME(input)(w, f);
    for (int64_t o = 0; o < w->orders; o++)
        memset(NAME(column)(w, f, o, 0), 0, (size_t)(4 * w->column) * sizeof(ACC));
    for (int64_t l = a->m_first + w->order; l < a->lmax; l++)
        for (int64_t o = 0; o < w->orders; o++) {
            const int64_t m = a->m_first + w->order + o;
            if (l >= m)
                memcpy(NAME(pairs)(w, f, o, stni_legendre_is_odd(&a->of, l, m)) + (l - m) / 2 * 2,
                       in + 2 * (l * a->in_row + o * a->in_order), 2 * sizeof(ACC));
        }
}
