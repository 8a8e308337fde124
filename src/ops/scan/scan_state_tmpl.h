/* The arithmetic of scans: what two runs of elements that follow each other come to. Included once per type of arithmetic with
 *   S          the type                      STATE(f)    f of this type
 *   RE(x)      its real part                 ISNAN(x)    whether it is not a number
 *   EXP, LOG   of S                          LOWEST      below all others
 *   PHASE(x)   exp(x - RE(x))
 * left defined for the templates of the element types. */

/* sum, prod: a. max, min: a at index b, -1: none. logsumexp: a + log b, a the largest. affine: r -> a r + b. */
struct STATE(state) {
    S a, b;
};

static inline struct STATE(state) STATE(none)(enum stni_scan_op op)
{
    static const struct STATE(state) of[STNI_SCAN_OP_COUNT] = {
        [STNI_SCAN_PROD] = {1, 0},
        [STNI_SCAN_MAX] = {0, -1},
        [STNI_SCAN_MIN] = {0, -1},
        [STNI_SCAN_LOGSUMEXP] = {LOWEST, 0},
        [STNI_SCAN_AFFINE] = {1, 0},
        [STNI_SCAN_AFFINE_LAGGED] = {1, 0},
    };
    return of[op];
}

/* NaN wins, among equals the last. */
static inline struct STATE(state) STATE(extremum)(struct STATE(state) p, struct STATE(state) v, int beats)
{
    int takes = RE(p.b) < 0 || ISNAN(v.a) || (!ISNAN(p.a) && beats);
    return RE(v.b) >= 0 && takes ? v : p;
}

/* Equal exponents need no exp, which would make NaN of infinities. */
static inline struct STATE(state) STATE(log_add)(struct STATE(state) p, struct STATE(state) v)
{
    const S m = RE(p.a) < RE(v.a) ? v.a : p.a;
    return (struct STATE(state)){m, (p.a == m ? p.b : p.b * EXP(p.a - m)) + (v.a == m ? v.b : v.b * EXP(v.a - m))};
}

/* A factor of 0 forgets what was before, infinities too. */
static inline struct STATE(state) STATE(follow)(struct STATE(state) p, struct STATE(state) v)
{
    if (v.a == 0)
        return v;
    return (struct STATE(state)){v.a * p.a, v.a * p.b + v.b};
}

static inline __attribute__((always_inline)) struct STATE(state) STATE(join)(enum stni_scan_op op, struct STATE(state) p,
                                                                             struct STATE(state) v)
{
    switch (op) {
    case STNI_SCAN_SUM: return (struct STATE(state)){p.a + v.a, 0};
    case STNI_SCAN_PROD: return (struct STATE(state)){p.a * v.a, 0};
    case STNI_SCAN_MAX: return STATE(extremum)(p, v, RE(v.a) >= RE(p.a));
    case STNI_SCAN_MIN: return STATE(extremum)(p, v, RE(v.a) <= RE(p.a));
    case STNI_SCAN_LOGSUMEXP: return STATE(log_add)(p, v);
    case STNI_SCAN_AFFINE:
    case STNI_SCAN_AFFINE_LAGGED: return STATE(follow)(p, v);
    case STNI_SCAN_OP_COUNT: break;
    }
    return p;
}

/* The state of one element: x, with y for affine ones, at index i. */
static inline __attribute__((always_inline)) struct STATE(state) STATE(lift)(enum stni_scan_op op, S x, S y, int64_t i)
{
    switch (op) {
    case STNI_SCAN_SUM:
    case STNI_SCAN_PROD: return (struct STATE(state)){x, 0};
    case STNI_SCAN_MAX:
    case STNI_SCAN_MIN: return (struct STATE(state)){x, (S)i};
    case STNI_SCAN_LOGSUMEXP: return (struct STATE(state)){RE(x), PHASE(x)};
    case STNI_SCAN_AFFINE: return (struct STATE(state)){x, y};
    case STNI_SCAN_AFFINE_LAGGED: return (struct STATE(state)){x, x == 0 ? 0 : x * y};
    case STNI_SCAN_OP_COUNT: break;
    }
    return (struct STATE(state)){x, y};
}

/* The result of an element: that of the state `s` after it, or before it where the scan is exclusive; lagged: before it, and y. */
static inline __attribute__((always_inline)) S STATE(result)(enum stni_scan_op op, struct STATE(state) s, S y)
{
    if (op == STNI_SCAN_AFFINE)
        return s.b;
    if (op == STNI_SCAN_AFFINE_LAGGED)
        return s.b + y;
    return op == STNI_SCAN_LOGSUMEXP ? s.a + LOG(s.b) : s.a;
}

static void STATE(prefix)(const struct stni_scan_prefix_args *a)
{
    struct STATE(state) *states = a->states;
    for (int64_t i = 0; i < a->count; i++)
        states[i] = STATE(none)(a->op);
    for (int k = a->begin; k < a->end; k++) {
        const int piece = a->reverse ? a->begin + a->end - 1 - k : k;
        const struct STATE(state) *part = (const struct STATE(state) *)a->parts + rank_of(a, piece) * a->count;
        for (int64_t i = 0; i < a->count; i++)
            states[i] = STATE(join)(a->op, states[i], part[i]);
    }
}
