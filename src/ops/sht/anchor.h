/* A tensor whose cotangent is brought to the tensor's own layout. Cotangents of what is redistributed arrive as they
 * come: where several ops or a Fourier transform go on from them, each would move them again. */
#ifndef STNI_OPS_SHT_ANCHOR_H
#define STNI_OPS_SHT_ANCHOR_H

#include <shardtensor/op.h>

stn_tensor *stni_anchor(stn_tensor *input);

#endif
