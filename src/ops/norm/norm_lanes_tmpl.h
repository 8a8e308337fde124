/* The passes of one element type: a template of core/box/each_float.h. Sums are f64 and in an order that no
 * instruction set changes. */
#ifndef NAME /* read alone */
#include "ops/norm/norm_moments_tmpl.h"
#endif

#include "ops/norm/norm_line_tmpl.h"

/* The loops are compiled twice: with constant steps, for which they are vectorised, and with any others, for which
 * they are not. */
#define FORM(function) NAME(function)
#define SIMD _Pragma("omp simd")
#define ALONE
#include "ops/norm/norm_loops_tmpl.h"
#undef FORM
#undef SIMD
#undef ALONE
#define FORM(function) NAME(function##_any)
#define SIMD
#define ALONE STNI_SCALAR_LOOP
#include "ops/norm/norm_loops_tmpl.h"
#undef FORM
#undef SIMD
#undef ALONE

static inline __attribute__((always_inline)) void NAME(sum_tile)(const struct stni_norm_pass *p, const struct tile *t,
                                                                 enum terms kind)
{
    const int64_t *c = t->col;
    const struct steps s = {c[NORM_X], c[NORM_Y], c[NORM_STAT], c[NORM_WEIGHT], c[p->target]};
    const int dense = s.x == 1 && (kind != SUMS || s.y == 1);
    if (kind == MOMENTS && sizeof(ACC) < sizeof(double) && dense && s.stat == 0 && s.target == 0 &&
        t->cols <= NEAR_LINE)
        NAME(moments_lines)(p, t);
    else if (dense && s.stat == 0 && s.target == 0 && s.weight == 0)
        NAME(along)(p, t, kind, (struct steps){1, 1, 0, 0, 0});
    else if (dense && s.stat == 1 && s.target == 1 && s.weight == 0)
        NAME(across)(p, t, kind, (struct steps){1, 1, 1, 0, 1});
    else if (kind != MOMENTS && dense && s.stat == 0 && s.target == 0 && s.weight == 1)
        NAME(along)(p, t, kind, (struct steps){1, 1, 0, 1, 0});
    else if (kind == SUMS && dense && s.stat == 0 && s.target == 1 && s.weight == 0)
        NAME(across)(p, t, kind, (struct steps){1, 1, 0, 0, 1});
    else if (s.target == 0)
        NAME(along_any)(p, t, kind, s);
    else
        NAME(across_any)(p, t, kind, s);
}

static void NAME(moments_tile)(const struct stni_norm_pass *p, const struct tile *t)
{
    NAME(sum_tile)(p, t, MOMENTS);
}

static void NAME(weighted_tile)(const struct stni_norm_pass *p, const struct tile *t)
{
    NAME(sum_tile)(p, t, WEIGHTED);
}

static void NAME(weights_tile)(const struct stni_norm_pass *p, const struct tile *t)
{
    NAME(sum_tile)(p, t, WEIGHTS);
}

static void NAME(sums_tile)(const struct stni_norm_pass *p, const struct tile *t)
{
    NAME(sum_tile)(p, t, SUMS);
}

/* `target` is the step of the bias. */
static void NAME(normalise_tile)(const struct stni_norm_pass *p, const struct tile *t)
{
    const int64_t *c = t->col;
    const struct steps s = {c[NORM_X], c[NORM_Y], c[NORM_STAT], c[NORM_WEIGHT], c[NORM_PARAM]};
    const int dense = s.x == 1 && s.y == 1;
    if (dense && s.stat == 0 && s.weight == 0 && s.target == 0)
        NAME(normalise_rows)(p, t, (struct steps){1, 1, 0, 0, 0});
    else if (dense && s.stat == 1 && s.weight == 1 && s.target == 1)
        NAME(normalise_rows)(p, t, (struct steps){1, 1, 1, 1, 1});
    else if (dense && s.stat == 0 && s.weight == 1 && s.target == 1)
        NAME(normalise_rows)(p, t, (struct steps){1, 1, 0, 1, 1});
    else if (dense && s.stat == 0 && s.weight == 1 && s.target == 0)
        NAME(normalise_rows)(p, t, (struct steps){1, 1, 0, 1, 0});
    else if (dense && s.stat == 1 && s.weight == 0 && s.target == 0)
        NAME(normalise_rows)(p, t, (struct steps){1, 1, 1, 0, 0});
    else
        NAME(normalise_rows_any)(p, t, s);
}

static void NAME(normalise_streamed)(const struct stni_norm_pass *p, const struct tile *t)
{
    stream_tile(p, t, NAME(normalise_tile), NORM_Y, sizeof(T));
}

/* `target` is the step of the gradient. */
static void NAME(apply_tile)(const struct stni_norm_pass *p, const struct tile *t)
{
    const int64_t *c = t->col;
    const struct steps s = {c[NORM_X], c[NORM_Y], c[NORM_STAT], c[NORM_WEIGHT], c[NORM_OUT]};
    const int dense = s.x == 1 && s.y == 1 && s.target == 1;
    if (dense && s.stat == 0 && s.weight == 0)
        NAME(apply_rows)(p, t, (struct steps){1, 1, 0, 0, 1});
    else if (dense && s.stat == 1 && s.weight == 1)
        NAME(apply_rows)(p, t, (struct steps){1, 1, 1, 1, 1});
    else if (dense && s.stat == 0 && s.weight == 1)
        NAME(apply_rows)(p, t, (struct steps){1, 1, 0, 1, 1});
    else if (dense && s.stat == 1 && s.weight == 0)
        NAME(apply_rows)(p, t, (struct steps){1, 1, 1, 0, 1});
    else
        NAME(apply_rows_any)(p, t, s);
}

static void NAME(moments)(const struct stni_norm_pass *p)
{
    walk(p, p->weight_step ? NAME(weighted_tile) : NAME(moments_tile));
}

static void NAME(weights)(const struct stni_norm_pass *p)
{
    walk(p, NAME(weights_tile));
}

static void NAME(normalise)(const struct stni_norm_pass *p)
{
    walk(p, p->streamed ? NAME(normalise_streamed) : NAME(normalise_tile));
    if (p->streamed)
        stni_stream_fence();
}

static void NAME(sums)(const struct stni_norm_pass *p)
{
    walk(p, NAME(sums_tile));
}

static void NAME(apply_streamed)(const struct stni_norm_pass *p, const struct tile *t)
{
    stream_tile(p, t, NAME(apply_tile), NORM_OUT, sizeof(T));
}

static void NAME(apply)(const struct stni_norm_pass *p)
{
    walk(p, p->streamed ? NAME(apply_streamed) : NAME(apply_tile));
    if (p->streamed)
        stni_stream_fence();
}
