/* The kernels of nll_loss of one element type: a template of core/box/each_float.h. */
#ifndef NAME /* read alone */
#include "ops/loss/nll_position.h"
#include "core/box/as_f32.h"
#endif

static inline ACC NAME(weight_of)(const struct stni_nll_args *a, int64_t class)
{
    return a->weight ? LOAD(((const T *)a->weight)[class * a->weight_step]) : (ACC)1;
}

/* sum of w x over the classes here. */
static ACC NAME(all_classes)(const struct stni_nll_args *a, const T *x)
{
    ACC sum = 0;
    for (int64_t c = 0; c < a->classes; c++)
        sum += NAME(weight_of)(a, c) * LOAD(x[c * a->class_step]);
    return sum;
}

static void NAME(forward)(const struct stni_nll_args *a, stn_queue *queue)
{
    const T *x = a->x;
    T *each = a->each;
    const ACC picked = (ACC)(1 - a->smoothing), spread = (ACC)(a->smoothing / (double)a->all_classes);
    double sum[2] = {0, 0};
    struct position p = {0};
    for (int64_t i = 0; i < a->n; i++, advance(a, &p)) {
        const int64_t t = class_at(a, queue, &p);
        ACC loss = 0;
        if (t >= 0) {
            const ACC w = NAME(weight_of)(a, t);
            loss -= picked * w * LOAD(x[p.at[NLL_X] + t * a->class_step]);
            sum[1] += (double)w;
        }
        if (a->smoothing > 0 && t != STNI_NLL_IGNORED && a->classes > 0)
            loss -= spread * NAME(all_classes)(a, x + p.at[NLL_X]);
        if (each)
            each[p.at[NLL_EACH]] = STORE(loss);
        else
            sum[0] += (double)loss;
    }
    if (!each) {
        a->sum[0] = sum[0];
        a->sum[1] = sum[1];
    }
}

/* The gradient at one position. */
static void NAME(backward_at)(const struct stni_nll_args *a, T *x, int64_t t, ACC grad)
{
    const ACC picked = (ACC)(1 - a->smoothing) * grad, spread = (ACC)(a->smoothing / (double)a->all_classes) * grad;
    for (int64_t c = 0; c < a->classes; c++)
        x[c * a->class_step] =
            STORE(a->smoothing > 0 && t != STNI_NLL_IGNORED ? -spread * NAME(weight_of)(a, c) : (ACC)0);
    if (t >= 0)
        x[t * a->class_step] = STORE(-(picked + (a->smoothing > 0 ? spread : (ACC)0)) * NAME(weight_of)(a, t));
}

static void NAME(backward)(const struct stni_nll_args *a, stn_queue *queue)
{
    T *x = a->x;
    const T *each = a->each;
    const double total = a->total ? *a->total : 1;
    struct position p = {0};
    for (int64_t i = 0; i < a->n; i++, advance(a, &p))
        NAME(backward_at)
        (a, x + p.at[NLL_X], class_at(a, queue, &p), (ACC)((double)LOAD(each[p.at[NLL_EACH]]) / total));
}
