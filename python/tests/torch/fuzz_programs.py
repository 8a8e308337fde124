"""The programs of fuzz.py: templates of calls, and how they are put together and filled in."""
import math
import random
import re

from torch_ranks import Partial, Replicate, Shard, ShardTensor, spread, torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import shardtensor as st
from shardtensor.torch._layout import ShardTensorSpec, make_spec

DTYPES = {"f64": torch.float64, "f32": torch.float32, "i64": torch.int64, "bool": torch.bool, "c128": torch.complex128}
GRIDS = {1: [(1,), (1, 1)], 2: [(2,), (2,), (1, 2), (2, 1)], 3: [(3,), (3,), (1, 3), (3, 1)], 4: [(4,), (2, 2), (2, 2)]}

# Fields of a template begin with what is taken of the variables so far, as in PICKED, and how many dims it has at
# least (x2), or has (m2). FIELDS says what the others are, of the first one.
PICKED = {
    "x": lambda t: t.is_floating_point(), "m": lambda t: t.is_floating_point(), "z": lambda t: True,
    "v": lambda t: t.is_floating_point() or t.is_complex(), "q": lambda t: t.dtype is torch.int64,
    "c": lambda t: t.is_complex(), "l": lambda t: t.is_leaf and t.requires_grad,
    "y": lambda t: t.is_floating_point() and not (t.is_leaf and t.requires_grad),
}
POINTWISE = """
{x}.sin() | {x}.cos() | {x}.tanh() | {x}.sigmoid() | {x}.abs() | {x}.square() | -{x} | F.relu({x}) | F.gelu({x}) |
F.silu({x}) | F.softplus({x}) | F.elu({x}) | F.leaky_relu({x}, 0.1) | {x}.clamp(-0.5, 0.7) |
{x}.clamp(max=1).exp() | {x}.erf() | {x}.atan() | ({x}.square() + 1).log() | ({x}.abs() + 0.5).sqrt() | {x}.pow(2) |
({x}.abs() + 1).rsqrt() | {x} ** 3 | {x}.round() | {x}.sign() | {x} + {o} | {x} - {o} | {x} * {o} |
{x} / ({o} ** 2 + 1) | {o} + {x} | {o} * {x} | 2 - {x} | 1 / ({x}.square() + 1) | torch.maximum({x}, {s}) |
torch.minimum({x}, {s}) | torch.where({x} > 0, {x}, {o}) | torch.lerp({x}, {s}, 0.3) |
torch.addcmul({x}, {s}, {s}, value=0.5) | torch.atan2({x}, {s}.abs() + 1) | torch.hypot({x}, {s}) |
{x}.masked_fill({x} > 0.5, 0.1) | {x}.where({x} < {s}, {s}) | torch.add({x}, {o}, alpha=2) | F.hardtanh({x}) |
{x}.sinh().atan() | torch.rsub({x}, {s}) | F.threshold({x}, 0.1, 0.2) |
torch.asinh({x}) | ({x}.abs() + 1.5).acosh() | ({x}.tanh() * 0.9).atanh() | ({x}.square() + 0.5).log10() |
torch.logaddexp({x}, {s}) | torch.xlogy({x}, {s}.abs() + 0.5) | torch.copysign({x}, {s} + 0.05) |
{x}.sigmoid().logit(0.2) | F.softsign({x}) | F.hardshrink({x}, 0.3) | F.softshrink({x}, 0.3)
"""
REDUCTIONS = """
{x}.sum() | {x}.mean() | {x1}.sum({d}) | {x1}.sum({d}, keepdim=True) | {x1}.mean({d}) |
{x1}.mean({d}, keepdim=True) | {x2}.sum((0, -1)) | {x2}.mean((0, 1), keepdim=True) | {x1}.amax({d}) |
{x1}.amin({d}, keepdim=True) | {x}.max() | {x1}.max({d}).values | {x1}.min({d}, keepdim=True)[0] |
{x1}.var({d}, unbiased=False) | {x1}.logsumexp({d}) | ({x1} + 2).norm(dim={d}) | {x1}.prod({d}) |
{x}.square().sum() | F.mse_loss({x}, {s}) | {x1}.cumsum({d}) | torch.linalg.vector_norm({x1}, 1, {d}) |
F.l1_loss({x}, {s}, reduction="sum") | F.smooth_l1_loss({x}, {s}) | {x1}.softmax({d}) | {x1}.log_softmax({d}) |
F.normalize({x1}, dim={d}, eps=0.1) | ({x1} > 0).sum({d}) | ({x} > 0).any() | ({x1} > 0).all({d}) |
{x1}.cumprod({d}) | {x1}.nansum({d}) | {x1}.count_nonzero({d}) | F.cross_entropy({m2}, {t}) |
F.nll_loss({m2}, {t}, reduction="none") | ({x} + 2).norm()
"""
PRODUCTS = """
{x1} @ {w} | F.linear({x1}, {w}.t()) | F.linear({x1}, {w}.mT, {wo}) | torch.einsum("...i,ij->...j", {x1}, {w}) |
{m3}.bmm({m3}.mT) | {m2}.mm({w}) | torch.einsum("ab,ac->bc", {m2}, {m2}) | {m2}.t() @ {m2} | {x2}.mT @ {x2} |
torch.einsum("abc,abd->acd", {m3}, {m3}) | torch.outer({m1}, {m1}) | {m1}.dot({m1}) |
torch.tensordot({x1}, {w}, 1) | torch.addmm({wo}, {m2}, {w}) | F.layer_norm({x1}, {x1}.shape[-1:]) |
F.layer_norm({x1}, {x1}.shape[-1:], {a}, {a}) | F.conv1d({m3}, {k}, padding=1) |
F.conv2d({m4}, {k}, stride=2, padding=1) | F.avg_pool1d({m3}, 2, ceil_mode=True) |
F.max_pool1d({m3}, 2, ceil_mode=True) | F.avg_pool2d({m4}, 2, padding=1) | F.max_pool2d({m4}, 2, padding=1) |
F.interpolate({m3}, scale_factor=2) | F.interpolate({m4}, size=(3, 5), mode="bilinear") | F.group_norm({m3}, 1) |
F.adaptive_avg_pool2d({m4}, 2) | F.scaled_dot_product_attention({m3}, {m3}, {m3}) | torch.cdist({m2}, {m2} + 2)
"""
MOVES = """
torch.cat([{z1}, {z1}], {d}) | torch.cat([{z1}, {s}, {z1}], {d}) | torch.stack([{z}, {s}]) |
torch.stack([{z}, {s}], -1) | {z1}.roll(2, {d}) | {z1}.flip({d}) | F.pad({x1}, (1, 2)) |
F.pad({x2}, (0, 1, 1, 0), value=0.5) | {z1}.gather({d}, {g}) | {z1}.index_select({d}, {r}) | {z1}[{r0}] |
{z2}[:, {r1}] | {x1}.sort({d}, stable=True).values | {z1}.tile(2) | {x1}.topk(1, {d}).values.detach() | {z2}.tril() |
{z2}.triu(1) | {z1}.repeat_interleave(2, {d}) | {z}.repeat(2, *{z}.shape) | {x1}.scatter({d}, {g}, 0.5) |
{x1}.index_add({d}, {r}, {x1}.index_select({d}, {r})) | torch.take_along_dim({z1}, {g}, {d}) | {z2}.rot90() |
{x1}.scatter_add({d}, {g}, {x1}) | {x1}[{x1} > 0].sum() | {z1}.reshape(-1)[::2] * 1 | torch.hstack([{z1}] * 2)
"""
VIEWS = """
{v1}[{i0}] | {v1}[{cut0}] | {v2}[:, {i1}] | {v1}[..., {cut}] | {v2}[{cut0}, {cut1}] | {v1}.narrow({d}, {i}, 1) |
{v}[...] | {v1}.select({d}, {i}) | {v}[None] | {v1}[..., None] | {v2}.transpose({d}, 0) | {v2}.permute({order}) |
{v2}.mT | {v1}[::2] | {v2}.movedim({d}, 0) | {m2}.t() | {v}.reshape({shape}) | {v}.view({shape}) | {v2}.flatten() |
{v3}.flatten(1) | {v}.squeeze() | {v1}.unsqueeze({d}) | {v1}.squeeze({d}) | {v}.view_as({v}) |
{v1}.chunk(2, {d})[0] | {v1}.split(1, {d})[-1] | {v1}.ravel() | {v1}.unbind({d})[{i}] | {v1}.unfold({d}, 1, 1) |
{v}.expand(2, *{v}.shape) | {v1}.tensor_split(2, {d})[-1] | {v2}.diagonal() | {v1}.unflatten({d}, (1, -1)) |
{v2}.swapaxes(0, -1) | {v2}.reshape(-1)[{cut0}]
"""
PAIRS = """
{v1}.tensor_split(2, {d}) | {x1}.sort({d}, stable=True) | torch.var_mean({x1}, {d}, correction=0) | {x1}.max({d}) |
{v1}.split([{i} % {n}, {n} - {i} % {n}], {d}) | torch.aminmax({x1}, dim={d})
"""
CHANGES = """
{y}.add_({b}) | {y}.mul_({b}) | {y}.sub_({b}, alpha=2) | {y}.copy_({b}) | {y}.div_(2) |
{y}.masked_fill_({y} > 0.3, 0.2) | {y}.zero_() | {y}.clamp_(min=-0.5) | {y} += {b} | {y} *= {b} | {y} -= 1 |
{y} /= 3 | {y}.fill_(0.7) | {y}.relu_() | F.relu({y}, inplace=True) | {y}.neg_() | {y1}[{i0}] = {h} |
{y1}[{cut0}] = {h} | {y2}[:, {i1}] += {h} | {y1}[..., {cut}] *= 2 | {y1}[{i0}] = {y1}[-1] + 1 |
{y1}[{cut0}] = {y1}[{cut0}] * 2 | {y2}[{cut0}, {i1}] -= 1.5 | {y}.sin_() | {y}.tanh_() | {y}.sigmoid_() |
{y}.square_() | {y}.lerp_({s}, 0.3) | {y}.addcmul_({s}, {s}, value=0.5) | {y1}[{y1} > 0] = 0.1 | {y2}.mT.mul_(2) |
{y2}.transpose(0, 1).add_(1) | {y1}.select({d}, {i}).mul_(2) | {y1}.narrow({d}, 0, 1).fill_(1) |
{y1}.view(-1)[::2].add_(1) | {y1}.index_fill_({d}, {r}, 0.3) | {y1}.scatter_({d}, {g}, 0.4) | {y1}.cumsum_({d}) |
{y1}.index_add_({d}, {r}, {y1}.index_select({d}, {r})) | {y1}[{r0}] = {h} | {y}[...] = {b} | {y}.abs_() |
{y}[None] += {h} | {y1}.scatter_add_({d}, {g}, {y1} * 1) | {y1}[{cut0}].copy_({y1}[{cut0}].flip(0)) |
{y1}.swapaxes(0, -1).neg_()
"""
OTHERS = """
{x}.detach() | {x}.clone() | {x}.float() | {x}.double() | {z}.to(torch.float64) | {z} == {s} | {x} > {o} |
~({x} > 0) | ({x} * 3).long() | {q} + 1 | {q} // 2 | {q} * {q} | {q} % 3 | {q}.sum() | {q}.double() * 0.5 |
{q} * {s} | {z} != 0 | torch.complex({x}, {s}) | {c}.abs() | {c}.real * 1 | {c}.conj() * {c} | {c}.imag + 1 |
{c} * {c} | {c}.sum() | {z}.any() | ({x} > 0) & ({x} < 0.7) | torch.zeros_like({x}) + {x} |
torch.full_like({x}, 2) * {x} | {x}.new_ones({x}.shape) - {x} | {x} + {x}.detach() | {x}.bool() |
{x}.clone().requires_grad_() | {x}.detach().requires_grad_() | {x}.contiguous() * 1
"""
ENGINE = """
lay({z}, {layout}).clone() | hooked({x} * 1) | retained({x} * 1) | lay({x}, {layout}) * 1 | cut({x}).clone() |
grad_of({x}, "{l}") | grad_of({x} ** 2, "{l}") |
checkpoint(lambda t: (t * {s}).sin() * t, {x}, use_reentrant=False) |
checkpoint(lambda t: t.softmax(-1).cumsum(-1), {x1}, use_reentrant=False)
"""
STATEMENTS = """
total("{x}").backward(retain_graph=True) | {y}.detach_() | {l}.grad = None |
total("{x}").backward(retain_graph=True); torch.optim.SGD([{l}], 0.1, 0.9).step()
"""
# Templates, how often, and what becomes of one: a variable, two, or nothing new.
FAMILIES = [(POINTWISE, 5, "%s = "), (REDUCTIONS, 3, "%s = "), (PRODUCTS, 2.5, "%s = "), (MOVES, 3, "%s = "),
            (VIEWS, 5, "%s = "), (PAIRS, 1, "%s, %s = "), (CHANGES, 5, ""), (OTHERS, 2, "%s = "), (ENGINE, 2, "%s = "),
            (STATEMENTS, 0.5, "")]

