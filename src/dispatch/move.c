#include "dispatch/move.h"

#include "core/redistribute/redistribute.h"
#include "core/tensor/tensor.h"
#include "dispatch/place_cache.h"

stn_status stni_inputs_move(struct stni_walk *w)
{
    uint32_t moves = w->placed->moves;
    for (int i = 0; moves; i++, moves >>= 1) {
        if (!(moves & 1))
            continue;
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
