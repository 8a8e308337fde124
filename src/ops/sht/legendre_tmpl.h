/* One dtype's sums of Legendre functions (core/box/each_compute.h). A row of the table is one function at the latitudes
 * of half the grid, padded with zeros to whole blocks; even functions meet the even part of a field (north plus south),
 * odd ones the odd part. The table has a few degrees at a time, which all fields meet while the caches hold it. One
 * field has no table. The order of additions to a result follows from nlat, lmax and the fields of the whole tensor
 * alone. */
#include "ops/sht/legendre_work_tmpl.h"

#include "ops/sht/legendre_table_tmpl.h"
#include "ops/sht/legendre_sums_tmpl.h"
#include "ops/sht/legendre_fields_tmpl.h"
#include "ops/sht/legendre_direct_tmpl.h"

static void NAME(set_order)(struct NAME(work) *w, int64_t m)
{
    const struct stni_legendre_args *a = w->args;
    w->m = m;
    w->count = m < a->lmax ? a->lmax - m : 0;
    w->first_odd = stni_legendre_is_odd(&a->of, m, m);
    if (w->count > 0)
        begin_order(&w->functions, m);
}

/* The functions of one order, a table after the other, and what all fields do with them. */
static void NAME(run_tables)(struct NAME(work) *w, int64_t o, int is_analysis)
{
    make_coefficients(&w->functions, w->count);
    for (int64_t i = 0; i < w->count; i += w->degrees) {
        const int64_t n = w->count - i < w->degrees ? w->count - i : w->degrees;
        const int64_t from = NAME(make_table)(w, i, n);
        for (int odd = 0; odd < 2; odd++) {
            const int64_t rows = (n + (odd == w->first_odd)) / 2;
            for (int64_t f = 0; f < w->fields && rows > 0; f++)
                if (is_analysis)
                    NAME(project)(w, NAME(column)(w, f, o, odd), NAME(pairs)(w, f, o, odd) + i, rows, odd, from);
                else
                    NAME(evaluate)(w, NAME(pairs)(w, f, o, odd) + i, NAME(column)(w, f, o, odd), rows, odd, from);
        }
    }
}

static void NAME(run_order)(struct NAME(work) *w, int64_t o, int is_analysis)
{
    NAME(set_order)(w, w->args->m_first + w->order + o);
    if (w->count == 0)
        return;
    if (w->is_direct)
        NAME(run_direct)(w, o, is_analysis);
    else
        NAME(run_tables)(w, o, is_analysis);
}

static void NAME(run)(const struct stni_legendre_args *a, int is_analysis)
{
    const struct stni_legendre_space s = stni_legendre_space_of(a);
    char *at = a->workspace;
    struct NAME(work) w = {.args = a,
                           .functions = functions_of(a, &s),
                           .table = (ACC *)(void *)(at + s.table),
                           .columns = (ACC *)(void *)(at + s.columns),
                           .coefficients = (ACC *)(void *)(at + s.coefficients),
                           .half = s.half,
                           .pitch = s.pitch,
                           .column = s.column,
                           .rows = s.rows,
                           .degrees = s.degrees};
    const int64_t all = stni_legendre_fields(a);
    w.is_direct = s.is_direct;
    if (w.is_direct)
        w.direct = direct_of(a, &s, &w.functions);
    for (w.field = 0; w.field < all; w.field += w.fields) {
        w.fields = all - w.field < STNI_LEGENDRE_FIELDS ? all - w.field : STNI_LEGENDRE_FIELDS;
        for (w.order = 0; w.order < a->m_count; w.order += w.orders) {
            w.orders = a->m_count - w.order < STNI_LEGENDRE_GROUP ? a->m_count - w.order : STNI_LEGENDRE_GROUP;
            for (int64_t f = 0; f < w.fields; f++)
                is_analysis ? NAME(fold)(&w, f) : NAME(load_pairs)(&w, f);
            for (int64_t o = 0; o < w.orders; o++)
                NAME(run_order)(&w, o, is_analysis);
            for (int64_t f = 0; f < w.fields; f++)
                is_analysis ? NAME(store_pairs)(&w, f) : NAME(unfold)(&w, f);
        }
    }
}

static void NAME(analyse)(const struct stni_legendre_args *a)
{
    NAME(run)(a, 1);
}

static void NAME(synthesise)(const struct stni_legendre_args *a)
{
    NAME(run)(a, 0);
}
