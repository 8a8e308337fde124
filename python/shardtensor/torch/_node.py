"""One call of an op is one node of torch's graph: forward calls the op by its handle, backward applies its pullback."""
import contextlib

import torch

from .. import StateError
from ._binding import NotOurs, shape_results
from ._checkpoint import draws_again
from ._layout import complete
from ._lists import gradients, is_long
from ._memory import own_chunk, replicate, shows, to_torch
from ._results import FACTORS, FORMULAS, INPUTS, KEPT, NOTHING, PLACES, RESULT, saves
from ._streams import drawn_again, stand
from ._traced import call_traced, is_traced, seen
from ._views import note_views
from ._world import world

# Ops that draw random numbers, which called again are others, with the chance that a number is dropped where nothing
# says it.
RANDOM = {"dropout": ("p", 0.5), "dropout_channels": ("p", 0.5), "scaled_dot_product_attention": ("dropout_p", 0.)}


# Dtypes that gradients exist of.
DIFFERENTIABLE = {"f32", "f64", "bf16", "f16", "c64", "c128"}


def saving_hooks():
    """The hooks through which torch passes what nodes save (checkpoint, offloading), or None."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False)


# Whether the backward that runs retains its graph. A torch that does not say keeps what its nodes keep.
keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)


def handle_of(tensor, mesh):
    """Its handle; that of a plain tensor is Replicate."""
    handle = getattr(tensor, "_handle", None)
    return handle if handle is not None else replicate(tensor, mesh)


def addresses(values, form):
    """Where the elements of plain tensors are; of others, and of those without memory, None."""
    return [None if v is None or not f[1] else address_of(v) for v, f in zip(values, form)]


def address_of(plain):
    try:
        return plain.data_ptr()
    except RuntimeError:  # sparse, or within torch.func's functions
        return None


def zeros(spec):
    return world().factory("zeros", complete(spec))


leaves = {"keep pending": False}  # whether a leaf's gradient may stay a pending sum


def leaf_layout(have, forward):
    """In which layout a leaf of spec `forward` keeps a gradient that lies as `have`."""
    wanted = complete(forward)
    if not leaves["keep pending"] or have.mesh != wanted.mesh:
        return wanted
    kept = [p if p[0] == "P" and w == "R" else w for p, w in zip(have.placements, wanted.placements)]
    return wanted.like(kept)


def whole_gradient(grads, at, spec):
    """What torch's engine gets for a plain tensor: the whole, which no rank outside of the mesh has. Its place in the
    list is given up, so that nobody else has the memory, which the engine adds to."""
    grad, grads[at] = grads[at], None
    if spec.mesh.coordinate is None:
        return None
    whole = (zeros(spec) if grad is None else grad).full_tensor()
    del grad
    return own_chunk(whole)


def gradient(grad, spec, is_plain, is_leaf, cotangents):
    """What torch's engine gets for an input: for a plain tensor the whole, for a leaf its layout, else whatever layout
    it has. A gradient that is a cotangent is that very tensor: the engine adds in place to what nobody else holds."""
    if is_plain:
        return whole_gradient([grad], 0, spec)
    if grad is None:  # the op's derivative is zero everywhere
        grad = zeros(spec)
    if is_leaf:
        wanted = leaf_layout(grad.spec, spec)
        grad = grad.redistribute(wanted) if grad.spec != wanted else grad
    placed = complete(spec)
    for cotangent in cotangents:
        if shows(grad, cotangent) and grad.spec == cotangent._handle.spec:
            grad.place_as(placed)
            if grad.spec.placements == cotangent._handle.spec.placements:
                return cotangent
            grad = world().op("clone")(grad)
    grad.place_as(placed)
    return wrap(world().op("clone")(grad) if is_leaf and grad.is_view else grad)


def wrap(handle):
    """A ShardTensor on a handle."""
    return makers[0](handle)


makers = []  # _shortcut puts in what makes one
shorts = []  # and what calls an op the short way
movers = []  # _moves puts in what takes a tensor to a spec, and what gives the whole of one


def lent(handle):
    """A ShardTensor on memory of torch's: the library counts it as a view, and _dispatch.write writes into it."""
    tensor = wrap(handle)
    tensor._lent = True
    return tensor


