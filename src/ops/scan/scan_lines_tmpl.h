/* Runs along lines of one type of arithmetic, T: included once per type with NAME, the arithmetic of scan_state_tmpl.h, and
 *   RESULT           what sums and products are stored as
 *   ORDERED, INEXACT whether the type has an order; whether it has logarithms and factors
 *   CONVERTS         whether elements of other types are converted to it */
#ifndef NAME /* read alone */
#include "ops/scan/scan_block.h"
#include "ops/scan/scan_real.h"
#define T float
#define RESULT float
#define NAME(f) f##_f32
#define ORDERED 1
#define INEXACT 1
#define CONVERTS 1
#endif

/* Where elements are read and results are put. */
struct NAME(places) {
    const T *x, *y;
    void *out;
    int64_t *indices;
};

static inline __attribute__((always_inline)) void NAME(store)(struct NAME(places) at, enum stni_scan_op op, int64_t out,
                                                              int64_t index, struct STATE(state) s, ACC y)
{
    const ACC v = STATE(result)(op, s, y);
    if (op == STNI_SCAN_SUM || op == STNI_SCAN_PROD) {
        ((RESULT *)at.out)[out] = (RESULT)v;
        return;
    }
    ((T *)at.out)[out] = (T)v;
    if (op == STNI_SCAN_MAX || op == STNI_SCAN_MIN)
        at.indices[index] = STATE(index)(s);
}

/* Element i of the dim, at these places, joins what is before it. `beside`: so do those of the lines beside it. */
static inline __attribute__((always_inline)) struct STATE(state)
    NAME(step)(const struct stni_scan_args *a, struct NAME(places) at, enum stni_scan_op op, int beside, int stores,
               int64_t i, int64_t x_at, int64_t y_at, int64_t out_at, struct STATE(state) last)
{
    const int affine = op == STNI_SCAN_AFFINE || op == STNI_SCAN_AFFINE_LAGGED;
    const int before = a->exclusive || op == STNI_SCAN_AFFINE_LAGGED;
    const ACC x = (ACC)at.x[x_at], y = affine ? (ACC)at.y[y_at] : 0;
    const struct STATE(state) own = STATE(lift)(op, x, y, a->first + i);
    const struct STATE(state) now = beside ? STATE(join_beside)(op, last, own) : STATE(join)(op, last, own);
    if (stores)
        NAME(store)(at, op, out_at, y_at, before ? last : now, y);
    return now;
}

/* Whether one of EXTREMA elements takes the place of an extremum. */
static inline __attribute__((always_inline)) int NAME(any_takes)(const T *x, enum stni_scan_op op, T best)
{
    int any = 0;
    for (int l = 0; l < EXTREMA; l++)
        any |= (op == STNI_SCAN_MAX ? RE(x[l]) >= RE(best) : RE(x[l]) <= RE(best)) | ISNAN(x[l]);
    return any;
}

/* Dense elements of a line, for extrema: where none of some takes the place of the one before, as is rare in a long
 * line, that one is written for all of them. Returns how many elements are written. */
static inline __attribute__((always_inline)) int64_t NAME(keep_extremum)(const T *x, enum stni_scan_op op, T best,
                                                                         int64_t index, int64_t n, T *out,
                                                                         int64_t *indices)
{
    int64_t k = 0;
    for (; k + EXTREMA <= n && !NAME(any_takes)(x + k, op, best); k += EXTREMA) {
        for (int l = 0; l < EXTREMA; l++)
            out[k + l] = best;
        for (int l = 0; l < EXTREMA; l++)
            indices[k + l] = index;
    }
    return k;
}

/* As join_line, of max and min: what is kept is an element and a number, which need no arithmetic. */
static inline __attribute__((always_inline)) struct STATE(state)
    NAME(join_extrema)(const struct stni_scan_args *a, struct NAME(places) at, enum stni_scan_op op, int64_t first,
                       int64_t n, struct reach r, struct STATE(state) s)
{
    const int blocks =
        (INEXACT || sizeof(T) < sizeof(int64_t)) && r.x_step == 1 && r.y_step == 1 && r.out_step == 1 && !a->reverse;
    int64_t index = STATE(index)(s), next = a->reverse ? -1 : 1;
    T best = (T)s.a;
    for (int64_t k = 0, i = a->reverse ? n - 1 : 0; k < n;) {
        if (blocks && index >= 0)
            k = i += NAME(keep_extremum)(at.x + r.x + i, op, best, index, n - i, (T *)at.out + r.out + i,
                                         at.indices + r.y + i);
        for (const int64_t end = n - k < EXTREMA ? n : k + EXTREMA; k < end; k++, i += next) {
            const T x = at.x[r.x + i * r.x_step];
            if (index < 0 || (op == STNI_SCAN_MAX ? RE(x) >= RE(best) : RE(x) <= RE(best)) || ISNAN(x))
                best = x, index = first + i;
            ((T *)at.out)[r.out + i * r.out_step] = best;
            at.indices[r.y + i * r.y_step] = index;
        }
    }
    return STATE(state_of)((ACC)best, (ACC)index);
}

