"""Recurrent layers and cells, which torch takes apart into steps that change their gates in place: these lie as the
hidden state does, which is plain as a rule. So it is laid as the input is, by samples, and each rank steps through
its own."""
import math

from . import _moves, _traced
from ._dtypes import NAMES
from ._layout import complete
from ._special import SPECIAL, words_of
from ._trees import mapped, tensors
from ._world import world

LAYER = ["input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"]
CELL = ["input", "hx", "w_ih", "w_hh", "b_ih", "b_hh"]


def by_samples(spec, samples):
    """The layout of an input in which the axes that cut it cut its samples, dim `samples`; None where nothing is cut,
    or there are fewer samples than ranks. What is cut so already stays."""
    cuts = [text[0] == "S" and n > 1 for text, n in zip(spec.placements, spec.mesh.shape)]
    texts = ["S%d" % samples if cut else text for cut, text in zip(cuts, spec.placements)]
    if not any(cuts):
        return None
    if texts == list(spec.placements):
        return spec
    ranks = math.prod(n for cut, n in zip(cuts, spec.mesh.shape) if cut)
    return spec.like(texts) if spec.shape[samples] >= ranks else None


def beside(tensor, spec, samples, dim):
    """A state, of the samples along `dim`, laid beside an input of that layout."""
    texts = ["S%d" % dim if text == "S%d" % samples else text for text in spec.placements]
    sizes = {dim: spec.sizes(samples)}
    tensor = _moves.shard_tensor(tensor, spec.mesh)
    return _moves.move(tensor, world().spec(spec.mesh, texts, tuple(tensor.shape), NAMES[tensor.dtype], sizes))


def recurrent(names):
    def run(func, args, kwargs):
        words = words_of(names, args, kwargs)
        if words is None or not hasattr(words.get("input"), "_handle") or _traced.is_traced(words["input"]):
            return NotImplemented  # packed sequences have another signature
        tensor, states = words["input"], tensors(words["hx"])
        dim, samples = (0, 0) if names is CELL else (1, 0 if words.get("batch_first") else 1)
        if tensor.ndim != (2 if names is CELL else 3) or any(
                t.ndim != tensor.ndim or t.shape[dim] != tensor.shape[samples] or t.dtype not in NAMES for t in states):
            return NotImplemented  # torch says what is wrong
        spec = by_samples(complete(tensor._handle.spec), samples)
        if spec is None:
            return NotImplemented
        laid = _moves.move(tensor, spec), mapped(lambda state: beside(state, spec, samples, dim), words["hx"])
        if laid[0] is tensor and all(one is other for one, other in zip(states, tensors(laid[1]))):
            return NotImplemented  # torch takes it apart
        return func(*laid, *(words[name] for name in names[2:] if name in words))

    return run


SPECIAL.update({name: recurrent(LAYER) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")})
SPECIAL.update({name: recurrent(CELL) for name in ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")})