class Call:
    """What is to be called: an op, where its inputs stand among the tensors of a node, its attributes, the mesh.

    Level 0 is the call itself. Level k + 1 is the application of level k's pullback: a function of what level k is
    one of, followed by cotangents of what level k gives, to gradients of what it is a function of. levels[k] says
    what was asked of level k: (bits, how many cotangents)."""
    __slots__ = ("op", "places", "attrs", "mesh", "n", "levels")

    def __init__(self, op, places, attrs, mesh, n, levels=()):
        self.op, self.places, self.attrs, self.mesh, self.n, self.levels = op, places, attrs, mesh, n, levels

    def above(self, bits, n_cotangents):
        """The application of this one's pullback."""
        return Call(self.op, self.places, self.attrs, self.mesh, self.n, self.levels + ((bits, n_cotangents),))

    def below(self):
        return Call(self.op, self.places, self.attrs, self.mesh, self.n, self.levels[:-1])

    def values(self):
        """How many values it is a function of."""
        return self.n + sum(n for _, n in self.levels)

    def positions(self):
        """For each input that the library counts, which value it is; None where it is absent."""
        return list(self.places) + list(range(self.n, self.values()))

    def mask(self, needed):
        """Bit i: the library's input i needs a gradient."""
        return sum(1 << at for at, value in enumerate(self.positions()) if value is not None and needed[value])

    def run(self, handles, bits):
        """(outputs, pullback): of a call its tensors, of an application one gradient, or None, for each value of the
        level below."""
        inputs = [None if place is None else handles[place] for place in self.places]
        outputs, pullback = self.op.pullback(inputs, self.attrs, self.levels[0][0] if self.levels else bits)
        at, call = self.n, Call(self.op, self.places, self.attrs, self.mesh, self.n)
        for level, (asked, n) in enumerate(self.levels):
            last = level + 1 == len(self.levels)
            cotangents = call.cotangents(handles[at:at + n], outputs)
            if last and not bits:
                grads, pullback = pullback.apply(cotangents, asked), None
            else:
                grads, pullback = pullback.apply(cotangents, asked, again=True)
            outputs, at, call = call.by_value(grads), at + n, call.above(asked, n)
        return outputs, pullback

    def cotangents(self, given, outputs):
        """Cotangents of what it gives, in the library's order; none of a gradient that is zero and no tensor."""
        given = [None if output is None else g for g, output in zip(given, outputs)]
        if not self.levels:
            return tuple(given)
        return tuple(None if value is None else given[value] for value in self.below().positions())

    def by_value(self, grads):
        """Gradients in the library's order, by value."""
        found = [None] * self.values()
        for value, grad in zip(self.positions(), grads):
            if value is not None:
                found[value] = grad
        return found


class Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, form, *values):
        """form: for each output of an application, (the spec of what it is a gradient of, whether that is plain,
        whether a leaf) or None."""
        ctx.set_materialize_grads(False)
        handles = [None if v is None else handle_of(v, call.mesh) for v in values]
        ctx.bits = call.mask(ctx.needs_input_grad[2:])
        hooks = saving_hooks() if ctx.bits else None
        ctx.repeats = hooks is not None
        ctx.state = stand([call.mesh]) if ctx.repeats and draws(call) else None
        if ctx.repeats:  # what is kept goes through the hooks alone: the pullback is made when it is wanted
            refuse_checkpoint(call, hooks)
        outputs, ctx.pullback = call.run(handles, 0 if ctx.repeats else ctx.bits)
        if ctx.bits:
            ctx.call, ctx.gave = call, [None if h is None else True for h in outputs]
            ctx.form = tuple(None if h is None else (h.spec, getattr(v, "_handle", None) is None)
                             for h, v in zip(handles, values))
            ctx.saves = INPUTS if ctx.repeats or form is not None else saves(
                call.op, ctx.pullback, len(values), handles[0].spec, outputs[0].spec)
            kept = to_save(ctx.saves, values, handles, ctx.bits)
            ctx.addresses = addresses(kept, ctx.form)
            ctx.save_for_backward(*kept)
        if form is None:
            results = tuple(wrap(h) for h in outputs)
            note_views(call.op, call.attrs, values, results)
            if ctx.bits and ctx.saves == RESULT:
                ctx.save_for_backward(*results)
        else:
            asked = call.below().by_value([call.levels[-1][0] >> i & 1 for i in range(len(call.below().positions()))])
            results = tuple(
                gradient(g, *f, ()) if wanted else None for g, f, wanted in zip(outputs, form, asked))
        pairs = [(r, h) for r, h in zip(results, outputs) if r is not None and h is not None]
        rigid = [r for r, h in pairs if h.dtype not in DIFFERENTIABLE]
        if rigid:
            ctx.mark_non_differentiable(*rigid)
        return results

    @staticmethod
    def backward(ctx, *cotangents):
        call, edges = ctx.call, iter(ctx.next_functions)
        form = tuple(None if f is None else (*f, type(next(edges)[0]).__name__ == "AccumulateGrad") for f in ctx.form)
        if torch.is_grad_enabled() and ctx.saves == RESULT:
            return (None, None, derived(ctx, form[0], *cotangents))
        if torch.is_grad_enabled() and is_long(call, cotangents):
            return (None, None, *of_lists(ctx, form, cotangents))
        if torch.is_grad_enabled():  # create_graph: the gradients are a node of their own
            grads = Node.apply(call.above(ctx.bits, len(cotangents)), form, *saved(ctx), *cotangents)
            spend(ctx.pullback)
            return (None, None, *grads)
        if ctx.pullback is not None and ctx.pullback.released:
            saved(ctx)  # which torch has let go of, too, and says so
        follow(ctx)
        pullback = repeat(ctx) if ctx.repeats else ctx.pullback
        given = [None if g is None else handle_of(g, call.mesh) for g in cotangents]
        grads = [None] * call.values()
        if pullback is not None:
            grads = call.by_value(pullback.apply(call.cotangents(given, ctx.gave), ctx.bits))
        found = []
        for at, (f, needed) in enumerate(zip(form, ctx.needs_input_grad[2:])):
            if needed and f[1]:
                found.append(whole_gradient(grads, at, f[0]))
            else:
                found.append(gradient(grads[at], *f, cotangents) if needed else None)
        spend(ctx.pullback)
        return (None, None, *found)


def spend(pullback):
    """Gives up a pullback that keeps tensors, unless the graph is retained, as torch does of its own nodes. One that
    keeps none may be applied again."""
    if pullback is not None and not keeps_graph() and not pullback.released and pullback.saved():
        pullback.release()


def draws(call):
    word, default = RANDOM.get(call.op.name, ("", 0))
    return call.attrs.get(word, default) > 0 and call.attrs.get("training", True)


def refuse_checkpoint(call, hooks):
    if draws(call) and not draws_again() and "checkpoint" in getattr(hooks[0], "__qualname__", ""):
        raise RuntimeError("%s draws the library's random numbers, which torch.utils.checkpoint does not draw again: "
                           "use shardtensor.torch.checkpoint" % call.op.name)


def derived(ctx, form, cotangent):
    """The gradient of a function whose node saved its result, as torch's functions make it, so that it has one."""
    (result, ), (spec, _, is_leaf) = saved(ctx), form
    if cotangent is None:
        return None
    with torch._C._EnableTorchFunction():
        grad = FORMULAS[ctx.call.op.name](result, cotangent, ctx.call.attrs)
        spend(ctx.pullback)
        return as_kept(grad, spec, False, is_leaf)


def of_lists(ctx, form, cotangents):
    """The gradients of an op of many tensors, of which its pullback has no derivatives."""
    found = gradients(ctx.call, form, cotangents, ctx.needs_input_grad[2:])
    spend(ctx.pullback)
    with torch._C._EnableTorchFunction():
        return [None if g is None else as_kept(g, *f) for g, f in zip(found, form)]


