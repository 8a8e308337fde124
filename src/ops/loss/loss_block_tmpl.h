/* One compute type's loops. Included once per type with T, NAME(f), which is f of this type, and the elementary
 * functions of T. */
#ifndef NAME /* read alone */
#include "ops/loss/loss_functions.h"
#include "ops/cpu/math.h"
#define T float
#define NAME(f) f##_f32
#define LOG stni_log_f32
#define LOG1P stni_log1p_f32
#define LOG1P_UNIT stni_log1p_unit_f32
#define EXP stni_exp_f32
#define SIGMOID stni_sigmoid_f32
enum { LANES = 16 };
#endif

#define OPERANDS                                                \
    const T *b_x = b->x, *b_y = b->y, *b_w = b->w, *b_z = b->z; \
    const T p = (T)b->p, q = (T)b->q;                           \
    (void)p, (void)q

/* What rows are written in. */
#define LOCALS(i)                              \
    const T x = b_x[i], y = b_y[i], z = b_z[i]; \
    STNI_LOSS_LOCALS

/* Each term of a row is a function of its own, not inlined: profilers know it by its name, compilers take less time for
 * many small functions than for a large one, and make one of those that are alike, such as all that are 0. */
#define TERM(function, expression)                                                        \
    static __attribute__((noinline)) void NAME(function)(const struct stni_loss_block *b) \
    {                                                                                     \
        OPERANDS;                                                                         \
        const T *b_g = b->g;                                                              \
        const T scale = (T)b->scale;                                                      \
        T *out = b->out;                                                                  \
        _Pragma("omp simd")                                                               \
        for (int64_t i = 0; i < b->n; i++) {                                              \
            LOCALS(i);                                                                   \
            out[i] = b_w[i] * b_g[i] * scale * (T)(expression);                           \
        }                                                                                 \
    }

#define SUM(function, expression)                                                                               \
    static __attribute__((noinline)) void NAME(function)(const struct stni_loss_block *b, double (*sum)[LANES]) \
    {                                                                                                           \
        OPERANDS;                                                                                               \
        int64_t i = 0;                                                                                          \
        for (; i + LANES <= b->n; i += LANES)                                                                   \
            for (int l = 0; l < LANES; l++) {                                                                   \
                LOCALS(i + l);                                                                                 \
                sum[0][l] += (double)(b_w[i + l] * (T)(expression));                                            \
                sum[1][l] += (double)b_w[i + l];                                                                \
            }                                                                                                   \
        for (int l = 0; i + l < b->n; l++) {                                                                    \
            LOCALS(i + l);                                                                                     \
            sum[0][l] += (double)(b_w[i + l] * (T)(expression));                                                \
            sum[1][l] += (double)b_w[i + l];                                                                    \
        }                                                                                                       \
    }

#define ROW(name, value, by_x, by_y, by_z, by_xx, by_xy, by_yy, by_xz, by_yz, by_zz) \
    SUM(sum_##name, value)                                                           \
    TERM(name, value)                                                                \
    TERM(name##_x, by_x)                                                             \
    TERM(name##_y, by_y)                                                             \
    TERM(name##_z, by_z)                                                             \
    TERM(name##_xx, by_xx)                                                           \
    TERM(name##_xy, by_xy)                                                           \
    TERM(name##_yy, by_yy)                                                           \
    TERM(name##_xz, by_xz)                                                           \
    TERM(name##_yz, by_yz)                                                           \
    TERM(name##_zz, by_zz)

STNI_LOSS_LIST(ROW)

#define CASE(name, ...)                               \
    case STNI_LOSS_##name:                            \
        switch (b->term) {                            \
        case STNI_LOSS_VALUE: NAME(name)(b); break;   \
        case STNI_LOSS_X: NAME(name##_x)(b); break;   \
        case STNI_LOSS_Y: NAME(name##_y)(b); break;   \
        case STNI_LOSS_Z: NAME(name##_z)(b); break;   \
        case STNI_LOSS_XX: NAME(name##_xx)(b); break; \
        case STNI_LOSS_XY: NAME(name##_xy)(b); break; \
        case STNI_LOSS_YY: NAME(name##_yy)(b); break; \
        case STNI_LOSS_XZ: NAME(name##_xz)(b); break; \
        case STNI_LOSS_YZ: NAME(name##_yz)(b); break; \
        case STNI_LOSS_ZZ: NAME(name##_zz)(b); break; \
        case STNI_LOSS_TERMS: break;                  \
        }                                             \
        break;

static void NAME(map)(const struct stni_loss_block *b)
{
    switch (b->loss) {
        STNI_LOSS_LIST(CASE)
    case STNI_LOSS_COUNT:
        break;
    }
}

#undef CASE
#define CASE(name, ...) \
    case STNI_LOSS_##name: NAME(sum_##name)(b, sum); break;

static void NAME(sum)(const struct stni_loss_block *b)
{
    double sum[2][LANES] = {{0}};
    switch (b->loss) {
        STNI_LOSS_LIST(CASE)
    case STNI_LOSS_COUNT:
        break;
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) {
            sum[0][l] += sum[0][l + half];
            sum[1][l] += sum[1][l + half];
        }
    b->sum[0] += sum[0][0];
    b->sum[1] += sum[1][0];
}

#undef OPERANDS
#undef LOCALS
#undef TERM
#undef SUM
#undef ROW
#undef CASE
#undef T
#undef NAME
#undef LOG
#undef LOG1P
#undef LOG1P_UNIT
#undef EXP
#undef SIGMOID
