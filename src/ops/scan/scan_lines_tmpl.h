/* Runs along lines of one element type: included once per type with what each_float.h, each_integer.h and each_complex.h define, the arithmetic
 * of scan_state_tmpl.h, and
 *   WIDE, WIDEN(x)   how sums and products are stored
 *   ORDERED, INEXACT whether the type has an order; whether it has logarithms and factors */

/* Where elements are read and results are put. */
struct NAME(places) {
    const T *x, *y;
    void *out;
    int64_t *indices;
};

static inline __attribute__((always_inline)) void NAME(store)(struct NAME(places) at, enum stni_scan_op op, int64_t out, int64_t index,
                                                              struct STATE(state) s, S y)
{
    const S v = STATE(result)(op, s, y);
    if (op == STNI_SCAN_SUM || op == STNI_SCAN_PROD) {
        ((WIDE *)at.out)[out] = WIDEN(v);
        return;
    }
    ((T *)at.out)[out] = STORE((A)v);
    if (op == STNI_SCAN_MAX || op == STNI_SCAN_MIN)
        at.indices[index] = STATE(index)(s);
}

/* Element i of the dim, at these places, joins what is before it. `beside`: so do those of the lines beside it. */
static inline __attribute__((always_inline)) struct STATE(state) NAME(step)(const struct stni_scan_args *a, struct NAME(places) at,
                                                                            enum stni_scan_op op, int beside, int stores, int64_t i,
                                                                            int64_t x_at, int64_t y_at, int64_t out_at,
                                                                            struct STATE(state) last)
{
    const int affine = op == STNI_SCAN_AFFINE || op == STNI_SCAN_AFFINE_LAGGED;
    const int before = a->exclusive || op == STNI_SCAN_AFFINE_LAGGED;
    const S x = (S)LOAD(at.x[x_at]), y = affine ? (S)LOAD(at.y[y_at]) : 0;
    const struct STATE(state) own = STATE(lift)(op, x, y, a->first + i);
    const struct STATE(state) now = beside ? STATE(join_beside)(op, last, own) : STATE(join)(op, last, own);
    if (stores)
        NAME(store)(at, op, out_at, y_at, before ? last : now, y);
    return now;
}

/* One line after the other, each with its state in registers. */
static inline __attribute__((always_inline)) void NAME(along)(const struct stni_scan_args *a, enum stni_scan_op op, const struct block *b,
                                                              int stores)
{
    const int64_t n = a->lines.n, x_step = a->lines.step[SCAN_X], y_step = a->lines.step[SCAN_Y], out_step = a->lines.step[SCAN_OUT];
    const int64_t first = a->reverse ? n - 1 : 0, next = a->reverse ? -1 : 1;
    const struct NAME(places) at = {a->x, a->y, a->out, a->indices};
    struct STATE(state) *all = a->states;
    for (int64_t l = 0; l < b->width; l++) {
        const int64_t x = b->at[SCAN_X] + l * b->lane[SCAN_X], y = b->at[SCAN_Y] + l * b->lane[SCAN_Y];
        const int64_t out = b->at[SCAN_OUT] + l * b->lane[SCAN_OUT];
        struct STATE(state) s = stores && all ? all[b->line + l] : STATE(none)(op);
        for (int64_t k = 0, i = first; k < n; k++, i += next)
            s = NAME(step)(a, at, op, 0, stores, i, x + i * x_step, y + i * y_step, out + i * out_step, s);
        if (!stores)
            all[b->line + l] = s;
    }
}

/* A row of lines that lie apart, side by side. */
struct NAME(row) {
    T x[LANES], y[LANES];
    union {
        T own[LANES];
        WIDE wide[LANES];
    } out;
    int64_t indices[LANES];
};

/* Between the row and where its elements belong. */
static void NAME(pack)(const struct block *b, T *to, const T *from, int64_t apart)
{
    if (from)
        b->copy->elements[LOG_SIZE(T)]((void *)to, sizeof(T), (const void *)from, apart * (int64_t)sizeof(T), b->width);
}

static void NAME(unpack)(const struct block *b, int wide, const struct NAME(row) *row, void *to)
{
    const int64_t size = wide ? sizeof(WIDE) : sizeof(T);
    b->copy->elements[wide ? LOG_SIZE(WIDE) : LOG_SIZE(T)](to, b->lane[SCAN_OUT] * size, (const void *)&row->out, size, b->width);
}

static void NAME(unpack_indices)(const struct block *b, const int64_t *from, int64_t *to)
{
    b->copy->elements[LOG_SIZE(int64_t)]((void *)to, b->lane[SCAN_Y] * (int64_t)sizeof *to, (const void *)from, sizeof *to, b->width);
}

