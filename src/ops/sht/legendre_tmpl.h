/* One dtype's sums of Legendre functions (core/box/each_compute.h). A row of the table is one function at the latitudes
 * of half the grid, padded with zeros to whole vectors; even functions meet the even part of a field (north plus
 * south), odd ones the odd part. The order of additions to a result follows from nlat and lmax alone. */
#ifndef NAME /* read alone */
#include "ops/sht/legendre_cpu.h"
#include "core/box/as_f32.h"
#endif

typedef ACC NAME(vector) __attribute__((vector_size(VECTOR_BYTES), may_alias));

struct NAME(work) {
    const struct stni_legendre_args *args;
    struct functions functions;
    ACC *table, *columns, *coefficients;
    int64_t half, pitch, rows, m;
    int64_t count[2];  /* even functions of this order, and odd ones */
    int64_t degree[2]; /* of the first of each; every second one follows */
};

static ACC *NAME(column)(const struct NAME(work) *w, int64_t field, int odd)
{
    return w->columns + (field * 4 + 2 * odd) * w->pitch;
}

static ACC *NAME(pairs)(const struct NAME(work) *w, int64_t field, int odd)
{
    return w->coefficients + (field * 4 + 2 * odd) * w->rows;
}

static void NAME(store_row)(const struct NAME(work) *w, int64_t l, ACC *restrict to)
{
    const struct functions *f = &w->functions;
    const struct stni_legendre_function *of = &w->args->of;
    const struct stni_legendre_row row = stni_legendre_row_of(of, l, w->m);
    const double *restrict x = f->cosine, *restrict s = f->sine, *restrict q = f->weight;
    const double *restrict here = f->here, *restrict below = f->below;
    int64_t from = f->near;
    if (f->l != l)
        from = w->half;
    for (int64_t k = 0; k < from; k++)
        to[k] = 0;
    if (of->weighted)
        for (int64_t k = from; k < w->half; k++)
            to[k] = (ACC)(q[k] * stni_legendre_value(of, row, w->m, x[k], s[k], here[k], below[k]));
    else
        for (int64_t k = from; k < w->half; k++)
            to[k] = (ACC)stni_legendre_value(of, row, w->m, x[k], s[k], here[k], below[k]);
    for (int64_t k = w->half; k < w->pitch; k++)
        to[k] = 0;
}

/* The table of order m. A derivative of degree 0, whose function of order 1 does not exist, is 0. */
static void NAME(make_table)(struct NAME(work) *w, int64_t m)
{
    const struct stni_legendre_args *a = w->args;
    const int first_odd = stni_legendre_is_odd(&a->of, m, m);
    w->m = m;
    w->count[0] = w->count[1] = 0;
    w->degree[first_odd] = m;
    w->degree[!first_odd] = m + 1;
    if (m >= a->lmax)
        return;
    begin_order(&w->functions, m);
    for (int64_t l = m; l < a->lmax; l++) {
        const int odd = stni_legendre_is_odd(&a->of, l, m);
        if (l > w->functions.l)
            next_degree(&w->functions);
        NAME(store_row)(w, l, w->table + (odd * w->rows + w->count[odd]++) * w->pitch);
    }
}

static int64_t NAME(batch_at)(const struct stni_legendre_args *a, const int64_t *strides, int64_t field)
{
    int64_t at = 0;
    for (int d = a->n_batch - 1; d >= 0; field /= a->batch[d], d--)
        at += field % a->batch[d] * strides[d];
    return at;
}

/* Reads a column of latitudes as its even and its odd part; what the equator has is even. */
static void NAME(fold)(const struct NAME(work) *w, const ACC *in, int64_t step, int64_t field)
{
    const int64_t nlat = w->args->nlat;
    ACC *even = NAME(column)(w, field, 0), *odd = NAME(column)(w, field, 1);
    for (int64_t k = 0; k < w->half; k++) {
        const int64_t mirror = nlat - 1 - k;
        const ACC *north = in + 2 * k * step, *south = in + 2 * mirror * step;
        for (int part = 0; part < 2; part++) {
            even[part * w->pitch + k] = mirror == k ? north[part] : north[part] + south[part];
            odd[part * w->pitch + k] = mirror == k ? 0 : north[part] - south[part];
        }
    }
    for (int c = 0; c < 4; c++)
        for (int64_t k = w->half; k < w->pitch; k++)
            even[c * w->pitch + k] = 0;
}

