"""Programs of tape_fuzz.py: lines of Python on variables v1, v2, …, each drawn once those before it have run."""
import random

import torch

FLOATING = (torch.float64, torch.float32, torch.complex128)


class Program:
    """A mesh, options and, line by line, what is called there. All of it follows from a seed."""
    def __init__(self, seed):
        self.drawn = random.Random(seed)
        self.dtype = self.choose(["f64"] * 6 + ["c128", "f32"])
        self.most = 0.3 if self.choose([0, 1]) else 0.8  # of leaves, those that require gradients
        self.sizes = [1, 2, 2, 3, 3, 4, 5, 6, 7] + ([0] if self.choose([0, 0, 1]) else [])
        self.names, self.hooked, self.watched, self.keeps = 0, set(), set(), False
        grid = self.choose([(2, ), (3, ), (4, ), (2, 2), (2, 3), (1, 2)])
        inside = grid[0] * (grid[1] if len(grid) > 1 else 1)
        self.ranks = inside + self.choose([0, 0, 0, 0, 1])  # one may be outside
        all_ranks = list(range(self.ranks))
        self.grids = [(grid, sorted(self.drawn.sample(all_ranks, inside))), ((self.ranks, ), all_ranks[::-1]),
                      ((1, ), [self.choose(all_ranks)])]
        self.options = {"checks": self.choose([False, False, True]), "reproducible_sums": self.choose([False, True])}
        self.overlap, self.gather_again = self.choose([False, True]), self.choose([False, True])
        self.is_eager = self.choose([False, False, True])  # compared behind each line
        self.kinds = [getattr(self, name) for name in dir(self) if name.startswith("a_")]

    def choose(self, of):
        return self.drawn.choice(of)

    def number(self):
        return self.drawn.randrange(10**6)

    def name(self):
        self.names += 1
        return "v%d" % self.names

    def draw(self, env):
        """The next line; what is drawn for lack of anything else is a leaf."""
        self.env = env
        self.x = self.pick(lambda t: t.dtype in FLOATING)
        if self.x is None:
            return self.leaf()
        self.t = env[self.x]
        return self.choose(self.kinds)() or self.leaf()

    def ending(self, env):
        """The last line: a backward of all that has a history."""
        names = [name for name, t in env.items() if name[0] == "v" and t.requires_grad and not t.is_leaf]
        numbers = [self.number() // 11 * 11 for _ in names]
        return "o.backward([%s], %r, %r, False)" % (", ".join(names), numbers, numbers) if names else self.leaf()

    def pick(self, suits):
        names = [name for name, t in self.env.items() if name[0] == "v" and suits(t)]
        recent = names[-6:] if self.choose([0, 1, 1]) else names
        return self.choose(recent) if names else None

    def fits(self, t):
        """What broadcasts with x to its shape."""
        if t.dtype != self.t.dtype or t.ndim > self.t.ndim:
            return False
        return all(a in (1, b) for a, b in zip(reversed(t.shape), reversed(self.t.shape)))

    def leaf(self):
        shape = tuple(self.choose(self.sizes) for _ in range(self.choose([0, 1, 1, 2, 2, 2, 3, 3])))
        return "%s = o.leaf(%d, %r, %r, %r, %d)" % (self.name(), self.number(), shape, self.dtype,
                                                    self.drawn.random() < self.most, self.number())

    def other(self, shape, dtype):
        return "o.leaf(%d, %r, %r, False, %d)" % (self.number(), tuple(shape), dtype, self.number())

    def call(self, op, *args):
        return "%s = o.%s(%s)" % (self.name(), op, ", ".join(str(a) for a in args))

    def dim(self):
        return self.drawn.randrange(self.t.ndim)

    def is_real(self):
        return not self.t.dtype.is_complex

    def a_function(self):
        more = ["abs", "relu", "tanh"] if self.is_real() else []
        return self.call(self.choose(["sin", "neg", "exp", "cos", "square", "clone"] + more), self.x)

    def a_pair(self):
        pair = [self.x, self.pick(self.fits)]
        self.drawn.shuffle(pair)
        return self.call(self.choose(["add", "mul", "sub", "mul"]), *pair)

    a_second_pair = a_third_pair = a_pair

    def a_view(self):
        if self.t.ndim == 0:
            return self.call("unsqueeze", self.x, 0)
        d, e, n, shape = self.dim(), self.dim(), self.t.ndim, list(self.t.shape)
        order = self.drawn.sample(range(n), n)
        start = self.drawn.randint(0, shape[d])
        wide = [2] + [self.choose([2, 3]) if size == 1 else size for size in shape]
        op, *args = self.choose([("slice", d, start, self.drawn.randint(start, shape[d]), self.choose([1, 1, 2])),
                                 ("select", d, self.drawn.randrange(shape[d]) if shape[d] else 0),
                                 ("transpose", d, e), ("permute", order), ("unsqueeze", d), ("squeeze", d),
                                 ("movedim", d, e), ("flatten", 0, d), ("expand", wide), ("detach", ),
                                 ("reshape", [1] + shape)])
        return "%s = %s.detach()" % (self.name(), self.x) if op == "detach" else self.call(op, self.x, *args)

    a_second_view = a_third_view = a_view

    def turn_to_what_may_change(self):
        """Most of the time; leaves that require gradients may not."""
        if self.drawn.random() < 0.9:
            self.x = self.pick(lambda t: t.dtype in FLOATING and not (t.is_leaf and t.requires_grad)) or self.x
            self.t = self.env[self.x]

    def a_change(self):
        self.turn_to_what_may_change()
        op = self.choose(["add_", "mul_", "sub_", "copy_", "fill_", "neg_", "masked_fill_"])
        args = {"fill_": ["0.5"], "neg_": [], "masked_fill_": [self.other(self.t.shape, "bool"), "0.75"]}
        return "o.%s(%s)" % (op, ", ".join([self.x] + args.get(op, ["o.clone(%s)" % self.pick(self.fits)])))

    a_second_change = a_change

    def is_shown_to_a_hook(self):
        """Torch forgets hooks of views whose elements change while it does not record: each gets a node anew."""
        views = [t for name, t in self.env.items() if name in self.watched and t._is_view()]
        return any(t.untyped_storage()._cdata == self.t.untyped_storage()._cdata for t in views)

    def a_change_without_history(self):
        if self.is_shown_to_a_hook():
            return None
        return "with o.no_grad(): o.%s(%s, o.clone(%s))" % (self.choose(["add_", "mul_"]), self.x, self.pick(self.fits))

    def an_assignment(self):
        self.turn_to_what_may_change()
        if self.t.ndim == 0:
            return None
        start = self.drawn.randint(0, self.t.shape[0])
        index = slice(start, self.drawn.randint(start, self.t.shape[0]), self.choose([1, 2]))
        value = self.choose(["0.5", self.other(self.t[index].shape, self.dtype)])
        return "o.put(%s, %r, %s)" % (self.x, index, value) if self.t.dtype == FLOATING[0] else None

    def a_move(self):
        if self.choose([0, 1]):
            return self.call("through", self.x, self.drawn.randrange(9), self.number(), self.number())
        return self.call("move", self.x, self.number())

    def a_part_on_chunks(self):
        return self.call("chunks", self.x, self.choose([0, 1]), repr(self.choose(["per_rank", "replicated"])))

    def a_reduction(self):
        if self.t.ndim == 0:
            return None
        dims = sorted(self.drawn.sample(range(self.t.ndim), self.drawn.randint(1, self.t.ndim)))
        op = self.choose(["sum", "mean", "logsumexp", "amax"] if self.is_real() else ["sum", "mean"])
        return self.call(op, self.x, dims, self.choose([False, True]))

    def a_row_at_a_time(self):
        if self.t.ndim == 0:
            return None
        d, same = self.dim(), self.pick(lambda t: t.dtype == self.t.dtype and t.shape == self.t.shape)
        index = self.other((self.drawn.randint(0, 4), ), "i64")
        calls = [("cumsum", self.x, d), ("flip", self.x, [d]), ("roll", self.x, [self.drawn.randint(-3, 5)], [d]),
                 ("stack", "[%s, %s]" % (self.x, same), d), ("cat", "[%s, %s]" % (self.x, same), d)]
        calls += [("softmax", self.x, d)] if self.is_real() else []
        calls += [("index_select", self.x, d, index)] if self.t.shape[d] > 3 else []
        return self.call(*self.choose(calls))

    def a_product(self):
        return self.call("matmul", self.x, self.other((self.t.shape[-1], 2), self.dtype)) if self.t.ndim else None

    def a_part(self):
        return self.call(self.choose(["recompute", "recompute", "part"]), self.drawn.randrange(5), self.x,
                         self.pick(self.fits))

    def a_step(self):
        y = self.pick(self.fits)
        if self.t.requires_grad or y == self.x:
            return None
        return self.call("step", self.drawn.randrange(5), self.x, y, self.number())

    def a_hook(self):
        x = self.pick(lambda t: t.requires_grad)
        op = self.choose(["see(%s)", "retain_grad(%s)", "scale(%s, 0.5)"])
        self.watched.add(x)
        if op[0] == "r":
            self.keeps = True
        elif op[1] == "c":
            self.hooked.add(x)
        return x and "o." + op % x

    def losses(self):
        names = [self.pick(lambda t: t.requires_grad) for _ in range(self.choose([1, 1, 2]))]
        return None if None in names else (", ".join(names), [self.number() for _ in names],
                                           [self.number() // 11 * 11 for _ in names])

    def a_backward(self):
        losses = self.losses()
        how = self.choose(["backward([%s], %r, %r, True)", "backward([%s], %r, %r, False)", "no_sync([%s], %r, %r)"])
        return losses and "o." + how % losses

    def a_gradient(self):
        losses, of = self.losses(), self.pick(lambda t: t.requires_grad)
        if losses is None or of in self.hooked or self.keeps:  # torch's grad keeps too, and knows no hook of its own
            return None
        return "%s, = o.grad([%s], [%s], %r, %r, %r)" % (self.name(), losses[0], of, *losses[1:],
                                                         self.choose([True, True, False]))

    def a_leaf_that_forgets(self):
        x = self.pick(lambda t: t.requires_grad and t.is_leaf)
        return x and "o.zero_grad(%s)" % x

    def a_variable_that_goes(self):
        return "del %s" % self.x
