"""Torch's own modules and optimizers over ShardTensors: losses, norms of gradients, parameters, gradients and buffers
after three steps as on one process, wherever parameters and inputs are cut."""
import copy
import itertools
import unittest

from torch_ranks import (DEVICE, AgainstTorch, Replicate, Shard, ShardTensor, drawn, full, numbers, on_cpu, on_ranks,
                         spread, torch)
from torch import nn
from torch.nn.utils import parametrizations
from torch.optim import swa_utils
from torch.utils.checkpoint import checkpoint

from shardtensor.torch import gathered


class Attention(nn.MultiheadAttention):
    def forward(self, x):
        found, weights = super().forward(x, x * 2, x * 3, need_weights=self.bias_k is not None)
        return found if weights is None else torch.cat([found.flatten(), weights.flatten()])


class Recurrent(nn.Module):
    def __init__(self, kind, **how):
        super().__init__()
        self.cells = kind(6, 3, batch_first=True, **how)

    def forward(self, x):
        found, state = self.cells(x)
        return torch.cat([t.flatten() for t in (found, *(state if isinstance(state, tuple) else (state, )))])


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layers, self.reentrant = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 6)), reentrant

    def forward(self, x):
        return checkpoint(self.layers, x.detach().requires_grad_(), use_reentrant=self.reentrant)


class Called(nn.Module):
    """A module with other parameters than its own."""
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        return torch.func.functional_call(self.layer, {n: p * 1.5 for n, p in self.layer.named_parameters()}, (x, ))


def layers(around=lambda layer: layer, n=5):
    return nn.Sequential(around(nn.Linear(6, n)), nn.Tanh(), nn.Linear(n, 3))


torch.manual_seed(0)  # threads share the generator: before there are any
MODULES = {
    "layers": layers(), "weight norm": layers(parametrizations.weight_norm), "spectral norm": layers(
        parametrizations.spectral_norm), "attention": Attention(6, 2, batch_first=True), "weights": Attention(
            6, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True, kdim=6, vdim=6),
    "encoder": nn.TransformerEncoderLayer(6, 2, 8, 0., "gelu", batch_first=True, norm_first=True),
    "decoder": nn.TransformerDecoderLayer(6, 2, 8, 0., batch_first=True), "lstm": Recurrent(
        nn.LSTM, num_layers=2, bidirectional=True), "projected": Recurrent(nn.LSTM, proj_size=2),
    "gru": Recurrent(nn.GRU), "checkpoint": Checkpointed(False), "reentrant": Checkpointed(True), "called": Called(),
    "norms": nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(4), nn.PReLU(4), nn.GroupNorm(2, 4), nn.LayerNorm(6))
}
if DEVICE != "cpu":  # there torch has kernels of whole cells, which are gathered, and which the stand-in lacks
    for name in ("lstm", "projected", "gru"):
        del MODULES[name]
X = numbers(5, 4, 6)
CUTS = {2: [5, 0], 3: [4, 0, 1]}


def cut(tensor, mesh, dim):
    """A tensor by one of its dims, or by those behind for the second axis of a mesh; None: Replicate."""
    if dim is None or tensor.ndim == 0:
        return spread(tensor, mesh, *[Replicate()] * len(mesh.shape))
    dims = [Shard((dim + k) % tensor.ndim) if k < tensor.ndim else Replicate() for k in range(len(mesh.shape))]
    n, sizes = tensor.shape[dim % tensor.ndim], CUTS.get(mesh.shape[0])
    return spread(tensor, mesh, *dims, sizes={dims[0].dim: sizes} if n == 5 and len(mesh.shape) == 1 else None)


def cut_module(module, mesh, dim):
    """A copy whose parameters are ShardTensors."""
    module = copy.deepcopy(module)
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = nn.Parameter(cut(parameter.detach(), mesh, dim))
    return module


