"""ShardTensors while torch.compile traces a program. One has no elements then: its handle is a spec, its chunk a tensor
of torch's that stands for this rank's elements. Calls of ops and moves of them are calls of a graph (_graph), in nodes
of torch's autograd, which torch traces too."""
import torch

from .. import InternalError
from . import _graph_calls as calls
from ._binding import NotOurs, shape_results
from ._dtypes import DTYPES, name_of
from ._layout import complete, replicated


class TracedHandle:
    """What a handle tells of a ShardTensor without elements."""
    is_view, data_ptr, keeps_routes = False, 0, False

    def __init__(self, spec):
        self.spec, self.shape, self.dtype, self.ndim = spec, spec.shape, spec.dtype, len(spec.shape)

    def __repr__(self):
        return "Tensor(%r, traced)" % self.spec


def is_traced(value):
    return type(getattr(value, "_handle", None)) is TracedHandle


makers = []  # _tensor puts in ShardTensor
seen = []    # something once there was a traced ShardTensor: until then nobody looks for one


def wrap(chunk, spec, requires_grad=False, is_viewed=False):
    """A ShardTensor without elements. is_viewed: it is a view or has some, of which a graph has copies, so that it is
    not changed in place."""
    if tuple(chunk.shape) != tuple(spec.local_shape):
        raise InternalError("a chunk of %s, wanted %s: %r" % (tuple(chunk.shape), tuple(spec.local_shape), spec))
    if not seen:
        seen.append(True)
    strides = torch.empty(spec.shape, device="meta").stride()
    result = torch.Tensor._make_wrapper_subclass(makers[0], spec.shape, strides, dtype=DTYPES[spec.dtype],
                                                 device=chunk.device, requires_grad=requires_grad)
    result._handle, result._chunk, result._gathered_view = TracedHandle(spec), chunk, is_viewed
    return result


def is_real(chunk):
    """Whether a chunk has elements: what torch traces with is of classes of its own."""
    return type(chunk) in (torch.Tensor, torch.nn.Parameter)


def functions():
    """call and gradients of _graph, which takes a while to import."""
    from . import _graph  # noqa: F401: registers them
    return torch.ops.shardtensor


# Between chunks, layouts and ShardTensors


class Chunk(torch.autograd.Function):
    """This rank's chunk. Its cotangent is read as a chunk of `spec`, of the tensor's layout where that is None."""

    @staticmethod
    def forward(ctx, tensor, spec=None):
        ctx.spec = complete(tensor._handle.spec) if spec is None else spec
        ctx.set_materialize_grads(False)
        return tensor._chunk.detach()

    @staticmethod
    def backward(ctx, grad):
        return None if grad is None else wrap(grad, ctx.spec), None


class Lift(torch.autograd.Function):
    """A chunk as a ShardTensor; its gradient is laid as the chunk is."""

    @staticmethod
    def forward(ctx, chunk, spec):
        ctx.spec = complete(spec)
        ctx.set_materialize_grads(False)  # torch's zeros would be plain
        return wrap(chunk.detach(), spec)

    @staticmethod
    def backward(ctx, grad):
        return None if grad is None else moved_chunk(grad, ctx.spec), None


class Move(torch.autograd.Function):
    """The same values in another layout. A cotangent goes back in the layout that it has."""

    @staticmethod
    def forward(ctx, tensor, spec):
        ctx.set_materialize_grads(False)
        return wrap(moved_chunk(tensor, spec), spec)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Write(torch.autograd.Function):
    """What a tensor holds after a change in place."""

    @staticmethod
    def forward(ctx, tensor, values):
        ctx.mark_dirty(tensor)
        ctx.set_materialize_grads(False)
        ctx.spec = complete(tensor._handle.spec)
        tensor._chunk.copy_(moved_chunk(values, tensor._handle.spec))
        return tensor

    @staticmethod
    def backward(ctx, grad):
        return None if grad is None else zeros(ctx.spec, grad), grad


def zeros(spec, beside):
    return wrap(beside._chunk.new_zeros(spec.local_shape, dtype=DTYPES[spec.dtype]), spec)