/* Row i of the lines. */
static inline struct NAME(places) NAME(places_of)(const struct stni_scan_args *a, const struct block *b, int wide, int64_t i)
{
    const int64_t *step = a->lines.step, y = b->at[SCAN_Y] + i * step[SCAN_Y];
    const size_t size = wide ? sizeof(WIDE) : sizeof(T);
    const struct NAME(places) at = {
        .x = (const T *)a->x + b->at[SCAN_X] + i * step[SCAN_X],
        .y = a->y ? (const T *)a->y + y : NULL,
        .out = a->out ? (char *)a->out + (b->at[SCAN_OUT] + i * step[SCAN_OUT]) * (int64_t)size : NULL,
        .indices = a->indices ? a->indices + y : NULL,
    };
    return at;
}

/* Lines side by side, element by element of the dim. Where they are no neighbours in memory a row is packed first, so that the lanes of a row are
 * vectors either way. */
static inline __attribute__((always_inline)) void NAME(across)(const struct stni_scan_args *a, enum stni_scan_op op, const struct block *b,
                                                               int stores)
{
    const int64_t n = a->lines.n, width = b->width, begin = a->reverse ? n - 1 : 0, next = a->reverse ? -1 : 1;
    const int wide = op == STNI_SCAN_SUM || op == STNI_SCAN_PROD;
    const int x_apart = b->lane[SCAN_X] != 1, y_apart = b->lane[SCAN_Y] != 1, out_apart = b->lane[SCAN_OUT] != 1;
    struct STATE(state) *all = a->states;
    struct NAME(row) row;
    S first[LANES], second[LANES];
    for (int64_t l = 0; l < width; l++) {
        const struct STATE(state) s = stores && all ? all[b->line + l] : STATE(none)(op);
        first[l] = s.a;
        second[l] = s.b;
    }
    for (int64_t k = 0, i = begin; k < n; k++, i += next) {
        const struct NAME(places) own = NAME(places_of)(a, b, wide, i);
        const struct NAME(places) at = {x_apart ? row.x : own.x, y_apart ? row.y : own.y, out_apart ? &row.out : own.out,
                                        y_apart ? row.indices : own.indices};
        if (x_apart)
            NAME(pack)(b, row.x, own.x, b->lane[SCAN_X]);
        if (y_apart)
            NAME(pack)(b, row.y, own.y, b->lane[SCAN_Y]);
        _Pragma("omp simd")
        for (int64_t l = 0; l < width; l++) {
            const struct STATE(state) last = {first[l], second[l]};
            const struct STATE(state) now = NAME(step)(a, at, op, 1, stores, i, l, l, l, last);
            first[l] = now.a;
            second[l] = now.b;
        }
        if (out_apart && stores)
            NAME(unpack)(b, wide, &row, own.out);
        if (y_apart && stores && own.indices)
            NAME(unpack_indices)(b, row.indices, own.indices);
    }
    for (int64_t l = 0; l < width && !stores; l++)
        all[b->line + l] = (struct STATE(state)){first[l], second[l]};
}

static inline __attribute__((always_inline)) void NAME(run)(const struct stni_scan_args *a, enum stni_scan_op op, const struct block *b,
                                                            int stores)
{
    if (b->along)
        NAME(along)(a, op, b, stores);
    else
        NAME(across)(a, op, b, stores);
}

static inline __attribute__((always_inline)) void NAME(choose)(const struct stni_scan_args *a, const struct block *b, int stores)
{
    switch (a->op) {
    case STNI_SCAN_SUM: NAME(run)(a, STNI_SCAN_SUM, b, stores); break;
    case STNI_SCAN_PROD: NAME(run)(a, STNI_SCAN_PROD, b, stores); break;
    case STNI_SCAN_MAX: if (ORDERED) NAME(run)(a, STNI_SCAN_MAX, b, stores); break;
    case STNI_SCAN_MIN: if (ORDERED) NAME(run)(a, STNI_SCAN_MIN, b, stores); break;
    case STNI_SCAN_LOGSUMEXP: if (INEXACT) NAME(run)(a, STNI_SCAN_LOGSUMEXP, b, stores); break;
    case STNI_SCAN_AFFINE: if (INEXACT) NAME(run)(a, STNI_SCAN_AFFINE, b, stores); break;
    case STNI_SCAN_AFFINE_LAGGED: if (INEXACT) NAME(run)(a, STNI_SCAN_AFFINE_LAGGED, b, stores); break;
    case STNI_SCAN_OP_COUNT: break;
    }
}

static void NAME(scan)(const struct stni_scan_args *a, const struct block *b)
{
    NAME(choose)(a, b, 1);
}

static void NAME(total)(const struct stni_scan_args *a, const struct block *b)
{
    NAME(choose)(a, b, 0);
}
