/* All of shardtensor. */
#ifndef SHARDTENSOR_H
#define SHARDTENSOR_H

#include <shardtensor/autograd.h>
#include <shardtensor/capture.h>
#include <shardtensor/comm.h>
#include <shardtensor/context.h>
#include <shardtensor/device.h>
#include <shardtensor/dist.h>
#include <shardtensor/dtype.h>
#include <shardtensor/io.h>
#include <shardtensor/local.h>
#include <shardtensor/mesh.h>
#include <shardtensor/module.h>
#include <shardtensor/op.h>
#include <shardtensor/ops.h>
#include <shardtensor/pullback.h>
#include <shardtensor/spec.h>
#include <shardtensor/status.h>
#include <shardtensor/tcp.h>
#include <shardtensor/tensor.h>
#include <shardtensor/trace.h>
#include <shardtensor/train.h>
#include <shardtensor/version.h>

#endif