FIELDS = {
    "d": lambda p: p.dim - p.draw.choice([0, 0, p.first.ndim]), "n": lambda p: p.first.shape[p.dim],
    "i": lambda p: p.index(p.dim), "i0": lambda p: p.index(0), "i1": lambda p: p.index(1),
    "cut": lambda p: p.cut(-1), "cut0": lambda p: p.cut(0), "cut1": lambda p: p.cut(1),
    "order": lambda p: p.draw.sample(range(p.first.ndim), p.first.ndim), "shape": lambda p: p.reshaped(p.first.shape),
    "layout": lambda p: p.layout(p.first.shape)[0], "s": lambda p: p.like(p.first.shape), "h": lambda p: p.operand([]),
    "b": lambda p: p.operand(p.first.shape), "o": lambda p: p.operand([*p.draw.choice([[], [], [2]]), *p.first.shape]),
    "a": lambda p: p.like(p.first.shape[-1:]), "w": lambda p: p.like((p.first.shape[-1], p.draw.randint(1, 4))),
    "wo": lambda p: p.like(p.env[p.field("w")].shape[1:]), "t": lambda p: p.places(p.first.shape[:1], -1),
    "k": lambda p: p.kernel(), "g": lambda p: p.places(p.first.shape, p.dim),
    "r": lambda p: p.places((3,), p.dim), "r0": lambda p: p.places((3,), 0), "r1": lambda p: p.places((2, 2), 1),
}