def train(module, x, optimizer, clip=nn.utils.clip_grad_norm_, mean=None):
    """What becomes of it."""
    optimizer = optimizer(module.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    mean, found = mean and mean(module), []
    for _ in range(3):
        def loss():
            optimizer.zero_grad()
            y = module(x) if not isinstance(module, nn.TransformerDecoderLayer) else module(x, x)
            loss = y.square().mean() * 10
            loss.backward()
            found.extend([loss.detach(), clip(module.parameters(), 0.5)])
            return loss

        optimizer.step(loss)
        schedule.step()
        if mean is not None:
            mean.update_parameters(module)
    gradients = [p.grad for p in module.parameters()]
    means = [] if mean is None else [p.detach() for p in mean.parameters()]
    buffers = [b for b in module.buffers() if b.is_floating_point()]
    return [*found, *gradients, *(p.detach() for p in module.parameters()), *means, *buffers]


def adamw(parameters):
    return torch.optim.AdamW(parameters, 0.05)


def sgd(parameters):
    """Whose steps are as large as gradients: of those that are zero but for rounding, as before a norm, AdamW makes
    more."""
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


OPTIMIZERS = {
    "Adadelta": {}, "Adagrad": {}, "Adam": {"amsgrad": True}, "AdamW": {"weight_decay": 0.1}, "Adamax": {}, "ASGD": {},
    "NAdam": {"decoupled_weight_decay": True}, "RAdam": {}, "RMSprop": {"centered": True, "momentum": 0.5},
    "Rprop": {}, "SGD": {"momentum": 0.9, "nesterov": True}, "Adafactor": {}
}
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
LAID = (None, 1), (0, 0), (1, 1)  # the dims by which parameters and inputs are cut


class Training(AgainstTorch):
    def as_one_process(self, module, mesh, laid, what, **how):
        of_parameters, of_inputs = laid
        module = module.to(DEVICE, torch.float64)
        wanted = train(copy.deepcopy(module), X, **how)
        got = train(cut_module(module, mesh, of_parameters), cut(X, mesh, of_inputs), **how)
        for a, b in zip(got, wanted, strict=True):
            if b is None:
                self.assertIs(a, b)
            else:
                torch.testing.assert_close(full(a), full(b), msg=lambda text: "%s %s: %s" % (what, laid, text))

    @on_ranks(2, 3)
    def test_modules(self, mesh):
        for (name, module), laid in drawn(itertools.product(MODULES.items(), LAID)):
            self.as_one_process(copy.deepcopy(module), mesh, laid, name, optimizer=sgd)
        written = {"aten.div.out"}  # the plain buffers of spectral norm
        self.assertLessEqual({name for name in gathered - self.before}, written)

    @on_cpu
    @on_ranks(4, mesh=(2, -1))
    def test_modules_over_two_axes(self, mesh):
        for (name, module), laid in drawn(itertools.product(MODULES.items(), LAID)):
            self.as_one_process(copy.deepcopy(module), mesh, laid, name, optimizer=sgd)

    @on_ranks(2, 3)
    def test_plain_parameters_have_plain_gradients(self, mesh):
        for (name, module), of_inputs in drawn(itertools.product(MODULES.items(), (0, 1))):
            one, module = (copy.deepcopy(module).to(DEVICE, torch.float64) for _ in range(2))
            for m, x in ((one, X), (module, cut(X, mesh, of_inputs))):
                (m(x, x) if name == "decoder" else m(x)).square().sum().backward()
            for got, wanted in zip(module.parameters(), one.parameters()):
                self.assertIsNot(type(got.grad), ShardTensor, name)
                self.close(got.grad, wanted.grad, msg=lambda text: "%s: %s" % (name, text))

    @on_cpu
    @on_ranks(3)
    def test_optimizers(self, mesh):
        for (name, words), way, laid in drawn(itertools.product(OPTIMIZERS.items(), ("foreach", "fused", ""), LAID)):
            if way != "fused" or name in FUSED:
                how = {way: True} if way else {"foreach": False}
                self.as_one_process(layers_of_all(), mesh, laid, (name, way), optimizer=lambda parameters: getattr(
                    torch.optim, name)(parameters, lr=0.05, **words, **how))

    @on_cpu
    @on_ranks(3)
    def test_searches_along_a_line(self, mesh):
        for laid in LAID:
            self.as_one_process(layers_of_all(), mesh, laid, "L-BFGS", optimizer=lambda parameters: torch.optim.LBFGS(
                parameters, 0.1, max_iter=4, line_search_fn="strong_wolfe"))

    @on_cpu
    @on_ranks(2)
    def test_means_and_clips(self, mesh):
        means = (swa_utils.AveragedModel, lambda module: swa_utils.AveragedModel(
            module, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9)), None)
        clips = (lambda parameters, most: nn.utils.clip_grad_norm_(parameters, most, float("inf")),
                 lambda parameters, most: nn.utils.clip_grad_norm_(parameters, most, foreach=False),
                 lambda parameters, most: nn.utils.clip_grad_norm_(parameters, most, foreach=True),
                 nn.utils.clip_grad_value_)
        for mean, clip, laid in drawn(itertools.product(means, clips, LAID)):
            self.as_one_process(layers_of_all(), mesh, laid, clip, optimizer=adamw, clip=clip, mean=mean)
        x = [spread(X, mesh, Shard(0)), X]
        for f in (torch._foreach_norm, torch._foreach_max, lambda x: torch._foreach_norm(x, 1)):
            for got, wanted in zip(f(x), f([X, X])):
                self.close(got, wanted)
        self.stays()


def layers_of_all():
    return copy.deepcopy(MODULES["layers"])


if __name__ == "__main__":
    unittest.main()
