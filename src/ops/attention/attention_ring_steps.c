/* What a step of a ring asks of the kernels. */
#include "ops/attention/attention_ring.h"

/* The first query row of an argument struct is `rows` behind where it was. */
static void move_rows(int64_t rows, struct stni_attention_args *args)
{
    args->row_offset += rows;
    args->base += (uint64_t)rows * args->row_count;
}

/* The keys are those of a piece. */
static void take_keys(const struct stni_ring_piece *piece, struct stni_attention_args *args)
{
    const size_t size = args->mask_kind == STNI_ATTENTION_ALLOWS ? 1 : stn_dtype_size(args->dtype);
    args->s = piece->n_keys;
    args->row_offset -= piece->key;
    args->base += (uint64_t)piece->key;
    args->is_wide = 1;
    if (args->mask_kind != STNI_ATTENTION_NO_MASK && args->mask.data != NULL)
        args->mask.data = (char *)args->mask.data + piece->key * args->mask.col * (int64_t)size;
}

static void *fetched(const struct stni_attention_ring *ring, int step, int which)
{
    void *of[STNI_RING_TENSORS];
    stni_ring_lay_out(ring, ring->fetched, STNI_RING_THEIRS, step, STN_DTYPE_COUNT, ring->space[step % 2], of);
    return of[which];
}

static struct stni_attention_operand operand(const struct stni_attention_ring *ring, int step, int which)
{
    return stni_ring_operand(ring, which, stni_ring_moved(ring, which, STNI_RING_THEIRS, step),
                             fetched(ring, step, which));
}

void stni_ring_describe_own(const struct stni_attention_ring *ring, int step, const struct stni_attention_args *whole,
                            struct stni_attention_args *args)
{
    const int64_t lent = ring->step[step].lent;
    const stn_dtype lse = ring->tensor[STNI_RING_LSE]->spec->layout.dtype;
    *args = *whole;
    args->l -= lent;
    move_rows(lent, args);
    take_keys(&ring->piece[stni_ring_owner(ring, step)], args);
    args->query = stni_ring_behind(&whole->query, lent, whole->dtype);
    args->out = stni_ring_behind(&whole->out, lent, whole->dtype);
    args->grad = stni_ring_behind(&whole->grad, lent, whole->dtype);
    args->lse = stni_ring_behind(&whole->lse, lent, lse);
    if (step == 0)
        return;
    args->key = operand(ring, step, STNI_RING_KEY);
    args->value = operand(ring, step, STNI_RING_VALUE);
}

/* Rows that are lent have no mask (attention_ring_rule.c). */
void stni_ring_describe_borrowed(const struct stni_attention_ring *ring, int step,
                                 const struct stni_attention_args *whole, struct stni_attention_args *args)
{
    const struct stni_ring_piece *own = &ring->piece[ring->own];
    *args = *whole;
    args->l = ring->step[step].borrowed;
    move_rows(ring->piece[stni_ring_reader(ring, step)].row - own->row, args);
    take_keys(own, args);
    args->query = operand(ring, step, STNI_RING_QUERY);
    if (ring->fetched >> STNI_RING_GRAD & 1) {
        args->grad = operand(ring, step, STNI_RING_GRAD);
        args->out = operand(ring, step, STNI_RING_OUT);
        args->lse = operand(ring, step, STNI_RING_LSE);
    }
}
