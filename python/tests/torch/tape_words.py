"""What lines of tape_fuzz.py call, twice: on tensors of torch, which is the truth, and on those of shardtensor."""
import random

import torch

import shardtensor as st

DTYPES = {"f64": torch.float64, "f32": torch.float32, "c128": torch.complex128, "i64": torch.int64, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def numbers(seed, shape, dtype):
    """Real numbers are away from 0, integers are indices from 0 to 3."""
    drawn = torch.Generator().manual_seed(seed)
    if dtype in ("bool", "i64"):
        return torch.randint(0, 2 if dtype == "bool" else 4, shape, generator=drawn).to(DTYPES[dtype])
    x = torch.rand(shape, generator=drawn, dtype=torch.float64) * 3 - 1.5
    x = torch.where(x.abs() < 0.05, 0.3, x)
    return (torch.complex(x, x.flip(list(range(x.ndim))) * 0.7) if dtype == "c128" else x).to(DTYPES[dtype])


def full(tensor):
    """The whole of a tensor of shardtensor, as torch's; collective over the mesh."""
    whole = tensor.detach().full_tensor()
    data, dtype, shape = whole.to_host(), DTYPES[whole.dtype], tuple(whole.shape)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape) if data else torch.zeros(shape, dtype=dtype)


def part(o, kind, a, b):
    """A part of a program: called, called again in backward, or captured as a step."""
    if kind == 0:
        return o.mul(o.sin(a), b)
    if kind == 1:
        twice = o.mul(a, 2.0)
        o.add_(twice, b)  # nobody saved it
        return o.mul(twice, twice)
    if kind == 2:
        return o.add(o.mul(a, a), o.exp(o.neg(o.mul(b, b))))
    if kind == 3:
        return o.mul(o.recompute(1, a, o.recompute(0, a, b)), o.sin(b))
    product = o.mul(a, b)
    o.mul_(product, a)  # which reads what was there
    return o.move(product, 77)


class Plain:
    """With torch. Names that are not here are functions of torch, or methods of its tensors."""
    def __init__(self):
        self.seen = []  # gradients that hooks saw

    def __getattr__(self, name):
        return getattr(torch, name, None) or getattr(torch.Tensor, name)

    def leaf(self, seed, shape, dtype, requires_grad, layout):
        return numbers(seed, shape, dtype).requires_grad_(requires_grad)

    def like(self, tensor, seed, layout):
        return numbers(seed, tuple(tensor.shape), NAMES[tensor.dtype])

    def slice(self, x, dim, start, stop, step):
        return x[(slice(None), ) * dim + (slice(start, stop, step), )]

    def flatten(self, x, start, end):
        return torch.flatten(x, start, end).view_as(torch.flatten(x, start, end))  # itself, where it is flat

    def move(self, x, layout):
        return x.clone()

    def through(self, x, mesh, there, back):
        return x * 2

    def chunks(self, x, how, convention):
        return x.sin() * 2

    def put(self, x, index, value):
        x[index] = value

    part = recompute = part

    def step(self, kind, x, y, seed):
        self.part(kind, x, y)
        with torch.no_grad():
            x.copy_(self.like(x, seed, 0))
        return self.part(kind, x, y).detach()

    def no_grad(self):
        return torch.no_grad()

    def zero_grad(self, x):
        x.grad = None

    def retain_grad(self, x):
        x.retain_grad()

    def scale(self, x, factor):
        x.register_hook(lambda gradient: gradient * factor)

    def see(self, x):
        x.register_hook(lambda gradient: self.seen.append(gradient.detach().clone()))

    def backward(self, losses, seeds, layouts, retain):
        torch.autograd.backward(losses, [self.like(x, s, 0) for x, s in zip(losses, seeds)], retain_graph=retain)

    def no_sync(self, losses, seeds, layouts):
        self.backward(losses, seeds, layouts, True)

    def grad(self, outputs, inputs, seeds, layouts, again):
        """Tensors that can be differentiated again, or memory of their own."""
        found = torch.autograd.grad(outputs, inputs, [self.like(x, s, 0) for x, s in zip(outputs, seeds)],
                                    retain_graph=True, create_graph=again)
        return [g + x * 0 if again else g.clone() for g, x in zip(found, inputs)]