static void NAME(unfold)(const struct NAME(work) *w, ACC *out, int64_t step, int64_t field)
{
    const int64_t nlat = w->args->nlat;
    const ACC *even = NAME(column)(w, field, 0), *odd = NAME(column)(w, field, 1);
    const int turned = w->args->of.part == STNI_LEGENDRE_ZONAL; /* times i */
    for (int64_t k = 0; k < w->half; k++) {
        ACC *north = out + 2 * k * step, *south = out + 2 * (nlat - 1 - k) * step;
        for (int part = 0; part < 2; part++) {
            const ACC e = even[part * w->pitch + k], o = odd[part * w->pitch + k];
            const int to = turned ? !part : part;
            const ACC sign = turned && part == 1 ? -1 : 1;
            south[to] = sign * (e - o);
            north[to] = sign * (e + o); /* on the equator odd functions are 0 */
        }
    }
}

/* Sums over latitudes of `rows` functions times the two columns of a field. */
STNI_KERNEL_INLINE void NAME(project)(const ACC *table, int64_t pitch, const ACC *column, ACC *out, int rows)
{
    enum { LANES = VECTOR_BYTES / sizeof(ACC) };
    NAME(vector) re[ROWS], im[ROWS];
    for (int r = 0; r < rows; r++)
        re[r] = im[r] = (NAME(vector)){0};
    for (int64_t k = 0; k < pitch; k += LANES) {
        const NAME(vector) x = *(const NAME(vector) *)(const void *)(column + k);
        const NAME(vector) y = *(const NAME(vector) *)(const void *)(column + pitch + k);
        for (int r = 0; r < rows; r++) {
            const NAME(vector) t = *(const NAME(vector) *)(const void *)(table + r * pitch + k);
            re[r] += t * x;
            im[r] += t * y;
        }
    }
    for (int r = 0; r < rows; r++) {
        ACC sums[2] = {0};
        for (int i = 0; i < LANES; i++) {
            sums[0] += re[r][i];
            sums[1] += im[r][i];
        }
        out[2 * r] = sums[0];
        out[2 * r + 1] = sums[1];
    }
}

/* Sums over `n` functions times the pairs of a field, at `vectors` vectors of latitudes. */
STNI_KERNEL_INLINE void NAME(evaluate)(const ACC *table, int64_t pitch, const ACC *pairs, int64_t n, ACC *column,
                                       int vectors)
{
    enum { LANES = VECTOR_BYTES / sizeof(ACC) };
    NAME(vector) re[ROWS], im[ROWS];
    for (int v = 0; v < vectors; v++)
        re[v] = im[v] = (NAME(vector)){0};
    for (int64_t r = 0; r < n; r++) {
        const ACC x = pairs[2 * r], y = pairs[2 * r + 1];
        for (int v = 0; v < vectors; v++) {
            const NAME(vector) t = *(const NAME(vector) *)(const void *)(table + r * pitch + v * LANES);
            re[v] += t * x;
            im[v] += t * y;
        }
    }
    for (int v = 0; v < vectors; v++) {
        *(NAME(vector) *)(void *)(column + v * LANES) = re[v];
        *(NAME(vector) *)(void *)(column + pitch + v * LANES) = im[v];
    }
}

/* Of `fields` fields: a few functions at a time meet all of them, so that the table is read once. */
static void NAME(project_fields)(const struct NAME(work) *w, int64_t fields, int odd)
{
    const ACC *row = w->table + odd * w->rows * w->pitch;
    int64_t r = 0;
    for (; r + ROWS <= w->count[odd]; r += ROWS, row += ROWS * w->pitch)
        for (int64_t f = 0; f < fields; f++)
            NAME(project)(row, w->pitch, NAME(column)(w, f, odd), NAME(pairs)(w, f, odd) + 2 * r, ROWS);
    for (; r < w->count[odd]; r++, row += w->pitch)
        for (int64_t f = 0; f < fields; f++)
            NAME(project)(row, w->pitch, NAME(column)(w, f, odd), NAME(pairs)(w, f, odd) + 2 * r, 1);
}

static void NAME(evaluate_fields)(const struct NAME(work) *w, int64_t fields, int odd)
{
    enum { LANES = VECTOR_BYTES / sizeof(ACC) };
    const ACC *table = w->table + odd * w->rows * w->pitch;
    const int64_t n = w->count[odd];
    int64_t k = 0;
    for (; k + ROWS * LANES <= w->pitch; k += ROWS * LANES)
        for (int64_t f = 0; f < fields; f++)
            NAME(evaluate)(table + k, w->pitch, NAME(pairs)(w, f, odd), n, NAME(column)(w, f, odd) + k, ROWS);
    for (; k < w->pitch; k += LANES)
        for (int64_t f = 0; f < fields; f++)
            NAME(evaluate)(table + k, w->pitch, NAME(pairs)(w, f, odd), n, NAME(column)(w, f, odd) + k, 1);
}

