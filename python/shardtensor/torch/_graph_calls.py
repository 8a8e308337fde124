"""Calls of ops in graphs of torch.compile's. A text says all of a call that is no tensor, so that a graph which torch
has kept on disk means the same in another process. What a call gives is known from a rehearsal, before there are
elements."""
import functools
import json
import threading

import torch

from .. import Context, fake_comm
from ._dtypes import DTYPES
from ._layout import complete, place_of, spec_at
from ._world import table, world

MOVE = "redistribute"  # a change of layout, beside the ops


def text_of_call(name, attrs, specs, places, bits=0, to=None):
    """specs: those of the tensors; places: for each input of the op which tensor it is, or None; bits: which inputs
    need gradients; to: of a move, the layout."""
    return json.dumps({
        "op": name, "attrs": attrs, "specs": list(map(place_of, specs)), "places": list(places), "bits": bits,
        "to": None if to is None else place_of(to)
    })


def text_of_gradients(call, specs):
    """specs: those of the cotangents, None where there is none."""
    return json.dumps({"call": call, "specs": [None if spec is None else place_of(spec) for spec in specs]})


class Call:
    """What a text says, in a context."""

    def __init__(self, context, text):
        told = json.loads(text)
        self.context, self.name, self.attrs = context, told["op"], told["attrs"]
        self.places, self.bits = told["places"], told["bits"]
        self.specs = [spec_at(context, place) for place in told["specs"]]
        self.to = None if told["to"] is None else spec_at(context, told["to"])

    def run(self, handles):
        """(its outputs, its pullback or None)."""
        if self.name == MOVE:
            return (handles[0].redistribute(self.to), ), None
        inputs = [None if place is None else handles[place] for place in self.places]
        outputs, pullback = self.context.op(self.name).pullback(inputs, self.attrs, self.bits)
        return outputs, pullback if self.bits else None

    def apply(self, pullback, cotangents):
        """For each tensor its gradient, complete and laid as the tensor is, or None."""
        found = [None] * len(self.specs)
        for place, grad in zip(self.places, pullback.apply(tuple(cotangents), self.bits)):
            if place is not None and grad is not None:
                wanted = complete(self.specs[place])
                found[place] = grad if grad.spec == wanted else grad.redistribute(wanted)
        return found


class Gradients:
    """What a text of gradients says, in a context."""

    def __init__(self, context, text):
        told = json.loads(text)
        self.call = Call(context, told["call"])
        self.specs = [None if place is None else spec_at(context, place) for place in told["specs"]]


def here(kind, text):
    """What a text says in this thread's context."""
    known = table("graph calls")
    if text not in known:
        known[text] = kind(world(), text)
    return known[text]


# Rehearsals

_stages, _lock = {}, threading.Lock()


def stage():
    """A context that has this rank's place in a world where nothing moves. Specs, and so the shapes of chunks, are the
    same there, but of ops whose results have shapes or layouts that depend on elements, which are in no graph
    (depends_on_elements)."""
    rank, size = world().rank, world().size
    with _lock:
        if (rank, size) not in _stages:
            _stages[rank, size] = Context(comm=fake_comm(rank, size), rank=rank, size=size)
        return _stages[rank, size]


def laid_out(handle):
    """This rank's chunk of a result: its shape, its strides once it has memory of its own, its dtype."""
    chunk = torch.empty_strided(handle.local_shape, handle.strides, dtype=DTYPES[handle.dtype], device="meta")
    return chunk.shape, torch.clone(chunk).stride(), chunk.dtype


class Rehearsal:
    """What a call gives: for each output its place and this rank's chunk (shape, strides), which outputs the pullback
    keeps elements of, and whether it keeps elements of inputs or outputs at all."""

    def __init__(self, context, text):
        call = Call(context, text)
        handles = [context.factory("zeros", spec) for spec in call.specs]
        outputs, pullback = call.run(handles)
        self.places = [place_of(o.spec) for o in outputs]
        self.chunks = list(map(laid_out, outputs))
        kept = set() if pullback is None else {t.data_ptr for t in pullback.saved()}
        self.kept_outputs = [i for i, o in enumerate(outputs) if o.data_ptr in kept]
        self.keeps = bool(self.kept_outputs) or any(h.data_ptr in kept for h in handles)


class GradientsRehearsal:
    """For each tensor of a call this rank's chunk of its gradient, or None."""

    def __init__(self, context, text):
        gradients = Gradients(context, text)
        call = gradients.call
        _, pullback = call.run([context.factory("zeros", spec) for spec in call.specs])
        found = call.apply(pullback, [None if s is None else context.factory("zeros", s) for s in gradients.specs])
        self.chunks = [None if g is None else laid_out(g) for g in found]


@functools.lru_cache(maxsize=4096)
def _rehearsed(kind, context, text):
    return kind(context, text)


def rehearsed(text, kind=Rehearsal):
    return _rehearsed(kind, stage(), text)


def output_specs(text):
    """Of a call, in this thread's context."""
    return [spec_at(world(), place) for place in rehearsed(text).places]