def moved_chunk(tensor, spec):
    """This rank's chunk in another layout."""
    if tensor._handle.spec == spec:
        return tensor._chunk.detach()
    text = calls.text_of_call(calls.MOVE, {}, [tensor._handle.spec], [0], to=spec)
    return functions().call(text, [tensor._chunk])[0]


def whole_spec(spec):
    return replicated(spec.mesh, spec.dtype, spec.shape)


# Calls of ops


class Node(torch.autograd.Function):
    """A call of an op, and the application of its pullback. Plain tensors are Replicate, and get their whole
    gradient."""

    @staticmethod
    def forward(ctx, op, attrs, places, specs, *values):
        needed = ctx.needs_input_grad[4:]
        bits = sum(1 << at for at, place in enumerate(places) if place is not None and needed[place])
        ctx.text, chunks = calls.text_of_call(op.name, attrs, specs, places, bits), list(map(chunk_of, values))
        results = functions().call(ctx.text, chunks)
        ctx.specs, ctx.plain = [complete(spec) for spec in specs], [not is_traced(v) for v in values]
        ctx.set_materialize_grads(False)
        if bits:
            rehearsal = calls.rehearsed(ctx.text)
            ctx.n_values = len(chunks) if rehearsal.keeps else 0
            ctx.save_for_backward(results[-1], *chunks[:ctx.n_values], *(results[i] for i in rehearsal.kept_outputs))
        wrapped = tuple(wrap(chunk, spec) for chunk, spec in zip(results, calls.output_specs(ctx.text)))
        rigid = [w for w in wrapped if not (w.is_floating_point() or w.is_complex())]
        if rigid:
            ctx.mark_non_differentiable(*rigid)
        return wrapped

    @staticmethod
    def backward(ctx, *cotangents):
        kept, *read = ctx.saved_tensors
        given = [c for c in cotangents if c is not None]
        if not given:
            return (None, ) * (4 + len(ctx.specs))
        text = calls.text_of_gradients(ctx.text, [None if c is None else c._handle.spec for c in cotangents])
        values, outputs = read[:ctx.n_values], read[ctx.n_values:]
        grads = iter(functions().gradients(text, kept, values, outputs, [c._chunk for c in given]))
        chunks, found = calls.rehearsed(text, calls.GradientsRehearsal).chunks, []
        for chunk, spec, plain, needed in zip(chunks, ctx.specs, ctx.plain, ctx.needs_input_grad[4:]):
            grad = next(grads) if chunk is not None else None
            if needed and grad is None:
                grad = zeros(spec, given[0])._chunk
            found.append(grad if plain or grad is None else wrap(grad, spec))
        return (None, None, None, None, *found)


def chunk_of(value):
    return value._chunk if is_traced(value) else value


def depends_on_elements(op, inputs, attrs):
    """Whether shape or layout of its result do, which no rehearsal knows then."""
    if op.name == "index":
        return any(places.dtype == torch.bool for places in inputs[1:])
    if op.name == "repeat_interleave":
        return len(inputs) > 1 and inputs[1] is not None
    if op.name == "one_hot":
        return attrs.get("num_classes", -1) == -1
    return op.name in ("masked_select", "nonzero", "unique", "unique_consecutive")


def call_traced(op, inputs, attrs):
    """Calls an op of traced ShardTensors among others: what it returns."""
    if depends_on_elements(op, inputs, attrs):
        raise NotOurs(op.name)
    places, values = [], []
    for value in inputs:
        places.append(None if value is None else len(values))
        if value is not None:
            values.append(value)
    mesh = next((v._handle.spec.mesh for v in values if is_traced(v)), None)
    if mesh is None:
        raise NotOurs(op.name)
    specs = [v._handle.spec if is_traced(v) else replicated(mesh, name_of(v.dtype), v.shape) for v in values]
    results = Node.apply(op, attrs, places, specs, *values)
    for tensor in [*results, *filter(is_traced, values)] if op.aliases else ():
        tensor._gathered_view = True
    return shape_results(op, results)