class Sharded(Plain):
    """With shardtensor, on meshes of a context: the first is where tensors live."""
    def __init__(self, context, grids):
        super().__init__()
        self.context, self.meshes, self.leaves = context, [context.mesh(g, None, ranks) for g, ranks in grids], []

    def __getattr__(self, name):
        return getattr(st.ops, name)

    def spec(self, mesh, layout, shape, dtype):
        """Drawn from a number: pending in one of eleven, and cut anyhow in two of three."""
        drawn, axes = random.Random(layout), mesh.shape
        dims = [drawn.randrange(len(shape)) if shape and drawn.random() < 0.7 else None for _ in axes]
        places, sizes = ["R" if d is None else "S%d" % d for d in dims], {}
        if layout % 11 == 3 and dtype in ("f64", "f32", "c128"):
            at = drawn.randrange(len(places))
            places[at], dims[at] = "P(sum)", None
        for d in {d for d in dims if d is not None}:
            pieces = 1
            for axis, dim in zip(axes, dims):
                pieces *= axis if dim == d else 1
            ends = sorted(drawn.choice((0, shape[d], drawn.randint(0, shape[d]))) for _ in range(pieces - 1))
            if drawn.random() < 0.65:
                sizes[d] = [b - a for a, b in zip([0] + ends, ends + [shape[d]])]
        axis_order, memory_order = list(range(len(axes))), list(range(len(shape)))
        if drawn.random() < 0.3:
            drawn.shuffle(axis_order)
            drawn.shuffle(memory_order)
        return self.context.spec(mesh, ",".join(places), shape, dtype, sizes or None, axis_order, memory_order)

    def make(self, mesh, whole, layout):
        shape, dtype = tuple(whole.shape), NAMES[whole.dtype]
        spec = self.spec(mesh, layout, shape, dtype)
        first = self.spec(mesh, layout - 3, shape, dtype) if layout % 11 == 3 else spec
        data = bytes(whole.contiguous().reshape(-1).view(torch.uint8).tolist()) if whole.numel() else b""
        return self.context.from_host(first, data, True).redistribute(spec)

    def leaf(self, seed, shape, dtype, requires_grad, layout):
        x = self.make(self.meshes[0], numbers(seed, shape, dtype), layout).clone()
        if requires_grad:
            x.requires_grad = True
            self.leaves.append(x)
        return x

    def like(self, tensor, seed, layout):
        return self.make(tensor.spec.mesh, numbers(seed, tuple(tensor.shape), tensor.dtype), layout)

    slice = staticmethod(lambda *args: st.ops.slice(*args))
    flatten = staticmethod(lambda *args: st.ops.flatten(*args))

    def move(self, x, layout):
        return x.redistribute(self.spec(x.spec.mesh, layout, tuple(x.shape), x.dtype)).clone()

    def through(self, x, mesh, there, back):
        away = self.spec(self.meshes[1 + mesh % (len(self.meshes) - 1)], there, tuple(x.shape), x.dtype)
        home = self.spec(x.spec.mesh, back, tuple(x.shape), x.dtype)
        return x.redistribute(away).mul(2).redistribute(home).clone()

    def chunks(self, x, how, convention):
        x = x.redistribute(x.spec.gradient())  # nothing is pending there
        if how:
            return self.context.local_map(lambda chunk: chunk.sin().mul(2), [x], x.spec, convention=convention)
        return x.to_local(convention).sin().mul(2).from_local(x.spec, convention)

    def recompute(self, kind, x, y):
        return self.context.recompute(lambda x, y: self.part(kind, x, y), x, y)

    def step(self, kind, x, y, seed):
        with st.no_grad(self.context):
            step, result = st.capture(self.context, self.part, kind, x, y)
            x.copy_(self.like(x, seed, seed))
            step.run()
        return result

    def no_grad(self):
        return st.no_grad(self.context)

    def zero_grad(self, x):
        x.zero_grad()

    def scale(self, x, factor):
        x.add_tensor_hook(lambda gradient: gradient.mul(factor))

    def see(self, x):
        x.add_tensor_hook(lambda gradient: self.seen.append(full(gradient)))

    def backward(self, losses, seeds, layouts, retain):
        self.context.backward(losses, [self.like(*one) for one in zip(losses, seeds, layouts)], retain)

    def no_sync(self, losses, seeds, layouts):
        cotangents = [self.like(*one) for one in zip(losses, seeds, layouts)]
        with st.no_sync(self.context):
            self.context.backward(losses, cotangents, True)
        self.context.grad_sync(self.leaves)

    def grad(self, outputs, inputs, seeds, layouts, again):
        found = self.context.grad(outputs, inputs, [self.like(*one) for one in zip(outputs, seeds, layouts)], True,
                                  again)
        if None in found:
            raise ValueError("nothing depends on it") # as torch
        return [g + x.mul(0) if again else g for g, x in zip(found, inputs)]
