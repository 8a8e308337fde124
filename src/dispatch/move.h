/* Inputs in the layouts that an op wants. */
#ifndef STNI_DISPATCH_MOVE_H
#define STNI_DISPATCH_MOVE_H

#include "dispatch/walk.h"

/* Puts a redistributed copy in the place of each input whose layout is another one: `given` are the inputs of the call,
 * and one that is given several times is moved once. Collective over their meshes. */
stn_status stni_inputs_move(struct stni_walk *w, stn_tensor *const *given);

/* Gives back the copies. */
void stni_inputs_drop_moved(struct stni_walk *w);

#endif
