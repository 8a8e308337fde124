#include "dispatch/move.h"

#include "core/redistribute/redistribute.h"
#include "core/tensor/tensor.h"
#include "dispatch/place_cache.h"

/* The copy that an input before `i` has got: the same handle in the same layout. NULL: there is none. */
static stn_tensor *moved_before(const struct stni_walk *w, stn_tensor *const *given, int i)
{
    for (int j = 0; w->moved >> j; j++)
        if ((w->moved >> j & 1) && given[j] == given[i] && w->call.want[j] == w->call.want[i])
            return w->in[j];
    return NULL;
}

stn_status stni_inputs_move(struct stni_walk *w, stn_tensor *const *given)
{
    uint32_t moves = w->placed->moves;
    for (int i = 0; moves; i++, moves >>= 1) {
        if (!(moves & 1))
            continue;
        stn_tensor *before = moved_before(w, given, i);
        if (before)
            w->in[i] = stn_tensor_retain(before);
        else
            STNI_TRY(stni_redistribute(w->in[i], w->call.want[i], &w->in[i]));
        w->moved |= 1u << i;
    }
    return STN_OK;
}

void stni_inputs_drop_moved(struct stni_walk *w)
{
    for (int i = 0; w->moved; i++, w->moved >>= 1)
        if (w->moved & 1)
            stni_tensor_drop(&w->in[i]);
}
