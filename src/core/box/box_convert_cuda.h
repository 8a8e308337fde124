/* Copies of boxes between f32, bf16 and f16 on a CUDA device. */
#ifndef STNI_CORE_BOX_BOX_CONVERT_CUDA_H
#define STNI_CORE_BOX_BOX_CONVERT_CUDA_H

#include "core/device/cuda/grid.h"

#include <shardtensor/comm.h>
#include <shardtensor/dtype.h>

/* dst = src, boxes of one shape in memory of their own. False, and nothing is put on the stream, where these kernels
 * do not serve: they want two of f32, bf16 and f16, and four elements beside each other wherever the boxes have
 * four. */
bool stni_box_convert_launch(const stn_box &dst, stn_dtype to, const stn_box &src, stn_dtype from, cudaStream_t stream);

#endif