/* n elements of a line, the first of which is the `first`-th of the dim and lies at r, join s. */
static inline __attribute__((always_inline)) struct STATE(state)
    NAME(join_line)(const struct stni_scan_args *a, struct NAME(places) at, enum stni_scan_op op, int stores,
                    int64_t first, int64_t n, struct reach r, struct STATE(state) s)
{
    const int64_t next = a->reverse ? -1 : 1;
    if (ORDERED && stores && (op == STNI_SCAN_MAX || op == STNI_SCAN_MIN) && !a->exclusive)
        return NAME(join_extrema)(a, at, op, a->first + first, n, r, s);
    for (int64_t k = 0, i = a->reverse ? n - 1 : 0; k < n; k++, i += next) s = NAME(step)(a, at, op, 0, stores,
                                                                                          first + i, r.x + i * r.x_step,
                                                                                          r.y + i * r.y_step,
                                                                                          r.out + i * r.out_step, s);
    return s;
}

/* Some elements, of a line or of lines that lie side by side, where they are not dense or not of type T. */
struct NAME(row) {
    T x[LANES], y[LANES];
    RESULT out[LANES];
    int64_t indices[LANES];
};

/* Element i of line l of the block, or of all its lines. */
static inline __attribute__((always_inline)) struct NAME(places)
    NAME(places_of)(const struct stni_scan_args *a, const struct block *b, int64_t l, int64_t i)
{
    const int64_t *step = a->lines.step, y = b->at[SCAN_Y] + l * b->lane[SCAN_Y] + i * step[SCAN_Y];
    const int64_t x = b->at[SCAN_X] + l * b->lane[SCAN_X] + i * step[SCAN_X];
    const int64_t out = b->at[SCAN_OUT] + l * b->lane[SCAN_OUT] + i * step[SCAN_OUT];
    const struct NAME(places) at = {
        .x = (const T *)(const void *)((const char *)a->x + x * b->in.size),
        .y = a->y ? (const T *)(const void *)((const char *)a->y + y * b->in.size) : NULL,
        .out = a->out ? (char *)a->out + out * b->out.size : NULL,
        .indices = a->indices ? a->indices + y : NULL,
    };
    return at;
}

/* One line after the other, each with its state in registers. */
static inline __attribute__((always_inline)) void NAME(along)(const struct stni_scan_args *a, enum stni_scan_op op,
                                                              const struct block *b, int stores)
{
    const struct NAME(places) at = {a->x, a->y, a->out, a->indices};
    struct STATE(state) *all = a->states;
    for (int64_t l = 0; l < b->width; l++) {
        const struct reach r = {b->at[SCAN_X] + l * b->lane[SCAN_X],
                                b->at[SCAN_Y] + l * b->lane[SCAN_Y],
                                b->at[SCAN_OUT] + l * b->lane[SCAN_OUT],
                                a->lines.step[SCAN_X],
                                a->lines.step[SCAN_Y],
                                a->lines.step[SCAN_OUT]};
        struct STATE(state) s = stores && all ? all[b->line + l] : STATE(none)(op);
        s = NAME(join_line)(a, at, op, stores, 0, a->lines.n, r, s);
        if (!stores)
            all[b->line + l] = s;
    }
}

/* The same of elements that are not of type T, some at a time. */
static inline __attribute__((always_inline)) void NAME(along_converted)(const struct stni_scan_args *a,
                                                                        enum stni_scan_op op, const struct block *b,
                                                                        int stores)
{
    const struct reach dense = {.x_step = 1, .y_step = 1, .out_step = 1};
    const int64_t n = a->lines.n, *step = a->lines.step;
    struct STATE(state) *all = a->states;
    struct NAME(row) row;
    const struct NAME(places) at = {row.x, row.y, row.out, row.indices};
    for (int64_t l = 0; l < b->width; l++) {
        struct STATE(state) s = stores && all ? all[b->line + l] : STATE(none)(op);
        for (int64_t done = 0, some; done < n; done += some) {
            some = n - done < LANES ? n - done : LANES;
            const int64_t first = a->reverse ? n - done - some : done;
            const struct NAME(places) own = NAME(places_of)(a, b, l, first);
            bring(b, row.x, own.x, step[SCAN_X], some);
            bring(b, row.y, own.y, step[SCAN_Y], some);
            s = NAME(join_line)(a, at, op, stores, first, some, dense, s);
            if (stores)
                send(b, own.out, row.out, step[SCAN_OUT], some);
            if (stores && own.indices)
                send_indices(b, own.indices, row.indices, step[SCAN_Y], some);
        }
        if (!stores)
            all[b->line + l] = s;
    }
}

