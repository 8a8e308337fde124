/* What the parts of legendre_tmpl.h share. */
#ifndef NAME /* read alone */
#include "core/box/as_f32.h"
#include "ops/sht/legendre_direct.h"
#endif

typedef ACC NAME(vector) __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef ACC NAME(narrow) __attribute__((vector_size(DOUBLES * sizeof(ACC)), may_alias)); /* of a vector of doubles */

struct NAME(work) {
    const struct stni_legendre_args *args;
    struct functions functions;
    struct direct direct;
    ACC *table, *columns, *coefficients;
    int64_t half, pitch, column, rows, degrees;
    int64_t m, count;             /* functions of this order from degree m on */
    int is_direct;                /* no table */
    int first_odd;                /* the first of them is odd; every second one is then */
    int64_t fields;               /* in the workspace, from field `field` on */
    int64_t field, order, orders; /* and these orders of the chunk */
};

/* Where an order of a field is in the workspace: o counts from w->order on, f from w->field on. */
static ACC *NAME(column)(const struct NAME(work) *w, int64_t f, int64_t o, int odd)
{
    return w->columns + ((f * STNI_LEGENDRE_GROUP + o) * 4 + 2 * odd) * w->column;
}

static ACC *NAME(pairs)(const struct NAME(work) *w, int64_t f, int64_t o, int odd)
{
    return w->coefficients + ((f * STNI_LEGENDRE_GROUP + o) * 4 + 2 * odd) * w->rows;
}
