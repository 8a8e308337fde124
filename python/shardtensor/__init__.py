"""Sharded tensors: every operation gives what one process would have given, on every layout, forward and backward.

    import shardtensor as st

    def step(context):
        mesh = context.mesh(context.size)
        x = context.factory("randn", context.spec(mesh, "S0", (1000, 16)))
        w = context.factory("zeros", context.spec(mesh, "R", (16, 1)))
        w.requires_grad = True
        loss = st.ops.mse_loss(x @ w, x.sum(1, keepdim=True))
        loss.backward()
        return loss.item(), w.grad

    st.launch(4, step)  # four ranks, which are threads
"""
from ._c import (ArgumentError, Average, CallbackError, CommunicationError, Context, DeviceError, DTypeError, Error,
                 File, FileError, Hook, InternalError, LayoutError, Mesh, NotFoundError, Op, Optimizer,
                 OutOfMemoryError, OutOfRangeError, Pullback, ShapeError, Spec, StateError, Step, Tensor,
                 UnsupportedError, VersionError, fake_comm, launch, schedule_constant, schedule_cosine,
                 sht_latitudes, tcp_comm, version as __version__)
from . import methods, ops
from .arrays import einsum, tensordot, transpose
from .methods import allow_stale_views, capture, host_memory, no_grad, no_sync, trace, trace_range

__all__ = ["Average", "Context", "File", "Hook", "Mesh", "Op", "Optimizer", "Pullback", "Spec", "Step", "Tensor",
           "allow_stale_views", "capture", "einsum", "fake_comm", "host_memory", "launch", "no_grad", "no_sync", "ops",
           "schedule_constant", "schedule_cosine", "sht_latitudes", "tcp_comm", "tensordot", "trace", "trace_range",
           "transpose", "Error", "ArgumentError", "CallbackError", "CommunicationError", "DeviceError", "DTypeError", "FileError",
           "InternalError", "LayoutError", "NotFoundError", "OutOfMemoryError", "OutOfRangeError", "ShapeError",
           "StateError", "UnsupportedError", "VersionError"]