/* Lines side by side, element by element of the dim. Where they are no neighbours in memory, or not of type T, a row
 * is brought here first, so that the lanes of a row are vectors either way. */
static inline __attribute__((always_inline)) void NAME(across)(const struct stni_scan_args *a, enum stni_scan_op op,
                                                               const struct block *b, int stores)
{
    const int64_t n = a->lines.n, width = b->width, begin = a->reverse ? n - 1 : 0, next = a->reverse ? -1 : 1;
    const int x_apart = b->lane[SCAN_X] != 1 || b->in.convert,
              y_apart = b->lane[SCAN_Y] != 1 || (a->y && b->in.convert);
    const int out_apart = b->lane[SCAN_OUT] != 1 || b->out.convert;
    struct STATE(state) *all = a->states;
    struct NAME(row) row;
    ACC first[LANES], second[LANES];
    for (int64_t l = 0; l < width; l++) {
        const struct STATE(state) s = stores && all ? all[b->line + l] : STATE(none)(op);
        first[l] = s.a;
        second[l] = s.b;
    }
    for (int64_t k = 0, i = begin; k < n; k++, i += next) {
        const struct NAME(places) own = NAME(places_of)(a, b, 0, i);
        const struct NAME(places) at = {x_apart ? row.x : own.x, y_apart ? row.y : own.y, out_apart ? row.out : own.out,
                                        y_apart ? row.indices : own.indices};
        if (x_apart)
            bring(b, row.x, own.x, b->lane[SCAN_X], width);
        if (y_apart)
            bring(b, row.y, own.y, b->lane[SCAN_Y], width);
        _Pragma("omp simd")
        for (int64_t l = 0; l < width; l++) {
            const struct STATE(state) last = {first[l], second[l]};
            const struct STATE(state) now = NAME(step)(a, at, op, 1, stores, i, l, l, l, last);
            first[l] = now.a;
            second[l] = now.b;
        }
        if (out_apart && stores)
            send(b, own.out, row.out, b->lane[SCAN_OUT], width);
        if (y_apart && stores && own.indices)
            send_indices(b, own.indices, row.indices, b->lane[SCAN_Y], width);
    }
    for (int64_t l = 0; l < width && !stores; l++)
        all[b->line + l] = (struct STATE(state)){first[l], second[l]};
}

/* How a block is scanned: its lines one by one, where they lie or converted, or side by side. */
static inline __attribute__((always_inline)) void NAME(run)(const struct stni_scan_args *a, enum stni_scan_op op,
                                                            const struct block *b, int stores, int converted)
{
    if (converted)
        NAME(along_converted)(a, op, b, stores);
    else if (b->along)
        NAME(along)(a, op, b, stores);
    else
        NAME(across)(a, op, b, stores);
}

static inline __attribute__((always_inline)) void NAME(choose)(const struct stni_scan_args *a, const struct block *b,
                                                               int stores, int converted)
{
    switch (a->op) {
    case STNI_SCAN_SUM: NAME(run)(a, STNI_SCAN_SUM, b, stores, converted); break;
    case STNI_SCAN_PROD: NAME(run)(a, STNI_SCAN_PROD, b, stores, converted); break;
    case STNI_SCAN_MAX: if (ORDERED) NAME(run)(a, STNI_SCAN_MAX, b, stores, converted); break;
    case STNI_SCAN_MIN: if (ORDERED) NAME(run)(a, STNI_SCAN_MIN, b, stores, converted); break;
    case STNI_SCAN_LOGSUMEXP: if (INEXACT) NAME(run)(a, STNI_SCAN_LOGSUMEXP, b, stores, converted); break;
    case STNI_SCAN_AFFINE: if (INEXACT) NAME(run)(a, STNI_SCAN_AFFINE, b, stores, converted); break;
    case STNI_SCAN_AFFINE_LAGGED: if (INEXACT) NAME(run)(a, STNI_SCAN_AFFINE_LAGGED, b, stores, converted); break;
    case STNI_SCAN_OP_COUNT: break;
    }
}

/* Functions of their own, so that the loops of what lies in memory are compiled by themselves. */
static __attribute__((noinline)) void NAME(scan_converted)(const struct stni_scan_args *a, const struct block *b)
{
    if (CONVERTS)
        NAME(choose)(a, b, 1, 1);
}

static __attribute__((noinline)) void NAME(total_converted)(const struct stni_scan_args *a, const struct block *b)
{
    if (CONVERTS)
        NAME(choose)(a, b, 0, 1);
}

static void NAME(scan)(const struct stni_scan_args *a, const struct block *b)
{
    if (b->along && b->in.convert)
        NAME(scan_converted)(a, b);
    else
        NAME(choose)(a, b, 1, 0);
}

static void NAME(total)(const struct stni_scan_args *a, const struct block *b)
{
    if (b->along && b->in.convert)
        NAME(total_converted)(a, b);
    else
        NAME(choose)(a, b, 0, 0);
}
