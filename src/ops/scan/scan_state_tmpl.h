/* The arithmetic of scans, for C, C++ and CUDA compilers: what two runs of elements that follow each other come to.
 * Included once per type of arithmetic, after core/base/inline.h, with
 *   ACC        the type                      STATE(f)    f of this type
 *   RE(x)      its real part                 ISNAN(x)    whether it is not a number
 *   EXP, LOG   of ACC                        LOWEST      below all others
 *   PHASE(x)   exp(x - RE(x))
 * which scan_real.h, scan_integer.h and scan_complex.h define, and leave defined for the templates of the element
 * types. */
#ifndef STATE /* read alone */
#include "ops/scan/scan_kernel.h"
#include <math.h>
#define ACC double
#define STATE(f) f##_real
#define RE(x) (x)
#define ISNAN(x) ((x) != (x))
#define EXP exp
#define LOG log
#define LOWEST (-INFINITY)
#define PHASE(x) ((void)(x), 1.0)
#endif

/* sum, prod: a. max, min: a at index b, -1: none. logsumexp: a + log b, a the largest. affine: r -> a r + b. */
struct STATE(state) {
    ACC a, b;
};

STNI_KERNEL_INLINE struct STATE(state) STATE(state_of)(ACC a, ACC b)
{
    const struct STATE(state) state = {a, b};
    return state;
}

STNI_KERNEL_INLINE struct STATE(state) STATE(none)(enum stni_scan_op op)
{
    switch (op) {
    case STNI_SCAN_SUM: return STATE(state_of)(0, 0);
    case STNI_SCAN_MAX:
    case STNI_SCAN_MIN: return STATE(state_of)(0, -1);
    case STNI_SCAN_LOGSUMEXP: return STATE(state_of)(LOWEST, 0);
    case STNI_SCAN_PROD:
    case STNI_SCAN_AFFINE:
    case STNI_SCAN_AFFINE_LAGGED:
    case STNI_SCAN_OP_COUNT: break;
    }
    return STATE(state_of)(1, 0);
}

/* NaN wins, among equals the last. */
STNI_KERNEL_INLINE struct STATE(state) STATE(extremum)(struct STATE(state) p, struct STATE(state) v, int beats)
{
    int takes = RE(p.b) < 0 || ISNAN(v.a) || (!ISNAN(p.a) && beats);
    return RE(v.b) >= 0 && takes ? v : p;
}

/* The same without branches: of lines side by side none waits for another's comparison, while one line alone is
 * faster where the processor may guess that the maximum stays. */
STNI_KERNEL_INLINE struct STATE(state) STATE(extremum_beside)(struct STATE(state) p, struct STATE(state) v, int beats)
{
    const int takes = (RE(v.b) >= 0) & ((RE(p.b) < 0) | ISNAN(v.a) | beats);
    return STATE(state_of)(takes ? v.a : p.a, takes ? v.b : p.b);
}

/* Equal exponents need no exp, which would make NaN of infinities. */
STNI_KERNEL_INLINE struct STATE(state) STATE(log_add)(struct STATE(state) p, struct STATE(state) v)
{
    const ACC m = RE(p.a) < RE(v.a) ? v.a : p.a;
    return STATE(state_of)(m, (p.a == m ? p.b : p.b * EXP(p.a - m)) + (v.a == m ? v.b : v.b * EXP(v.a - m)));
}

/* A factor of 0 forgets what was before, infinities too. */
STNI_KERNEL_INLINE struct STATE(state) STATE(follow)(struct STATE(state) p, struct STATE(state) v)
{
    if (v.a == 0)
        return v;
    return STATE(state_of)(v.a * p.a, v.a * p.b + v.b);
}

STNI_KERNEL_INLINE struct STATE(state) STATE(join)(enum stni_scan_op op, struct STATE(state) p, struct STATE(state) v)
{
    switch (op) {
    case STNI_SCAN_SUM: return STATE(state_of)(p.a + v.a, 0);
    case STNI_SCAN_PROD: return STATE(state_of)(p.a * v.a, 0);
    case STNI_SCAN_MAX: return STATE(extremum)(p, v, RE(v.a) >= RE(p.a));
    case STNI_SCAN_MIN: return STATE(extremum)(p, v, RE(v.a) <= RE(p.a));
    case STNI_SCAN_LOGSUMEXP: return STATE(log_add)(p, v);
    case STNI_SCAN_AFFINE:
    case STNI_SCAN_AFFINE_LAGGED: return STATE(follow)(p, v);
    case STNI_SCAN_OP_COUNT: break;
    }
    return p;
}

/* join, for lines side by side. */
STNI_KERNEL_INLINE struct STATE(state)
    STATE(join_beside)(enum stni_scan_op op, struct STATE(state) p, struct STATE(state) v)
{
    if (op == STNI_SCAN_MAX)
        return STATE(extremum_beside)(p, v, RE(v.a) >= RE(p.a));
    return op == STNI_SCAN_MIN ? STATE(extremum_beside)(p, v, RE(v.a) <= RE(p.a)) : STATE(join)(op, p, v);
}

/* The state of one element: x, with y for affine ones, at index i. */
STNI_KERNEL_INLINE struct STATE(state) STATE(lift)(enum stni_scan_op op, ACC x, ACC y, int64_t i)
{
    switch (op) {
    case STNI_SCAN_SUM:
    case STNI_SCAN_PROD: return STATE(state_of)(x, 0);
    case STNI_SCAN_MAX:
    case STNI_SCAN_MIN: return STATE(state_of)(x, (ACC)i);
    case STNI_SCAN_LOGSUMEXP: return STATE(state_of)(RE(x), PHASE(x));
    case STNI_SCAN_AFFINE: return STATE(state_of)(x, y);
    case STNI_SCAN_AFFINE_LAGGED: return STATE(state_of)(x, x == 0 ? 0 : x * y);
    case STNI_SCAN_OP_COUNT: break;
    }
    return STATE(state_of)(x, y);
}

/* The result of an element: that of the state `s` after it, or before it where the scan is exclusive; lagged: before
 * it, and y. */
STNI_KERNEL_INLINE ACC STATE(result)(enum stni_scan_op op, struct STATE(state) s, ACC y)
{
    if (op == STNI_SCAN_AFFINE)
        return s.b;
    if (op == STNI_SCAN_AFFINE_LAGGED)
        return s.b + y;
    return op == STNI_SCAN_LOGSUMEXP ? s.a + LOG(s.b) : s.a;
}

/* Of max and min: the index of the element that it is. */
STNI_KERNEL_INLINE int64_t STATE(index)(struct STATE(state) s)
{
    return (int64_t)RE(s.b);
}
