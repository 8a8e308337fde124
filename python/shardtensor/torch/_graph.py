"""What graphs of torch.compile's call where a ShardTensor is in them: shardtensor::call, an op of the library, of this
rank's chunks, and shardtensor::gradients, what its pullback gives. Both are ordered effects: every rank calls them in
the order of the program, however large its own chunks are.

What a call keeps for its gradients goes through the graph as a tensor of one number: the pullback lives as long as the
memory of that tensor."""
import itertools
import weakref

import torch

from .. import StateError
from ._graph_calls import Call, Gradients, GradientsRehearsal, here, output_specs, rehearsed
from ._memory import to_handle, to_torch
from ._streams import drawn_again, stand

_numbers = itertools.count(1)
_kept = weakref.WeakValueDictionary()


class Kept(bytearray):
    """The memory of such a tensor."""
    __slots__ = ("pullback", "addresses", "state", "__weakref__")


def addresses(tensors):
    return [t.data_ptr() for t in tensors]


def keep(pullback, addresses_then, state):
    number = next(_numbers)
    kept = Kept(number.to_bytes(8, "little"))
    kept.pullback, kept.addresses, kept.state = pullback, addresses_then, state
    _kept[number] = kept
    return torch.frombuffer(kept, dtype=torch.int64)


def kept_by(number, call, values, outputs):
    """The pullback of a call. Where the elements that it reads are elsewhere by now, as a graph may hand on a copy or
    compute them once more, the op runs again, with the random numbers that it had."""
    kept = _kept.get(int(number))
    if kept is None:
        raise StateError("%s: what its gradients need went with the tensor of one number that the graph has for it, "
                         "which is not to be copied (saved_tensors_hooks)" % call.name)
    if addresses(values) + addresses(outputs) == kept.addresses:
        return kept.pullback
    with drawn_again(kept.state):
        return call.run(laid_all(values, call.specs))[1]


def laid_all(chunks, specs):
    return [to_handle(chunk).from_local(spec) for chunk, spec in zip(chunks, specs)]


def own(handle, beside):
    """A result's chunk, dense and in memory of its own."""
    chunk = to_torch(handle)
    is_dense = chunk.stride() == torch.empty_like(chunk, device="meta").stride()
    return chunk.clone() if handle.is_view or handle.data_ptr in beside or not is_dense else chunk


def call(text, values):
    told = here(Call, text)
    handles = laid_all(values, told.specs)
    state = stand(spec.mesh for spec in told.specs)
    outputs, pullback = told.run(handles)
    outputs = [o if o.spec == spec else o.redistribute(spec) for o, spec in zip(outputs, output_specs(text))]
    beside = {h.data_ptr for h in handles if h.data_ptr}
    results = [own(o, beside) for o in outputs]
    if pullback is not None:
        rehearsal = rehearsed(text)
        read = [*values, *(results[i] for i in rehearsal.kept_outputs)] if rehearsal.keeps else []
        results.append(keep(pullback, addresses(read), state))
    return results


def call_shape(text, values):
    rehearsal = rehearsed(text)
    results = empty(rehearsal.chunks, values[0])
    return results + [torch.empty(1, dtype=torch.int64)] if here(Call, text).bits else results


def gradients(text, kept, values, outputs, cotangents):
    told = here(Gradients, text)
    pullback = kept_by(kept, told.call, values, outputs)
    there = iter(laid_all(cotangents, [spec for spec in told.specs if spec is not None]))
    grads = told.call.apply(pullback, [None if spec is None else next(there) for spec in told.specs])
    return [own(g, ()) for g in grads if g is not None]


def gradients_shape(text, kept, values, outputs, cotangents):
    return empty([c for c in rehearsed(text, GradientsRehearsal).chunks if c is not None], cotangents[0])


def empty(chunks, like):
    return [like.new_empty_strided(shape, strides, dtype=dtype) for shape, strides, dtype in chunks]


_library = torch.library.Library("shardtensor", "DEF")
for _function, _shape, _arguments in (
    (call, call_shape, "str text, Tensor[] values"),
    (gradients, gradients_shape, "str text, Tensor kept, Tensor[] values, Tensor[] outputs, Tensor[] cotangents")):
    _name = _function.__name__
    _library.define("%s(%s) -> Tensor[]" % (_name, _arguments))
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    _library._register_fake(_name, _shape)
    _library._register_effectful_op("shardtensor::" + _name, torch._library.effects.EffectType.ORDERED)