/* Degrees below the order get 0. */
static void NAME(store_pairs)(const struct NAME(work) *w, ACC *out, int64_t step, int64_t field)
{
    const int turned = w->args->of.part == STNI_LEGENDRE_ZONAL; /* times -i */
    for (int64_t l = 0; l < w->args->lmax && l < w->m; l++)
        out[2 * l * step] = out[2 * l * step + 1] = 0;
    for (int odd = 0; odd < 2; odd++) {
        const ACC *pairs = NAME(pairs)(w, field, odd);
        for (int64_t r = 0; r < w->count[odd]; r++) {
            ACC *to = out + 2 * (w->degree[odd] + 2 * r) * step;
            to[0] = turned ? pairs[2 * r + 1] : pairs[2 * r];
            to[1] = turned ? -pairs[2 * r] : pairs[2 * r + 1];
        }
    }
}

static void NAME(load_pairs)(const struct NAME(work) *w, const ACC *in, int64_t step, int64_t field)
{
    for (int odd = 0; odd < 2; odd++)
        for (int64_t r = 0; r < w->count[odd]; r++)
            memcpy(NAME(pairs)(w, field, odd) + 2 * r, in + 2 * (w->degree[odd] + 2 * r) * step, 2 * sizeof(ACC));
}

static struct NAME(work) NAME(work_of)(const struct stni_legendre_args *a)
{
    const struct stni_legendre_space s = stni_legendre_space_of(a);
    char *at = a->workspace;
    make_nodes(a, &s);
    return (struct NAME(work)){.args = a,
                               .functions = functions_of(a, &s),
                               .table = (ACC *)(void *)(at + s.table),
                               .columns = (ACC *)(void *)(at + s.columns),
                               .coefficients = (ACC *)(void *)(at + s.coefficients),
                               .half = s.half,
                               .pitch = s.pitch,
                               .rows = s.rows};
}

/* Some fields at one order: where their columns begin. */
struct NAME(fields) {
    int64_t n;
    const ACC *in[STNI_LEGENDRE_FIELDS];
    ACC *out[STNI_LEGENDRE_FIELDS];
};

static void NAME(analyse_fields)(const struct NAME(work) *w, const struct NAME(fields) *fields)
{
    for (int64_t f = 0; f < fields->n; f++)
        NAME(fold)(w, fields->in[f], w->args->in_row, f);
    for (int odd = 0; odd < 2; odd++)
        NAME(project_fields)(w, fields->n, odd);
    for (int64_t f = 0; f < fields->n; f++)
        NAME(store_pairs)(w, fields->out[f], w->args->out_row, f);
}

static void NAME(synthesise_fields)(const struct NAME(work) *w, const struct NAME(fields) *fields)
{
    for (int64_t f = 0; f < fields->n; f++)
        NAME(load_pairs)(w, fields->in[f], w->args->in_row, f);
    for (int odd = 0; odd < 2; odd++)
        NAME(evaluate_fields)(w, fields->n, odd);
    for (int64_t f = 0; f < fields->n; f++)
        NAME(unfold)(w, fields->out[f], w->args->out_row, f);
}

static void NAME(run)(const struct stni_legendre_args *a,
                      void (*run_fields)(const struct NAME(work) *, const struct NAME(fields) *))
{
    struct NAME(work) w = NAME(work_of)(a);
    struct NAME(fields) fields = {0};
    int64_t n = 1;
    for (int d = 0; d < a->n_batch; d++)
        n *= a->batch[d];
    for (int64_t i = 0; i < a->m_count; i++) {
        NAME(make_table)(&w, a->m_first + i);
        for (int64_t f = 0; f < n; f++) {
            const int64_t in = NAME(batch_at)(a, a->in_batch, f) + i * a->in_order;
            const int64_t out = NAME(batch_at)(a, a->out_batch, f) + i * a->out_order;
            fields.in[fields.n] = (const ACC *)a->in + 2 * in;
            fields.out[fields.n++] = (ACC *)a->out + 2 * out;
            if (fields.n == STNI_LEGENDRE_FIELDS || f == n - 1) {
                run_fields(&w, &fields);
                fields.n = 0;
            }
        }
    }
}

static void NAME(analyse)(const struct stni_legendre_args *a)
{
    NAME(run)(a, NAME(analyse_fields));
}

static void NAME(synthesise)(const struct stni_legendre_args *a)
{
    NAME(run)(a, NAME(synthesise_fields));
}