class Skip(Exception):
    """A template that does not fit the variables so far."""


class Full(Exception):
    """The numbers have become too large, or noise."""


def variables(env):
    return {n: t for n, t in env.items() if re.fullmatch("[vg][0-9]+", n) and isinstance(t, torch.Tensor)}


def attempt(line, env):
    """What a line raised, or None. What torch leaves in another order than that of its dims, and is no view, is laid in
    that order: a ShardTensor has no other."""
    before = variables(env)
    try:
        exec(line, env)
        for name, tensor in variables(env).items():
            if before.get(name) is tensor or tensor.is_contiguous() or "detach" in line:
                continue
            if not tensor.is_leaf and tensor._base is None:
                env[name] = tensor.contiguous()
    except st.CommunicationError:
        raise
    except Exception as error:
        return error
    return None


def words(grid=None, coordinate=None):
    """What the lines of a program may call; `grid` is None where all is plain."""
    def numbers(shape, dtype, seed):
        found = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        if dtype == "c128":
            return torch.complex(found, found.roll(1))
        return found > 0 if dtype == "bool" else (found * 3 if dtype == "i64" else found).to(DTYPES[dtype])

    def placed(texts):
        return [Replicate() if t == "R" else Partial() if t == "P" else Shard(int(t[1:])) for t in texts]

    def laid(whole, layout, sizes):
        if grid is None or layout is None:
            return whole
        if "P" not in layout:
            return spread(whole, grid, *placed(layout), sizes=sizes)
        spec = make_spec(grid, placed(layout), whole.dtype, whole.shape, sizes)
        rest = [c for c, t in zip(coordinate, layout) if t == "P"]
        chunk = spread(whole, grid, *placed("R" if t == "P" else t for t in layout), sizes=sizes).to_local()
        return ShardTensor(chunk if not any(rest) else chunk * 0, ShardTensorSpec(spec)).clone()

    def leaf(shape, dtype, seed, layout, sizes=None, requires_grad=False):
        return laid(numbers(shape, dtype, seed), layout, sizes).detach().requires_grad_(requires_grad)

    def places(shape, n, seed, layout, sizes=None):
        return laid(torch.randint(n, shape, generator=torch.Generator().manual_seed(seed)), layout, sizes)

    def lay(tensor, layout):
        return tensor.redistribute(grid, placed(layout)) if isinstance(tensor, ShardTensor) else tensor

    def cut(tensor):
        if not isinstance(tensor, ShardTensor):
            return tensor
        return ShardTensor.from_local(tensor.to_local(), grid, tensor.placements)

    def total(names):
        found = 0
        for tensor in (env[name] for name in names.split() if name in env):
            weights = (torch.arange(tensor.numel()) + 1).to(tensor.real.dtype).sin().reshape(tensor.shape)
            product = tensor * weights
            found = found + (product.real + product.imag if product.is_complex() else product).sum().double()
        return found

    def grads(loss, *named, **how):
        leaves = [t for t in variables(env).values() if t.is_leaf and t.requires_grad]
        found = torch.autograd.grad(loss, [env[n] for n in named] or leaves, allow_unused=True, **how)
        return [g for g in found if g is not None]

    def first_order(names):
        env.update(("g%d" % at, g) for at, g in enumerate(grads(total(names))))

    def second_order(names):
        found = grads(total(names), create_graph=True)
        env.update(("g%d" % at, g) for at, g in enumerate(found))
        (total(" ".join("g%d" % at for at in range(len(found)))).square() + 0 * total(names)).backward()

    def grad_of(tensor, name):
        return grads(tensor.sum(), name, create_graph=True)[0].clone()

    def hooked(tensor):
        tensor.register_hook(lambda g: g * 2)
        return tensor

    def retained(tensor):
        tensor.retain_grad()
        return tensor

    env = {name: f for name, f in locals().items() if callable(f)}
    env.update(torch=torch, F=F, checkpoint=checkpoint)
    return env


