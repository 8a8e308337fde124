/* Distances between rows on the CPU, compiled once per instruction set: tiles of R x J pairs, K elements of their
 * rows at a time. */
#include "ops/distance/cdist_walk.h"

#define TEMPLATE "ops/distance/cdist_rows_tmpl.h"
#include "core/box/each_float.h"

static void forward(const struct stni_cdist_args *p)
{
    static void (*const of[])(const struct stni_cdist_args *, const struct at *) = {forward_f32, forward_f64,
                                                                                    forward_bf16, forward_f16};
    struct walk walk = {.index = {0}};
    for (int more = begin(p, &walk); more; more = step(p, &walk))
        of[p->dtype](p, &walk.at);
}

/* Moves the batch dims that x1 lacks from `own` to `summed`. */
static void part(struct stni_cdist_args *own, struct stni_cdist_args *summed)
{
    const struct stni_cdist_args all = *own;
    own->n_batch = summed->n_batch = 0;
    for (int d = 0; d < all.n_batch; d++) {
        struct stni_cdist_args *to = all.batch[d] != 1 && all.grad1.batch[d] == 0 ? summed : own;
        struct stni_cdist_operand *const operands[] = {&to->x1, &to->x2, &to->distance, &to->grad, &to->grad1};
        const struct stni_cdist_operand *const from[] = {&all.x1, &all.x2, &all.distance, &all.grad, &all.grad1};
        for (int k = 0; k < 5; k++)
            operands[k]->batch[to->n_batch] = from[k]->batch[d];
        to->batch[to->n_batch++] = all.batch[d];
    }
}

/* x1's gradient. */
static void backward_first(const struct stni_cdist_args *p)
{
    static void (*const of[])(const struct stni_cdist_args *, const struct stni_cdist_args *,
                              const struct at *) = {backward_f32, backward_f64, backward_bf16, backward_f16};
    struct stni_cdist_args own = *p, summed = *p;
    struct walk walk = {.index = {0}};
    part(&own, &summed);
    for (int more = begin(&own, &walk); more; more = step(&own, &walk))
        of[p->dtype](&own, &summed, &walk.at);
}

static struct stni_cdist_operand transposed(struct stni_cdist_operand x)
{
    int64_t row = x.row;
    x.row = x.col, x.col = row;
    return x;
}

/* x2's gradient is x1's with the sides exchanged: distances are symmetric. */
static void backward(const struct stni_cdist_args *p)
{
    struct stni_cdist_args swapped = *p;
    if (p->grad1.data != NULL)
        backward_first(p);
    swapped.x1 = p->x2, swapped.x2 = p->x1;
    swapped.rows1 = p->rows2, swapped.rows2 = p->rows1;
    swapped.distance = transposed(p->distance), swapped.grad = transposed(p->grad);
    swapped.grad1 = p->grad2, swapped.grad2 = p->grad1;
    if (swapped.grad1.data != NULL)
        backward_first(&swapped);
}

stn_status STNI_ISA_NAME(stni_cdist)(stn_queue *queue, const void *args)
{
    (void)queue;
    forward(args);
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_cdist_backward)(stn_queue *queue, const void *args)
{
    (void)queue;
    backward(args);
    return STN_OK;
}
