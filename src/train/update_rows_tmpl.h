/* The arithmetic of updates in one type, for C, C++ and CUDA compilers. Included with T, SQRT(x) and NAME(x), which
 * stay defined. */
#ifndef NAME /* read alone */
#include "train/update_kernel.h"
#include <math.h>
#define T float
#define SQRT sqrtf
#define NAME(x) x##_f32
#endif

/* Numbers as a list's elements need them, rounded to T once. */
struct NAME(step) {
    T rate, decay, keep, take;   /* of the gradient's running mean: what of it stays, what is added */
    T along, ahead;              /* momentum: what of the gradient and of the momentum is a step */
    T keep_square, take_square, shrink, scaled_rate, scale, epsilon; /* Adam */
    T divisor;
    T least; /* of running means: what is smaller becomes 0 */
};

STNI_INLINE struct NAME(step) NAME(step_of)(enum stni_update_kind kind, const struct stni_update_numbers *numbers)
{
    const int adam = kind == STNI_UPDATE_ADAMW || kind == STNI_UPDATE_ADAM;
    struct NAME(step) s;
    s.rate = (T)numbers->rate;
    s.decay = (T)numbers->decay;
    s.keep = (T)numbers->a;
    s.take = kind == STNI_UPDATE_AVERAGE ? (T)(1 - numbers->decay) : adam ? (T)(1 - numbers->a) : (T)numbers->b;
    s.along = numbers->nesterov ? 1 : 0;
    s.ahead = numbers->nesterov ? s.keep : 1;
    s.keep_square = (T)numbers->b;
    s.take_square = (T)(1 - numbers->b);
    s.shrink = kind == STNI_UPDATE_ADAM ? 1 : (T)(1 - numbers->rate * numbers->decay);
    s.scaled_rate = (T)(numbers->rate * numbers->mean_scale);
    s.scale = (T)sqrt(numbers->square_scale);
    s.epsilon = (T)numbers->epsilon;
    s.divisor = (T)numbers->most;
    s.least = adam && s.epsilon == 0 ? 0 : sizeof(T) == sizeof(float) ? (T)FLT_MIN : (T)DBL_MIN;
    return s;
}

/* A mean that only decays would come to subnormal numbers and, rounded to nearest, never leave them: each step then
 * takes x86 processors a hundred times as long. Without an epsilon Adam divides by such a mean: it stays. */
STNI_KERNEL_INLINE T NAME(settled)(const struct NAME(step) *s, T mean)
{
    return mean < s->least && mean > -s->least ? 0 : mean;
}

/* The parameter p with its gradient g; m and v are kept for it. */
STNI_KERNEL_INLINE void NAME(step_sgd)(const struct NAME(step) *s, T *p, T g)
{
    *p -= s->rate * (g + s->decay * *p);
}

STNI_KERNEL_INLINE void NAME(step_momentum)(const struct NAME(step) *s, T *p, T g, T *m)
{
    const T gradient = g + s->decay * *p;
    *m = NAME(settled)(s, s->keep * *m + s->take * gradient);
    *p -= s->rate * (s->along * gradient + s->ahead * *m);
}

STNI_KERNEL_INLINE void NAME(step_adamw)(const struct NAME(step) *s, T *p, T g, T *m, T *v)
{
    *m = NAME(settled)(s, s->keep * *m + s->take * g);
    *v = NAME(settled)(s, s->keep_square * *v + s->take_square * g * g);
    *p = s->shrink * *p - s->scaled_rate * *m / (SQRT(*v) * s->scale + s->epsilon);
}

STNI_KERNEL_INLINE void NAME(step_adam)(const struct NAME(step) *s, T *p, T g, T *m, T *v)
{
    NAME(step_adamw)(s, p, g + s->decay * *p, m, v);
}

STNI_KERNEL_INLINE void NAME(step_average)(const struct NAME(step) *s, T *mean, T p)
{
    *mean += s->take * (p - *mean);
}

/* What gradients are multiplied by so that their norm is `most` at most. */
STNI_INLINE T NAME(clipping)(const struct stni_update_numbers *numbers)
{
    const double norm = sqrt(*numbers->norm_square);
    return norm <= numbers->most ? (T)1 : (T)(numbers->most / norm);
}