class Program:
    """Lines that are drawn while they run with plain tensors, and what they need of the world."""
    def __init__(self, seed, ranks, steps):
        self.draw, self.lines, self.count = random.Random(seed), [], 0
        self.ranks = ranks or self.draw.choice([1, 2, 2, 2, 3])
        self.grid = self.draw.choice(GRIDS[self.ranks])
        self.eager, self.env, self.seed = self.draw.random() < 0.5, words(), seed
        try:
            while len(self.lines) < steps:
                self.step()
        except Full:
            pass
        names = [n for n, t in variables(self.env).items() if t.requires_grad]
        chosen = {names[-1], *self.draw.sample(names, min(2, len(names)))}
        ways = ['total("%s").backward()', 'first_order("%s")', 'second_order("%s")'][:2 if self.is_hooked() else 3]
        self.lines.append(self.draw.choice(ways) % " ".join(sorted(chosen)))

    def step(self):
        text, _, form = self.draw.choices(FAMILIES, [weight for _, weight, _ in FAMILIES])[0]
        self.first, self.fields = None, {}
        template = self.draw.choice(text.replace("\n", " ").split(" | ")).strip()
        if text is ENGINE and "grad_of" in template and self.is_hooked():
            return
        try:
            if not self.lines or self.draw.random() < 0.05:
                self.leaf(self.shape(), self.draw.choice(list(DTYPES)) if self.lines else "f64", True)
            for field in sorted(re.findall("{([a-z]+[0-9]?)}", template), key=FIELDS.__contains__):
                self.field(field)
            line = template.format(**self.fields)
            names = tuple(self.name() for _ in range(form.count("%s")))
            apart = text not in (VIEWS, PAIRS) and self.draw.random() < 0.06
            self.run("with torch.no_grad(): " * apart + form % names + line)
        except Skip:
            pass

    def lost(self, names):
        """Variables and the ranks that drop them: none where each line is compared, nor what a function names that a
        backward calls again."""
        draw = random.Random(-1 - self.seed)
        free = sorted({name for name in names if name[0] == "v" and "." not in name} - self.called())
        chosen = {name: [rank for rank in range(self.ranks) if draw.random() < 0.5] for name in free
                  if draw.random() < 0.7}
        return {} if self.eager else chosen

    def called(self):
        """The variables that functions name, which a backward calls again."""
        return {*re.findall(r"v\d+", " ".join(line for line in self.lines if "lambda" in line))}

    def is_hooked(self):
        """Whether it depends on formulas what goes through a variable in derivatives of gradients, and is looked at."""
        return any("hooked" in line or "retained" in line for line in self.lines)

    def run(self, line):
        """Of what torch raises a few lines are kept."""
        before = variables(self.env)
        versions = [before[name]._version for name in self.called() if name in before]
        if attempt(line, self.env) and self.draw.random() > 0.1:
            raise Skip
        if versions != [before[name]._version for name in self.called() if name in before]:
            raise Full  # in torch a checkpoint may take one saved tensor for another then
        try:
            [tensor.is_leaf for tensor in variables(self.env).values()]
        except RuntimeError:  # views that torch has given up
            raise Full
        for name, tensor in variables(self.env).items():
            sizes = (tensor.detach() * 1).abs()  # what is nearly 0 is noise, of which a sign hangs on rounding
            if tensor.numel() > 400 or not sizes.le(1e4).all() or (sizes.gt(0) & sizes.lt(1e-9)).any():
                if name in before:
                    raise Full
                del self.env[name]
                raise Skip
        self.lines.append(line)

    def name(self):
        self.count += 1
        return "v%d" % self.count

    def field(self, name):
        if name not in self.fields:
            if name not in FIELDS:
                kind, ndim = name[0], int(name[1:] or 0)
                found = self.pick(lambda t: PICKED[kind](t) and t.ndim >= ndim and (kind != "m" or t.ndim == ndim))
                if self.first is None:
                    self.first = self.env[found]
                    self.dim = self.draw.randrange(max(1, self.first.ndim))
            else:
                found = FIELDS[name](self)
            self.fields[name] = found
        return self.fields[name]

    def pick(self, fits):
        found = [n for n, t in variables(self.env).items() if fits(t)]
        if not found:
            raise Skip
        return self.draw.choice(found[-3:] if self.draw.random() < 0.6 else found)

    def like(self, shape):
        """A tensor of floats of a shape, as a rule one that is there."""
        try:
            if self.draw.random() < 0.7:
                return self.pick(lambda t: t.is_floating_point() and t.shape == torch.Size(shape))
        except Skip:
            pass
        return self.leaf(shape)

    def operand(self, shape):
        """A number, or what can be expanded to a shape."""
        if self.draw.random() < 0.3:
            return self.draw.choice([2, -1, 0.5, 1.5, 3])
        first = self.draw.choice([0, 0, 0, len(shape) // 2, len(shape)])
        return self.like([self.draw.choice([n, n, n, 1]) for n in shape[first:]])

    def kernel(self):
        if self.first.numel() == 0:  # torch gives what has no channels a wrong shape
            raise Skip
        return self.like((2, self.first.shape[1], *[3] * (self.first.ndim - 2)))

    def index(self, dim):
        n = self.first.shape[dim]
        if n == 0:
            raise Skip
        return self.draw.randrange(-n, n)

    def cut(self, dim):
        n = self.first.shape[dim]
        start, stop = sorted((self.draw.randint(0, n), self.draw.randint(0, n)))
        return "%s:%s" % (start or "", self.draw.choice([stop, stop - n or "", "", "%d:2" % n]))

    def reshaped(self, shape):
        shape, at = list(shape), self.draw.randrange(max(1, len(shape)))
        ways = [[-1], [1, *shape], [*shape, 1]]
        if len(shape) > 1 and at:
            ways += 3 * [[*shape[:at - 1], shape[at - 1] * shape[at], *shape[at + 1:]]]
        for n in (2, 3):
            if shape and shape[at] and shape[at] % n == 0:
                ways += 3 * [[*shape[:at], n, shape[at] // n, *shape[at + 1:]]]
        return self.draw.choice(ways)

    def shape(self):
        ndim = self.draw.choice([1, 2, 2, 3, 3, 4])
        return [self.draw.choice([1, 2, 3, 4, 5, 6, 0] if k else [3, 4, 5, 6]) for k in range(ndim)]

    def layout(self, shape, pending=False):
        """Placements for each axis of the mesh, and where what they cut is cut, None where that is not said."""
        some = ["R"] + ["P"] * pending + 3 * ["S%d" % dim for dim in range(len(shape))]
        texts, sizes = [self.draw.choice(some) for _ in self.grid], {}
        for dim in {int(t[1:]) for t in texts if t[0] == "S"}:
            n = math.prod(axis for axis, text in zip(self.grid, texts) if text == "S%d" % dim)
            at = sorted(self.draw.randint(0, shape[dim]) for _ in range(n - 1))
            sizes[dim] = [b - a for a, b in zip([0, *at], [*at, shape[dim]])]
        return texts, sizes if self.draw.random() < 0.5 else None

    def made(self, function, shape, what, layout, *more):
        """A new variable, now and then a plain one, which each rank has."""
        name = self.name()
        layout = (None, None) if self.draw.random() < 0.1 else layout
        words = (tuple(shape), what, self.draw.randrange(1000), *layout, *more)
        self.run("%s = %s%r" % (name, function, words))
        return name

    def leaf(self, shape, dtype=None, requires_grad=None):
        dtype = dtype or self.draw.choice(["f64"] * 12 + ["f32"])
        requires_grad = self.draw.random() < 0.5 if requires_grad is None else requires_grad
        follows = requires_grad and dtype not in ("i64", "bool")
        return self.made("leaf", shape, dtype, self.layout(shape, dtype != "bool"), follows)

    def places(self, shape, dim):
        if self.first.shape[dim] == 0:
            raise Skip
        return self.made("places", shape, self.first.shape[dim], self.layout(shape))
