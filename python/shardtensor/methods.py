"""What Tensor and Context do that needs no C: methods that are ops, indexing, scopes of `with`."""
import contextlib

from . import _c

# Ops that read well behind a tensor. Everything else is called by shardtensor.ops.
METHODS = """abs add add_ all amax amin any argmax argmin argsort cast ceil clamp clamp_ clone conj copy_ cos cumprod
cumsum div div_ eq exp expand fill_ flatten flip floor gather ge gelu gt index_select le log logsumexp lt masked_fill
masked_fill_ matmul max mean median min mm movedim mul mul_ narrow ne neg nonzero permute pow prod reciprocal relu
repeat reshape roll round rsqrt scatter scatter_add select sigmoid sign silu sin softmax sort split sqrt squeeze std
sub sub_ sum tanh topk transpose tril triu unbind unflatten unfold unsqueeze var view""".split()

# Those whose list may also be given as integers one after the other: x.reshape(2, -1).
SPREAD = {"expand", "flip", "permute", "repeat", "reshape", "view"}


def method(name):
    function = _c.function(name)
    if name in SPREAD:

        def call(self, *args, **kwargs):
            if args and isinstance(args[0], int):
                args = (args,)
            return function(self, *args, **kwargs)
    else:

        def call(self, *args, **kwargs):
            return function(self, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "The op %r of this tensor." % name
    return call


def backward(self, cotangent=None, retain_graph=False):
    """Gradients of this tensor, a loss of one element unless a cotangent is given, into the leaves. Collective."""
    self.context.backward(self, None if cotangent is None else [cotangent], retain_graph)


_slice, _select, _unsqueeze, _movedim, _index, _index_put = map(
    _c.function, ("slice", "select", "unsqueeze", "movedim", "index", "index_put"))


def position(index, size, dim):
    """Of an integer in a dim, from the front. IndexError is what ends a loop over a tensor."""
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError("an index is %s, wanted an integer, a slice, None, ... or a tensor" % type(index).__name__)
    at = index.__index__()
    if not -size <= at < size:
        raise IndexError("index %d is out of range of dim %d, which has %d entries" % (at, dim, size))
    return at + size if at < 0 else at


def width(index):
    """How many dims it stands for: a mask for as many as it has."""
    return index.ndim if isinstance(index, _c.Tensor) and index.dtype == "bool" else 1


def whole_index(index, ndim):
    """With slices in the place of ...."""
    index = index if isinstance(index, tuple) else (index,)
    wanted = sum(width(i) for i in index if i is not None and i is not Ellipsis)
    if wanted > ndim:
        raise IndexError("%d indices for a tensor of %d dims" % (wanted, ndim))
    dots = [at for at, i in enumerate(index) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has ... %d times, wanted once at most" % len(dots))
    for at in dots:
        index = index[:at] + (slice(None),) * (ndim - wanted) + index[at + 1:]
    return index


def getitem(self, index):
    """Integers, slices of positive step, None, ..., and tensors: integers, or masks, of which each stands for as many
    dims as it has. The result has what tensors name where they stand, or first, where others lie between them."""
    out, dim, tensors = self, 0, {}
    for i in whole_index(index, self.ndim):
        if i is None:
            out, dim = _unsqueeze(out, dim), dim + 1
        elif isinstance(i, slice):
            start, stop, step = i.indices(out.shape[dim])
            if step < 1:
                raise IndexError("a slice of step %d: wanted a positive one, or the op flip" % step)
            if (start, stop, step) != (0, out.shape[dim], 1):
                out = _slice(out, dim, start, max(start, stop), step)
            dim += 1
        elif isinstance(i, _c.Tensor):
            tensors[dim] = i
            dim += width(i)
        else:
            out = _select(out, dim, position(i, out.shape[dim], dim))
    return named(out, tensors) if tensors else out


def named(tensor, indices):
    """indices: {dim: a tensor}. The op has their dims first."""
    dims = [dim + k for dim, index in indices.items() for k in range(width(index))]
    front = list(range(len(dims)))
    found = _index(tensor if dims == front else _movedim(tensor, dims, front), list(indices.values()))
    n = found.ndim - (tensor.ndim - len(dims))
    if dims == front or dims != list(range(dims[0], dims[0] + len(dims))):
        return found
    return _movedim(found, list(range(n)), list(range(dims[0], dims[0] + n)))


def aligned(value, ndim):
    """A tensor with so many dims, by dims of size 1 in front."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = _select(value, 0, 0)
    if value.ndim > ndim:
        raise _c.ShapeError("a value of %d dims for %d" % (value.ndim, ndim))
    for _ in range(ndim - value.ndim):
        value = _unsqueeze(value, 0)
    return value


def place(self, index):
    """What an index names but for its tensors, as a view in which a dim of an integer has size 1: these dims, and
    {dim: a tensor}. So no dim goes, and the view shares memory in every layout."""
    view, dim, tensors, single = self, 0, {}, []
    for i in whole_index(index, self.ndim):
        if i is None:
            view = _unsqueeze(view, dim)
        elif isinstance(i, _c.Tensor):
            tensors[dim] = i
            dim += width(i) - 1
        else:
            if isinstance(i, slice):
                start, stop, step = i.indices(view.shape[dim])
            else:
                single.append(dim)
                start, step = position(i, view.shape[dim], dim - (len(single) - 1)), 1
                stop = start + 1
            if step < 1:
                raise IndexError("a slice of step %d: wanted a positive one" % step)
            if (start, stop, step) != (0, view.shape[dim], 1):
                view = _slice(view, dim, start, max(start, stop), step)
        dim += 1
    return view, single, tensors


def setitem(self, index, value):
    """As __getitem__ reads: a number, or a tensor that broadcasts to what the index names, in any layout. Of several
    values for one element the last one counts. Collective where elements move."""
    is_tensor = isinstance(value, _c.Tensor)
    if not is_tensor and not hasattr(value, "__float__"):
        raise TypeError("a value is %s, wanted a number or a tensor" % type(value).__name__)
    if is_tensor and self.context.grad_enabled() and (self.requires_grad or value.requires_grad):
        if put_parts(self, index, value):
            return
    view, single, tensors = place(self, index)
    if tensors:
        put(view, single, tensors, value)
    elif is_tensor:
        value = aligned(value, view.ndim - len(single))
        for dim in single:
            value = _unsqueeze(value, dim)
        view.copy_(value)
    else:
        view.fill_(value)


def put_parts(self, index, value):
    """Integers and slices where gradients follow, which views that are changed do not let them: by a new tensor, for
    which the index names positions in some of the dims. False: there are tensors in it."""
    names = [i for i in whole_index(index, self.ndim)]
    if any(isinstance(i, _c.Tensor) for i in names):
        return False
    names += [slice(None)] * (self.ndim - sum(i is not None for i in names))
    value = aligned(value, sum(i is None or isinstance(i, slice) for i in names))
    dims, positions, dim = [], [], 0
    for i in names:
        if i is None:
            if value.shape[dim] != 1:
                raise _c.ShapeError("a value of size %d where the index has None" % value.shape[dim])
            value = _select(value, dim, 0)
            continue
        if isinstance(i, slice):
            start, stop, step = i.indices(self.shape[dim])
        else:
            start, step, value = position(i, self.shape[dim], dim), 1, _unsqueeze(value, dim)
            stop = start + 1
        if step < 1:
            raise IndexError("a slice of step %d: wanted a positive one" % step)
        found = range(start, stop, step)
        if len(found) < self.shape[dim]:
            dims.append(dim)
            positions.append(found)
        dim += 1
    if not dims:
        self.copy_(value)
        return True
    front, mesh = list(range(len(dims))), self.spec.mesh
    indices = []
    for at, found in enumerate(positions):
        spec = self.context.spec(mesh, mesh and ["R"] * len(mesh.shape), (len(found),), "i64")
        flat = self.context.factory("arange", spec, found.start, found.step)
        indices.append(_c.Tensor.reshape(flat, [len(found)] + [1] * (len(dims) - at - 1)))
    if value.dtype != self.dtype:
        value = value.cast(self.dtype)
    self.copy_(_movedim(_index_put(_movedim(self, dims, front), indices, _movedim(value, dims, front)), front, dims))
    return True


def put(view, single, tensors, value):
    """The op has the dims of tensors first, and gives a new tensor."""
    dims = [dim + k for dim, index in tensors.items() for k in range(width(index))]
    masks = [index for index in tensors.values() if index.dtype == "bool" and index.ndim == view.ndim]
    if masks and not isinstance(value, _c.Tensor):
        view.masked_fill_(masks[0], value)
        return
    if not isinstance(value, _c.Tensor):
        mesh = view.spec.mesh
        spec = view.context.spec(mesh, mesh and ["R"] * len(mesh.shape), (), view.dtype)
        value = view.context.factory("empty", spec).fill_(value)
    elif value.dtype != view.dtype:
        value = value.cast(view.dtype)
    front = list(range(len(dims)))
    named_dims = [dim - sum(s < dim for s in single) for dim in dims]  # as __getitem__ counts them
    n = max(1 if index.dtype == "bool" else index.ndim for index in tensors.values())
    value = aligned(value, n + view.ndim - len(dims) - len(single))
    first = named_dims[0]
    if named_dims == list(range(first, first + len(dims))) and first > 0:
        value = _movedim(value, list(range(first, first + n)), list(range(n)))
    for at, dim in enumerate(d for d in range(view.ndim) if d not in dims):
        if dim in single:
            value = _unsqueeze(value, n + at)
    moved = _movedim(view, dims, front) if dims != front else view
    new = _index_put(moved, list(tensors.values()), value)
    view.copy_(_movedim(new, front, dims) if dims != front else new)


def iterate(self):
    """The entries of the first dim, one after the other."""
    if self.ndim == 0:
        raise TypeError("a tensor without dims has no entries to go through")
    return (self[at] for at in range(self.shape[0]))


def length(self):
    if self.ndim == 0:
        raise TypeError("a tensor without dims has no length")
    return self.shape[0]


def host_memory(context):
    """with host_memory(context): tensors that are made lie in memory of the host that the device reaches, and what
    belongs to them later lies there, too: gradients, state of optimizers, averages."""
    return between(context.host_memory)


@contextlib.contextmanager
def between(switch):
    switch(True)
    try:
        yield
    finally:
        switch(False)


def no_grad(context):
    """with no_grad(context): nothing is recorded for a backward."""
    return between(context.no_grad)


def no_sync(context):
    """with no_sync(context): backwards leave the gradients of replicas pending, to be reduced once."""
    return between(context.no_sync)


def allow_stale_views(context):
    """with allow_stale_views(context): views that need not share memory do not hinder a change of what they show, which
    they need not show then."""
    return between(context.allow_stale_views)


@contextlib.contextmanager
def trace(context, path):
    """with trace(context, path): what this rank does is recorded, and written to `path` for Perfetto, also where the
    part ends by an exception."""
    context.trace_begin()
    try:
        yield
    finally:
        context.trace_end(path)


@contextlib.contextmanager
def trace_range(context, text):
    """with trace_range(context, "epoch"): a band of that name in the trace, where one is on."""
    context.trace_range_begin(text)
    try:
        yield
    finally:
        context.trace_range_end()


def capture(context, function, *args, **kwargs):
    """(step, result): calls function, and records what it does; step.run() does that once more, without Python. What
    it was given and what it returned, and all else that lives on, is the same memory each time: fill inputs anew by
    copy_, and read results after each run. Collective."""
    context.capture_begin()
    try:
        result = function(*args, **kwargs)
    except BaseException:
        with contextlib.suppress(_c.Error):
            context.capture_end()  # the other ranks meet there
        raise
    return context.capture_end(), result


for _name in METHODS:
    setattr(_c.Tensor, _name, method(_name))
_c.Tensor.backward = backward
_c.Tensor.__getitem__ = getitem
_c.Tensor.__setitem__ = setitem
_c.Tensor.__len__ = length
_c.Tensor.__iter__ = iterate
_c.Context.__enter__ = lambda self: self
_c.Context.__exit__ = lambda self, *exception: self.close()
