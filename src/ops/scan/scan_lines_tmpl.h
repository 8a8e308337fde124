/* Runs along lines of one element type: included once per type with what each_float.h, each_integer.h and each_complex.h define, the arithmetic
 * of scan_state_tmpl.h, and
 *   WIDE, WIDEN(x)   how sums and products are stored */

static inline __attribute__((always_inline)) void NAME(store)(const struct stni_scan_args *a, enum stni_scan_op op, int64_t out, int64_t index,
                                                              struct STATE(state) s, S y)
{
    const S v = STATE(result)(op, s, y);
    if (op == STNI_SCAN_SUM || op == STNI_SCAN_PROD) {
        ((WIDE *)a->out)[out] = WIDEN(v);
        return;
    }
    ((T *)a->out)[out] = STORE((A)v);
    if (op == STNI_SCAN_MAX || op == STNI_SCAN_MIN)
        a->indices[index] = STATE(index)(s);
}

/* Element i of the dim, at these places, joins what is before it. */
static inline __attribute__((always_inline)) struct STATE(state) NAME(step)(const struct stni_scan_args *a, enum stni_scan_op op, int stores,
                                                                            int64_t i, int64_t x_at, int64_t y_at, int64_t out_at,
                                                                            struct STATE(state) last)
{
    const int affine = op == STNI_SCAN_AFFINE || op == STNI_SCAN_AFFINE_LAGGED;
    const int before = a->exclusive || op == STNI_SCAN_AFFINE_LAGGED;
    const S x = (S)LOAD(((const T *)a->x)[x_at]), y = affine ? (S)LOAD(((const T *)a->y)[y_at]) : 0;
    const struct STATE(state) now = STATE(join)(op, last, STATE(lift)(op, x, y, a->first + i));
    if (stores)
        NAME(store)(a, op, out_at, y_at, before ? last : now, y);
    return now;
}

/* One line after the other, each with its state in registers. */
static inline __attribute__((always_inline)) void NAME(along)(const struct stni_scan_args *a, enum stni_scan_op op, const struct block *b,
                                                              int stores)
{
    const int64_t n = a->lines.n, x_step = a->lines.step[SCAN_X], y_step = a->lines.step[SCAN_Y], out_step = a->lines.step[SCAN_OUT];
    struct STATE(state) *all = a->states;
    for (int64_t l = 0; l < b->width; l++) {
        const int64_t x = b->at[SCAN_X] + l * b->lane[SCAN_X], y = b->at[SCAN_Y] + l * b->lane[SCAN_Y];
        const int64_t out = b->at[SCAN_OUT] + l * b->lane[SCAN_OUT];
        struct STATE(state) s = stores && all ? all[b->line + l] : STATE(none)(op);
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = a->reverse ? n - 1 - k : k;
            s = NAME(step)(a, op, stores, i, x + i * x_step, y + i * y_step, out + i * out_step, s);
        }
        if (!stores)
            all[b->line + l] = s;
    }
}

/* Lines side by side, element by element of the dim. `unit`: neighbours in memory, so that the lanes of a row become vectors. */
static inline __attribute__((always_inline)) void NAME(across)(const struct stni_scan_args *a, enum stni_scan_op op, const struct block *b,
                                                               int stores, int unit)
{
    const int64_t n = a->lines.n, *step = a->lines.step, width = b->width;
    const int64_t x_lane = b->lane[SCAN_X], y_lane = b->lane[SCAN_Y], out_lane = b->lane[SCAN_OUT];
    struct STATE(state) *all = a->states;
    S first[LANES], second[LANES];
    for (int64_t l = 0; l < width; l++) {
        const struct STATE(state) s = stores && all ? all[b->line + l] : STATE(none)(op);
        first[l] = s.a;
        second[l] = s.b;
    }
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = a->reverse ? n - 1 - k : k;
        const int64_t x = b->at[SCAN_X] + i * step[SCAN_X], y = b->at[SCAN_Y] + i * step[SCAN_Y], out = b->at[SCAN_OUT] + i * step[SCAN_OUT];
        if (unit)
            _Pragma("omp simd")
            for (int64_t l = 0; l < width; l++) {
                const struct STATE(state) last = {first[l], second[l]};
                const struct STATE(state) now = NAME(step)(a, op, stores, i, x + l, y + l, out + l, last);
                first[l] = now.a;
                second[l] = now.b;
            }
        for (int64_t l = 0; l < width && !unit; l++) {
            STNI_SCALAR_LOOP
            const struct STATE(state) last = {first[l], second[l]};
            const struct STATE(state) now = NAME(step)(a, op, stores, i, x + l * x_lane, y + l * y_lane, out + l * out_lane, last);
            first[l] = now.a;
            second[l] = now.b;
        }
    }
    for (int64_t l = 0; l < width && !stores; l++)
        all[b->line + l] = (struct STATE(state)){first[l], second[l]};
}

static inline __attribute__((always_inline)) void NAME(run)(const struct stni_scan_args *a, enum stni_scan_op op, const struct block *b,
                                                            int stores)
{
    if (b->along)
        NAME(along)(a, op, b, stores);
    else if (b->unit)
        NAME(across)(a, op, b, stores, 1);
    else
        NAME(across)(a, op, b, stores, 0);
}

static inline __attribute__((always_inline)) void NAME(choose)(const struct stni_scan_args *a, const struct block *b, int stores)
{
    switch (a->op) {
    case STNI_SCAN_SUM: NAME(run)(a, STNI_SCAN_SUM, b, stores); break;
    case STNI_SCAN_PROD: NAME(run)(a, STNI_SCAN_PROD, b, stores); break;
    case STNI_SCAN_MAX: NAME(run)(a, STNI_SCAN_MAX, b, stores); break;
    case STNI_SCAN_MIN: NAME(run)(a, STNI_SCAN_MIN, b, stores); break;
    case STNI_SCAN_LOGSUMEXP: NAME(run)(a, STNI_SCAN_LOGSUMEXP, b, stores); break;
    case STNI_SCAN_AFFINE: NAME(run)(a, STNI_SCAN_AFFINE, b, stores); break;
    case STNI_SCAN_AFFINE_LAGGED: NAME(run)(a, STNI_SCAN_AFFINE_LAGGED, b, stores); break;
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