def as_kept(grad, spec, is_plain, is_leaf):
    """A gradient as torch's engine gets it: see gradient."""
    to_spec, whole_of = movers
    if is_plain:
        return None if spec.mesh.coordinate is None else whole_of(grad)
    return to_spec(grad, leaf_layout(grad._handle.spec, spec)) if is_leaf else grad


def saved(ctx):
    """What a node saved. A checkpoint calls its function again for that, as it was called: with ShardTensors above
    autograd. A node saves no values on which its gradients do not depend, as where its pullback keeps no tensor: zeros
    are in their place."""
    if ctx.saves == KEPT and not ctx.pullback.released:
        return [wrap(ctx.pullback.saved()[0])]
    if ctx.saves == NOTHING:
        return list(map(zeros_for, ctx.form))
    with torch._C._EnableTorchFunction():
        if ctx.saves in (PLACES, FACTORS):
            return [zeros_for(f) if t is None else t for t, f in zip(ctx.saved_tensors, ctx.form)]
        return ctx.saved_tensors


def zeros_for(form):
    """In the place of a value that nothing depends on; None of one that is absent."""
    if form is None:
        return None
    return to_torch(zeros(form[0])) if form[1] else wrap(zeros(form[0]))


def to_save(how, values, handles, bits):
    """Of the inputs what torch is to save."""
    if how == PLACES:
        return [None if h is None or h.dtype in DIFFERENTIABLE else v for v, h in zip(values, handles)]
    if how == FACTORS:
        return [v if at < 2 and bits >> 1 - at & 1 else None for at, v in enumerate(values)]
    return values if how == INPUTS else ()


def follow(ctx):
    """Has the pullback read memory of torch's where it is by now: FSDP frees a parameter's behind the forward and makes
    it anew for the backward, where the rank's allocator has some."""
    if ctx.pullback is None or not any(ctx.addresses):
        return
    with torch._C._EnableTorchFunction():
        kept = ctx.saved_tensors
    now = addresses(kept, ctx.form)
    parts = [(old, v.nbytes, new) for v, old, new in zip(kept, ctx.addresses, now) if old and old != new]
    if any(not new for _, _, new in parts):
        raise StateError("%s: the memory of an operand was freed, and is not there again for the backward" %
                         ctx.call.op.name)
    if parts:
        ctx.pullback.moved(parts)
        ctx.addresses = now


def repeat(ctx):
    """The pullback of a call whose tensors went through hooks: the op again, with the random numbers that it had."""
    handles = [None if t is None else handle_of(t, ctx.call.mesh) for t in saved(ctx)]
    with drawn_again(ctx.state) if ctx.state is not None else contextlib.nullcontext():
        return ctx.call.run(handles, ctx.bits)[1]


def recorded(tensors):
    """Whether torch's graph gets a node for them."""
    with torch._C.DisableTorchFunctionSubclass():  # or each look would be a call of torch's
        return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def call(op, inputs, attrs):
    """Calls an op above torch's autograd: what it returns, as ShardTensors."""
    if seen and any(map(is_traced, inputs)):
        return call_traced(op, inputs, attrs)
    places, tensors = [], []
    for value in inputs:
        places.append(None if value is None else len(tensors))
        if value is not None:
            tensors.append(value)
    mesh = next((t._handle.spec.mesh for t in tensors if getattr(t, "_handle", None) is not None), None)
    if mesh is None:
        raise NotOurs("%s: the ShardTensors of the call are none of its operands" % op.name)
    if not recorded(tensors):
        handles = [None if t is None else handle_of(t, mesh) for t in inputs]
        results = tuple(wrap(h) for h in op.pullback(handles, attrs, 0)[0])
        note_views(op, attrs, tensors, results)
        return shape_results(op, results)
    results = Node.apply(Call(op, places, attrs, mesh, len(tensors)), None, *tensors)
    return shape_results(op, results)
